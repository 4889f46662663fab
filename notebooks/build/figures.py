"""Figures and widgets of a notebook as places of a page, where its script draws them."""

from __future__ import annotations

import json
from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_output

from apviz.widgets.live_widget import LIVE, place
from apviz.widgets.static_export import STATIC
from notebooks.build.running import WIDGET

PLOTLY = "application/vnd.plotly.v1+json"


class Figures(Preprocessor):
    """Takes figures out of the outputs into `resources["figures"]`, and leaves a place for each.

    Widgets go; what stands in place of one becomes one section: static figures, or a place where the page's own script
    brings it to life.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        resources["figures"] = []
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = self._placed(cell.outputs, resources["figures"])
        return nb, resources

    def _placed(self, outputs: list[NotebookNode], figures: list[str]) -> list[NotebookNode]:
        placed: list[NotebookNode] = []
        widgets: dict[str, NotebookNode] = {}
        for output in outputs:
            data = output.get("data", {})
            if WIDGET in data:
                continue
            html = self._place(data[PLOTLY], figures) if PLOTLY in data else data.get("text/html")
            html = place(**data[LIVE]) if LIVE in data else html
            widget = output.get("metadata", {}).get(STATIC)
            if widget is not None and widget in widgets:
                widgets[widget].data["text/html"] += html
            elif widget is not None:
                widgets[widget] = new_output("display_data", {"text/html": html})
                placed.append(widgets[widget])
            elif PLOTLY in data:
                placed.append(new_output("display_data", {"text/html": html}))
            else:
                placed.append(output)
        for each in widgets.values():
            each.data["text/html"] = f'<section class="widget">{each.data["text/html"]}</section>'
        return placed

    def _place(self, parts: dict[str, Any], figures: list[str]) -> str:
        # without any `<`, JSON can neither end nor disturb the script element it is put into
        figures.append(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))
        height = parts["layout"].get("height")
        style = f' style="height: {height}px"' if height else ""
        return f'<div class="figure" data-figure="figure-{len(figures)}"{style}></div>'
