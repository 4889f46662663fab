"""The solve of one step of a training, done again in a thread: as it was, or with a setting changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from apviz.dashboard.jobs.job import Gate, Job
from apviz.dashboard.jobs.live import LiveHook
from apviz.dashboard.limits import Limits, too_large
from apviz.dashboard.settings.systems import SystemSpec
from apviz.gp.checkpoint import check_data
from apviz.gp.gradient import step_system
from apviz.gp.training import TrainingSettings
from apviz.solvers import Automatic, Solver, attempt
from apviz.tracing import Recorder, Trace, TrainingTrace


class StepJob(Job):
    """Solves the system of a step. The trace stays in the session: the training's own is what is in the folder.

    Args:
        path: of the training.
        spec, settings: of its data, and its own.
        number: of the step.
        change: settings of the solver, `dtype`, or `solver="auto"`; as `apviz.analysis.diagnosis` proposes them.

    Attributes:
        name, number: what is solved again.
        trace: of the solve, when it is done.
        live: the running solve.
    """

    def __init__(
        self,
        gate: Gate,
        limits: Limits,
        path: Path,
        name: str,
        training: TrainingTrace,
        spec: SystemSpec,
        settings: TrainingSettings,
        number: int,
        change: Mapping[str, Any],
    ) -> None:
        super().__init__(gate)
        self._limits, self._path, self._training = limits, path, training
        self._spec, self._settings = spec, settings
        self.name, self.number, self._change = name, number, dict(change)
        self.trace: Trace | None = None
        self.live = LiveHook(self._grew)
        self.live.where = f" on step {number}"

    @property
    def words(self) -> str:
        return self.live.text or super().words if self.state == "running" else super().words

    @property
    def share(self) -> float:
        return self.live.progress

    def work(self) -> None:
        self.message = f"loading the data of {self.name}"
        self._spec.check(self._limits)
        data, s = self._spec.load(), self._settings
        check_data(self._path, data.train_x, data.train_y)
        change = dict(self._change)
        if "dtype" in change:
            data = replace(self._spec, dtype=change.pop("dtype")).load()
        solver = changed_solver(s.solver, change) if change else s.solver
        refused = too_large(solver, data.train_x, self._limits)
        if refused:
            raise ValueError(refused)
        self.message = "preparing the system"
        step = step_system(
            data.train_x, data.train_y, self._training.hyperparameters_at(self.number), s.solver, s.probes,
            s.seed_of(self.number), dataset=data.card.name,
        )  # fmt: skip
        recorder = Recorder()
        try:
            prepared = None if change else step.prepared
            attempt(step.system, solver, [recorder, self.stop_hook, self.live], prepared=prepared)
        finally:
            if recorder.traces:
                self.trace = recorder.trace
        self.message = f"step {self.number} solved again: {self.trace.outcome if self.trace else ''}"

    def _grew(self) -> None:
        self.version += 1


def changed_solver(solver: Solver, change: Mapping[str, Any]) -> Solver:
    """The solver with some settings changed, or the automatic one to the same tolerance."""
    if change.get("solver") == "auto":
        return Automatic(tol=float(getattr(solver, "tol", 1e-2)))
    return replace(solver, **change)
