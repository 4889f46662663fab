"""A plotly figure in a widget, drawn anew in place whenever it changes.

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

_HERE = Path(__file__).parent
#: pixels more for a figure with points to drag: their line of the legend, and axes high enough for a hand
ROOM: Final = 60


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
    """A figure as wide as its place, and as high as its layout says. Zoom and camera stay while `uirevision` does.

    Args:
        marks: points over the figure that a pointer can drag; always there, or never.
    """

    _esm = _HERE / "chart.js"
    plotly = traitlets.Instance(Plotly).tag(sync=True, **widget_serialization)
    #: data and layout, as JSON
    parts = traitlets.Unicode().tag(sync=True)
    #: the trace whose points can be dragged; −1 for none
    handles = traitlets.Int(-1).tag(sync=True)
    #: set in the browser: which point is dragged, where the pointer is in units of the axes, and which drag this is
    dragged = traitlets.Dict().tag(sync=True)

    def __init__(self, figure: go.Figure, marks: go.Scatter | None = None, **settings: Any) -> None:
        handles = -1 if marks is None else len(figure.data)
        super().__init__(plotly=Plotly.only(), parts=_json(figure, marks), handles=handles, **settings)

    def show(self, figure: go.Figure, marks: go.Scatter | None = None) -> None:
        """Draws another figure in place of the one that is shown."""
        self.parts = _json(figure, marks)


def _json(figure: go.Figure, marks: go.Scatter | None) -> str:
    if marks is not None:
        figure = go.Figure([*figure.data, marks], figure.layout)
        if figure.layout.height:
            figure.layout.height += ROOM
    return str(figure.to_json(validate=False))


@dataclass(frozen=True, eq=False)
class Handles:
    """What is drawn over a figure in a widget that lives, and in no still: there nothing would answer.

    Args:
        marks: where the points are, in axes x and y of the figure.
        moves: for every point the names of the controls that hold its x and its y.
    """

    marks: go.Scatter
    moves: tuple[tuple[str, str], ...]


def nearest_place(slider: Any, value: float) -> float:
    """The place of a slider that is nearest to a value, as a decimal number that is typed as it is shown."""
    steps = round((min(max(value, slider.min), slider.max) - slider.min) / slider.step)
    digits = max(0, math.ceil(-math.log10(slider.step)))
    return float(min(round(slider.min + steps * slider.step, digits), slider.max))
