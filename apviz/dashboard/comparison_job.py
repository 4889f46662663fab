"""A comparison in a thread: one system, one solver after another, every run in the folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from apviz.comparison import Outcome, compare
from apviz.dashboard.jobs import Gate, Job
from apviz.dashboard.limits import Limits
from apviz.dashboard.live import LiveHook
from apviz.dashboard.runs_folder import RunsFolder
from apviz.dashboard.systems import Loaded, SystemSpec
from apviz.factors import factor_bytes
from apviz.solvers import AlternatingProjection, Solver
from apviz.system import KernelSystem


class ComparisonJob(Job):
    """Solves one system with several solvers.

    Args:
        solvers: from the system, since some settings depend on it; or a list.

    Attributes:
        done: names of the runs in the folder, in order.
        failures: what went wrong, one sentence a solver.
        live: the running solve.
    """

    def __init__(
        self,
        gate: Gate,
        limits: Limits,
        runs: RunsFolder,
        spec: SystemSpec,
        solvers: Sequence[Solver],
        *,
        snapshots: int = 0,
        predict: bool = True,
    ) -> None:
        super().__init__(gate)
        self._limits, self._runs, self._spec, self._solvers = limits, runs, spec, list(solvers)
        self._snapshots, self._predict = snapshots, predict
        self.done: list[str] = []
        self.failures: list[str] = []
        self.live = LiveHook(self._grew)

    @property
    def words(self) -> str:
        """What it is doing, and how long that will take; an estimate."""
        if self.state == "queued":
            return f"number {self.queue_place} of those that wait for a free solver"
        if self.state != "running":
            return self.message
        left = self.live.seconds_left
        about = f" · about {left:.0f} s left for this solver (estimate)" if math.isfinite(left) and left >= 1 else ""
        stopping = "stopping · " if self.stopping else ""
        return stopping + (self.live.text or self.message) + about

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1; an estimate."""
        return min(1.0, self.progress + self.live.progress / max(1, len(self._solvers)))

    def work(self) -> None:
        self.message = "loading the data, and fitting hyperparameters if there are none"
        loaded = self._spec.build(self._limits)
        self.message = "preparing the system"
        self._check_memory(loaded.system)
        outcomes = compare(
            loaded.system, self._until_stopped(), self._runs.path, data=loaded.data if self._predict else None,
            mean=loaded.hyperparameters.mean, hooks=[self.stop_hook, self.live], pictures=self._snapshots,
        )  # fmt: skip
        for outcome in outcomes:
            self._keep(outcome)
        self.message = self._summary(loaded)

    def _until_stopped(self) -> Iterator[Solver]:
        """One solver after another, until Stop."""
        for number, solver in enumerate(self._solvers):
            if self.stopping:
                return
            self.progress = number / len(self._solvers)
            self.live.text = f"{solver.label}: setting up"
            yield solver

    def _keep(self, outcome: Outcome) -> None:
        if outcome.error:
            self.failures.append(f"{outcome.solver.label}: {outcome.error}")
        if outcome.path is not None:
            self.done.append(outcome.path.stem)
        self.version += 1

    def _grew(self) -> None:
        self.version += 1

    def _summary(self, loaded: Loaded) -> str:
        runs = f"{len(self.done)} of {len(self._solvers)} runs recorded"
        return f"{runs}; hyperparameters: {loaded.hyperparameters.provenance}"

    def _check_memory(self, system: KernelSystem) -> None:
        """Before any work: the factors of every solver whose block size is known."""
        for solver in self._solvers:
            if not isinstance(solver, AlternatingProjection) or "auto" in (solver.block_size, solver.overlap):
                continue
            needed = factor_bytes(system.x, int(solver.block_size), float(solver.overlap))
            if needed > self._limits.max_block_gb * 1e9:
                raise ValueError(
                    f"{solver.label}: the block factors take {needed / 1e9:.1f} GB, this server allows "
                    f"{self._limits.max_block_gb:g} GB a solve; take smaller blocks or less overlap: memory grows as "
                    "n·b·(1 + overlap)²"
                )
