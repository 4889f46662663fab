"""The table of runs: sortable, and a click looks at a run in detail."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import panel_material_ui as pmui

from apviz.dashboard.runs.table import Cell, Form, Table
from apviz.plots.parts.captions import method_names, outcome
from apviz.tracing import Trace
from apviz.tracing.trace import is_estimate

_COLUMNS: dict[str, Form] = {
    "method": "text", "block size": "integer", "σ²": "scientific", "epochs (CG: iterations)": "integer",
    "work": "2 decimals", "set-up work": "2 decimals", "seconds": "2 decimals", "residual": "scientific",
    "how it ended": "text", "test RMSE": "4 decimals", "κ": "scientific", "κ′": "scientific",
}  # fmt: skip


class RunsTable:
    """One row a run.

    Args:
        select: called with the name of a run that is clicked.
    """

    def __init__(self, select: Callable[[str], None]) -> None:
        self.table = Table(_COLUMNS, sizing_mode="stretch_width")
        self.table.on_click(select)
        self.view = pmui.Paper(
            pmui.Typography("Runs", variant="h6", margin=(8, 12, 0, 12)),
            pmui.Typography("Click a row to look at that run in detail; click a heading to sort.", variant="body2",
                            margin=(0, 12)),
            self.table, sizing_mode="stretch_width", margin=8, elevation=1,
        )  # fmt: skip

    def show(self, traces: Mapping[str, Trace], selected: str) -> None:
        """The runs by their names in the folder, and which is looked at."""
        methods = method_names(list(traces.values()))
        rows = {name: _row(each, method) for (name, each), method in zip(traces.items(), methods, strict=True)}
        self.table.show(rows, selected=selected)


def _row(trace: Trace, method: str) -> list[Cell]:
    a, last, spectrum = trace.attrs, trace["epoch"].isel(epoch=-1), trace["spectrum"]
    block_size = a.get("block_size")
    return [
        method,
        float(block_size) if isinstance(block_size, int | float) else None,
        float(a["noise"]),
        int(last["epoch"]),
        float(last["work"]),
        float(a["setup_work"]),
        float(last["seconds"]),
        float(last["residual"]),
        outcome(trace),
        float(last["test_rmse"]),
        *((float(spectrum[name]), "≈" if is_estimate(spectrum[name]) else "") for name in ("kappa", "kappa_prime")),
    ]
