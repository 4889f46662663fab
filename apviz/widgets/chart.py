"""Plotly figures in a widget, drawn anew in place whenever they change, and points that a pointer can drag.

plotly's own FigureWidget carries five megabytes of plotly.js in every figure; where a browser needs more than two
seconds to read them, all later changes are lost without a word (anywidget gives up). Here all figures share one copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import anywidget
import plotly.graph_objects as go
import traitlets
from ipywidgets import widget_serialization
from plotly.offline import get_plotlyjs

#: pixels more for a figure with points to drag: their line of the legend, and axes high enough for a hand
DRAG_HEIGHT: Final = 60


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
    """Figure as wide as its place, and as high as its layout says; zoom and camera stay while `uirevision` does.

    Args:
        marks: points over the figure that a pointer can drag; always there, or never.
    """

    _esm = Path(__file__).with_name("chart.js")
    plotly = traitlets.Instance(Plotly).tag(sync=True, **widget_serialization)
    #: data and layout, as JSON
    parts = traitlets.Unicode().tag(sync=True)
    #: the trace whose points can be dragged; −1 for none
    drag_trace = traitlets.Int(-1).tag(sync=True)
    #: set in the browser: which point is dragged, where the pointer is in units of the axes, and which drag this is
    dragged = traitlets.Dict().tag(sync=True)

    def __init__(self, figure: go.Figure, marks: go.Scatter | None = None, **settings: Any) -> None:
        drag_trace = -1 if marks is None else len(figure.data)
        super().__init__(plotly=Plotly.shared(), parts=_json(figure, marks), drag_trace=drag_trace, **settings)

    def show(self, figure: go.Figure, marks: go.Scatter | None = None) -> None:
        """Draws another figure in place of the one that is shown."""
        self.parts = _json(figure, marks)


def _json(figure: go.Figure, marks: go.Scatter | None) -> str:
    if marks is not None:
        figure = go.Figure([*figure.data, marks], figure.layout)
        if figure.layout.height:
            figure.layout.height += DRAG_HEIGHT
    return str(figure.to_json(validate=False))


@dataclass(frozen=True, eq=False)
class DragPoints:
    """Points over a figure that a pointer can drag, while Python answers; not in static figures.

    Args:
        marks: where the points are, in axes x and y of the figure.
        controls: for every point the names of the controls that hold its x and its y.
    """

    marks: go.Scatter
    controls: tuple[tuple[str, str], ...]


def nearest_place(slider: Any, value: float) -> float:
    """Place of a slider nearest to a value, rounded to as many decimals as its step has."""
    steps = round((min(max(value, slider.min), slider.max) - slider.min) / slider.step)
    digits = max(0, math.ceil(-math.log10(slider.step)))
    return float(min(round(slider.min + steps * slider.step, digits), slider.max))
