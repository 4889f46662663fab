"""The page Compare: one system, many solvers, live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.components.cursor import Cursor, CursorBar, clicked_cursor, cursor_at, why_missing
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.tables import RunsTable
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.pages.base import HALF, Shared, SolvingPage
from apviz.dashboard.pages.compare.charts import GROWING, OF_ONE_RUN, compare_cards
from apviz.dashboard.settings.methods import MethodChoice, method_panel
from apviz.dashboard.settings.system_choice import system_panel
from apviz.dashboard.store.run_entry import is_solve
from apviz.tracing import Trace

#: runs in one set of charts
MAX_RUNS = 12


class CompareView(param.Parameterized):
    """Settings of what is looked at."""

    x = param.Selector(default="work", objects=["work", "epochs", "seconds"], label="x axis")
    runs = param.List([], item_type=str, label="runs that are shown")
    selected = param.String("", label="the run that is looked at in detail")
    update = param.Integer(None, allow_None=True, bounds=(0, None), label="the update of that run that is marked")


class Compare(SolvingPage):
    """Page of a comparison, on which a visitor lands."""

    name = "compare"
    title = "Compare"
    solving: ClassVar[str] = "a comparison"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.methods, self.choice = MethodChoice(), CompareView()
        self.models = [self.methods, self.choice]
        self._traces: dict[str, Trace] = {}
        self._turn = 0
        #: before it is opened, an address is still being read, part by part
        self._is_open = False
        self._table = RunsTable(self._select)
        self._diagnosis = DiagnosisCard(self.rerun)
        self._cursor = CursorBar(self._go)
        self._cards = compare_cards(lambda: self.choice.x, lecture=shared.lecture)
        for name, card in self._cards.items():
            card.chart.param.watch(lambda event, name=name: self._clicked(name, event.new), "clicked")
        #: filled as they are drawn, so that the browser has the first one soon
        self._charts = pn.Row(sizing_mode="stretch_width", styles={"flex-wrap": "wrap"})
        self._details = pn.Column(sizing_mode="stretch_width")
        self._everything: pn.Column | None = None
        self.choice.param.watch(lambda event: self._draw_all(), ["x"])
        self.choice.param.watch(lambda event: self._changed(), ["runs"])
        self.choice.param.watch(lambda event: self._show_selected(), ["selected"])
        self.choice.param.watch(lambda event: self._show_cursor(), ["update"])

    # --- what is on it --------------------------------------------------------------------------------------------

    def sidebar(self) -> list[Viewable]:
        return [
            *system_panel(self.shared.system, self.shared.folder, self.fields),
            *method_panel(self.methods, self.fields),
        ]

    def main(self) -> Viewable:
        if self._everything is None:
            x = pmui.RadioButtonGroup.from_param(
                self.choice.param.x, label="x axis of the curves", size="small", margin=(0, 12)
            )
            for card in self._cards.values():
                card.view.styles = HALF
            self._everything = pn.Column(
                self._bar.view, x, self._cursor.view, self._charts, self._details, sizing_mode="stretch_width"
            )
        return self._everything

    # --- what happens ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._is_open = True
        chosen = bool(self.choice.runs) or self.expects_runs or self.shared.awaits_first_runs
        newest = [] if chosen else self.shared.runs.newest_of_one_data_set(MAX_RUNS)
        if newest:
            self.choice.runs = newest
        else:
            self._changed()
        self.draw_next()

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        self.draw_next()

    def _take(self, job: ComparisonJob) -> None:
        """New runs of the job, or more of the one that goes on."""
        new = self.take_runs(job)
        if new:
            runs = list(dict.fromkeys([*self.choice.runs, *new]))[-MAX_RUNS:]
            self.choice.param.update(runs=runs, selected=new[-1], update=None)
        if job.live.trace is None:
            return
        first, *others = (self._cards[name] for name in GROWING)
        # the residual every time, of the others one in turn
        self._turn += 1
        self._draw_soon(first)
        self._draw_soon(others[self._turn % len(others)])

    def run(self) -> None:
        """Solves the chosen system by the chosen methods."""
        if not self.fields.ready():
            return
        try:
            spec = self.shared.system.spec()
            solvers = self.methods.solvers(spec.seed)
        except ValueError as error:
            self._bar.refuse(str(error))
            return
        if self.start(spec, solvers):
            self.choice.param.update(runs=[], selected="", update=None)

    def look_at(self, runs: Sequence[str], selected: str) -> None:
        """Shows these runs, and one of them in detail."""
        self.choice.param.update(runs=list(dict.fromkeys(runs)), selected=selected, update=None)

    # --- what is looked at ----------------------------------------------------------------------------------------

    def _select(self, name: str) -> None:
        self.choice.param.update(selected=name, update=None)

    def _changed(self) -> None:
        if not self._is_open:
            return
        found, problems = {}, []
        for name in self.choice.runs:
            try:
                trace = self.shared.runs.open(name)
            except (ValueError, OSError) as error:
                problems.append(str(error))
                continue
            if is_solve(trace):
                found[name] = trace
        self._traces = found
        # first, for the charts come onto the page in the order in which they are drawn
        self._draw_all()
        problems += self._drop_what_is_not_there()
        if problems:
            self._bar.refuse("; ".join(problems))
        self._show_selected()

    def _drop_what_is_not_there(self) -> list[str]:
        """Looks at another run, or at no update, where what is asked for is not among the runs; why, in sentences."""
        name, problems = self.choice.selected, []
        if name not in self._traces:
            # a cursor goes with its run; an address may name an update and no run
            update = None if name else self.choice.update
            self.choice.param.update(selected=next(iter(self._traces), ""), update=update)
            if name and name not in self.choice.runs:
                problems.append(f"{name} is none of the runs that are shown")
        trace, update = self._traces.get(self.choice.selected), self.choice.update
        if update is not None and cursor_at(trace, update) is None:
            self.choice.update = None
            problems.append(why_missing(trace, update))
        return problems

    def _show_selected(self) -> None:
        if not self._is_open:
            return
        self._cursor.show(self._traces.get(self.choice.selected), self._cursor_now())
        for name in OF_ONE_RUN:
            self._draw_soon(self._cards[name])
        self.draw_later(self._table, self._show_details)

    def _show_details(self) -> None:
        self._table.show(self._traces, self.choice.selected)
        self._diagnosis.show(self._traces.get(self.choice.selected), among=self._traces.values())
        if not len(self._details):
            self._details[:] = [self._diagnosis.view, self._table.view]

    def _draw_all(self) -> None:
        for card in self._cards.values():
            self._draw_soon(card)

    def _draw_soon(self, card: ChartCard) -> None:
        self.draw_later(card, lambda: self._draw(card))

    def _draw(self, card: ChartCard) -> None:
        live = self.job.live.trace if self.job is not None and self.job.is_active else None
        selected = self._traces.get(self.choice.selected)
        if card in [self._cards[name] for name in OF_ONE_RUN]:
            card.show([selected] if selected is not None else [], self.shared.theme)
        elif live is not None and card.traces == list(self._traces.values()) and card.theme == self.shared.theme:
            card.show_live(live, self.shared.theme)
        else:
            card.show(list(self._traces.values()), self.shared.theme, live)
        self._mark(card)
        if card.view not in self._charts.objects:
            self._charts.append(card.view)

    # --- the cursor -----------------------------------------------------------------------------------------------

    def _clicked(self, chart: str, point: dict[str, Any]) -> None:
        found = clicked_cursor(chart, point, self._cards[chart].drawn, self._traces)
        if found is not None:
            self.choice.param.update(selected=found[0], update=found[1].update)

    def _go(self, update: int | None) -> None:
        """Marks an update that was typed, if the run has it."""
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
