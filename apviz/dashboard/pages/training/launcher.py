"""What can be started on the page Training: a new training, more steps of one, the solve of a step again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from apviz.dashboard.jobs.step_job import StepJob
from apviz.dashboard.jobs.training_job import TrainingJob, is_written_here
from apviz.dashboard.pages.base import Shared
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.settings.training import TrainingPlan, changed, recorded
from apviz.dashboard.store.trainings import Trainings
from apviz.gp.checkpoint import can_resume
from apviz.gp.training_settings import TrainingSettings
from apviz.tracing import TrainingTrace


class Launcher:
    """Starter of the jobs of the page, one at a time; the settings are those of the plan as it is by then.

    Args:
        refuse: called with the reason why nothing was started.

    Attributes:
        job: the last job that was started.
    """

    def __init__(self, shared: Shared, trainings: Trainings, plan: TrainingPlan, refuse: Callable[[str], None]) -> None:
        self._shared, self._trainings, self._plan, self._refuse = shared, trainings, plan, refuse
        self.job: TrainingJob | StepJob | None = None

    def start_new(self) -> bool:
        """Starts a training with the settings of the page; returns whether it was started."""

        def make() -> TrainingJob:
            spec = self._shared.system.spec()
            return self._training(spec, self._plan.settings(spec))

        return self._start(make)

    def extend(self, name: str, trace: TrainingTrace) -> bool:
        """Starts more steps of a training; returns whether they were started."""

        def make() -> TrainingJob:
            spec, settings = self._recorded(trace)
            return self._training(spec, replace(settings, steps=self._goal(trace)), name)

        return self._start(make)

    def start_changed(self, trace: TrainingTrace, change: Mapping[str, Any]) -> bool:
        """Starts a training like a recorded one, with a setting changed; returns whether it was started."""

        def make() -> TrainingJob:
            spec, settings = self._recorded(trace)
            of_system = {name: value for name, value in change.items() if name == "dtype"}
            of_training = {name: value for name, value in change.items() if name not in of_system}
            return self._training(replace(spec, **of_system), changed(settings, of_training))

        return self._start(make)

    def solve_again(self, name: str, trace: TrainingTrace, step: int, change: Mapping[str, Any]) -> bool:
        """Solves a step of a training again, with some settings changed; returns whether that was started."""
        shared = self._shared

        def make() -> StepJob:
            spec, settings = self._recorded(trace)
            path = self._trainings.path_of(name)
            return StepJob(shared.queue, shared.limits, path, name, trace, spec, settings, step, change)

        return self._start(make)

    def stop(self) -> None:
        """Asks what runs to stop."""
        if self.job is not None:
            self.job.stop()

    def _recorded(self, trace: TrainingTrace) -> tuple[SystemSpec, TrainingSettings]:
        return recorded(trace, self._shared.system.own.find)

    def _training(self, spec: SystemSpec, settings: TrainingSettings, name: str | None = None) -> TrainingJob:
        return TrainingJob(self._shared.queue, self._shared.limits, self._trainings, spec, settings, name)

    def _start(self, make: Callable[[], TrainingJob | StepJob]) -> bool:
        if self.job is not None and self.job.is_active:
            what = "a training" if isinstance(self.job, TrainingJob) else "the solve of a step"
            self._refuse(f"{what} is running; stop it first")
            return False
        try:
            self.job = make()
        except (ValueError, OSError) as error:
            self._refuse(str(error))
            return False
        self._shared.start(self.job)
        return True

    def goal(self, name: str, trace: TrainingTrace) -> int | None:
        """Step that `extend` would lead to; None where the training cannot go on."""
        if name not in self._trainings.names():
            return None
        path = self._trainings.path_of(name)
        try:
            goal = self._goal(trace)
        except ValueError:  # data or solver are not here: nothing to go on with
            return None
        more = goal > trace["step"].sizes["step"]
        return goal if more and can_resume(path) and not is_written_here(path) else None

    def is_warm(self, trace: TrainingTrace) -> bool:
        """Whether every solve began where the one before had ended, as far as that is known."""
        try:
            return self._recorded(trace)[1].warm_start
        except ValueError:
            return False

    def _goal(self, trace: TrainingTrace) -> int:
        """Last step of the training itself, or for a finished one that of the settings."""
        wanted = self._recorded(trace)[1].steps
        return max(wanted, self._plan.steps) if trace.finished else wanted
