"""The job of a comparison: it solves a system, at one or several noise levels, with one solver after another.

It records every run in the folder. The button of a diagnosis starts a comparison too: it repeats a recorded run with
one setting changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import ClassVar

from apviz.advice import Advice
from apviz.analysis.diagnosis import Diagnosis
from apviz.comparison import Outcome, Recording, compare
from apviz.dashboard.jobs.job import Job, JobQueue, Stopped
from apviz.dashboard.jobs.live import LiveHook, duration
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import Loaded, SystemSpec, spec_of
from apviz.dashboard.store.own_data import OwnTable
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.partitions import with_overlap
from apviz.solvers import AlternatingProjection, Automatic, Hook, Solver
from apviz.solvers.run import Run
from apviz.solvers.serialization import from_plain
from apviz.system import KernelSystem
from apviz.tracing import Trace


class ComparisonJob(Job):
    """Job that solves one system with several solvers, at one or several noise levels.

    Args:
        snapshots: Number of pictures of the residual, see `compare`.
        predict: Whether to evaluate the test RMSE after every epoch.
        noise_factors: Factors on the noise of the system, one comparison for each.
        more_seeds: Solvers by further seeds, one comparison for each; all have the hyperparameters of the first.
        advice: Advice on the system, if its best method is the only solver.
        asked: Settings of the page at the start, as in an address, for a visitor who comes back.

    Attributes:
        done: Names of the recorded runs in the folder, in order.
        failures: Errors, one sentence for each failed solver.
        live: Hook on the running solve.
    """

    title: ClassVar[str] = "A comparison"

    def __init__(
        self,
        queue: JobQueue,
        limits: Limits,
        runs: RunsFolder,
        spec: SystemSpec,
        solvers: Sequence[Solver],
        *,
        snapshots: int = 0,
        predict: bool = True,
        noise_factors: Sequence[float] = (1.0,),
        more_seeds: Mapping[int, Sequence[Solver]] | None = None,
        advice: Advice | None = None,
        asked: str = "",
    ) -> None:
        super().__init__(queue)
        self.asked = asked
        self._limits, self._runs, self._spec, self._solvers = limits, runs, spec, list(solvers)
        self.dataset = spec.dataset
        self._snapshots, self._predict, self._factors = snapshots, predict, list(noise_factors)
        self._more_seeds, self._begun = dict(more_seeds or {}), 0
        self.done: list[str] = []
        self.failures: list[str] = []
        self._progress = None if advice is None else advice.progress()
        self.live = LiveHook(self._grew, self._progress)

    @property
    def status(self) -> str:
        """Return a sentence on the current solve, with its estimated remaining time."""
        if self.state == "queued":
            return f"number {self.queue_position} in line for a free solver"
        if self.state != "running":
            return self.message
        left = self.live.seconds_left
        about = ""
        if math.isfinite(left) and left >= 1:
            till = "until its epoch limit" if self.live.until_cap else "left for this solver"
            about = f" · about {duration(left)} {till} (estimate)"
        stopping = "stopping · " if self.stopping else ""
        if self._progress is not None and self._progress.warning:
            about = f" · {self._progress.warning}"
        return stopping + (self.live.text or self.message) + about

    @property
    def fraction_done(self) -> float:
        """Return the estimated fraction done, from 0 to 1."""
        return min(1.0, self.progress + self.live.progress / max(1, self._count))

    def work(self) -> None:
        self.message = "loading the data, and fitting hyperparameters if there are none"
        loaded = self._spec.build(self._limits, [StopBetweenSolves(self)])
        self.message = "preparing the system"
        self._solvers = self._affordable(loaded.system)
        for factor in self._factors:
            if not self.stopping:
                self._compare(self._spec.at_noise(loaded, factor))
        for seed, solvers in self._more_seeds.items():
            if not self.stopping:
                self._solvers = list(solvers)
                self._solvers = self._affordable(loaded.system)
                self._compare(self._spec.at_seed(loaded, seed))
        self.message = self._summary(loaded)

    @property
    def growing(self) -> dict[str, Trace]:
        """Return the traces of the running solves, by their names in the folder."""
        return self.live.growing

    @property
    def _count(self) -> int:
        """Return the total number of runs."""
        return (len(self._factors) + len(self._more_seeds)) * len(self._solvers)

    def _compare(self, loaded: Loaded) -> None:
        progress = [] if self._progress is None else [self._progress]
        outcomes = compare(
            loaded.system, self._until_stopped(loaded.system), self._runs.path, self._recording(loaded),
            [self.stop_hook, *progress, self.live],
        )  # fmt: skip
        for outcome in outcomes:
            self._keep(outcome)

    def _recording(self, loaded: Loaded) -> Recording:
        data = loaded.data if self._predict else None
        return Recording(data, loaded.hyperparameters.mean, self._snapshots, pictured=lambda solver: True)

    def _until_stopped(self, system: KernelSystem) -> Iterator[Solver]:
        """Yield one solver after another, until the job is stopped."""
        where = f" at σ² = {system.noise:.3g}" if len(self._factors) > 1 else ""
        where += f", seed {system.seed}" if self._more_seeds else ""
        for solver in self._solvers:
            if self.stopping:
                return
            self.progress, self._begun = self._begun / self._count, self._begun + 1
            self.live.text, self.live.where = f"{solver.method.name}{where}: setting up", where
            yield solver

    def _keep(self, outcome: Outcome) -> None:
        if outcome.error:
            self.failures.append(f"{outcome.solver.method.name}: {outcome.error}")
        if outcome.path is not None:
            self.done.append(outcome.path.stem)
        self.version += 1

    def _grew(self) -> None:
        self.version += 1

    def _summary(self, loaded: Loaded) -> str:
        """Return what was recorded; the origin of hyperparameters that were not fitted here is next to the kernel."""
        done = f"{len(self.done)}" if len(self.done) == self._count else f"{len(self.done)} of {self._count}"
        said = f"{done} run{'s' * (self._count > 1)} recorded."
        provenance = loaded.hyperparameters.provenance
        return f"{said} Hyperparameters {provenance}." if provenance.startswith("fitted here") else said

    def _affordable(self, system: KernelSystem) -> list[Solver]:
        """Return the solvers whose factors fit into memory, if block sizes are known; add the others to the failures.

        Raises:
            ValueError: No solver fits.
        """
        judged = [(solver, self._limits.why_too_large(solver, system.x)) for solver in self._solvers]
        refused = [why for _, why in judged if why]
        if len(refused) == len(self._solvers):
            raise ValueError("\n".join(refused))
        # the methods of every seed are the same
        self.failures += [each for each in refused if each not in self.failures]
        return [solver for solver, why in judged if not why]


class StopBetweenSolves(Hook):
    """Hook that ends a fit or advice at its next solve, by an exception because a short solve may ignore a stop."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def on_start(self, run: Run) -> None:
        if self._job.stopping:
            raise Stopped


def solver_of(trace: Trace) -> Solver:
    """Return the solver of a recorded run.

    Raises:
        ValueError: apviz does not have this solver.
    """
    try:
        solver = from_plain(json.loads(trace.attrs["solver_settings"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"this run was solved by {trace.method_name}, which cannot be run again here: {error}"
        ) from error
    assert solver is not None  # recorded settings name the class
    return solver


def rerun(trace: Trace, diagnosis: Diagnosis, find_own: Callable[[str], OwnTable | None]) -> tuple[SystemSpec, Solver]:
    """Return the system and solver of a run, with the change that its diagnosis proposes.

    Raises:
        ValueError: The data or the solver is not available, or the change is not one of its settings.
    """
    spec, change = spec_of(trace.attrs, find_own), dict(diagnosis.change)
    for name in ("dtype", "noise"):
        if name in change:
            spec = replace(spec, **{name: change.pop(name)})
    if change.pop("solver", None) == "auto":
        return spec, Automatic(tol=float(trace.attrs["tol"]))
    solver = solver_of(trace)
    if isinstance(solver, AlternatingProjection) and "precision" in change:  # factors keep their dtype
        change["precision"] = replace(solver.precision, recursion=change["precision"])
    settings = with_overlap(change)
    if unknown := settings.keys() - {field.name for field in fields(solver)}:
        raise ValueError(f"a solve cannot change the {' and '.join(sorted(unknown))}: do it where the data are made")
    return spec, replace(solver, **settings)
