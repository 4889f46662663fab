"""Compare: one system, many solvers, live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
import plotly.graph_objects as go
from panel.viewable import Viewable

from apviz import plots
from apviz.dashboard.chart_card import ChartCard, updates_table
from apviz.dashboard.comparison_job import ComparisonJob
from apviz.dashboard.diagnosis_card import DiagnosisCard
from apviz.dashboard.job_bar import JobBar
from apviz.dashboard.method_panel import method_panel
from apviz.dashboard.methods import MethodChoice
from apviz.dashboard.moment import Moment, at_epoch, at_update, find
from apviz.dashboard.pages.base import HALF, Page
from apviz.dashboard.rerun import rerun
from apviz.dashboard.runs_table import RunsTable
from apviz.dashboard.session import Shared
from apviz.dashboard.system_panel import system_panel
from apviz.dashboard.systems import SystemSpec
from apviz.diagnosis import Diagnosis
from apviz.plots.parts.x_switch import without_buttons
from apviz.solvers import Solver
from apviz.tracing import Trace, TrainingTrace

#: runs in one set of charts
MOST_RUNS = 12
#: charts of the run that is looked at
OF_ONE_RUN = ("timeline", "blocks")


class CompareView(param.Parameterized):
    """What is looked at."""

    x = param.Selector(default="work", objects=["work", "epochs", "seconds"], label="x axis")
    runs = param.List([], item_type=str, label="runs that are shown")
    selected = param.String("", label="the run that is looked at in detail")
    update = param.Integer(None, allow_None=True, bounds=(0, None), label="the moment, an update of that run")


class Compare(Page):
    """The landing page."""

    name = "compare"
    title = "Compare"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.methods, self.choice = MethodChoice(), CompareView()
        self.models = [self.methods, self.choice]
        self.job: ComparisonJob | None = None
        self._traces: dict[str, Trace] = {}
        self._taken, self._turn = 0, 0
        self._bar = JobBar(self._run, self._stop)
        self._table = RunsTable(self._select)
        self._diagnosis = DiagnosisCard(self.rerun)
        self._moment = pmui.Typography("", variant="body2", margin=(4, 12), visible=False)
        self._cards = self._make_cards()
        for name, card in self._cards.items():
            card.chart.param.watch(lambda event, name=name: self._clicked(name, event.new), "clicked")
        #: filled as they are drawn, so that the browser has the first one soon
        self._charts = pn.Row(sizing_mode="stretch_width", styles={"flex-wrap": "wrap"})
        self._details = pn.Column(sizing_mode="stretch_width")
        self._everything: pn.Column | None = None
        self.choice.param.watch(lambda event: self._draw_all(), ["x"])
        self.choice.param.watch(lambda event: self._changed(), ["runs"])
        self.choice.param.watch(lambda event: self._show_selected(), ["selected"])
        self.choice.param.watch(lambda event: self._show_moment(), ["update"])

    # --- what is on it --------------------------------------------------------------------------------------------

    def sidebar(self) -> list[Viewable]:
        return [*system_panel(self.shared), *method_panel(self.methods)]

    def main(self) -> Viewable:
        if self._everything is None:
            x = pmui.RadioButtonGroup.from_param(
                self.choice.param.x, label="x axis of the curves", size="small", margin=(0, 12)
            )
            for card in self._cards.values():
                card.view.styles = HALF
            self._everything = pn.Column(
                self._bar.view, x, self._moment, self._charts, self._details, sizing_mode="stretch_width"
            )
        return self._everything

    def _make_cards(self) -> dict[str, ChartCard]:
        def unit() -> str:
            return str(self.choice.x)

        lecture = self.shared.lecture
        curves: dict[str, Any] = {"x_unit": unit, "lecture": lecture}
        return {
            "residuals": ChartCard(
                "Residual", "Down is better. The thin line is the tolerance; a cross ends a run that did not converge.",
                lambda traces, theme: without_buttons(plots.residuals(traces, x=self.choice.x, theme=theme)), **curves,
            ),
            "rmse": ChartCard(
                "Test error beside the residual",
                "Where the upper curve is flat, solving on no longer changes the predictions; a star says since when.",
                lambda traces, theme: _bare(plots.test_rmse(traces, x=self.choice.x, theme=theme)),
                takes=lambda trace: bool(trace["epoch"]["test_rmse"].notnull().any()), axes=420, **curves,
            ),
            "theory": ChartCard(
                "Error in the K-norm, and theory's bound",
                "The band is what the last residual leaves open. Dashed: Theorem 1 (κ′) and the bound of CG (κ).",
                lambda traces, theme: _bare(plots.k_norm_error(traces, x=self.choice.x, theme=theme)),
                **curves,
            ),
            "timeline": ChartCard(
                "Which block, when", "One mark an update of the run looked at; the colour is the energy it removed.",
                lambda traces, theme: plots.block_timeline(traces, theme=theme), takes=_has_blocks,
                table=updates_table, x_unit=lambda: "update", lecture=lecture,
            ),
            "blocks": ChartCard(
                "Where the residual is", "Residual norm of every block after every epoch, of the run looked at.",
                lambda traces, theme: plots.block_norms(traces, theme=theme), takes=_has_blocks,
                x_unit=lambda: "epochs", lecture=lecture,
            ),
            "time": ChartCard(
                "Time per update", "Median, quartiles and extremes of one update, or of one iteration of CG.",
                lambda traces, theme: plots.update_times(traces, theme=theme),
                takes=lambda trace: "update" in trace and trace["update"].sizes["update"] > 1, lecture=lecture,
            ),
        }  # fmt: skip

    # --- what happens ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        newest = self.shared.runs.newest_of_one_data_set(MOST_RUNS)
        if self.choice.runs or not newest:
            self._changed()
        else:
            self.choice.runs = newest
        self.draw_next()

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        self.draw_next()

    def _take(self, job: ComparisonJob) -> None:
        """New runs of the job, or more of the one that goes on."""
        if len(job.done) > self._taken:
            new, self._taken = job.done[self._taken :], len(job.done)
            runs = [*self.choice.runs, *new][-MOST_RUNS:]
            self.choice.param.update(runs=runs, selected=new[-1], update=None)
        live = job.live.trace
        if live is None:
            return
        shown = [card for name, card in self._cards.items() if name in ("residuals", "theory", "rmse")]
        # the residual every second time
        self._turn += 1
        card = shown[0] if self._turn % 2 else shown[1 + self._turn // 2 % (len(shown) - 1)]
        self._draw_soon(card)

    def _run(self) -> None:
        try:
            spec = self.shared.system.spec()
            solvers = self.methods.solvers(spec.seed)
        except ValueError as error:
            self._bar.refuse(str(error))
            return
        self.choice.param.update(runs=[], selected="", update=None)
        self._start(spec, solvers)

    def look_at(self, runs: Sequence[str], selected: str) -> None:
        """Shows these runs, and one of them in detail."""
        self.choice.param.update(runs=list(runs), selected=selected, update=None)

    def rerun(self, trace: Trace, diagnosis: Diagnosis) -> None:
        """Solves again what a run solved, with the change that its diagnosis proposes."""
        try:
            spec, solver = rerun(trace, diagnosis, self.shared.find_upload)
        except ValueError as error:
            self._bar.refuse(str(error))
            return
        self._start(spec, [solver])

    def _start(self, spec: SystemSpec, solvers: Sequence[Solver]) -> None:
        if self.job is not None and self.job.is_active:
            self._bar.refuse("a comparison is running; stop it first")
            return
        self.job = ComparisonJob(self.shared.gate, self.shared.limits, self.shared.runs, spec, solvers)
        self._taken = 0
        self.shared.start(self.job)

    def _stop(self) -> None:
        if self.job is not None:
            self.job.stop()

    # --- what is looked at ----------------------------------------------------------------------------------------

    def _select(self, name: str) -> None:
        self.choice.param.update(selected=name, update=None)

    def _changed(self) -> None:
        found, problems = {}, []
        for name in self.choice.runs:
            try:
                trace = self.shared.runs.open(name)
            except (ValueError, OSError) as error:
                problems.append(str(error))
                continue
            if not isinstance(trace, TrainingTrace):
                found[name] = trace
        if problems:
            self._bar.refuse("; ".join(problems))
        self._traces = found
        self._draw_all()
        self.draw_later(self._table, self._show_details)
        if self.choice.selected not in found:
            self.choice.selected = next(iter(found), "")

    def _show_selected(self) -> None:
        for name in OF_ONE_RUN:
            self._draw_soon(self._cards[name])
        self.draw_later(self._table, self._show_details)

    def _show_details(self) -> None:
        self._table.show(self._traces, self.choice.selected)
        self._diagnosis.show(self._traces.get(self.choice.selected))
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

    # --- a moment -------------------------------------------------------------------------------------------------

    def _clicked(self, chart: str, point: dict[str, Any]) -> None:
        """A point of a chart: the run it belongs to and the moment."""
        values, selected = point.get("values", []), self._traces.get(self.choice.selected)
        found: tuple[str, Moment | None] = (self.choice.selected, None)
        if chart == "timeline" and selected is not None:
            found = (self.choice.selected, at_update(selected, round(point["x"])))
        elif chart == "blocks" and selected is not None:
            found = (self.choice.selected, at_epoch(selected, round(point["x"])))
        elif len(values) > 2:
            hit = find(list(self._traces.values()), values[1])
            if hit is not None:
                found = (next(name for name, trace in self._traces.items() if trace is hit[0]), hit[1])
        name, moment = found
        if moment is not None:
            self.choice.param.update(selected=name, update=moment.update)

    def _moment_now(self) -> Moment | None:
        trace, number = self._traces.get(self.choice.selected), self.choice.update
        if trace is None or number is None:
            return None
        return at_update(trace, number) or at_epoch(trace, number)

    def _mark(self, card: ChartCard) -> None:
        moment, unit = self._moment_now(), card.x_unit()
        card.chart.moment = [moment.x(unit)] if moment is not None and unit else []

    def _show_moment(self) -> None:
        moment = self._moment_now()
        self._moment.visible = moment is not None
        if moment is not None:
            label = self._traces[self.choice.selected].label
            self._moment.object = (
                f"Moment marked in every chart: {label}, update {moment.update:,}, epoch {moment.epoch:,}, "
                f"work {moment.work:.4g}, {moment.seconds:.3g} s"
            )
        for card in self._cards.values():
            self._mark(card)


def _bare(figure: go.Figure) -> go.Figure:
    """Without the runs in its legend: the chart of the residuals names them."""
    figure.update_traces(showlegend=False, selector=lambda each: each.legendgroup)
    return without_buttons(figure)


def _has_blocks(trace: Trace) -> bool:
    return "block" in trace and "update" in trace and trace["epoch"].sizes["epoch"] > 1
