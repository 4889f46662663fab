"""The page Look inside: one run, update by update."""

from __future__ import annotations

from collections.abc import Sequence
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
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.pages.base import HALF, Shared, SolvingPage
from apviz.dashboard.settings.recording import RecordChoice, recording_panel
from apviz.dashboard.settings.systems import SystemSpec
from apviz.plots._snapshots import step
from apviz.plots.fitted_function import FittedFunction
from apviz.plots.residual_map import ResidualMap
from apviz.solvers import Solver
from apviz.tracing import Trace

_NONE_YET = "No run in this folder has pictures yet: choose data and a method, then press Record one."
_NO_FUNCTION = "The function itself can be drawn over one input: choose the data set china-profile, and record a run."


class InsideView(param.Parameterized):
    """Settings of the selection."""

    run = param.String("", label="the run")
    update = param.Integer(1, bounds=(0, None), label="the update that is shown")
    interval = param.Integer(400, bounds=(MIN_INTERVAL_MS, 10_000), label="milliseconds an update while playing")


class Inside(SolvingPage):
    """Page of one run: the residual over the rows, and for one input the function, one update after another."""

    name = "inside"
    title = "Look inside"
    solving: ClassVar[str] = "a solve"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, label="Record one", hint="Choose a run, or record one.")
        self.recording, self.choice = RecordChoice(), InsideView()
        self.models = [self.recording, self.choice]
        self._trace: Trace | None = None
        self._runs = pmui.Select(
            label="Run with pictures", options=[], sizing_mode="stretch_width", margin=(12, 12, 4, 12)
        )
        self._runs.param.watch(lambda event: self._select(event.new), "value")
        self._player = PlayerBar(self._updated, self._paused, self._interval_changed, self.choice.interval)
        self._map, self._function = map_card(lecture=shared.lecture), function_card(lecture=shared.lecture)
        self._animations = [self._map, self._function]
        self._timeline = timeline_card(lecture=shared.lecture)
        self._timeline.chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self._hint = server_owned(pmui.Typography("", variant="body2", margin=(0, 12), visible=False))
        self._diagnosis = DiagnosisCard(self.rerun)
        self._everything: pn.Column | None = None
        self.choice.param.watch(lambda event: self._changed(), ["run"])
        self.choice.param.watch(lambda event: self._player_to(event.new), ["update"])

    # --- contents -------------------------------------------------------------------------------------------------

    def sidebar(self) -> list[Viewable]:
        return [
            *recording_panel(self.recording, self.fields),
        ]

    def main(self) -> Viewable:
        if self._everything is None:
            cards = [self._map, self._function, self._timeline]
            for card in cards:
                card.view.styles = HALF
            self._runs.styles = self._player.view.styles = {"flex": "1 1 420px", "min-width": "min(100%, 300px)"}
            self._everything = pn.Column(
                self._bar.view,
                pn.FlexBox(self._runs, self._player.view, align_items="center", sizing_mode="stretch_width"),
                pn.FlexBox(*(card.view for card in cards), sizing_mode="stretch_width"),
                self._hint,
                self._diagnosis.view,
                sizing_mode="stretch_width",
            )
        return self._everything

    # --- events ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._offer_runs()
        self._changed()

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        for card in self._animations:
            card.advance()
        self._mark()
        self.draw_next()

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
        if self.choice.run not in names:
            if self.choice.run:
                self._bar.refuse(f"there is no run {self.choice.run} with pictures in this folder")
            with param.parameterized.discard_events(self.choice):
                self.choice.run = names[0] if names else ""
        self._runs.param.update(options=names, value=self.choice.run or None, visible=bool(names))

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
        self._draw_all()

    def _draw_all(self) -> None:
        for card in self._animations:
            if card.view.visible:
                self.draw_later(card, lambda card=card: self._draw(card))  # type: ignore[misc]
        self.draw_later(self._timeline, self._draw_timeline)

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
            self._bar.refuse(f"update {round(point['x']):,} was not recorded; record more updates, on the left")

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
