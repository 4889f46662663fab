"""The job that recommends a method for a system before any has been tried on it."""

from __future__ import annotations

from typing import ClassVar

from apviz.advice import Advice, advise
from apviz.dashboard.jobs.comparison_job import StopBetweenSolves
from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import SystemSpec


class AdviceJob(Job):
    """Job that advises on a system.

    Args:
        spec: Specification of the system.
        tol, max_epochs: Tolerance and epoch limit of the methods.

    Attributes:
        advice: The advice, once the job is done.
        system: Root attributes that a run of the same system has in its trace, once the advice is there.
    """

    title: ClassVar[str] = "Advice"

    def __init__(self, queue: JobQueue, limits: Limits, spec: SystemSpec, tol: float, max_epochs: int) -> None:
        super().__init__(queue)
        self.dataset = spec.dataset
        self._limits, self.spec, self._tol, self._max_epochs = limits, spec, tol, max_epochs
        self.advice: Advice | None = None
        self.system: dict[str, object] = {}

    def work(self) -> None:
        between = [StopBetweenSolves(self)]
        self.message = "loading the data, and fitting hyperparameters if there are none"
        loaded = self.spec.build(self._limits, between)
        self.message = f"solving a few of the {loaded.system.n:,} rows with each method"
        self.advice = advise(
            loaded.system, tol=self._tol, max_epochs=self._max_epochs, seed=self.spec.seed, thorough=True, hooks=between
        )
        of = loaded.system
        self.system = {
            "dataset": of.dataset, "n": of.n, "right_hand_sides": of.b.shape[1], "seed": of.seed,
            "kernel": of.kernel.name, "noise": float(of.noise), "dtype": str(of.dtype).removeprefix("torch."),
        }  # fmt: skip
        self.message = f"advice for {self.advice.system}; hyperparameters: {loaded.hyperparameters.provenance}"
