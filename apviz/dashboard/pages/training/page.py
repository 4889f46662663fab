"""The page Training: σ², lengthscales and the cost of each step's solve, live or of a recorded training."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import panel as pn
from panel.viewable import Viewable

from apviz import plots
from apviz.dashboard.components.chart_card import ChartCard, steps_table
from apviz.dashboard.jobs.job import Job
from apviz.dashboard.jobs.job_bar import JobBar
from apviz.dashboard.jobs.training_job import TrainingJob
from apviz.dashboard.pages.base import HALF, Page, Shared
from apviz.dashboard.pages.training.launcher import Launcher
from apviz.dashboard.pages.training.picker import SelectedTraining, TrainingPicker, TrainingView
from apviz.dashboard.pages.training.step import StepDetails
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.shown import Notice, data_differences
from apviz.dashboard.settings.training import TrainingPlan, advanced_training_panel, training_panel
from apviz.dashboard.store.examples import PREFIX
from apviz.dashboard.store.trainings import Trainings
from apviz.plots._axes import without_buttons
from apviz.plots.models.lengthscales import has_lengthscales

#: Seconds between two checks whether a training changed on disk, and between two updates of the list of trainings.
LOOK_SECONDS, LIST_SECONDS = 1.0, 3.0


class Training(Page):
    """Page of one training, with all its steps and the solve of each step."""

    name = "training"
    title = "Training"
    asks = frozenset({"data"})
    settings_title = "Model and training"
    has_advanced = True

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.plan, self.choice = TrainingPlan(), TrainingView()
        self.models = [self.plan, self.choice]
        self.trainings = Trainings(shared.runs.path)
        self._next_look = self._next_list = 0.0
        self._bar = JobBar(self.start, self.stop, label="Start a training", is_running=lambda: self.has_running)
        self.notice = Notice(self.use_shown, "Start a training")
        self.fields = Fields(self._bar.show_problems, shared.system_panel.data_fields)
        self.launcher = Launcher(shared, self.trainings, self.plan, self._bar.refuse)
        self.selected = SelectedTraining(self.choice, self.trainings, self.launcher)
        self.picker = TrainingPicker(self.selected, self.select, self.go_on, self.change)
        self.step = StepDetails(self.selected, self.look_at)
        self.charts = TrainingCharts(shared, self.selected, self.look_at, self.draw_later)
        self.choice.param.watch(lambda event: self._chosen(), ["training"])
        self.choice.param.watch(lambda event: self._show_step(), ["step"])
        self.plan.param.watch(lambda event: self.picker.show(), ["steps"])

    @property
    def job(self) -> TrainingJob | None:
        """Return the job that runs, or the last one that ran."""
        return self.launcher.job

    # --- contents -------------------------------------------------------------------------------------------------

    def settings(self) -> list[Viewable]:
        return training_panel(self.plan, self.shared.system, self.fields)

    def settings_words(self) -> str:
        return f"{self.plan.steps:,} steps"

    def advanced(self) -> list[Viewable]:
        return advanced_training_panel(self.plan, self.shared.system, self.fields)

    def make_main(self) -> Viewable:
        cards = self.charts.cards
        return pn.Column(
            self._bar.view,
            self.notice.view,
            self.picker.view,
            pn.FlexBox(*(cards[name].view for name in OF_ALL_STEPS), sizing_mode="stretch_width"),
            self.picker.diagnosis.view,
            self.step.head,
            pn.FlexBox(cards["solve"].view, self.step.about, sizing_mode="stretch_width"),
            sizing_mode="stretch_width",
        )

    # --- events ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        names = self.trainings.names()
        if names and not self.choice.training:
            self.choice.training = self.shared.runs.first_of(names, self.shared.system.has)
        else:
            self._chosen()

    def redraw(self) -> None:
        self.charts.draw_steps()
        self._show_step()

    def use_shown(self) -> None:
        """Take over the data of the selected training, if they are here."""
        system, trace = self.shared.system, self.selected.trace
        if trace is not None and trace.attrs["dataset"] in system.param.dataset.objects:
            system.dataset = trace.attrs["dataset"]
            system.n = min(trace.attrs["n"], system.param.n.bounds[1])

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        trace = None if self.has_running else self.selected.trace
        self.notice.show(
            [] if trace is None else data_differences(self.shared.system, trace.attrs),
            is_here=trace is None or self.shared.system.has(str(trace.attrs["dataset"])),
            is_example=self.choice.training.startswith(PREFIX),
        )
        now = time.perf_counter()
        if now >= self._next_list:
            self._next_list = now + LIST_SECONDS
            self.picker.offer()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._refresh()
        self.draw_next()

    def _take(self, job: TrainingJob) -> None:
        """Take the new steps of the running training."""
        if job is not self.selected.job:
            return
        if not self._refresh() and self.selected.follows:
            self.charts.draw_solve()
        if not job.is_active:
            names = self.trainings.names()
            if job.trace is None and job.name not in names:  # it ended before its first step
                self.choice.training = next(iter(names), "")
            self.picker.show()

    def shows(self, job: Job) -> bool:
        return job is self.job

    def adopt(self, job: Job) -> None:
        if isinstance(job, TrainingJob) and (self.job is None or not self.job.is_active):
            self.launcher.job, self.choice.training = job, job.name

    def start(self) -> None:
        """Start a training with the current settings."""
        if self.fields.ready() and self.launcher.start_new():
            self._show_job()

    def go_on(self) -> None:
        """Take more steps of the selected training."""
        trace = self.selected.trace
        if trace is not None and self.fields.ready("steps") and self.launcher.extend(self.selected.name, trace):
            self._show_job()

    def change(self, change: Mapping[str, Any]) -> None:
        """Apply the proposal of the diagnosis: take more steps, or start a training with another setting."""
        if "steps" in change:
            self.plan.steps = min(change["steps"], self.plan.param.steps.bounds[1])
            self.go_on()
        elif self.selected.trace is not None and self.launcher.start_changed(self.selected.trace, change):
            self._show_job()

    def stop(self) -> None:
        """Ask the running job to stop."""
        self.launcher.stop()

    def _show_job(self) -> None:
        """Show the training that was just started."""
        job = self.job
        assert job is not None
        self.picker.offer()
        if self.choice.training == job.name:
            self.choice.step = None
            self.picker.show()
        else:
            self.choice.param.update(training=job.name, step=None)

    # --- selection ------------------------------------------------------------------------------------------------

    def select(self, name: str) -> None:
        """Show another training."""
        if name != self.choice.training:
            self.choice.param.update(training=name, step=None)

    def look_at(self, step: int | None) -> None:
        """Select a step, or with None always the last step."""
        self.choice.step = None if step is None else max(1, min(step, self.selected.steps))

    def _chosen(self) -> None:
        """Show the training that is now selected."""
        self.picker.offer()
        self.selected.forget()
        if not self._refresh(say=True):
            self._show()

    def _refresh(self, *, say: bool = False) -> bool:
        """Show what is new in the training. Return whether anything was; with `say`, show why opening fails."""
        try:
            is_new = self.selected.refresh()
        except (ValueError, OSError) as error:
            # A training whose folder is being replaced opens at the next check.
            if say:
                self._bar.refuse(str(error))
            return False
        if is_new:
            self._show()
        return is_new

    def _show(self) -> None:
        self.charts.draw_steps()
        self.picker.show()
        self._show_step()

    def _show_step(self) -> None:
        self.step.show()
        self.draw_later(self.step, self.step.show_numbers)
        self.charts.show_step()


#: Charts of the whole training; the remaining chart is of one step.
OF_ALL_STEPS = ("steps", "lengthscales")


class TrainingCharts:
    """Charts of all steps, with a line at the selected step, and the chart of that step's solve.

    Args:
        look_at: Called with the clicked step.
        draw_later: `Page.draw_later` of the page.
    """

    def __init__(
        self,
        shared: Shared,
        selected: SelectedTraining,
        look_at: Callable[[int], None],
        draw_later: Callable[[object, Callable[[], None]], None],
    ) -> None:
        self._shared, self._selected = shared, selected
        self._look_at, self._draw_later = look_at, draw_later
        self.cards = training_cards(lecture=shared.lecture)
        for card in self.cards.values():
            card.view.styles = HALF
        self._of_all_steps = [self.cards[name] for name in OF_ALL_STEPS]
        for card in self._of_all_steps:
            card.chart.param.watch(lambda event: self._clicked(event.new), "clicked")

    def draw_steps(self) -> None:
        """Draw the charts of all steps after new steps or another training."""
        for card in self._of_all_steps:
            self._draw_later(card, partial(self._draw_steps, card))

    def show_step(self) -> None:
        """Mark the selected step, and draw its solve."""
        trace = self._selected.trace
        for card in self.cards.values():
            card.view.visible = trace is not None and card.takes(trace)
        for card in self._of_all_steps:
            self._mark(card)
        self.draw_solve()

    def draw_solve(self) -> None:
        """Draw the solve of the selected step after new epochs or another solve."""
        self._draw_later(self.cards["solve"], self._draw_solve)

    def _draw_steps(self, card: ChartCard) -> None:
        trace = self._selected.trace
        card.show([] if trace is None else [trace], self._shared.theme)
        self._mark(card)

    def _mark(self, card: ChartCard) -> None:
        step = None if self._selected.follows else self._selected.step
        card.chart.cursor = [] if step is None else [float(step)]

    def _draw_solve(self) -> None:
        card, live, kept = self.cards["solve"], self._selected.live, self._selected.solve
        solves = [] if live is not None or kept is None else [kept]
        card.show(solves, self._shared.theme, [] if live is None else [live])
        card.view.visible = bool(solves) or live is not None

    def _clicked(self, point: dict[str, Any]) -> None:
        if self._selected.trace is not None and point.get("x") is not None:
            self._look_at(round(point["x"]))


def training_cards(*, lecture: bool) -> dict[str, ChartCard]:
    """Return the cards of the page, by name."""
    training: dict[str, Any] = {
        "takes": lambda trace: "step" in trace, "table": steps_table, "x_unit": lambda: "step", "axes": 420,
        "lecture": lecture,
    }  # fmt: skip
    return {
        "steps": ChartCard(
            "Noise and solves, step by step",
            "The smaller σ², the harder the solve. A cross marks a step whose solve did not converge; click a "
            "step to look at its solve.",
            lambda traces, theme: plots.training(traces, theme=theme), **training,
        ),
        "lengthscales": ChartCard(
            "Lengthscales, step by step",
            "Short: the target changes quickly along that input. Growing without end: the input does not matter.",
            lambda traces, theme: plots.lengthscales(traces, theme=theme),
            **training | {"takes": lambda trace: "step" in trace and has_lengthscales(trace)},
        ),
        "solve": ChartCard(
            "Residual of the solve of a step",
            "Lower is better. The thin line is the tolerance; a cross ends a solve that did not converge.",
            lambda traces, theme: without_buttons(plots.residuals(traces, x="epochs", theme=theme)),
            lecture=lecture,
        ),
    }  # fmt: skip
