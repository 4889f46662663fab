"""The page Replay: one solve, update by update, or two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz import plots
from apviz.analysis import geometry
from apviz.dashboard.components.animation_card import MIN_INTERVAL_MS, AnimationCard, PlayerBar
from apviz.dashboard.components.chart_card import ChartCard, updates_table
from apviz.dashboard.components.cursor import cursor_at
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.pages.base import HALF, Shared, SolvingPage
from apviz.dashboard.settings.recording import RecordChoice, RecordingPanel
from apviz.dashboard.settings.systems import SystemSpec
from apviz.methods import METHODS
from apviz.plots._snapshots import step
from apviz.plots.fitted_function import FittedFunction
from apviz.plots.residual_map import ResidualMap
from apviz.solvers import Solver
from apviz.tracing import Trace

_NONE_YET = "No run in this folder has pictures yet: choose data and a method, then press Record a solve."
_NO_FUNCTION = "The function itself can be drawn over one input: choose the data set china-profile, and record a solve."


class ReplayView(param.Parameterized):
    """Settings of the selection."""

    run = param.String("", label="the run")
    other = param.String("", label="the run next to it; empty for none")
    update = param.Integer(1, bounds=(0, None), label="the update that is shown")
    interval = param.Integer(400, bounds=(MIN_INTERVAL_MS, 10_000), label="milliseconds an update while playing")


class Replay(SolvingPage):
    """Page of a run and of another next to it: residuals over the rows, and for one input the function, by update."""

    name = "replay"
    title = "Replay"
    solving: ClassVar[str] = "a solve"
    settings_title = "Method"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, label="Record a solve")
        self.recording, self.choice = RecordChoice(), ReplayView()
        self.models = [self.recording, self.choice]
        self._trace: Trace | None = None
        self._runs = pmui.Select(
            label="Run with pictures", options=[], sizing_mode="stretch_width", margin=(12, 12, 4, 12)
        )
        self._runs.param.watch(lambda event: self._select(event.new), "value")
        self._others = pmui.Select(
            label="Next to it", options={"nothing": ""}, value="", sizing_mode="stretch_width", margin=(12, 12, 4, 12)
        )
        self._others.param.watch(lambda event: self.choice.param.update(other=event.new or ""), "value")
        self._second: Trace | None = None
        self._player = PlayerBar(self._updated, self._paused, self._interval_changed, self.choice.interval)
        self._map, self._function = map_card(lecture=shared.lecture), function_card(lecture=shared.lecture)
        self._other_map = map_card(lecture=shared.lecture)
        self._animations = [self._map, self._function]
        self._timeline = timeline_card(lecture=shared.lecture)
        self._timeline.chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self._hint = server_owned(pmui.Typography("", variant="body2", margin=(0, 12), visible=False))
        self._diagnosis = DiagnosisCard(self.rerun)
        self.choice.param.watch(lambda *events: self._changed(), ["run", "other"])
        self.choice.param.watch(lambda event: self._player_to(event.new), ["update"])

    # --- contents -------------------------------------------------------------------------------------------------

    @cached_property
    def _recording_panel(self) -> RecordingPanel:
        return RecordingPanel(self.recording, self.fields)

    def settings(self) -> list[Viewable]:
        return self._recording_panel.basic

    def settings_words(self) -> str:
        return METHODS[self.recording.method].name

    def advanced(self) -> list[Viewable]:
        return self._recording_panel.advanced

    def make_main(self) -> Viewable:
        cards = [self._map, self._other_map, self._function, self._timeline]
        for card in cards:
            card.view.styles = HALF
        for view, width in ((self._runs, 300), (self._others, 300), (self._player.view, 420)):
            view.styles = {"flex": f"1 1 {width}px", "min-width": "min(100%, 260px)"}
        return pn.Column(
            self._bar.view,
            self.notice.view,
            pn.FlexBox(self._runs, self._others, self._player.view, align_items="center", sizing_mode="stretch_width"),
            pn.FlexBox(*(card.view for card in cards), sizing_mode="stretch_width"),
            self._hint,
            self._diagnosis.view,
            sizing_mode="stretch_width",
        )

    # --- events ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._offer_runs()
        self._changed()

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        self.show_differences()
        for card in (*self._animations, self._other_map):
            card.advance()
        self._mark()
        self.draw_next()

    def shown_runs(self) -> list[Trace]:
        return [] if self._trace is None else [self._trace]

    def _take(self, job: ComparisonJob) -> None:
        new = self.take_runs(job)
        if new:
            self._offer_runs()
            self.choice.param.update(run=new[-1], update=1)

    def run(self) -> None:
        """Record the selected system, solved by the selected method."""
        current = self.current(lambda spec: [self.recording.solver(spec.n, spec.seed)])
        if current is not None:
            self.start(*current)

    def start(
        self, spec: SystemSpec, solvers: Sequence[Solver], kind: type[ComparisonJob] = ComparisonJob, **options: Any
    ) -> bool:
        """Start a job that records pictures."""
        return self.fields.ready("updates") and super().start(
            spec, solvers, kind, snapshots=self.recording.updates, **options
        )

    # --- the run --------------------------------------------------------------------------------------------------

    def _offer_runs(self) -> None:
        names = self.shared.runs.with_pictures()
        missing = [name for name in (self.choice.run, self.choice.other) if name and name not in names]
        if missing:
            self._bar.refuse(f"there is no run {' or '.join(missing)} with pictures in this folder")
        with param.parameterized.discard_events(self.choice):
            if self.choice.run not in names:
                self.choice.run = names[0] if names else ""
            if self.choice.other not in names:
                self.choice.other = ""
        self._runs.param.update(options=names, value=self.choice.run or None, visible=bool(names))
        options = {"nothing": ""} | {name: name for name in names}
        self._others.param.update(options=options, value=self.choice.other, visible=len(names) > 1)

    def _select(self, name: str | None) -> None:
        if name and name != self.choice.run:
            self.choice.param.update(run=name, update=1)

    def _changed(self) -> None:
        self._trace = None
        if self.choice.run:
            try:
                self._trace = self.shared.runs.open(self.choice.run)
            except (ValueError, OSError) as error:
                self._bar.refuse(str(error))
        self._runs.value = self.choice.run or None
        trace = self._trace
        try:
            updates = self._map.open(trace, self.shared.theme)
        except ValueError as error:
            self._bar.refuse(str(error))
            self._trace, trace, updates = None, None, []
        if updates and self.choice.update not in updates:
            self._bar.refuse(f"update {self.choice.update:,} of {self.choice.run} was not recorded; the one before is")
        self._player.show(updates, self.choice.update)
        self._function.view.visible = trace is not None and has_function(trace)
        self._map.view.visible = trace is not None
        self._hint.visible = not self._function.view.visible
        self._hint.object = _NONE_YET if trace is None else _NO_FUNCTION
        self._diagnosis.show(self._trace)
        self._open_other()
        self._draw_all()

    def _open_other(self) -> None:
        """Open the run next to the first one."""
        self._second = None
        if self.choice.other and self._trace is not None:
            try:
                self._second = self.shared.runs.open(self.choice.other)
                self._other_map.open(self._second, self.shared.theme)
            except (ValueError, OSError) as error:
                self._second = None
                self._bar.refuse(str(error))
        self._other_map.view.visible = self._second is not None

    def _draw_all(self) -> None:
        for card in self._animations:
            if card.view.visible:
                self.draw_later(card, lambda card=card: self._draw(card))  # type: ignore[misc]
        if self._second is not None:
            self.draw_later(self._other_map, self._draw_other)
        self.draw_later(self._timeline, self._draw_timeline)

    def _draw_other(self) -> None:
        self._other_map.draw(self._second, self.shared.theme, self._other_update(self._player.update))
        self._describe()

    def _other_update(self, update: int) -> int:
        """Return the update of the second run that has cost at most the work of an update of the first."""
        return 0 if self._trace is None or self._second is None else update_at_work(self._second, self._trace, update)

    def _draw_timeline(self) -> None:
        trace = self._trace
        self._timeline.view.visible = trace is not None and has_blocks(trace)
        self._timeline.show([] if trace is None else [trace], self.shared.theme)

    def _draw(self, card: AnimationCard) -> None:
        card.draw(self._trace, self.shared.theme, self._player.update)
        self._describe()

    # --- the update -----------------------------------------------------------------------------------------------

    def _updated(self, update: int) -> None:
        for card in self._animations:
            if card.view.visible:
                card.go_to(update)
        if self._second is not None:
            self._other_map.go_to(self._other_update(update))

    def _paused(self, update: int) -> None:
        self.choice.update = update
        self._describe()

    def _player_to(self, update: int) -> None:
        self._player.go_to(update)
        self._updated(update)

    def _clicked(self, point: dict[str, Any]) -> None:
        """Go to an update that was clicked in the timeline."""
        if self._player.has(round(point["x"])):
            self.choice.update = round(point["x"])
        else:
            self._bar.refuse(f"update {round(point['x']):,} was not recorded; record more updates with Method")

    def _interval_changed(self, interval: int) -> None:
        self.choice.interval = interval

    def _mark(self) -> None:
        """Move the line of the timeline, a few times a second while playing."""
        at = [float(self._player.update)] if self._trace is not None else []
        if self._timeline.chart.cursor != at:
            self._timeline.chart.cursor = at

    def _describe(self) -> None:
        if self._trace is None:
            return
        update = self._player.update
        self._mark()
        words = step(self._trace, update)[1]
        for card in self._animations:
            if card.view.visible:
                card.describe(words)
        if self._second is not None:
            at = self._other_map.shown
            self._other_map.describe(f"{step(self._second, at)[1]}, at the same work")


def update_at_work(trace: Trace, other: Trace, update: int) -> int:
    """Return the last update of a run whose work is at most that of an update of another run."""
    cursor, updates = cursor_at(other, update), trace["update"]
    # equal sums of work may differ in their last digit
    most = 0.0 if cursor is None else cursor.work * (1 + 1e-9)
    count = int(np.searchsorted(updates["work"].values, most, side="right"))
    return int(updates["update"][count - 1]) if count else 0


def map_card(*, lecture: bool) -> AnimationCard:
    """Return the card of the residual over the rows."""
    return AnimationCard(
        "Where the residual is",
        "Red and blue: the residual r, white: none. The block of the update is marked, and around it the margin "
        "that it solves on as well.",
        lambda trace, theme: ResidualMap(trace, theme=theme),
        takes=lambda trace: "rows" in trace and "snapshot" in trace, table=rows_table, axes=460, lecture=lecture,
    )  # fmt: skip


def function_card(*, lecture: bool) -> AnimationCard:
    """Return the card of the function, which is drawn over one input."""
    return AnimationCard(
        "The function so far",
        "Every update adds a combination of kernels at the rows of its block. Thin: the function before it.",
        lambda trace, theme: FittedFunction(trace, theme=theme), takes=has_function, table=function_table,
        axes=400, lecture=lecture,
    )  # fmt: skip


def timeline_card(*, lecture: bool) -> ChartCard:
    """Return the card of the blocks, update by update."""
    return ChartCard(
        "Which block, when",
        "One mark an update, the colour is the energy it removed; click one to look at it. The line is the update "
        "that is shown.",
        lambda traces, theme: plots.block_timeline(traces, theme=theme), takes=has_blocks, table=updates_table,
        x_unit=lambda: "update", lecture=lecture,
    )  # fmt: skip


def has_blocks(trace: Trace) -> bool:
    """Return whether a run has a timeline of blocks, or of colours of blocks."""
    return trace.parts is not None and "update" in trace


def has_function(trace: Trace) -> bool:
    """Return whether the function of a run can be drawn."""
    return trace.attrs["d"] == 1 and "snapshot" in trace and "weights" in trace["snapshot"]


def rows_table(trace: Trace, update: int) -> pd.DataFrame:
    """Return a table of every row with its block and its residual after an update."""
    rows, snapshot = trace["rows"], trace["snapshot"]
    columns = {f"input {k}": values for k, values in enumerate(rows["coordinates"].values.T, start=1)}
    if "owner" in rows:
        columns["block"] = rows["owner"].values
    place = int(np.flatnonzero(snapshot["update"].values == update)[0])
    columns |= {"target": rows["target"].values} if "target" in rows else {}
    columns[f"residual after update {update}"] = snapshot["residual"].values[place]
    return pd.DataFrame(columns).rename_axis("row").reset_index()


def function_table(trace: Trace, update: int) -> pd.DataFrame:
    """Return a table of the function after an update, on its grid."""
    found = geometry.functions(trace)
    place = int(np.flatnonzero(found["update"].values == update)[0])
    return pd.DataFrame({"x": found["x"].values, f"s after update {update}": found["value"].values[place]})
