"""A chart on a page: heading, one sentence on what to see, the figure, and behind it summary, table and downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param
import plotly.graph_objects as go
from panel.custom import JSComponent

from apviz.dashboard.components.growing import Growing
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.components.text import escape, without_formulas
from apviz.plots._axes import enlarged
from apviz.plots._curves import unchecked
from apviz.plots._labels import full_names
from apviz.plots._style import ThemeName
from apviz.tracing import Trace


class Chart(JSComponent):
    """Figure of `apviz.plots`, drawn by the plotly.js that belongs to the plotly it was made with.

    Panel's own pane comes with another plotly.js, draws the whole figure anew at every change, and forgets a zoom.
    """

    base = param.String(doc="the figure as JSON, or empty")
    live = param.String(doc="what still grows of it, as JSON; its layout counts where there is no base")
    grown = param.String(doc="the points that have come since the last change of `live` or of this, as JSON")
    behind = param.Integer(0, doc="how often the browser has missed what has grown")
    frame = param.String(doc="what another update changes of it, as JSON of a figure with that frame, or empty")
    cursor = param.List(item_type=float, doc="x of the lines that mark the cursor")
    summary = param.String(doc="what the chart shows, for those who do not see it")
    filename = param.String("apviz", doc="of a downloaded picture, without suffix")
    axes = param.Integer(300, doc="pixels of the axes, where the figure asks for no height")
    fits = param.Integer(0, doc="pixels that stay free below it where it fills a window; 0: as high as `axes` says")
    linked = param.Boolean(True, doc="hovering a method fades the others in every linked chart")
    clicked = param.Dict({}, doc="name, x, y and customdata of the last point that was clicked, and its run's group")
    drawn = param.Integer(0, doc="how often it was drawn")

    _esm = Path(__file__).with_name("chart.js")
    _stylesheets: ClassVar[list[str]] = [Path(__file__).with_name("chart.css").read_text("utf-8")]

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._growing = Growing()
        self.param.watch(lambda event: self._growing.forget(), "behind")

    def show(self, figure: go.Figure | None, live: go.Figure | None = None) -> None:
        """Draws a figure, and on top of it one that still grows."""
        self._growing.forget()
        grows = "" if live is None else self._growing.whole(live)
        self.param.update(base=_as_json(figure), live=grows, grown="", frame="")

    def show_live(self, live: go.Figure) -> None:
        """Draws what still grows anew, and leaves the rest; sends the new points, where the others are as they were."""
        changes = self._growing.changes(live)
        if changes is None:
            self.param.update(live=self._growing.whole(live), grown="")
        else:
            self.grown = changes

    def show_frame(self, frame: go.Frame) -> None:
        """Changes what a frame of the figure says, and leaves the rest."""
        self.frame = _as_json(go.Figure(frames=[frame]))


def _as_json(figure: go.Figure | None) -> str:
    return "" if figure is None else str(figure.to_json())


def plotly_folder() -> Path:
    """Folder of the plotly.js that belongs to this plotly: served to browsers, so that nothing comes from afar."""
    import plotly

    return Path(plotly.__file__).parent / "package_data"


class CardText(JSComponent):
    """Words below a chart, or in its place where there is none, and the buttons of what is behind it."""

    heading = param.String(doc="of the card; the figure has it too, so it is shown where there is none")
    text = param.String(doc="what to see in it")
    empty = param.String(doc="said in place of a figure")
    is_empty = param.Boolean(False, doc="whether there is no figure")
    is_open = param.Boolean(False, doc="whether words and table are shown")

    _esm = Path(__file__).with_name("card_text.js")
    _stylesheets: ClassVar[list[str]] = [Path(__file__).with_name("card_text.css").read_text("utf-8")]

    def download(self, name: str, text: str) -> None:
        """Gives the browser a file."""
        self._send_msg({"name": name, "text": text})


#: a figure of more panels than this is as high as it asks for
OWN_PANELS = 2
#: runs that a chart tells of in words
TOLD_RUNS = 24
#: rows of a table in a page; the download has all
SHOWN_ROWS = 500

Draw = Callable[[Sequence[Trace], ThemeName], go.Figure]


class ChartCard:
    """Card around one Plotly figure of some traces, with what it shows in words and as a table.

    Args:
        draw: from traces and theme to the figure.
        takes: whether a trace can be drawn; the others are left out.
        empty: said in place of a chart of no trace.
        table: from traces to the numbers behind the figure.
        sentence: what it shows of a trace, in words.
        x_unit: of its x axis, for the line that marks the cursor; empty for none.
        fits: pixels that stay free below it, where it is as high as the window lets it be; 0 for one that is not.
        lecture: larger type and lines, for a projector.
    """

    def __init__(
        self,
        heading: str,
        text: str,
        draw: Draw,
        *,
        takes: Callable[[Trace], bool] = lambda trace: True,
        table: Callable[[Sequence[Trace]], pd.DataFrame] | None = None,
        sentence: Callable[[Trace], str] | None = None,
        x_unit: Callable[[], str] = lambda: "",
        empty: str = "Nothing to draw yet.",
        axes: int = 300,
        fits: int = 0,
        lecture: bool = False,
    ) -> None:
        self.heading, self._draw, self.takes, self._table = heading, draw, takes, table or epochs_table
        self._sentence = sentence or describe
        self.x_unit, self._lecture = x_unit, lecture
        self._traces: list[Trace] = []
        #: what is drawn, and how
        self.traces: list[Trace] = []
        #: of the finished runs, as it was last drawn
        self.figure: go.Figure | None = None
        self.theme: ThemeName | None = None
        slug = heading.lower().replace(" ", "-").replace(",", "")
        self.chart = Chart(filename=f"apviz-{slug}", axes=axes, fits=fits, sizing_mode="stretch_width")
        wide = {"sizing_mode": "stretch_width"}
        self.text = CardText(heading=heading, text=text, empty=empty, **wide)
        self.text.param.watch(lambda event: self._fill_details(), "is_open")
        self.text.on_msg(lambda event: self.text.download(f"apviz-{slug}.csv", self.csv()))
        self.view = pmui.Paper(self.chart, self.text, margin=8, elevation=1, **wide)

    @property
    def drawn(self) -> Sequence[Trace]:
        """Traces in the figure, in the order it was given them."""
        return self._traces

    def show(self, traces: Sequence[Trace], theme: ThemeName, live: Sequence[Trace] = ()) -> None:
        """Draws finished runs, and on top of them those that go on."""
        self.traces, self.theme = list(traces), theme
        self._traces = [trace for trace in traces if self.takes(trace)]
        running = [trace for trace in live if self.takes(trace)]
        figure = self._figure(self._traces, theme) if self._traces else None
        self.figure = figure
        self.chart.show(figure, self._live_figure(running, theme) if running else None)
        self._say_empty(figure is None and not running)
        self.chart.summary = self.words()
        self._fill_details()

    def show_live(self, live: Sequence[Trace], theme: ThemeName) -> None:
        """Draws the runs that go on anew, and leaves the others as they are."""
        running = [trace for trace in live if self.takes(trace)]
        if running:
            self.chart.show_live(self._live_figure(running, theme))
            self._say_empty(False)

    def _say_empty(self, is_empty: bool) -> None:
        self.text.is_empty = is_empty

    def words(self) -> str:
        """Summary of what the chart shows, run by run."""
        sentences = [self._sentence(trace) for trace in self._traces[:TOLD_RUNS]]
        more = len(self._traces) - len(sentences)
        runs = "; ".join([*sentences, *([f"and {more} runs more"] if more else [])])
        return f"{self.heading}. {runs}." if runs else f"{self.heading}: nothing to draw yet."

    def _figure(self, traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        figure = self._draw(traces, theme)
        if len({axis.domain for axis in figure.select_yaxes()}) <= OWN_PANELS:
            # the height that it has is for a figure that stands alone
            figure.update_layout(height=None)
        return enlarged(figure) if self._lecture else figure

    def _live_figure(self, live: Sequence[Trace], theme: ThemeName) -> go.Figure:
        with unchecked():
            return self._figure(live, theme)

    def _fill_details(self) -> None:
        if not self.text.is_open:
            if len(self.view) > 2:
                self.view[2:] = []
            return
        table = self._table(self._traces) if self._traces else pd.DataFrame()
        words = [pmui.Typography(escape(self.words()), variant="body2")]
        if len(table) > SHOWN_ROWS:
            words.append(pmui.Typography(f"The first {SHOWN_ROWS:,} of {len(table):,} rows; the CSV has all."))
        shown = plain_table(table.head(SHOWN_ROWS), index=False, max_height=320)
        self.view[2:] = [pn.Column(*words, shown, sizing_mode="stretch_width", margin=(0, 12))]

    def csv(self) -> str:
        """Numbers behind the figure, as a file has them."""
        return str(without_formulas(self._table(self._traces) if self._traces else pd.DataFrame()).to_csv(index=False))


def describe(trace: Trace) -> str:
    """Sentence on a run, as a person would read its curve."""
    if "step" in trace:
        return _describe_training(trace)
    last = trace["epoch"].isel(epoch=-1)
    return (
        f"{trace.method_name}: residual {trace.residual_in_words('.2g')} after {int(last['epoch']):,} epochs and "
        f"{float(last['work']):.3g} work, {trace.status(with_residual=False).lower()}"
    )


def _describe_training(trace: Trace) -> str:
    steps = trace["step"]
    noise, epochs = steps["noise"].values, steps["epochs"].values
    failed = int((steps["converged"].values == 0).sum())
    if not len(noise):
        return f"{trace.method_name}: no step yet"
    return (
        f"{trace.method_name}: {len(noise):,} Adam steps, σ² from {noise[0]:.3g} to {noise[-1]:.3g}, epochs or "
        f"iterations of a solve from {epochs[0]:,} to {epochs[-1]:,}, {failed:,} solves not converged"
    )


def _named(traces: Sequence[Trace]) -> Iterator[tuple[Trace, str]]:
    """Runs with their names, no two alike."""
    return zip(traces, full_names(traces), strict=True)


def epochs_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Table of every epoch of every run."""
    frames = [trace.to_dataframe("epoch").reset_index().assign(run=name) for trace, name in _named(traces)]
    columns = ["run", "epoch", "work", "seconds", "residual", "test_rmse", "checked_residual"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def updates_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Table of every update of every run."""
    frames = [trace.to_dataframe("update").reset_index().assign(run=name) for trace, name in _named(traces)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["run"])


def steps_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Table of every Adam step of every training."""
    frames = [trace.to_dataframe("step").reset_index().assign(run=name) for trace, name in _named(traces)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["run"])
