"""The progress hook in a real Jupyter kernel."""

from __future__ import annotations

import pytest

CODE = """
import torch, apviz
x = torch.linspace(0, 1, 60)
system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.RBF(lengthscale=0.1), noise=0.1)
apviz.solve(system, apviz.AlternatingProjection(block_size=20), hooks=[apviz.ProgressHook()]);
"""


def test_in_a_notebook_progress_is_a_widget_that_ends_with_the_stop_reason():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    client = nbclient.NotebookClient(notebook, timeout=120)
    client.execute()
    (output,) = [out for out in notebook.cells[0].outputs if out.output_type == "display_data"]
    assert "application/vnd.jupyter.widget-view+json" in output.data
    texts = [state.get("value") for state in (w["state"] for w in notebook.metadata.widgets[
        "application/vnd.jupyter.widget-state+json"]["state"].values())]  # fmt: skip
    assert any("Alternating projection (greedy, b = 20)" in str(text) for text in texts)
    assert any(str(text).startswith("Converged") for text in texts)
