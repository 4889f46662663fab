"""The page Compare: one system, many solvers, live."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.advice import Advice
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.components.cursor import Cursor, CursorBar, clicked_cursor, cursor_at, why_missing
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.tables import RunsTable
from apviz.dashboard.first_sight import FirstSight
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.jobs.job import Job
from apviz.dashboard.jobs.race_job import RaceJob
from apviz.dashboard.pages.base import HALF, Shared, SolvingPage
from apviz.dashboard.pages.compare.advice_card import AdviceCard
from apviz.dashboard.pages.compare.answer import Answer
from apviz.dashboard.pages.compare.charts import GROWING, OF_ONE_RUN, compare_cards
from apviz.dashboard.settings.methods import MethodChoice, method_panel
from apviz.dashboard.settings.systems import SystemSpec
from apviz.plots._still import still
from apviz.racing import By
from apviz.tracing import Trace

#: Maximum number of runs in one set of charts.
MAX_RUNS = 12
#: Seconds that a browser has for the first chart before the others follow.
FIRST_SECONDS = 1.5


#: Styles of the first chart and the table next to it, on a desktop with the settings open, and on a projector.
SIDE_BY_SIDE = [{"flex": "1 1 440px", "min-width": "min(100%, 340px)"}] * 2
SIDE_BY_SIDE_LECTURE = [
    {"flex": f"{share} 1 {width}px", "min-width": "min(100%, 340px)"} for share, width in ((3, 480), (2, 340))
]
#: Ways to run several methods at once, and the measure of each.
RACES: dict[str, By] = {"race on work": "work", "race on seconds": "seconds"}


class CompareView(param.Parameterized):
    """Settings of the view."""

    x = param.Selector(default="work", objects=["work", "epochs", "seconds"], label="x axis")
    order = param.Selector(default="one by one", objects=["one by one", *RACES], label="Methods run")
    runs = param.List([], item_type=str, label="runs that are shown")
    selected = param.String("", label="the run that is looked at in detail")
    update = param.Integer(None, allow_None=True, bounds=(0, None), label="the update of that run that is marked")


class Compare(SolvingPage):
    """Page of a comparison; the start page."""

    name = "compare"
    title = "Compare"
    solving: ClassVar[str] = "a comparison"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.methods, self.choice = MethodChoice(), CompareView()
        self.models = [self.methods, self.choice]
        self._traces: dict[str, Trace] = {}
        self._turn = 0
        #: Number of drawings of the first chart after which the others may follow, and the time limit for that wait.
        self._awaited, self._patience = 0, 0.0
        #: Before the page opens, the address is still being read, part by part.
        self._is_open = False
        self._answer = Answer(self._select, lecture=shared.lecture)
        self._styles: dict[str, list[str]] = {}
        self._table = RunsTable(self._select)
        self._diagnosis = DiagnosisCard(self.rerun)
        self._advice = AdviceCard(shared, self.methods, self.fields.ready, self._take_advice)
        self._cursor = CursorBar(self._go)
        self._cards = compare_cards(lambda: self.choice.x, self._name_curves, lecture=shared.lecture)
        for name, card in self._cards.items():
            card.chart.param.watch(lambda event, name=name: self._clicked(name, event.new), "clicked")
        #: These are filled as charts are drawn, so that the browser gets the first one soon.
        self._top, self._charts, self._of_one_run = (
            pn.Row(sizing_mode="stretch_width", styles={"flex-wrap": "wrap"}) for _ in range(3)
        )
        self._details, self._numbers = (pn.Column(sizing_mode="stretch_width") for _ in range(2))
        self._everything: pn.Column | None = None
        self.choice.param.watch(lambda event: self._draw_all(), ["x"])
        self.choice.param.watch(lambda event: self._changed(), ["runs"])
        self.choice.param.watch(lambda event: self._show_selected(), ["selected"])
        self.choice.param.watch(lambda event: self._show_cursor(), ["update"])

    # --- contents -------------------------------------------------------------------------------------------------

    def sidebar(self) -> list[Viewable]:
        return [
            *([self._advice.button] if self.shared.lecture else []),
            *method_panel(self.methods, self.fields),
            pmui.Select.from_param(self.choice.param.order, sizing_mode="stretch_width"),
        ]

    def main(self) -> Viewable:
        if self._everything is None:
            x = pmui.RadioButtonGroup.from_param(self.choice.param.x, label="x axis", size="small", margin=(0, 12))
            # On a projector the bar has no room for another button.
            self._bar.row.extend([x] if self.shared.lecture else [self._advice.button, x])
            for card in self._cards.values():
                card.view.styles = HALF
            styles = SIDE_BY_SIDE_LECTURE if self.shared.lecture else SIDE_BY_SIDE
            self._cards["residuals"].view.styles, self._answer.runs.styles = styles
            self._everything = pn.Column(
                self._bar.view, self._advice.view, self._answer.verdict, self._top, self._details, self._charts,
                self._cursor.view, self._of_one_run, self._numbers, sizing_mode="stretch_width",
            )  # fmt: skip
        return self._everything

    # --- events ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._is_open = True
        chosen = bool(self.choice.runs) or self.expects_runs or self.shared.awaits_first_runs
        newest = [] if chosen else self.shared.runs.newest_of_one_data_set(MAX_RUNS)
        if newest:
            self.choice.runs = newest
        else:
            self._changed()
        self.draw_next()

    def first_sight(self) -> FirstSight | None:
        figure = self._cards["residuals"].figure
        return FirstSight(self._answer.still(still(figure, self.shared.theme)), "chart") if figure else None

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        self._advice.show()
        if self._cards["residuals"].chart.drawn >= self._awaited or time.perf_counter() > self._patience:
            self.draw_next()

    def shows(self, job: Job) -> bool:
        return super().shows(job) or job is self._advice.job

    def adopt(self, job: Job) -> None:
        super().adopt(job)
        self._advice.adopt(job)

    def _take(self, job: ComparisonJob) -> None:
        """Take new runs of the job, or new updates of the running solve."""
        new = self.take_runs(job)
        if new:
            runs = list(dict.fromkeys([*self.choice.runs, *new]))[-MAX_RUNS:]
            self.choice.param.update(runs=runs, selected=new[-1], update=None)
        # The table is cheap, and pending charts take long while a solve runs, so update it at once.
        if new or not job.is_active:
            self._show_answer()
        if not self._growing():
            return
        self._answer.show_live(self._growing())
        first, *others = (self._cards[name] for name in GROWING)
        # Draw the residual every time, and the other charts in turn.
        self._turn += 1
        self._draw_soon(first)
        self._draw_soon(others[self._turn % len(others)])

    def run(self) -> None:
        """Solve the selected system by the selected methods."""
        by = RACES.get(self.choice.order)
        race: dict[str, Any] = {} if by is None else {"kind": RaceJob, "by": by}
        current = self.current(lambda spec: self.methods.solvers(spec.seed))
        if current is not None and self.start(*current, **race):
            self.choice.param.update(runs=[], selected="", update=None, x=by or self.choice.x)

    def _take_advice(self, spec: SystemSpec, advice: Advice) -> None:
        self.start(spec, [advice.best.solver], advice=advice)

    def look_at(self, runs: Sequence[str], selected: str) -> None:
        """Show these runs, and one of them in detail."""
        self.choice.param.update(runs=list(dict.fromkeys(runs)), selected=selected, update=None)

    # --- selection ------------------------------------------------------------------------------------------------

    def _select(self, name: str) -> None:
        # A running solve can be selected when it has ended.
        if name in self._traces:
            self.choice.param.update(selected=name, update=None)

    def _changed(self) -> None:
        if not self._is_open:
            return
        self._traces, problems = self.opened(self.choice.runs)
        # Draw first, because charts appear on the page in the order of drawing.
        self._draw_all()
        problems += self._drop_what_is_not_there()
        if problems:
            self._bar.refuse("; ".join(problems))
        self._show_selected()

    def _drop_what_is_not_there(self) -> list[str]:
        """Select another run or no update if the requested one is missing. Return why, in sentences."""
        name, problems = self.choice.selected, []
        if name not in self._traces:
            # A cursor belongs to its run; an address may name an update and no run.
            update = None if name else self.choice.update
            self.choice.param.update(selected=next(iter(self._traces), ""), update=update)
            if name and name not in self.choice.runs:
                problems.append(f"{name} is not among the runs shown")
        trace, update = self._traces.get(self.choice.selected), self.choice.update
        if update is not None and cursor_at(trace, update) is None:
            self.choice.update = None
            problems.append(why_missing(trace, update))
        return problems

    def _show_selected(self) -> None:
        if not self._is_open:
            return
        self._cursor.show(self._traces.get(self.choice.selected), self._cursor_now())
        self.draw_later(self._diagnosis, self._show_details)
        for name in OF_ONE_RUN:
            self._draw_soon(self._cards[name])
        self.draw_later(self._table, self._show_numbers)

    def _show_answer(self) -> None:
        solving = self.job is not None and self.job.is_active
        self._answer.show(self._traces, self.choice.selected, solving=solving)
        self._answer.show_live(self._growing())
        if self._answer.runs not in self._top.objects:
            self._top.append(self._answer.runs)

    def _show_details(self) -> None:
        self._answer.table.selected = self.choice.selected
        self._diagnosis.show(self._traces.get(self.choice.selected), among=self._traces.values())
        if not len(self._details):
            self._details.append(self._diagnosis.view)

    def _show_numbers(self) -> None:
        self._table.show(self._traces, self.choice.selected)
        if not len(self._numbers):
            self._numbers.append(self._table.view)

    def _draw_all(self) -> None:
        first, *others = self._cards.values()

        def draw_top() -> None:
            # Draw both together, because the chart fills the window below the verdict and next to the table.
            self._show_answer()
            chart = first.chart
            drawn, before = chart.drawn, chart.base
            self._draw(first)
            # Keep the others behind the first chart; the browser does not report drawings of growing charts.
            if self.shared.has_browser and chart.base not in ("", before) and not self._growing():
                self._awaited, self._patience = drawn + 1, time.perf_counter() + FIRST_SECONDS

        self.draw_later(self._answer, draw_top)
        for card in others:
            self._draw_soon(card)

    def _draw_soon(self, card: ChartCard) -> None:
        self.draw_later(card, lambda: self._draw(card))

    def _draw(self, card: ChartCard) -> None:
        live = list(self._growing().values())
        selected = self._traces.get(self.choice.selected)
        of_one_run = card in [self._cards[name] for name in OF_ONE_RUN]
        if of_one_run:
            card.show([selected] if selected is not None else [], self.shared.theme)
        elif live and card.traces == list(self._traces.values()) and card.theme == self.shared.theme:
            card.show_live(live, self.shared.theme)
        else:
            card.show(list(self._traces.values()), self.shared.theme, live)
        self._mark(card)
        is_first = card is self._cards["residuals"]
        place = self._top if is_first else self._of_one_run if of_one_run else self._charts
        if card.view not in place.objects:
            place.insert(0 if is_first else len(place), card.view)

    def _growing(self) -> dict[str, Trace]:
        """Return the running solves by their names."""
        return self.job.growing if self.job is not None and self.job.is_active else {}

    def _name_curves(self, traces: Sequence[Trace], styles: list[list[str]]) -> None:
        """Show the looks of the runs' curves in the table."""
        names = {id(trace): name for name, trace in (self._growing() | self._traces).items()}
        drawn = {names[id(trace)]: style for trace, style in zip(traces, styles, strict=True) if id(trace) in names}
        self._styles = {name: style for name, style in self._styles.items() if name in names.values()} | drawn
        self._answer.name_curves(self._styles)

    # --- the cursor -----------------------------------------------------------------------------------------------

    def _clicked(self, chart: str, point: dict[str, Any]) -> None:
        found = clicked_cursor(chart, point, self._cards[chart].drawn, self._traces)
        if found is not None:
            self.choice.param.update(selected=found[0], update=found[1].update)

    def _go(self, update: int | None) -> None:
        """Mark an update that was typed, if the run has it."""
        trace = self._traces.get(self.choice.selected)
        if trace is None or update == self.choice.update:
            return
        if update is not None and cursor_at(trace, update) is None:
            self._bar.refuse(why_missing(trace, update))
            self._show_cursor()
            return
        self.choice.update = update

    def _cursor_now(self) -> Cursor | None:
        return cursor_at(self._traces.get(self.choice.selected), self.choice.update)

    def _mark(self, card: ChartCard) -> None:
        cursor, unit = self._cursor_now(), card.x_unit()
        card.chart.cursor = [cursor.x(unit)] if cursor is not None and unit else []

    def _show_cursor(self) -> None:
        self._cursor.show(self._traces.get(self.choice.selected), self._cursor_now())
        for card in self._cards.values():
            self._mark(card)
