"""Plotly figures in a widget, drawn anew in place whenever they change.

plotly's own FigureWidget carries five megabytes of plotly.js in every figure; where a browser needs more than two
seconds to read them, all later changes are lost without a word (anywidget gives up). Here all figures share one copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import anywidget
import plotly.graph_objects as go
import traitlets
from ipywidgets import widget_serialization
from plotly.offline import get_plotlyjs


class Plotly(anywidget.AnyWidget):
    """plotly.js, sent once for all charts of a kernel; shows nothing."""

    _esm = "export default {};"
    source = traitlets.Unicode().tag(sync=True)
    _shared: ClassVar[Plotly | None] = None

    @classmethod
    def shared(cls) -> Plotly:
        """Copy that all charts use; a new one where the last was closed."""
        if cls._shared is None or cls._shared.comm is None:
            cls._shared = cls(source=get_plotlyjs())
        return cls._shared


class Chart(anywidget.AnyWidget):
    """Figure as wide as its place, and as high as its layout says; zoom and camera stay while `uirevision` does."""

    _esm = Path(__file__).with_name("chart.js")
    plotly = traitlets.Instance(Plotly).tag(sync=True, **widget_serialization)
    #: data and layout, as JSON
    parts = traitlets.Unicode().tag(sync=True)

    def __init__(self, figure: go.Figure, **settings: Any) -> None:
        super().__init__(plotly=Plotly.shared(), parts=_json(figure), **settings)

    def show(self, figure: go.Figure) -> None:
        """Draws another figure in place of the one that is shown."""
        self.parts = _json(figure)


def _json(figure: go.Figure) -> str:
    return str(figure.to_json(validate=False))
