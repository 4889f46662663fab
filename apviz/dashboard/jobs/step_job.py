"""The job that repeats the solve of one training step, unchanged or with one setting changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.jobs.live import LiveHook
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import SystemSpec
from apviz.gp.training.checkpoint import check_data
from apviz.gp.training.gradient import step_system
from apviz.gp.training.settings import TrainingSettings
from apviz.partitions import with_overlap
from apviz.solvers import Automatic, Solver, attempt
from apviz.tracing import Recorder, Trace, TrainingTrace


class StepJob(Job):
    """Job that solves the system of a step. Its trace stays in the session; the folder keeps only the training's own.

    Args:
        path: Path of the training.
        spec, settings: Specification of the training's data, and settings of the training.
        number: Number of the step.
        change: Settings of the solver, `dtype`, or `solver="auto"`, as `apviz.analysis.diagnosis` proposes them.

    Attributes:
        name, number: Name of the training, and number of the step.
        trace: Trace of the solve, once it has ended.
        live: Hook on the running solve.
    """

    title: ClassVar[str] = "A step solved again"

    def __init__(
        self,
        queue: JobQueue,
        limits: Limits,
        path: Path,
        name: str,
        training: TrainingTrace,
        spec: SystemSpec,
        settings: TrainingSettings,
        number: int,
        change: Mapping[str, Any],
    ) -> None:
        super().__init__(queue)
        self._limits, self._path, self._training = limits, path, training
        self._spec, self._settings = spec, settings
        self.name, self.number, self._change = name, number, dict(change)
        self.trace: Trace | None = None
        self.live = LiveHook(self._grew)
        self.live.where = f" on step {number}"

    @property
    def status(self) -> str:
        return self.live.text or super().status if self.state == "running" else super().status

    @property
    def fraction_done(self) -> float:
        return self.live.progress

    def work(self) -> None:
        self.message = f"loading the data of {self.name}"
        self._spec.check(self._limits)
        data, s = self._spec.load(), self._settings
        check_data(self._path, data.train_x, data.train_y)
        change = dict(self._change)
        if "dtype" in change:
            data = replace(self._spec, dtype=change.pop("dtype")).load()
        solver = changed_solver(s.solver_of_step, change) if change else s.solver_of_step
        refused = self._limits.why_too_large(solver, data.train_x)
        if refused:
            raise ValueError(refused)
        self.message = "preparing the system"
        rows = s.rows_of(self.number, len(data.train_x))
        on = slice(None) if rows is None else rows
        step = step_system(
            data.train_x[on], data.train_y[on], self._training.hyperparameters_at(self.number), s.solver_of_step,
            s.probes, s.seed_of(self.number), dataset=data.card.name, estimator=s.estimator,
        )  # fmt: skip
        recorder = Recorder()
        try:
            prepared = None if change else step.prepared
            attempt(step.system, solver, [recorder, self.stop_hook, self.live], prepared=prepared)
        finally:
            if recorder.traces:
                self.trace = recorder.trace
        self.message = f"step {self.number} solved again{f': {self.trace.status()}' if self.trace else ''}"

    def _grew(self) -> None:
        self.version += 1


def changed_solver(solver: Solver, change: Mapping[str, Any]) -> Solver:
    """Return a solver with some settings changed, or the automatic solver with the same tolerance."""
    if change.get("solver") == "auto":
        return Automatic(tol=float(getattr(solver, "tol", 1e-2)))
    return replace(solver, **with_overlap(change))
