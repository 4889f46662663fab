"""Jobs of the page Training: a new training, or more steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from apviz.dashboard.jobs.training_job import TrainingJob, is_written_here
from apviz.dashboard.pages.base import Shared
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.settings.training import TrainingPlan, changed, recorded
from apviz.dashboard.store.trainings import Trainings
from apviz.gp.training.checkpoint import can_resume
from apviz.gp.training.settings import TrainingSettings
from apviz.tracing import TrainingTrace


class Launcher:
    """Starter of the page's jobs, one at a time, with the current settings of the plan.

    Args:
        refuse: Called with the reason if nothing was started.

    Attributes:
        job: Job that was started last.
    """

    def __init__(self, shared: Shared, trainings: Trainings, plan: TrainingPlan, refuse: Callable[[str], None]) -> None:
        self._shared, self._trainings, self._plan, self._refuse = shared, trainings, plan, refuse
        self.job: TrainingJob | None = None

    def start_new(self) -> bool:
        """Start a training with the settings of the page. Return whether it was started."""

        def make() -> TrainingJob:
            spec = self._shared.system.spec()
            return self._training(spec, self._plan.settings(spec))

        return self._start(make)

    def extend(self, name: str, trace: TrainingTrace) -> bool:
        """Start more steps of a training. Return whether they were started."""

        def make() -> TrainingJob:
            spec, settings = self._recorded(trace)
            return self._training(spec, replace(settings, steps=self._goal(trace)), name)

        return self._start(make)

    def start_changed(self, trace: TrainingTrace, change: Mapping[str, Any]) -> bool:
        """Start a training like a recorded one with a changed setting. Return whether it was started."""

        def make() -> TrainingJob:
            spec, settings = self._recorded(trace)
            of_system = {name: value for name, value in change.items() if name == "dtype"}
            of_training = {name: value for name, value in change.items() if name not in of_system}
            return self._training(replace(spec, **of_system), changed(settings, of_training))

        return self._start(make)

    def stop(self) -> None:
        """Ask the running job to stop."""
        if self.job is not None:
            self.job.stop()

    def _recorded(self, trace: TrainingTrace) -> tuple[SystemSpec, TrainingSettings]:
        return recorded(trace, self._shared.system.own.find)

    def _training(self, spec: SystemSpec, settings: TrainingSettings, name: str | None = None) -> TrainingJob:
        return TrainingJob(self._shared.queue, self._shared.limits, self._trainings, spec, settings, name)

    def _start(self, make: Callable[[], TrainingJob]) -> bool:
        if self.job is not None and self.job.is_active:
            self._refuse("a training is running; stop it first")
            return False
        try:
            self.job = make()
        except (ValueError, OSError) as error:
            self._refuse(str(error))
            return False
        self._shared.start(self.job)
        return True

    def goal(self, name: str, trace: TrainingTrace) -> int | None:
        """Return the last step of `extend`; None if the training cannot resume."""
        if name not in self._trainings.names():
            return None
        path = self._trainings.path_of(name)
        try:
            goal = self._goal(trace)
        except ValueError:  # data or solver are missing, so it cannot resume
            return None
        more = goal > trace["step"].sizes["step"]
        return goal if more and can_resume(path) and not is_written_here(path) else None

    def _goal(self, trace: TrainingTrace) -> int:
        """Return the last step of the training itself, or for a finished training that of the settings."""
        wanted = self._recorded(trace)[1].steps
        return max(wanted, self._plan.steps) if trace.finished else wanted
