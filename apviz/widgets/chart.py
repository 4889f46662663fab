"""A plotly figure in a widget, drawn anew in place whenever it changes.

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

_HERE = Path(__file__).parent


class Plotly(anywidget.AnyWidget):
    """The script, once for all charts of a kernel; shows nothing."""

    _esm = "export default {};"
    source = traitlets.Unicode().tag(sync=True)
    _only: ClassVar[Plotly | None] = None

    @classmethod
    def only(cls) -> Plotly:
        """The one there is; a new one where the last was closed."""
        if cls._only is None or cls._only.comm is None:
            cls._only = cls(source=get_plotlyjs())
        return cls._only


class Chart(anywidget.AnyWidget):
    """A figure as wide as its place, and as high as its layout says. Zoom and camera stay while `uirevision` does."""

    _esm = _HERE / "chart.js"
    plotly = traitlets.Instance(Plotly).tag(sync=True, **widget_serialization)
    #: data and layout, as JSON
    parts = traitlets.Unicode().tag(sync=True)

    def __init__(self, figure: go.Figure, **settings: Any) -> None:
        super().__init__(plotly=Plotly.only(), parts=_json(figure), **settings)

    def show(self, figure: go.Figure) -> None:
        """Draws another figure in place of the one that is shown."""
        self.parts = _json(figure)


def _json(figure: go.Figure) -> str:
    return str(figure.to_json(validate=False))
