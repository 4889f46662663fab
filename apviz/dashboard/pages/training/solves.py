"""The solves of steps that are at hand: of a training that runs in this window, and those that were done again."""

from __future__ import annotations

from apviz.dashboard.jobs.step_job import StepJob
from apviz.dashboard.pages.training.starting import Starting
from apviz.dashboard.pages.training.watched import Watched
from apviz.tracing import Trace


class Solves:
    """Those of the step that is looked at; the others are kept until it is their turn."""

    def __init__(self, watched: Watched, starting: Starting) -> None:
        self._watched, self._starting = watched, starting
        # by training and step
        self._again: dict[tuple[str, int], list[Trace]] = {}

    def keep(self, job: StepJob) -> bool:
        """Takes what a job has solved again; whether it is done."""
        if job.trace is None or job.is_active:
            return False
        solves = self._again.setdefault((job.name, job.number), [])
        if not any(each is job.trace for each in solves):
            solves.append(job.trace)
        return True

    @property
    def kept(self) -> list[Trace]:
        """As the step was taken by a job of this window, then those that were done again."""
        step, job = self._watched.step, self._watched.job
        if step is None:
            return []
        taken = None if job is None else job.solve(step)
        return [*([taken] if taken is not None else []), *self._again.get((self._watched.name, step), [])]

    @property
    def live(self) -> Trace | None:
        """The solve that runs, if it is what is looked at."""
        job, watched = self._starting.job, self._watched
        if job is None or not job.is_active:
            return None
        if isinstance(job, StepJob):
            is_shown = (job.name, job.number) == (watched.name, watched.step)
        else:
            is_shown = job is watched.job and watched.follows
        return job.live.trace if is_shown else None
