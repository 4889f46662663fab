"""The page Compare: one system, many solvers, live."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz import datasets
from apviz.advice import Advice
from apviz.dashboard import address
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.components.cursor import clicked_cursor
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import join_once_shown
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.jobs.job import Job
from apviz.dashboard.jobs.race_job import RaceJob
from apviz.dashboard.pages.base import Shared, SolvingPage
from apviz.dashboard.pages.compare.advice_card import AdviceCard
from apviz.dashboard.pages.compare.answer import Answer, Pinned
from apviz.dashboard.pages.compare.chart_area import ChartArea
from apviz.dashboard.pages.compare.charts import GROWING, NOTHING_YET, OF_ONE_RUN, SOLVING, compare_cards
from apviz.dashboard.pages.compare.curves import Curves
from apviz.dashboard.pages.compare.shown import MAX_RUNS, RACES, CompareView, best_run, elsewhere, of_one_data_set
from apviz.dashboard.preview import Preview
from apviz.dashboard.settings.methods import MethodChoice, advanced_method_panel, method_panel
from apviz.dashboard.settings.system_choice import MOST_SEEDS
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.store.examples import PREFIX, examples_in_words
from apviz.solvers import Solver
from apviz.tracing import Trace

#: Seconds that a browser has for the first chart before the others follow.
FIRST_SECONDS = 1.5


class Compare(SolvingPage):
    """Page of a comparison; the start page."""

    name = "compare"
    title = "Compare"
    solving: ClassVar[str] = "a comparison"
    settings_title = "Methods"
    takes_seeds = True

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.methods, self.choice = MethodChoice(), CompareView()
        self.models = [self.methods, self.choice]
        self._traces: dict[str, Trace] = {}
        #: Sentences on runs that were asked for, or shown before, and are not shown.
        self._not_shown: list[str] = []
        self._turn = 0
        #: Number of drawings of the first chart after which the others may follow, and the time limit for that wait.
        self._awaited, self._patience = 0, 0.0
        #: Runs that the page chose, not the visitor, and the settings that belong to them.
        self._by_default: tuple[list[str], dict[str, Any]] = ([], {})
        #: Before the page opens, the address is still being read, part by part.
        self._is_open = False
        self._answer = Answer(self._select, self.rerun, lecture=shared.lecture)
        self._curves = Curves(self._answer)
        #: Values of the methods with which the shown runs were made, as far as known.
        self._made_with: dict[str, Any] = {}
        self._diagnosis = DiagnosisCard(self.rerun)
        self._advice = AdviceCard(
            shared, self.methods, self.fields.ready, self._take_advice, self._measured_here,
            # nothing to warn of: the visitor changed no setting
            lambda: self._made_with.update(methods=self.methods.methods, ranks=self.methods.ranks),
        )  # fmt: skip
        self._pinned = Pinned()
        self._cards = compare_cards(
            lambda: self.choice.x, lambda: self.choice.scale == "log", self._name_curves,
            lambda traces: self._curves.in_order(traces, self._traces), lecture=shared.lecture,
        )  # fmt: skip
        for name, card in self._cards.items():
            card.chart.param.watch(lambda event, name=name: self._clicked(name, event.new), "clicked")
        self._area = ChartArea(self._cards, lambda: self.choice.param.update(more=not self.choice.more))
        self._show_more()
        watch, table = self.choice.param.watch, self._answer.table
        watch(lambda *events: self._draw_all(), ["x", "scale"])
        watch(lambda event: self._changed(), ["runs"])
        watch(lambda event: self._show_selected(), ["selected"])
        watch(lambda event: self._show_more(), ["more"])
        watch(lambda *events: self._show_curves(), ["pinned", "hidden"])
        table.param.watch(lambda *events: self._toggled(), ["pinned", "hidden"])

    # --- contents -------------------------------------------------------------------------------------------------

    def settings(self) -> list[Viewable]:
        order = pmui.Select.from_param(self.choice.param.order, sizing_mode="stretch_width")
        return [*method_panel(self.methods, self.fields), order]

    def settings_words(self) -> str:
        """Return the number of methods, and of their runs if settings or seeds multiply them."""
        count, seeds = len(self.methods.methods), self.shared.system.seed
        runs = self.methods.count_solvers() * len(dict.fromkeys(seeds))
        return f"{count} ticked" + (f", {runs} runs" if runs > count else "")

    def advanced(self) -> list[Viewable]:
        return advanced_method_panel(self.methods, self.fields)

    def make_main(self) -> Viewable:
        x, scale = (
            pmui.RadioButtonGroup.from_param(each, label="", size="small", margin=(4, 12, 4, 0))
            for each in (self.choice.param.x, self.choice.param.scale)
        )
        axis = pn.Row(x, scale, styles={"margin-left": "auto"})
        self._bar.row.extend([self._advice.button, axis])
        join_once_shown(self._bar.row, self._answer.action, before=self._advice.button)
        return pn.Column(
            self._answer.verdict, self._bar.view, self.notice.view, self._advice.view, self._area.top,
            self._pinned.view, self._area.more, self._area.below, sizing_mode="stretch_width",
        )  # fmt: skip

    # --- events ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._is_open = True
        untouched, before = self.shared.system.is_untouched, self.choice.runs
        if self.choice.runs:
            self._show_of_one_data_set(self.choice.runs, self.choice.selected)
        elif not self.expects_runs:
            newest = partial(self.shared.runs.newest_of_one_data_set, MAX_RUNS, has=self.shared.system.has)
            # the last visitor's runs may be of a table that this visitor does not know
            self.choice.runs = newest(prefix=PREFIX) or newest()
            if self.choice.runs and untouched:
                self._use_shown(with_methods=self.methods.is_untouched)
            self._by_default = list(self.choice.runs), self._settings() if untouched else {}
        elif untouched:
            self._by_default = [], self._settings()
        if self.choice.runs == before:  # otherwise shown already
            self._changed()
        if not self._made_with:
            self._made_with = self.methods.param.values()
        self.draw_next()

    def preview(self) -> Preview | None:
        chart = self._cards["residuals"].chart
        return Preview(*self._answer.said, chart.base) if chart.base else None

    def shown_runs(self) -> Sequence[Trace]:
        first = self._traces.get(self.choice.selected)
        return [*([first] if first is not None else []), *(each for each in self._traces.values() if each is not first)]

    @property
    def shows_examples_only(self) -> bool:
        return all(name.startswith(PREFIX) for name in self._traces)

    def use_shown(self) -> None:
        """Take over the settings of the runs shown: of their system, all their seeds, and their methods."""
        self._use_shown(with_methods=False)
        self.methods.param.update(**{name: value for name, value in self._made_with.items() if name != "name"})

    def _use_shown(self, *, with_methods: bool) -> None:
        super().use_shown()
        traces = self.shown_runs()
        seeds = sorted({seed for trace in traces if (seed := trace.attrs.get("seed")) is not None})
        if 0 < len(seeds) <= MOST_SEEDS:
            self.shared.system.param.update(seed=seeds)
        if with_methods:
            self.methods.adopt(traces)
            self._made_with = self.methods.param.values()

    def _settings(self) -> dict[str, Any]:
        return {**self.shared.system.param.values(), **self.methods.param.values()}

    def own_differences(self) -> list[str]:
        now = self.methods.param.values()
        return [
            f"other {self.methods.param[name].label.lower()}"
            for name, value in self._made_with.items() if now[name] != value
        ]  # fmt: skip

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        self._advice.show()
        self._suggest_a_step()
        shown, chosen = {str(trace.attrs["dataset"]) for trace in self._traces.values()}, self.shared.system.dataset
        what = "Stored example" if self.shows_examples_only else "Earlier runs"
        missing = chosen if shown and chosen not in shown else ""
        self._answer.name_data(missing, f"{what} ({', '.join(sorted(shown))})")
        self.show_differences()
        self._cards["residuals"].text.empty = SOLVING if self.has_running else NOTHING_YET
        if self._cards["residuals"].chart.drawn >= self._awaited or time.perf_counter() > self._patience:
            self.draw_next()

    def shows(self, job: Job) -> bool:
        return super().shows(job) or job is self._advice.job

    def adopt(self, job: Job) -> None:
        super().adopt(job)
        self._advice.adopt(job)
        if job is self.job and self._is_open and self.choice.runs == self._by_default[0]:
            # the page chose them before it knew of the job, whose runs they would mix with
            self._by_default = [], self._by_default[1]
            self.choice.param.update(runs=[], selected="", pinned=[], hidden=[])

    def _take(self, job: ComparisonJob) -> None:
        """Take new runs of the job, or new updates of the running solve."""
        new = self.take_runs(job)
        if new:
            self._show_of_one_data_set([*self.choice.runs, *new], new[-1])
        if self._settings() == self._by_default[1] and self.shared.system.has(job.dataset):
            # a visitor who came back to this job has set nothing since
            address.apply(job.asked, [self.shared.system, self.methods])
            self._made_with, self._by_default = self.methods.param.values(), ([], self._settings())
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
        if self.choice.more:
            self._draw_soon(others[self._turn % len(others)])

    def run(self) -> None:
        """Solve the selected system by the selected methods."""
        by = RACES.get(self.choice.order)
        race: dict[str, Any] = {} if by is None else {"kind": RaceJob, "by": by}
        current = self.current(lambda spec: self.methods.solvers(spec.seed))
        if current is None:
            return
        more = [seed for seed in dict.fromkeys(self.shared.system.seed) if seed != current[0].seed]
        race["more_seeds"] = {seed: self.methods.solvers(seed) for seed in more}
        if self.start(*current, **race):
            self._made_with, self._not_shown = self.methods.param.values(), []
            self.choice.param.update(runs=[], selected="", pinned=[], hidden=[], x=by or self.choice.x)

    def _take_advice(self, spec: SystemSpec, advice: Advice) -> None:
        self.start(spec, [advice.best.solver], advice=advice)

    def _suggest_a_step(self) -> None:
        """Fill one button only: for a visitor's table without a run, the one that finds a method."""
        system = self.shared.system
        is_own = system.dataset not in datasets.registry
        is_solved = any(trace.attrs["dataset"] == system.dataset for trace in self._traces.values())
        is_new = is_own and not is_solved and not self.has_running and self._advice.job is None
        self.notice.run = "Find the best method, or Run" if is_new else "Run"
        self._advice.suggest(system.dataset if is_new else "")
        self._bar.emphasise(not is_new)

    def _measured_here(self) -> list[Trace]:
        """Return the runs shown that were solved on this machine."""
        return [trace for name, trace in self._traces.items() if not name.startswith(PREFIX)]

    def start(
        self, spec: SystemSpec, solvers: Sequence[Solver], kind: type[ComparisonJob] = ComparisonJob, **options: Any
    ) -> bool:
        asked = address.to_query([self.shared.system, self.methods])
        started = super().start(spec, solvers, kind, asked=asked, **options)
        self._by_default = ([], {}) if started else self._by_default
        shown = self.shared.runs.data_of(self.choice.runs)
        if started and any(data != (spec.dataset, spec.n) for data in shown.values()):
            # no chart, headline or table mixes data sets
            self._not_shown = elsewhere(shown.values(), (spec.dataset, spec.n))
            self._show(self.shared.runs.newest_of_one_data_set(MAX_RUNS, data=(spec.dataset, spec.n)), "")
        return started

    def look_at(self, runs: Sequence[str], selected: str) -> None:
        """Show these runs as far as they are of one data set, and one of them in detail."""
        self._not_shown = []
        self._show_of_one_data_set(runs, selected)

    def _show_of_one_data_set(self, runs: Sequence[str], selected: str) -> None:
        """Show those of the runs that have the data of the selected one, and say which are left out."""
        names = list(dict.fromkeys(runs))
        data = self.shared.runs.data_of(names)
        kept, left_out = of_one_data_set(names, selected, data, lambda some: self.opened(some)[0])
        self._not_shown = self._not_shown if left_out is None else left_out
        self._show(kept, selected)

    def _show(self, runs: Sequence[str], selected: str) -> None:
        pinned, hidden = (
            [name for name in names if name in runs] for names in (self.choice.pinned, self.choice.hidden)
        )
        self.choice.param.update(runs=list(runs), selected=selected, pinned=pinned, hidden=hidden)

    # --- selection ------------------------------------------------------------------------------------------------

    def _select(self, name: str) -> None:
        # A running solve can be selected when it has ended.
        if name in self._traces:
            self.choice.selected = name

    def _changed(self) -> None:
        if not self._is_open:
            return
        self._traces, problems = self.opened(self.choice.runs)
        self._draw_all()
        problems += self._drop_what_is_not_there()
        if problems:
            self._bar.refuse("; ".join(problems))
        self._show_selected()

    def _drop_what_is_not_there(self) -> list[str]:
        """Select the best run if the requested one is missing. Return why, in sentences."""
        name = self.choice.selected
        if name in self._traces:
            return []
        self.choice.selected = best_run(self._traces)
        return [f"{name} is not among the runs shown"] if name and name not in self.choice.runs else []

    def _show_selected(self) -> None:
        if not self._is_open:
            return
        self._answer.table.selected = self.choice.selected
        if self.choice.more:
            self.draw_later(self._diagnosis, self._show_details)
            for name in OF_ONE_RUN:
                self._draw_soon(self._cards[name])

    def _show_answer(self) -> None:
        solving = self.job is not None and self.job.is_active
        stored = examples_in_words(self._traces)
        remark = " ".join([*([f"{stored} Press Run to solve here."] if stored else []), *self._not_shown])
        examples = [name for name in self._traces if name.startswith(PREFIX)]
        others = examples if len(examples) < len(self._traces) else []
        self._answer.show(self._traces, self.choice.selected, solving=solving, remark=remark, not_judged=others)
        self._answer.show_live(self._growing())
        if self._answer.runs not in self._area.top.objects:
            self._area.top.append(self._answer.runs)

    def _show_details(self) -> None:
        self._diagnosis.show(self._traces.get(self.choice.selected), among=self._traces.values())
        if not len(self._area.details):
            self._area.details.append(self._diagnosis.view)

    def _show_more(self) -> None:
        """Show or hide the other charts, which are drawn only while they are shown."""
        self._area.show_more(self.choice.more)
        if self.choice.more and self._is_open:
            self._draw_all()
            self._show_selected()

    # --- curves that are pinned or hidden ---------------------------------------------------------------------------

    def _toggled(self) -> None:
        """Take over what was pinned or hidden in the table."""
        self.choice.param.update(pinned=self._answer.table.pinned, hidden=self._answer.table.hidden)

    def _show_curves(self) -> None:
        self._answer.table.param.update(pinned=self.choice.pinned, hidden=self.choice.hidden)
        if self._is_open:
            self._draw_all()

    def _visible(self) -> list[Trace]:
        """Return the finished runs whose curves are drawn."""
        return [trace for name, trace in self._traces.items() if name not in self.choice.hidden]

    def _draw_all(self) -> None:
        first, *others = self._cards.values()

        def draw_top() -> None:
            # Draw both together, because the best curves stand out.
            self._show_answer()
            self._pinned.show(self._traces, self.choice.pinned)
            chart = first.chart
            drawn, before = chart.drawn, chart.base
            self._draw(first)
            # Keep the others behind the first chart; the browser does not report drawings of growing charts.
            if self.shared.has_browser and chart.base not in ("", before) and not self._growing():
                self._awaited, self._patience = drawn + 1, time.perf_counter() + FIRST_SECONDS

        self.draw_later(self._answer, draw_top)
        for card in others if self.choice.more else ():
            self._draw_soon(card)

    def _draw_soon(self, card: ChartCard) -> None:
        self.draw_later(card, lambda: self._draw(card))

    def _draw(self, card: ChartCard) -> None:
        selected, live = self._traces.get(self.choice.selected), list(self._growing().values())
        self._area.draw(card, self._visible(), selected, live, self.shared.theme)

    def _growing(self) -> dict[str, Trace]:
        """Return the running solves by their names."""
        return self.job.growing if self.job is not None and self.job.is_active else {}

    def _name_curves(self, traces: Sequence[Trace], styles: list[list[str]]) -> list[int] | None:
        return self._curves.show(traces, styles, self._traces, self._growing(), self.choice.pinned)

    def _clicked(self, chart: str, point: dict[str, Any]) -> None:
        """Select the run whose curve was clicked."""
        found = clicked_cursor(chart, point, self._cards[chart].drawn, self._traces)
        if found is not None:
            self.choice.selected = found[0]
