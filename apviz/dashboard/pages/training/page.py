"""Training: σ², lengthscales and what each step's solve took, live or of a training that is watched.

The charts of the page Training.

When the charts of the page Training are drawn, and the line in them at the step that is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import panel as pn
from panel.viewable import Viewable

from apviz import plots
from apviz.dashboard.components.chart_card import ChartCard, steps_table
from apviz.dashboard.jobs.job_bar import JobBar
from apviz.dashboard.jobs.step_job import StepJob
from apviz.dashboard.jobs.training_job import TrainingJob
from apviz.dashboard.pages.base import HALF, Page, Shared
from apviz.dashboard.pages.training.launcher import Starting
from apviz.dashboard.pages.training.picker import TrainingView, Watched, WhichTraining
from apviz.dashboard.pages.training.step import SolveOfStep, Solves
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.training import TrainingPlan, training_panel
from apviz.dashboard.store.trainings import Trainings
from apviz.plots._axes import without_buttons

#: charts of the whole training; the other is of one step
OF_ALL_STEPS = ("steps", "lengthscales")


def training_cards(*, lecture: bool) -> dict[str, ChartCard]:
    """By name."""
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
            "A short one: the target changes quickly along that input. One that keeps growing: the input does not "
            "matter.",
            lambda traces, theme: plots.lengthscales(traces, theme=theme), **training,
        ),
        "solve": ChartCard(
            "Residual of the solve of a step",
            "Down is better. The thin line is the tolerance; a cross ends a solve that did not converge.",
            lambda traces, theme: without_buttons(plots.residuals(traces, x="epochs", theme=theme)),
            lecture=lecture,
        ),
    }  # fmt: skip


class TrainingCharts:
    """The charts of all steps, and the one of the solve of a step.

    Args:
        look_at: called with the step that is clicked.
        draw_later: the page's.
    """

    def __init__(
        self,
        shared: Shared,
        watched: Watched,
        solves: Solves,
        look_at: Callable[[int], None],
        draw_later: Callable[[object, Callable[[], None]], None],
    ) -> None:
        self._shared, self._watched, self._solves = shared, watched, solves
        self._look_at, self._draw_later = look_at, draw_later
        self.cards = training_cards(lecture=shared.lecture)
        for card in self.cards.values():
            card.view.styles = HALF
        self._of_all_steps = [self.cards[name] for name in OF_ALL_STEPS]
        for card in self._of_all_steps:
            card.chart.param.watch(lambda event: self._clicked(event.new), "clicked")

    def draw_steps(self) -> None:
        """There are more of them, or others."""
        for card in self._of_all_steps:
            self._draw_later(card, partial(self._draw_steps, card))

    def show_step(self) -> None:
        """Another step is looked at, or there is no training."""
        for card in self.cards.values():
            card.view.visible = self._watched.trace is not None
        for card in self._of_all_steps:
            self._mark(card)
        self.draw_solve()

    def draw_solve(self) -> None:
        """There is more of the solve, or another."""
        self._draw_later(self.cards["solve"], self._draw_solve)

    def _draw_steps(self, card: ChartCard) -> None:
        trace = self._watched.trace
        card.show([] if trace is None else [trace], self._shared.theme)
        self._mark(card)

    def _mark(self, card: ChartCard) -> None:
        step = None if self._watched.follows else self._watched.step
        card.chart.cursor = [] if step is None else [float(step)]

    def _draw_solve(self) -> None:
        card, live = self.cards["solve"], self._solves.live
        solves = [] if live is not None and self._watched.follows else self._solves.kept
        card.show(solves, self._shared.theme, live)
        card.view.visible = bool(solves) or live is not None

    def _clicked(self, point: dict[str, Any]) -> None:
        if self._watched.trace is not None and point.get("x") is not None:
            self._look_at(round(point["x"]))


#: seconds between two looks at whether a training has changed on disk, and at which there are
LOOK, LIST = 1.0, 3.0


class Training(Page):
    """A training from its first step to its last, and the solve of any of them."""

    name = "training"
    title = "Training"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.plan, self.choice = TrainingPlan(), TrainingView()
        self.models = [self.plan, self.choice]
        self.trainings = Trainings(shared.runs.path)
        self._next_look = self._next_list = 0.0
        self._bar = JobBar(
            self.start, self.stop, label="Start a training",
            hint="Choose data and settings, then start; or choose a training below to look at it, or to go on with it.",
        )  # fmt: skip
        self.fields = Fields(self._bar.show_problems)
        self.starting = Starting(shared, self.trainings, self.plan, self._bar.refuse)
        self.watched = Watched(self.choice, self.trainings, self.starting)
        self.solves = Solves(self.watched, self.starting)
        self.which = WhichTraining(self.watched, self.select, self.go_on, self.change)
        self.step = SolveOfStep(self.watched, self.solves, self.look_at, self.solve_again)
        self.charts = TrainingCharts(shared, self.watched, self.solves, self.look_at, self.draw_later)
        self._everything: pn.Column | None = None
        self.choice.param.watch(lambda event: self._chosen(), ["training"])
        self.choice.param.watch(lambda event: self._show_step(), ["step"])
        self.plan.param.watch(lambda event: self.which.show(), ["steps"])

    @property
    def job(self) -> TrainingJob | StepJob | None:
        """What runs, or ran last."""
        return self.starting.job

    # --- what is on it --------------------------------------------------------------------------------------------

    def sidebar(self) -> list[Viewable]:
        return training_panel(self.plan, self.shared.system, self.shared.folder, self.fields)

    def main(self) -> Viewable:
        if self._everything is None:
            cards = self.charts.cards
            self._everything = pn.Column(
                self._bar.view,
                self.which.view,
                pn.FlexBox(*(cards[name].view for name in OF_ALL_STEPS), sizing_mode="stretch_width"),
                self.which.diagnosis.view,
                self.step.head,
                pn.FlexBox(cards["solve"].view, self.step.about, sizing_mode="stretch_width"),
                sizing_mode="stretch_width",
            )
        return self._everything

    # --- what happens ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        names = self.trainings.names()
        if names and not self.choice.training:
            self.choice.training = names[0]
        else:
            self._chosen()

    def redraw(self) -> None:
        self.charts.draw_steps()
        self._show_step()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        now = time.perf_counter()
        if now >= self._next_list:
            self._next_list = now + LIST
            self.which.offer()
        if now >= self._next_look:
            self._next_look = now + LOOK
            self._look()
        self.draw_next()

    def _take(self, job: TrainingJob | StepJob) -> None:
        """More of the training that runs, or of a solve that is done again."""
        if isinstance(job, StepJob):
            if self.solves.keep(job):
                self._show_step()
            else:
                self.charts.draw_solve()
        elif job is self.watched.job:
            if not self._look() and self.watched.follows:
                self.charts.draw_solve()
            if not job.is_active:
                names = self.trainings.names()
                if job.trace is None and job.name not in names:  # it ended before its first step
                    self.choice.training = next(iter(names), "")
                self.which.show()

    def start(self) -> None:
        """A new training, with the settings as they are."""
        if self.fields.ready() and self.starting.new():
            self._show_job()

    def go_on(self) -> None:
        """More steps of the training that is shown."""
        trace = self.watched.trace
        if trace is not None and self.fields.ready("steps") and self.starting.longer(self.watched.name, trace):
            self._show_job()

    def change(self, change: Mapping[str, Any]) -> None:
        """What the diagnosis proposes: more steps of the training that is shown, or a new one with another setting."""
        if "steps" in change:
            self.plan.steps = min(change["steps"], self.plan.param.steps.bounds[1])
            self.go_on()
        elif self.watched.trace is not None and self.starting.changed(self.watched.trace, change):
            self._show_job()

    def solve_again(self, change: Mapping[str, Any]) -> None:
        """The solve of the step that is looked at, as it was or with a setting changed."""
        trace, step = self.watched.trace, self.watched.step
        if trace is not None and step is not None and self.starting.again(self.watched.name, trace, step, change):
            # the last step moves on while others are taken
            self.choice.step = step

    def stop(self) -> None:
        """Asks what runs to stop."""
        self.starting.stop()

    def _show_job(self) -> None:
        """The training that was just started."""
        job = self.job
        assert job is not None
        self.which.offer()
        if self.choice.training == job.name:
            self.choice.step = None
            self.which.show()
        else:
            self.choice.param.update(training=job.name, step=None)

    # --- what is looked at ----------------------------------------------------------------------------------------

    def select(self, name: str) -> None:
        """Shows another training."""
        if name != self.choice.training:
            self.choice.param.update(training=name, step=None)

    def look_at(self, step: int | None) -> None:
        """Looks at a step, or always at the last."""
        self.choice.step = None if step is None else max(1, min(step, self.watched.steps))

    def _chosen(self) -> None:
        """Another training is to be shown."""
        self.which.offer()
        self.watched.forget()
        if not self._look(say=True):
            self._show()

    def _look(self, *, say: bool = False) -> bool:
        """Shows what is new of the training, and whether there was anything; `say` why it does not open."""
        try:
            is_new = self.watched.look()
        except (ValueError, OSError) as error:
            # one that is just being put in its place opens at the next look
            if say:
                self._bar.refuse(str(error))
            return False
        if is_new:
            self._show()
        return is_new

    def _show(self) -> None:
        self.charts.draw_steps()
        self.which.show()
        self._show_step()

    def _show_step(self) -> None:
        self.step.show()
        self.draw_later(self.step, self.step.show_numbers)
        self.charts.show_step()
