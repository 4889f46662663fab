"""The solves of steps that are at hand: of a training that runs in this window, and those that were done again."""

from __future__ import annotations

from apviz.dashboard.jobs.step_job import StepJob
from apviz.dashboard.jobs.training_job import TrainingJob
from apviz.tracing import Trace


class Solves:
    """By training and step."""

    def __init__(self) -> None:
        self._again: dict[tuple[str, int], list[Trace]] = {}

    def keep(self, job: StepJob) -> bool:
        """Takes what a job has solved again; whether it is done."""
        if job.trace is None or job.is_active:
            return False
        solves = self._again.setdefault((job.name, job.number), [])
        if not any(each is job.trace for each in solves):
            solves.append(job.trace)
        return True

    def of(self, name: str, step: int | None, job: TrainingJob | StepJob | None) -> list[Trace]:
        """The recorded solves of a step: as it was taken by `job`, then those that were done again."""
        if step is None:
            return []
        taken = job.solve(step) if isinstance(job, TrainingJob) and job.name == name else None
        return [*([taken] if taken is not None else []), *self._again.get((name, step), [])]


def live_solve(job: TrainingJob | StepJob | None, name: str, step: int | None, *, follows: bool) -> Trace | None:
    """The solve that runs, if it is what is looked at.

    Args:
        name, step: the training and the step that are shown.
        follows: the page shows the last step, whichever that is.
    """
    if job is None or not job.is_active:
        return None
    is_shown = (name, step) == (job.name, job.number) if isinstance(job, StepJob) else job.name == name and follows
    return job.live.trace if is_shown else None
