"""What the pages that solve something have in common: Run, Stop, and the run of a diagnosis again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.components.job_bar import JobBar
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.jobs.rerun import rerun
from apviz.dashboard.pages.base import Page, Shared
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.systems import SystemSpec
from apviz.solvers import Solver
from apviz.tracing import Trace


class SolvingPage(Page):
    """A page with one job at a time, whose runs go into the folder.

    Args:
        bar: words of its `JobBar`.
    """

    #: what a job of it is called
    solving: ClassVar[str]

    def __init__(self, shared: Shared, **bar: str) -> None:
        super().__init__(shared)
        self.job: ComparisonJob | None = None
        self._taken = 0
        self._bar = JobBar(self.run, self.stop, **bar)
        self.fields = Fields(self._bar.hold_up)

    @abstractmethod
    def run(self) -> None:
        """Solves what the settings say."""

    def stop(self) -> None:
        """Asks what runs to stop."""
        if self.job is not None:
            self.job.stop()

    def rerun(self, trace: Trace, diagnosis: Diagnosis) -> None:
        """Solves again what a run solved, with the change that its diagnosis proposes."""
        try:
            spec, solver = rerun(trace, diagnosis, self.shared.find_upload)
        except ValueError as error:
            self._bar.refuse(str(error))
            return
        self.start(spec, [solver])

    def start(self, spec: SystemSpec, solvers: Sequence[Solver], **options: Any) -> bool:
        """Starts a job; whether nothing else was running.

        Args:
            options: of the `ComparisonJob`.
        """
        if self.job is not None and self.job.is_active:
            self._bar.refuse(f"{self.solving} is running; stop it first")
            return False
        shared = self.shared
        self.job = ComparisonJob(shared.gate, shared.limits, shared.runs, spec, solvers, **options)
        self._taken = 0
        shared.start(self.job)
        return True

    @property
    def expects_runs(self) -> bool:
        """Whether runs of its job are to come, or are there and not taken yet."""
        return self.job is not None and (self.job.is_active or self._taken < len(self.job.done))

    def take_runs(self, job: ComparisonJob) -> list[str]:
        """The names of the runs that were recorded since the last call."""
        new = job.done[self._taken :]
        self._taken += len(new)
        return new
