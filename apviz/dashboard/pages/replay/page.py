"""The page Replay: one solve update by update, or two of them at the same work, time or update."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, get_args

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz import plots
from apviz.analysis.sweeps import same_system
from apviz.dashboard.components.animation_card import MIN_INTERVAL_MS, PlayerBar
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.components.cursor import clicked_epoch
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.solve_cards import error_card
from apviz.dashboard.components.text import escape
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.pages.base import HALF, Shared, SolvingPage
from apviz.dashboard.pages.replay.side import Measure, Side, has_function, matching_update
from apviz.dashboard.settings.recording import RecordChoice, RecordingPanel
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.store.examples import PREFIX
from apviz.methods import METHODS
from apviz.plots._axes import X, without_buttons
from apviz.solvers import Solver
from apviz.tracing import Trace

_NONE_YET = "No run in this folder has pictures yet: choose data and a method, then press Record a solve."
#: Option of the second run before one is chosen.
CHOOSE = "(choose a second run)"
#: Style of a list that shows a long name on several lines, instead of its beginning.
_WHOLE_NAMES = {"& .MuiSelect-select": {"whiteSpace": "normal !important"}}
_NO_FUNCTION = "The function itself can be drawn over one input: choose the data set china-profile, and record a solve."
#: Unit of the curves' x axis for what two solves have in common.
_AXES: dict[Measure, X] = {"work": "work", "seconds": "seconds", "update": "epochs"}


class ReplayView(param.Parameterized):
    """Settings of the selection."""

    run = param.String("", label="the run")
    other = param.String("", label="the run next to it; empty for none")
    update = param.Integer(1, bounds=(0, None), label="the update that is shown")
    same = param.Selector(default="work", objects=list(get_args(Measure)), label="Both at the same")
    interval = param.Integer(400, bounds=(MIN_INTERVAL_MS, 10_000), label="milliseconds an update while playing")


class Replay(SolvingPage):
    """Page of a solve, and of a second one next to it: every chart shows the same moment."""

    name = "replay"
    title = "Replay"
    solving: ClassVar[str] = "a solve"
    settings_title = "Method"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, label="Record a solve")
        self.recording, self.choice = RecordChoice(), ReplayView()
        self.models = [self.recording, self.choice]
        look: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": (12, 12, 4, 12), "sx": _WHOLE_NAMES}
        self._runs = pmui.Select(label="Run", options={}, **look)
        self._runs.param.watch(lambda event: self._select(event.new), "value")
        self._others = pmui.Select(label="Compare with", options={CHOOSE: ""}, value="", **look)
        self._others.param.watch(lambda event: self.choice.param.update(other=event.new or ""), "value")
        self._same = pmui.RadioButtonGroup.from_param(self.choice.param.same, size="small", margin=(12, 12, 4, 12))
        self._player = PlayerBar(self._updated, self._paused, self._interval_changed, self.choice.interval)
        self._first = Side(self._go, lecture=shared.lecture)
        self._second = Side(self._go_by_second, lecture=shared.lecture)
        self._curves = curve_cards(lambda: _AXES[self.choice.same], lecture=shared.lecture)
        for card in self._curves:
            card.chart.param.watch(lambda event, card=card: self._clicked(card, event.new), "clicked")
        self._note = server_owned(pmui.Typography("", variant="body2", margin=(0, 12), visible=False))
        self._hint = server_owned(pmui.Typography("", variant="body2", margin=(0, 12), visible=False))
        self._diagnosis = DiagnosisCard(self.rerun)
        self.choice.param.watch(lambda *events: self._changed(), ["run", "other"])
        self.choice.param.watch(lambda event: self._player_to(event.new), ["update"])
        self.choice.param.watch(lambda event: self._realign(), ["same"])

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
        for card in self._cards:
            card.view.styles = HALF
        for view, width in ((self._runs, 500), (self._others, 500), (self._player.view, 420)):
            view.styles = {"flex": f"1 1 {width}px", "min-width": "min(100%, 260px)"}
        return pn.Column(
            self._bar.view,
            self.notice.view,
            pn.FlexBox(
                self._runs, self._others, self._same, self._player.view, align_items="center",
                sizing_mode="stretch_width",
            ),
            self._note,
            pn.FlexBox(*(card.view for card in self._cards), sizing_mode="stretch_width"),
            self._hint,
            self._diagnosis.view,
            sizing_mode="stretch_width",
        )  # fmt: skip

    @property
    def _cards(self) -> list[ChartCard]:
        """Return all cards in their order on the page: those of the same kind next to each other."""
        of_both = [card for pair in zip(self._first.cards, self._second.cards, strict=True) for card in pair]
        pictures = 2 * len(self._first.pictures)
        return [*of_both[:pictures], *self._curves, *of_both[pictures:]]

    # --- events ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._offer_runs()
        self._changed()

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        self.show_differences()
        for side in self._sides:
            side.advance()
        self._mark()
        self.draw_next()

    def shown_runs(self) -> list[Trace]:
        return [] if self._first.trace is None else [self._first.trace]

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
            is_new = not self.choice.run
            if self.choice.run not in names:
                self.choice.run = self.shared.runs.first_of(names, self.shared.system.has)
            if self.choice.other not in names:
                # the examples are meant to be seen next to each other
                pair = names[:2] if is_new and all(name.startswith(PREFIX) for name in names) else []
                self.choice.other = pair[1] if len(pair) == 2 else ""
        labels = self._labels(names)
        self._runs.param.update(options=labels, value=self.choice.run or None, visible=bool(names))
        options = {CHOOSE: ""} | labels
        self._others.param.update(options=options, value=self.choice.other, visible=len(names) > 1)

    def _labels(self, names: Sequence[str]) -> dict[str, str]:
        """Return runs by what people call them: method, data and rows; the name too where these are equal."""
        entries = {entry.name: entry for entry in self.shared.runs.entries()}
        said = {
            name: f"{each.method}, {each.dataset} with {each.n:,} rows{', example' * name.startswith(PREFIX)}"
            if (each := entries.get(name)) is not None and each.n is not None else name
            for name in names
        }  # fmt: skip
        count = Counter(said.values())
        return {words if count[words] == 1 else f"{words} ({name})": name for name, words in said.items()}

    def _select(self, name: str | None) -> None:
        if name and name != self.choice.run:
            self.choice.param.update(run=name, update=1)

    @property
    def _sides(self) -> list[Side]:
        return [self._first, self._second]

    @property
    def _traces(self) -> list[Trace]:
        return [side.trace for side in self._sides if side.trace is not None]

    def _changed(self) -> None:
        self._runs.value = self.choice.run or None
        first, second = self._trace(self.choice.run), self._trace(self.choice.other)
        updates = self._open(self._first, first, second)
        self._open(self._second, second if self._first.trace is not None else None, first)
        trace = self._first.trace
        if updates and self.choice.update not in updates:
            self._bar.refuse(f"update {self.choice.update:,} of {self.choice.run} was not recorded; the one before is")
        self._player.show(updates, self.choice.update)
        self._same.visible = self._second.trace is not None
        for card in self._curves:
            card.view.visible = any(map(card.takes, self._traces))
        self._hint.visible = trace is None or not has_function(trace)
        self._hint.object = _NONE_YET if trace is None else _NO_FUNCTION
        self._diagnosis.show(trace, among=self._traces[1:])
        self._updated(self._player.update)
        self._draw_all()

    def _trace(self, name: str) -> Trace | None:
        """Open a run of the folder; return None for no name, and with a message if it does not open."""
        try:
            return self.shared.runs.open(name) if name else None
        except (ValueError, OSError) as error:
            self._bar.refuse(str(error))
            return None

    def _open(self, side: Side, trace: Trace | None, other: Trace | None) -> list[int]:
        """Open a run on one side, or none, next to another; return the updates that have pictures."""
        try:
            return side.open(trace, self.shared.theme, [] if other is None else [other])
        except ValueError as error:
            self._bar.refuse(str(error))
            return []

    def _draw_all(self) -> None:
        for side in self._sides:
            for card, draw in side.drawings(self.shared.theme):
                self.draw_later(card, partial(self._draw_level, draw))
        self._draw_curves()
        self._describe()

    def _draw_level(self, draw: Callable[[], None]) -> None:
        """Draw a chart, and let charts of one kind begin at one height, whatever their titles say."""
        draw()
        for pair in zip(self._first.cards, self._second.cards, strict=True):
            titles = [card.title if card.view.visible else "" for card in pair]
            for card, other in zip(pair, reversed(titles), strict=True):
                card.chart.level_with = other

    def _draw_curves(self) -> None:
        for card in self._curves:
            if card.view.visible:
                self.draw_later(card, lambda card=card: card.show(self._traces, self.shared.theme))  # type: ignore[misc]

    # --- the update -----------------------------------------------------------------------------------------------

    def _updated(self, update: int) -> None:
        self._first.go_to(update)
        if self._first.trace is not None and self._second.trace is not None:
            self._second.go_to(matching_update(self._second.trace, self._first.trace, update, self.choice.same))

    def _paused(self, update: int) -> None:
        self.choice.update = update
        self._describe()

    def _player_to(self, update: int) -> None:
        self._player.go_to(update)
        self._updated(self._player.update)
        self._describe()

    def _realign(self) -> None:
        """Show the second solve by another measure, and the curves over it."""
        self._updated(self._player.update)
        self._draw_curves()
        self._describe()

    def _go(self, update: int) -> None:
        """Go to an update of the first solve that was clicked."""
        if self._player.has(update):
            self.choice.update = update
        else:
            self._bar.refuse(f"update {update:,} has no picture; record more updates with Method")

    def _go_by_second(self, update: int) -> None:
        """Go to the moment of an update of the second solve."""
        if self._first.trace is not None and self._second.trace is not None:
            self._go(matching_update(self._first.trace, self._second.trace, update, self.choice.same))

    def _clicked(self, card: ChartCard, point: dict[str, Any]) -> None:
        """Go to the end of an epoch that was clicked on a curve."""
        found = clicked_epoch(card.drawn, point)
        if found is not None:
            go = self._go if found[0] is self._first.trace else self._go_by_second
            go(found[1].update)

    def _interval_changed(self, interval: int) -> None:
        self.choice.interval = interval

    def _mark(self) -> None:
        """Move the lines of the curves, a few times a second while playing."""
        cursors = [cursor for side in self._sides if (cursor := side.cursor) is not None]
        for card in self._curves:
            at = list(dict.fromkeys(cursor.x(card.x_unit()) for cursor in cursors))
            if card.chart.cursor != at:
                card.chart.cursor = at

    def _describe(self) -> None:
        """Say what is shown, once the player has stopped."""
        for side in self._sides:
            side.advance()
            side.describe()
        self._mark()
        said = [words for side in self._sides if (words := side.why_earlier())]
        if len(self._traces) == 2 and not same_system(*self._traces):
            said.insert(0, "The two solves are of different systems.")
        self._note.param.update(object=escape(" ".join(said)), visible=bool(said))


def curve_cards(x: Callable[[], X], *, lecture: bool) -> list[ChartCard]:
    """Return the cards with a curve for each solve.

    Args:
        x: Function that returns the current unit of the x axis.
    """
    curves: dict[str, Any] = {"x_unit": x, "lecture": lecture}
    return [
        ChartCard(
            "Residual", "Lower is better. The line is the update that is shown; click a curve to move it.",
            lambda traces, theme: without_buttons(plots.residuals(traces, x=x(), theme=theme)), **curves,
        ),
        error_card(lambda traces, theme: without_buttons(plots.k_norm_error(traces, x=x(), theme=theme)), curves),
    ]  # fmt: skip
