"""Training: σ², lengthscales and what each step's solve took, live or of a training that is watched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import panel as pn
import param
from panel.viewable import Viewable

from apviz.dashboard.charts.chart_card import ChartCard
from apviz.dashboard.jobs.job_bar import JobBar
from apviz.dashboard.jobs.step_job import StepJob
from apviz.dashboard.jobs.training_job import TrainingJob
from apviz.dashboard.pages.base import HALF, Page
from apviz.dashboard.pages.shared import Shared
from apviz.dashboard.pages.training.figures import OF_ALL_STEPS, training_cards
from apviz.dashboard.pages.training.solve_of_step import SolveOfStep
from apviz.dashboard.pages.training.solves import Solves, live_solve
from apviz.dashboard.pages.training.starting import Starting
from apviz.dashboard.pages.training.which import WhichTraining
from apviz.dashboard.runs.trainings import Trainings
from apviz.dashboard.settings.training_panel import training_panel
from apviz.dashboard.settings.training_plan import TrainingPlan
from apviz.tracing import Trace, TrainingTrace

#: seconds between two looks at whether a training has changed on disk, and at which there are
LOOK, LIST = 1.0, 3.0


class TrainingView(param.Parameterized):
    """What is looked at."""

    training = param.String("", label="the training that is shown")
    step = param.Integer(None, allow_None=True, bounds=(1, None), label="the step whose solve is shown; none: the last")


class Training(Page):
    """A training from its first step to its last, and the solve of any of them."""

    name = "training"
    title = "Training"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.plan, self.choice = TrainingPlan(), TrainingView()
        self.models = [self.plan, self.choice]
        self.trainings = Trainings(shared.runs.path)
        self.trace: TrainingTrace | None = None
        self._opened: tuple[str, float] = ("", 0.0)
        self._next_look = self._next_list = 0.0
        self._bar = JobBar(
            self.start, self.stop, label="Start a training",
            hint="Choose data and settings, then start; or choose a training below to look at it, or to go on with it.",
        )  # fmt: skip
        self.starting = Starting(shared, self.trainings, self.plan, self._bar.refuse)
        self._solves = Solves()
        self.which = WhichTraining(self.select, self.go_on, self.change)
        self.step = SolveOfStep(self.look_at, self.solve_again)
        self._cards = training_cards(lecture=shared.lecture)
        for name in OF_ALL_STEPS:
            self._cards[name].chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self._everything: pn.Column | None = None
        self.choice.param.watch(lambda event: self._chosen(), ["training"])
        self.choice.param.watch(lambda event: self._show_step(), ["step"])
        self.plan.param.watch(lambda event: self._show_state(), ["steps"])

    @property
    def job(self) -> TrainingJob | StepJob | None:
        """What runs, or ran last."""
        return self.starting.job

    # --- what is on it --------------------------------------------------------------------------------------------

    def sidebar(self) -> list[Viewable]:
        return training_panel(self.plan, self.shared.system, self.shared.folder)

    def main(self) -> Viewable:
        if self._everything is None:
            for each in (*(card.view for card in self._cards.values()), self.step.about):
                each.styles = HALF
            self._everything = pn.Column(
                self._bar.view,
                self.which.view,
                pn.FlexBox(*(self._cards[name].view for name in OF_ALL_STEPS), sizing_mode="stretch_width"),
                self.which.diagnosis.view,
                self.step.head,
                pn.FlexBox(self._cards["solve"].view, self.step.about, sizing_mode="stretch_width"),
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
        self._draw_steps()
        self._show_step()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        now = time.perf_counter()
        if now >= self._next_list:
            self._next_list = now + LIST
            self._offer()
        if now >= self._next_look:
            self._next_look = now + LOOK
            self._look_at_disk()
        self.draw_next()

    def _take(self, job: TrainingJob | StepJob) -> None:
        """More of the training that runs, or of a solve that is done again."""
        if isinstance(job, StepJob):
            if self._solves.keep(job):
                self._show_step()
            else:
                self._draw_solve()
            return
        if job.name != self.choice.training:
            return
        if job.trace is not None and job.trace is not self.trace:
            self._show(job.trace)
        elif self.choice.step is None:
            self._draw_solve()
        if not job.is_active:
            if job.trace is None:  # it ended before its first step
                self.choice.training = next(iter(self.trainings.names()), "")
            self._show_state()

    def start(self) -> None:
        """A new training, with the settings as they are."""
        if self.starting.new():
            self._show_job()

    def go_on(self) -> None:
        """More steps of the training that is shown."""
        if self.trace is not None and self.starting.longer(self.choice.training, self.trace):
            self._show_job()

    def change(self, change: Mapping[str, Any]) -> None:
        """What the diagnosis proposes: more steps of the training that is shown, or a new one with another setting."""
        if "steps" in change:
            self.plan.steps = min(change["steps"], self.plan.param.steps.bounds[1])
            self.go_on()
        elif self.trace is not None and self.starting.changed(self.trace, change):
            self._show_job()

    def solve_again(self, change: Mapping[str, Any]) -> None:
        """The solve of the step that is looked at, as it was or with a setting changed."""
        trace, step = self.trace, self._step_now()
        if trace is not None and step is not None and self.starting.again(self.choice.training, trace, step, change):
            # the last step moves on while others are taken
            self.choice.step = step

    def stop(self) -> None:
        """Asks what runs to stop."""
        self.starting.stop()

    def _show_job(self) -> None:
        """The training that was just started."""
        job = self.job
        assert job is not None
        self._offer()
        if self.choice.training == job.name:
            self.choice.step = None
            self._show_state()
        else:
            self.choice.param.update(training=job.name, step=None)

    # --- which training -------------------------------------------------------------------------------------------

    def _own(self) -> TrainingJob | None:
        """The job that is at the training that is shown, or was."""
        job = self.job
        return job if isinstance(job, TrainingJob) and job.name == self.choice.training else None

    def _offer(self) -> None:
        names, job = self.trainings.names(), self.job
        if isinstance(job, TrainingJob) and job.is_active and job.name not in names:
            names = [job.name, *names]
        if self.choice.training and self.choice.training not in names:
            names = [self.choice.training, *names]
        self.which.offer(names, self.choice.training)

    def select(self, name: str) -> None:
        """Shows another training."""
        if name != self.choice.training:
            self.choice.param.update(training=name, step=None)

    def _chosen(self) -> None:
        """Another training is to be shown."""
        self._offer()
        self.trace, self._opened = None, ("", 0.0)
        job = self._own()
        if job is not None and job.trace is not None:
            self._show(job.trace)
            return
        if self.choice.training and job is None:
            self._look_at_disk(say=True)
        if self.trace is None:
            self._draw_steps()
            self._show_state()
            self._show_step()

    def _look_at_disk(self, *, say: bool = False) -> None:
        """Opens the training again if it has changed; `say` why it does not open, if it does not."""
        name, job = self.choice.training, self._own()
        if not name or (job is not None and (job.is_active or job.trace is not None)):
            return
        try:
            changed = self.trainings.changed(name)
            if self._opened == (name, changed):
                return
            trace = self.trainings.open(name)
        except (ValueError, OSError) as error:
            # one that is just being put in its place opens at the next look
            if say:
                self._bar.refuse(str(error))
            return
        self._opened = (name, changed)
        self._show(trace)

    def _show(self, trace: TrainingTrace) -> None:
        self.trace = trace
        self._draw_steps()
        self._show_state()
        self._show_step()

    def _show_state(self) -> None:
        """What has become of the training, in words, and whether it can go on."""
        job = self._own()
        running = job is not None and job.is_active
        goal = None if self.trace is None or running else self.starting.goal(self.choice.training, self.trace)
        self.which.show(self.trace, running=running, goal=goal)

    def _draw_steps(self) -> None:
        for name in OF_ALL_STEPS:
            self.draw_later(card := self._cards[name], lambda card=card: self._draw(card))  # type: ignore[misc]

    def _draw(self, card: ChartCard) -> None:
        card.show([self.trace] if self.trace is not None else [], self.shared.theme)
        self._mark(card)

    # --- which step -----------------------------------------------------------------------------------------------

    def look_at(self, step: int | None) -> None:
        """Looks at a step, or always at the last."""
        self.choice.step = None if step is None else max(1, min(step, self._steps()))

    def _steps(self) -> int:
        return 0 if self.trace is None else int(self.trace["step"]["step"].values[-1])

    def _step_now(self) -> int | None:
        """The step that is looked at: the chosen one, else the last."""
        done = self._steps()
        return None if not done else min(self.choice.step or done, done)

    def _clicked(self, point: dict[str, Any]) -> None:
        if self.trace is not None and point.get("x") is not None:
            self.look_at(round(point["x"]))

    def _solves_now(self) -> list[Trace]:
        return self._solves.of(self.choice.training, self._step_now(), self.job)

    def _mark(self, card: ChartCard) -> None:
        card.chart.moment = [] if self.choice.step is None or self.trace is None else [float(self._step_now() or 0)]

    def _show_step(self) -> None:
        trace, step = self.trace, self._step_now()
        for card in self._cards.values():
            card.view.visible = trace is not None
        for name in OF_ALL_STEPS:
            self._mark(self._cards[name])
        if trace is None or step is None:
            self.step.hide()
        else:
            self.step.show(
                step, self._solves_now(), last=step == self._steps(), follows=self.choice.step is None,
                warm=self.starting.is_warm(trace),
            )  # fmt: skip
            self.draw_later(self.step, self._show_numbers)
        self._draw_solve()

    def _show_numbers(self) -> None:
        trace, step = self.trace, self._step_now()
        if trace is not None and step is not None:
            self.step.show_numbers(trace, step, self._solves_now())

    def _draw_solve(self) -> None:
        card = self._cards["solve"]
        self.draw_later(card, lambda: self._draw_solve_now(card))

    def _draw_solve_now(self, card: ChartCard) -> None:
        follows = self.choice.step is None
        live = live_solve(self.job, self.choice.training, self._step_now(), follows=follows)
        solves = [] if live is not None and follows else self._solves_now()
        card.show(solves, self.shared.theme, live)
        card.view.visible = bool(solves) or live is not None
