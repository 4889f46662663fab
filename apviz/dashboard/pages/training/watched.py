"""The training that is shown, as far as it has come: a job of this window trains it, or it lies in the folder."""

from __future__ import annotations

from apviz.dashboard.jobs.training_job import TrainingJob
from apviz.dashboard.pages.training.starting import Starting
from apviz.dashboard.pages.training.view import TrainingView
from apviz.dashboard.runs.trainings import Trainings
from apviz.tracing import TrainingTrace


class Watched:
    """The training that is chosen, and its step.

    Attributes:
        trace: of the steps so far; None before the first, and for no training.
    """

    def __init__(self, choice: TrainingView, trainings: Trainings, starting: Starting) -> None:
        self._choice, self._trainings, self._starting = choice, trainings, starting
        self.trace: TrainingTrace | None = None
        # when that which is open had last been written, in seconds since 1970
        self._written: float | None = None

    def forget(self) -> None:
        """Another one is chosen."""
        self.trace = self._written = None

    def look(self) -> bool:
        """Takes what is new of it, from its job or else from disk; whether there was anything.

        Raises:
            FileNotFoundError: it is not there, or is just being put in its place.
            ValueError: it does not open, is of one solve, or has no step yet.
        """
        job = self.job
        if job is not None and job.trace is not None:
            before, self.trace = self.trace, job.trace
            return self.trace is not before
        if not self.name or self.is_running:
            return False
        written = self._trainings.changed(self.name)
        if written == self._written:
            return False
        self.trace = self._trainings.open(self.name)
        self._written = written
        return True

    @property
    def name(self) -> str:
        """Its name; empty for none."""
        return str(self._choice.training)

    @property
    def names(self) -> list[str]:
        """Of all that can be watched: also of one that has no trace yet, and of that in the address if it is gone."""
        found, job = self._trainings.names(), self._starting.job
        running = job.name if isinstance(job, TrainingJob) and job.is_active else ""
        others = dict.fromkeys(name for name in (self.name, running) if name and name not in found)
        return [*others, *found]

    @property
    def job(self) -> TrainingJob | None:
        """The one that is at this training, or was the last to be."""
        job = self._starting.job
        return job if isinstance(job, TrainingJob) and job.name == self.name else None

    @property
    def is_running(self) -> bool:
        """Whether it is being trained in this window."""
        return self.job is not None and self.job.is_active

    @property
    def goal(self) -> int | None:
        """The step that it can go on to; None where it cannot go on, or does."""
        return None if self.trace is None or self.is_running else self._starting.goal(self.name, self.trace)

    @property
    def is_warm(self) -> bool:
        """Whether every solve began where the one before had ended."""
        return self.trace is not None and self._starting.is_warm(self.trace)

    @property
    def steps(self) -> int:
        """How many are done."""
        return 0 if self.trace is None else int(self.trace["step"]["step"].values[-1])

    @property
    def step(self) -> int | None:
        """The one that is looked at: that which is chosen, else the last; None before the first."""
        return min(self._choice.step or self.steps, self.steps) or None

    @property
    def follows(self) -> bool:
        """Whether always the last step is looked at, whichever that is."""
        return self._choice.step is None
