"""Replace figures and widgets of a notebook by placeholders, which the script of the page fills."""

from __future__ import annotations

import json
from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_output

from apviz.widgets.live_widget import LIVE, place
from notebooks.build.running import WIDGET

PLOTLY = "application/vnd.plotly.v1+json"


class Figures(Preprocessor):
    """Move figures from the outputs to `resources["figures"]`, and leave a placeholder for each.

    Drop the Jupyter views of widgets, and turn their static outputs into placeholders for the script of the page.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        resources["figures"] = []
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = self._placed(cell.outputs, resources["figures"])
        return nb, resources

    def _placed(self, outputs: list[NotebookNode], figures: list[str]) -> list[NotebookNode]:
        placed: list[NotebookNode] = []
        for output in outputs:
            data = output.get("data", {})
            if WIDGET in data:
                continue
            if LIVE in data:
                html = f'<div class="widget">{place(**data[LIVE])}</div>'
                placed.append(new_output("display_data", {"text/html": html}))
            elif PLOTLY in data:
                placed.append(new_output("display_data", {"text/html": self._place(data[PLOTLY], figures)}))
            else:
                placed.append(output)
        return placed

    def _place(self, parts: dict[str, Any], figures: list[str]) -> str:
        # without `<`, JSON cannot end the script element that contains it
        figures.append(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))
        height = parts["layout"].get("height")
        style = f' style="height: {height}px"' if height else ""
        return f'<div class="figure" data-figure="figure-{len(figures)}"{style}></div>'
