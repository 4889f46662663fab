"""A chart on a page: heading, one sentence of explanation and the figure; on demand summary, table and downloads."""

from __future__ import annotations

import atexit
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param
import plotly.graph_objects as go

from apviz.dashboard.components.growing import Growing
from apviz.dashboard.components.script_component import ScriptComponent
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.components.text import escape, without_formulas
from apviz.plots._axes import enlarged
from apviz.plots._curves import unchecked
from apviz.plots._labels import full_names
from apviz.plots._script import plotly_script
from apviz.plots._style import ThemeName
from apviz.tracing import Trace


class Chart(ScriptComponent):
    """Figure of `apviz.plots`, drawn by the plotly.js that ships with the installed plotly.

    Panel's own pane uses another plotly.js, redraws the whole figure at every change, and loses the zoom.
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
    level_with = param.String(doc="title of the figure next to it, whose space it keeps; empty for none")
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
        """Draw a figure, and on top of it a growing one."""
        self._growing.forget()
        grows = "" if live is None else self._growing.whole(live)
        self.param.update(base=_as_json(figure), live=grows, grown="", frame="")

    def show_live(self, live: go.Figure) -> None:
        """Redraw the growing figure only; send just the new points if the others are unchanged."""
        changes = self._growing.changes(live)
        if changes is None:
            self.param.update(live=self._growing.whole(live), grown="")
        else:
            self.grown = changes

    def show_frame(self, frame: go.Frame) -> None:
        """Apply a frame to the figure, and leave the rest unchanged."""
        self.frame = _as_json(go.Figure(frames=[frame]))


def _as_json(figure: go.Figure | None) -> str:
    return "" if figure is None else str(figure.to_json())


@cache
def plotly_folder() -> Path:
    """Return the folder of the plotly.js of the figures, served to browsers so that they need no other server."""
    folder = Path(tempfile.mkdtemp(prefix="apviz-plotly-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "plotly.min.js").write_text(plotly_script(), "utf-8")
    return folder


class CardText(ScriptComponent):
    """Text below a chart, or instead of a missing chart, with the buttons for details and download."""

    heading = param.String(doc="of the card; the figure has it too, so it is shown where there is none")
    text = param.String(doc="what to see in it")
    empty = param.String(doc="text shown instead of a figure")
    is_empty = param.Boolean(False, doc="whether there is no figure")
    is_open = param.Boolean(False, doc="whether words and table are shown")

    _esm = Path(__file__).with_name("card_text.js")
    _stylesheets: ClassVar[list[str]] = [Path(__file__).with_name("card_text.css").read_text("utf-8")]

    def download(self, name: str, text: str) -> None:
        """Send a file to the browser."""
        self._send_msg({"name": name, "text": text})


#: A card as high as the highest in its row: the style of its element, and of Material's element in that.
FILL, FILLS = ".paper { height: 100%; }", {"height": "100%", "boxSizing": "border-box"}
#: Figures with more panels than this keep their own height.
OWN_PANELS = 2
#: Most runs in the summary of a chart.
TOLD_RUNS = 24
#: Most rows of a table on a page; the download has all.
SHOWN_ROWS = 500

Draw = Callable[[Sequence[Trace], ThemeName], go.Figure]


class ChartCard:
    """Card around one Plotly figure of some traces, with a summary in words and a table.

    Args:
        draw: Function from traces and theme to the figure.
        takes: Whether a trace can be drawn; other traces are left out.
        empty: Text instead of a chart without traces.
        table: Function from traces to the table of the plotted numbers.
        sentence: Function from a trace to its summary in words.
        x_unit: Unit of the x axis, for the line that marks the cursor; empty for no line.
        fits: Free pixels below a chart that fills the window; 0 for a chart of fixed height.
        lecture: Whether to use larger type and lines, for a projector.
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
        #: Finished runs that were last given, and the theme.
        self.traces: list[Trace] = []
        #: Figure of the finished runs, as last drawn.
        self.figure: go.Figure | None = None
        self.theme: ThemeName | None = None
        slug = heading.lower().replace(" ", "-").replace(",", "")
        grows = {"flex": "1 0 auto"}
        self.chart = Chart(filename=f"apviz-{slug}", axes=axes, fits=fits, styles=grows, sizing_mode="stretch_width")
        wide = {"sizing_mode": "stretch_width"}
        self.text = CardText(heading=heading, text=text, empty=empty, **wide)
        self.text.param.watch(lambda event: self._fill_details(), "is_open")
        self.text.on_msg(lambda event: self.text.download(f"apviz-{slug}.csv", self.csv()))
        self.view = pmui.Paper(self.chart, self.text, margin=8, elevation=1, stylesheets=[FILL], sx=FILLS, **wide)

    @property
    def title(self) -> str:
        """Return the title of the figure; empty if there is none."""
        return "" if self.figure is None else str(self.figure.layout.title.text or "")

    @property
    def drawn(self) -> Sequence[Trace]:
        """Return the traces in the figure, in the given order."""
        return self._traces

    def show(self, traces: Sequence[Trace], theme: ThemeName, live: Sequence[Trace] = ()) -> None:
        """Draw finished runs, and on top of them the active ones."""
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
        """Redraw the active runs only."""
        running = [trace for trace in live if self.takes(trace)]
        if running:
            self.chart.show_live(self._live_figure(running, theme))
            self._say_empty(False)

    def _say_empty(self, is_empty: bool) -> None:
        self.text.is_empty = is_empty

    def words(self, separator: str = "; ") -> str:
        """Return a summary of the chart, run by run, the best first."""
        if all(isinstance(trace, Trace) for trace in self._traces):
            # these names distinguish runs of one method, by their seed for example
            named = sorted(zip(self._traces, full_names(self._traces), strict=True), key=lambda run: _rank(run[0]))
            sentences = [
                name + self._sentence(trace).removeprefix(trace.method_name) for trace, name in named[:TOLD_RUNS]
            ]
        else:
            sentences = [self._sentence(trace) for trace in self._traces[:TOLD_RUNS]]
        more = len(self._traces) - len(sentences)
        runs = separator.join([*sentences, *([f"and {more} runs more"] if more else [])])
        return f"{self.heading}. {runs}." if runs else f"{self.heading}: nothing to draw yet."

    def _figure(self, traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        figure = self._draw(traces, theme)
        if len({axis.domain for axis in figure.select_yaxes()}) <= OWN_PANELS:
            # The figure's own height is meant for a standalone figure.
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
        # one line a run
        lines = "  \n".join(map(escape, self.words("\n").splitlines()))
        words = [pmui.Typography(lines, variant="body2")]
        if len(table) > SHOWN_ROWS:
            words.append(pmui.Typography(f"The first {SHOWN_ROWS:,} of {len(table):,} rows; the CSV has all."))
        readable = table.head(SHOWN_ROWS).rename(columns=lambda name: str(name).replace("_", " "))
        shown = plain_table(readable, index=False, max_height=320, na_rep="")
        self.view[2:] = [pn.Column(*words, shown, sizing_mode="stretch_width", margin=(0, 12))]

    def csv(self) -> str:
        """Return the plotted numbers as CSV."""
        return str(without_formulas(self._table(self._traces) if self._traces else pd.DataFrame()).to_csv(index=False))


def _rank(trace: Trace) -> tuple[bool, float]:
    """Return the sort key of a run: converged solves by their seconds, then the others."""
    if "epoch" not in trace or not trace["epoch"].sizes["epoch"]:
        return True, math.inf
    return not trace.converged, float(trace["epoch"]["seconds"][-1])


def describe(trace: Trace) -> str:
    """Return a sentence on a run, as a person would read its curve."""
    if "step" in trace:
        return _describe_training(trace)
    last = trace["epoch"].isel(epoch=-1)
    return (
        f"{trace.method_name}: residual {trace.residual_in_words('.2g')} after {int(last['epoch']):,} "
        f"epoch{'s' * (int(last['epoch']) != 1)} and "
        f"{float(last['work']):.3g} work, {trace.status(with_residual=False).lower()}"
    )


def _describe_training(trace: Trace) -> str:
    steps = trace["step"]
    noise, epochs = steps["noise"].values, steps["epochs"].values
    failed = int((steps["converged"].values == 0).sum())
    if not len(noise):
        return f"{trace.method_name}: no step yet"
    return (
        f"{trace.method_name}: {len(noise):,} steps, σ² from {noise[0]:.3g} to {noise[-1]:.3g}, epochs or "
        f"iterations of a solve from {epochs[0]:,} to {epochs[-1]:,}, {failed:,} solves not converged"
    )


def _named(traces: Sequence[Trace]) -> Iterator[tuple[Trace, str]]:
    """Return pairs of a run and its unique name."""
    return zip(traces, full_names(traces), strict=True)


def epochs_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return a table of every epoch of every run."""
    frames = [trace.to_dataframe("epoch").reset_index().assign(run=name) for trace, name in _named(traces)]
    columns = ["run", "epoch", "work", "seconds", "residual", "test_rmse", "checked_residual"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def updates_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return a table of every update of every run."""
    frames = [trace.to_dataframe("update").reset_index().assign(run=name) for trace, name in _named(traces)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["run"])


def steps_table(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return a table of every step of every training."""
    frames = [trace.to_dataframe("step").reset_index().assign(run=name) for trace, name in _named(traces)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["run"])
