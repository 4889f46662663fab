"""One Plotly figure on a page, with what it shows in words and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import param
import plotly.graph_objects as go
from panel.custom import JSComponent


class Chart(JSComponent):
    """A figure of `apviz.plots`, drawn by the plotly.js that belongs to the plotly it was made with.

    Panel's own pane comes with another plotly.js, draws the whole figure anew at every change, and forgets a zoom.
    """

    base = param.String(doc="the figure as JSON, or empty")
    live = param.String(doc="what still grows of it, as JSON; its layout counts where there is no base")
    frame = param.String(doc="what another moment of it changes, as JSON of a figure with that frame, or empty")
    moment = param.List(item_type=float, doc="x of the lines that mark a moment")
    summary = param.String(doc="what the chart shows, for those who do not see it")
    filename = param.String("apviz", doc="of a downloaded picture, without suffix")
    axes = param.Integer(300, doc="pixels of the axes, where the figure asks for no height")
    linked = param.Boolean(True, doc="hovering a method fades the others in every linked chart")
    clicked = param.Dict({}, doc="name, x, y and customdata of the last point that was clicked, and its run's group")
    drawn = param.Integer(0, doc="how often it was drawn")

    _esm = Path(__file__).with_name("chart.js")
    _stylesheets: ClassVar[list[str]] = [Path(__file__).with_name("chart.css").read_text("utf-8")]

    def show(self, figure: go.Figure | None, live: go.Figure | None = None) -> None:
        """Draws a figure, and on top of it one that still grows."""
        self.param.update(base=_as_json(figure), live=_as_json(live), frame="")

    def show_live(self, live: go.Figure | None) -> None:
        """Draws what still grows anew, and leaves the rest."""
        self.live = _as_json(live)

    def show_frame(self, frame: go.Frame) -> None:
        """Changes what a frame of the figure says, and leaves the rest."""
        self.frame = _as_json(go.Figure(frames=[frame]))


def _as_json(figure: go.Figure | None) -> str:
    return "" if figure is None else str(figure.to_json())


def plotly_folder() -> Path:
    """Where the plotly.js lies that belongs to this plotly: served to browsers, so that nothing comes from afar."""
    import plotly

    return Path(plotly.__file__).parent / "package_data"
