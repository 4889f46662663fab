"""The first sixty systems: fixed constructions on data of any seed, each with the change that removes its trouble."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

import apviz
from apviz.partitions import PrincipalAxisTree

HEALTHY = "NOTHING"
MATERN = apviz.Matern52(lengthscale=0.3)


class Data(NamedTuple):
    """Inputs (n, d) and targets (n,), and the same number of test inputs and targets for a test error."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def waves(n: int = 600, d: int = 2, frequency: float = 5.0, noise: float = 0.3, seed: int = 0) -> Data:
    """Draw uniform points of a cube; a sine along every axis, and Gaussian noise of this deviation on training rows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (2 * n, d))
    f = np.sin(frequency * x).sum(1) / d**0.5
    return Data(x[:n], f[:n] + noise * rng.standard_normal(n), x[n:], f[n:])


def sevens(seed: int = 0) -> Data:
    """Return data with constant targets."""
    data = waves(seed=seed)
    return data._replace(y=np.full(len(data.y), 7.0))


def copied(rows: int, copies: int, merged: bool = False, seed: int = 0) -> Data:
    """Return duplicate points, each with its own noise; merged: once, with the mean of their targets."""
    few = waves(rows, noise=0.0, seed=seed)
    y = np.tile(few.y, copies) + 0.3 * np.random.default_rng(seed + 1).standard_normal(rows * copies)
    if merged:
        return few._replace(y=y.reshape(copies, rows).mean(0))
    return few._replace(x=np.tile(few.x, (copies, 1)), y=y)


def with_some_again(seed: int = 0) -> Data:
    """Return 600 rows of which a dozen are duplicate, as in a table merged from several."""
    data = waves(seed=seed)
    return data._replace(x=np.r_[data.x[:588], data.x[:12]], y=np.r_[data.y[:588], data.y[:12]])


def clusters(count: int = 12, size: int = 50, seed: int = 0) -> Data:
    """Return clusters far from one another on a line; only the first has targets that are not zero."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-0.5, 0.5, (count, size)), axis=1).ravel() + 10.0 * np.repeat(np.arange(count), size)
    f = np.where(x < 5, np.sin(12 * x), 0.0)
    y = f + np.where(x < 5, 0.1 * rng.standard_normal(len(x)), 0.0)
    return Data(x[:, None], y - y.mean(), x[:, None] + 0.01, np.where(x < 5, np.sin(12 * (x + 0.01)), 0.0))


def stretched(made: Callable[..., Data], *factors: float, seed: int = 0) -> Data:
    """Return the same data with inputs in other units."""
    data = made(seed=seed)
    return data._replace(x=data.x * np.array(factors), test_x=data.test_x * np.array(factors))


@dataclass(frozen=True, kw_only=True)
class Case:
    """One solve, and the trouble with it.

    Args:
        cause: the limit that the construction sets, by name; `NOTHING` for none.
        why: the construction's change.
        solver: the solver.
        undone: the fields, with their values, that remove the trouble.
        also: solvers that solved the same system before, and that the diagnosis may use.
        end: how the solve is ended from outside, if at all.
    """

    cause: str
    why: str
    solver: apviz.solvers.Solver
    data: Callable[..., Data] = waves
    kernel: Any = MATERN
    noise: float = 0.1
    dtype: torch.dtype = torch.float64
    columns: int = 1
    also: tuple[apviz.solvers.Solver, ...] = ()
    end: str = ""
    undone: Mapping[str, Any] = field(default_factory=dict)

    def healed(self) -> Case:
        """Return the case without its trouble."""
        return replace(self, cause=HEALTHY, also=(), **self.undone)

    def diagnosed(self, seed: int = 0) -> tuple[apviz.analysis.Diagnosis, apviz.Trace]:
        """Solve, with a test error, and diagnose; seed: of the data, any number."""
        kept = self.solved(self.data(seed=seed), seed)
        return apviz.diagnose(kept[-1], kept), kept[-1]

    def solved(self, data: Data, seed: int = 0) -> list[apviz.Trace]:
        """Return the traces of the solvers, that with the trouble last."""
        probes = np.random.default_rng(5 + seed).choice([-1.0, 1.0], (len(data.y), self.columns - 1))
        b = np.column_stack([data.y - data.y.mean(), probes])
        system = apviz.KernelSystem(data.x, b, self.kernel, noise=self.noise, dtype=self.dtype, device="cpu")
        kept = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for solver in (*self.also, self.solver):
                recorder = apviz.Recorder()
                hooks: list[apviz.Hook] = [
                    apviz.PredictionHook(
                        torch.tensor(data.test_x, dtype=self.dtype),
                        torch.tensor(data.test_y, dtype=self.dtype),
                        mean=float(data.y.mean()),
                    ),
                    recorder,
                ]
                if solver is self.solver and self.end:
                    hooks.append(apviz.StopHook(max_work=4) if self.end == "stopped" else _Kill())
                with contextlib.suppress(KeyboardInterrupt):
                    apviz.solve(system, solver, hooks)
                kept.append(recorder.trace)
        return kept


class _Kill(apviz.Hook):
    """Press Ctrl-C after three epochs."""

    def on_epoch(self, epoch: Any) -> None:
        if epoch.number == 3:
            raise KeyboardInterrupt


def cg(rank: int = 0, **settings: Any) -> apviz.ConjugateGradient:
    """Return CG, with a pivoted-Cholesky preconditioner if the rank is positive."""
    settings = {"tol": 1e-2, **settings}
    return apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=rank) if rank else None, **settings)


def ap(block_size: int = 100, overlap: float = 0.5, **settings: Any) -> apviz.AlternatingProjection:
    """Return alternating projection on blocks of neighbours that overlap by half."""
    settings = {"tol": 1e-2, "partition": PrincipalAxisTree(overlap=overlap), "max_epochs": 200, **settings}
    return apviz.AlternatingProjection(block_size=block_size, **settings)


def disjoint(block_size: int = 100, **settings: Any) -> apviz.AlternatingProjection:
    """Return the same on blocks of consecutive rows, without overlap, as in the paper."""
    return ap(block_size, **{"partition": "sequential", **settings})


M12, M32, M52, RBF = apviz.Matern12, apviz.Matern32, apviz.Matern52, apviz.RBF
AUTO = apviz.Automatic(tol=1e-2)
SMOOTH = RBF(lengthscale=2.0)

CASES = [
    # σ² so small that it alone sets the smallest eigenvalues of K
    Case(cause="NOISE", why="σ² of 1e-5", noise=1e-5, solver=cg(), undone={"noise": 0.5}),
    Case(cause="NOISE", why="σ² of 1e-5, 3 inputs", noise=1e-5, data=partial(waves, d=3), kernel=M52(lengthscale=0.6),
         solver=cg(), undone={"noise": 0.5}),
    Case(cause="NOISE", why="σ² of 1e-6, an RBF", noise=1e-6, kernel=RBF(lengthscale=0.2), solver=cg(max_epochs=2000),
         undone={"noise": 0.5}),
    Case(cause="NOISE", why="σ² of 1e-4 and 1,200 rows", noise=1e-4, data=partial(waves, 1200), solver=cg(),
         kernel=M32(lengthscale=0.5), undone={"noise": 1.0}),
    # a lengthscale too long for the targets
    Case(cause="SMOOTH", why="lengthscale 5 where the target has 10 waves", kernel=RBF(lengthscale=5.0), noise=0.01,
         data=partial(waves, frequency=30, noise=0.1), solver=cg(),
         undone={"kernel": RBF(lengthscale=0.1), "solver": AUTO}),
    Case(cause="SMOOTH", why="lengthscale 8, a Matérn, AP", data=partial(waves, frequency=20, noise=0.1),
         kernel=M52(lengthscale=8.0), noise=0.01, solver=ap(), undone={"kernel": M52(lengthscale=0.2)}),
    Case(cause="SMOOTH", why="lengthscale 4, 3 inputs, auto", data=partial(waves, d=3, frequency=8, noise=0.1),
         kernel=RBF(lengthscale=4.0), noise=0.01, solver=AUTO, undone={"kernel": RBF(lengthscale=0.3)}),
    # one so short that the rows are uncorrelated
    Case(cause="INDEPENDENT", why="lengthscale 0.001", kernel=M52(lengthscale=1e-3), solver=cg(),
         undone={"kernel": M52(lengthscale=0.3), "noise": 0.5}),
    Case(cause="INDEPENDENT", why="lengthscale 0.001, AP", kernel=RBF(lengthscale=1e-3), solver=ap(50),
         undone={"kernel": RBF(lengthscale=0.3)}),
    Case(cause="INDEPENDENT", why="lengthscale 0.03 in 5 inputs", data=partial(waves, d=5, frequency=2.0),
         kernel=M32(lengthscale=0.03), solver=AUTO, undone={"kernel": M32(lengthscale=2.0)}),
    # duplicate rows
    Case(cause="DUPLICATES", why="40 rows, 15 copies each",
         data=partial(copied, 40, 15), noise=1e-3, solver=disjoint(50),
         undone={"data": partial(copied, 40, 15, merged=True), "noise": 1e-3 / 15}),
    Case(cause="DUPLICATES", why="100 rows, 8 copies each",
         data=partial(copied, 100, 8), noise=1e-3, solver=disjoint(50),
         kernel=M52(lengthscale=0.08), undone={"data": partial(copied, 100, 8, merged=True), "noise": 1e-3 / 8}),
    Case(cause="DUPLICATES", why="150 rows, 4 copies each",
         data=partial(copied, 150, 4), noise=2e-3, solver=disjoint(60),
         kernel=M32(lengthscale=0.045), undone={"data": partial(copied, 150, 4, merged=True), "noise": 2e-3 / 4}),
    # an epoch limit that is too small
    Case(cause="CAP", why="CG, 8 iterations", noise=0.5, solver=cg(max_epochs=8), undone={"solver": cg()}),
    Case(cause="CAP", why="AP by the paper, 3 epochs", noise=1.0, solver=disjoint(150, max_epochs=3),
         undone={"solver": disjoint(150)}),
    Case(cause="CAP", why="overlapping AP, 2 epochs", noise=0.01, solver=ap(max_epochs=2, tol=1e-4),
         undone={"solver": ap(tol=1e-4)}),
    Case(cause="CAP", why="PCG, 3 iterations", noise=0.05, solver=cg(40, max_epochs=3), undone={"solver": cg(40)}),
    # tolerances
    Case(cause="TOLERANCE", why="CG to 1e-9", solver=cg(tol=1e-9), noise=0.5, undone={"solver": cg(tol=1e-2)}),
    Case(cause="TOLERANCE", why="PCG to 1e-10", solver=cg(60, tol=1e-10), undone={"solver": cg(60, tol=1e-2)}),
    Case(cause="TOLERANCE", why="overlapping AP to 1e-10", solver=ap(tol=1e-10), undone={"solver": ap()}),
    Case(cause="LOOSE", why="CG to 0.9", solver=cg(tol=0.9), noise=0.01, columns=4,
         undone={"solver": AUTO}),
    Case(cause="LOOSE", why="AP by the paper to 0.8", solver=disjoint(40, tol=0.8), noise=0.1, columns=4,
         undone={"solver": ap()}),
    # rounding
    Case(cause="PRECISION", why="Cholesky in float32, σ² of 1e-7", kernel=RBF(lengthscale=1.0), noise=1e-7,
         dtype=torch.float32, solver=apviz.Cholesky(tol=1e-5), undone={"dtype": torch.float64}),
    Case(cause="PRECISION", why="one block in float32, σ² of 1e-7", kernel=RBF(lengthscale=1.0), noise=1e-7,
         solver=disjoint(600, tol=1e-5, precision="float32", max_epochs=60),
         undone={"solver": disjoint(600, tol=1e-5)}),
    Case(cause="PRECISION", why="overlapping AP in float32, σ² of 1e-7", kernel=RBF(lengthscale=1.0), noise=1e-7,
         dtype=torch.float32, solver=ap(400, overlap=1.0, tol=1e-5), undone={"dtype": torch.float64}),
    # blocks
    Case(cause="SMALL_BLOCKS", why="blocks of 2", noise=0.01, solver=ap(2), undone={"solver": ap()}),
    Case(cause="SMALL_BLOCKS", why="blocks of 4", noise=0.01, solver=ap(4), undone={"solver": ap()}),
    Case(cause="SMALL_BLOCKS", why="blocks of 5, 3 inputs", noise=5e-3, data=partial(waves, 800, d=3),
         kernel=M52(lengthscale=0.6), solver=ap(5), undone={"solver": ap()}),
    Case(cause="LARGE_BLOCKS", why="one block of 1,500 rows", data=partial(waves, 1500), solver=disjoint(1500),
         undone={"solver": ap(150)}),
    Case(cause="LARGE_BLOCKS", why="two blocks of 1,400 rows that overlap", data=partial(waves, 1400),
         solver=ap(700, overlap=1.0), undone={"solver": ap(150)}),
    Case(cause="BLOCKS", why="blocks of 150 random rows", noise=0.01, solver=disjoint(150), undone={"solver": ap()}),
    Case(cause="BLOCKS", why="blocks of 120 random rows, 3 inputs", noise=0.01, data=partial(waves, 720, d=3),
         kernel=M52(lengthscale=0.6), solver=disjoint(120), undone={"solver": ap()}),
    Case(cause="BLOCKS", why="blocks of 200 random rows, 4 right-hand sides", noise=5e-3, data=partial(waves, 800),
         columns=4, solver=disjoint(200), undone={"solver": ap()}),
    # a rule that ignores the residual
    *(Case(cause="RULE", why=f"{name}, 1 of 12 clusters has a residual", data=clusters, noise=0.1,
           solver=disjoint(size, rule=name), undone={"solver": disjoint(size)})
      for name, size in (("cyclic", 25), ("random", 25), ("shuffled", 10))),
    # K of low rank: CG needs as few iterations as the rank, and blocks of neighbours miss the structure
    Case(cause="METHOD", why="few eigenvalues above σ², AP on neighbours", kernel=SMOOTH, noise=0.01,
         data=partial(waves, frequency=2.0), solver=ap(30, overlap=0.0, max_epochs=100), undone={"solver": cg()}),
    Case(cause="METHOD", why="few eigenvalues above σ², AP on neighbours, 16 right-hand sides", kernel=SMOOTH,
         noise=0.01, data=partial(waves, frequency=2.0), columns=16, solver=ap(60, overlap=0.0, max_epochs=100),
         undone={"solver": cg()}),
    Case(cause="METHOD", why="CG was seen to take little", kernel=RBF(lengthscale=1.0), noise=0.02,
         data=partial(waves, frequency=2.0), solver=ap(20, overlap=0.0, max_epochs=100), also=(cg(),),
         undone={"solver": cg()}),
    Case(cause="PRECONDITIONER", why="rank 3 where some 100 eigenvalues count", noise=5e-3, solver=cg(3),
         undone={"solver": cg(200)}),
    Case(cause="PRECONDITIONER", why="rank 8 where some 100 eigenvalues count, 3 inputs", noise=5e-3,
         data=partial(waves, 800, d=3), kernel=M52(lengthscale=0.7), solver=cg(8), undone={"solver": cg(300)}),
    # the data
    Case(cause="SCALE", why="one of two inputs in thousandths", data=partial(stretched, waves, 1.0, 1000.0),
         noise=0.5, solver=cg(), undone={"data": waves}),
    Case(cause="SCALE", why="inputs in very different units, AP", solver=ap(),
         data=partial(stretched, partial(waves, d=3, frequency=3.0), 2e3, 1.0, 50.0), kernel=M52(lengthscale=0.8),
         undone={"data": partial(waves, d=3, frequency=3.0)}),
    Case(cause="CONSTANT", why="every target is 7", data=sevens, noise=0.5,
         solver=cg(), undone={"data": waves}),
    # ended from outside
    Case(cause="INTERRUPTED", why="a limit on work", noise=0.5, solver=cg(), end="stopped", undone={"end": ""}),
    Case(cause="INTERRUPTED", why="Ctrl-C", noise=0.01, solver=ap(tol=1e-6), end="killed", undone={"end": ""}),
    # nothing wrong
    Case(cause=HEALTHY, why="CG", noise=0.5, solver=cg()),
    Case(cause=HEALTHY, why="PCG of rank 100", noise=0.05, solver=cg(100)),
    Case(cause=HEALTHY, why="Cholesky, hardly any noise", data=partial(waves, noise=1e-3), noise=1e-6,
         solver=apviz.Cholesky()),
    Case(cause=HEALTHY, why="auto", solver=AUTO, noise=0.01),
    Case(cause=HEALTHY, why="auto, 1,200 rows, 16 right-hand sides", data=partial(waves, 1200), solver=AUTO,
         columns=16, dtype=torch.float32),
    Case(cause=HEALTHY, why="overlapping AP", noise=0.01, solver=ap()),
    Case(cause=HEALTHY, why="overlapping AP as apviz has it, 1,500 rows", data=partial(waves, 1500), noise=0.05,
         solver=apviz.solvers.overlapping(tol=1e-2)),
    Case(cause=HEALTHY, why="AP on neighbours without overlap", noise=0.3, solver=ap(150, overlap=0.0)),
    Case(cause=HEALTHY, why="AP by the paper, float32", data=partial(waves, 1000), noise=1.0, dtype=torch.float32,
         solver=apviz.AlternatingProjection(block_size=100, tol=1e-2)),
    Case(cause=HEALTHY, why="CG, 8 inputs", data=partial(waves, d=8, frequency=1.0), kernel=M32(lengthscale=2.0),
         noise=0.5, solver=cg()),
    Case(cause=HEALTHY, why="CG with two-level Schwarz", noise=0.01,
         solver=apviz.ConjugateGradient(preconditioner=apviz.TwoLevelSchwarz(
             block_size=100, partition=PrincipalAxisTree(overlap=1.0)), tol=1e-2)),
    Case(cause=HEALTHY, why="a few rows twice", data=with_some_again, noise=0.5, solver=cg()),
    Case(cause=HEALTHY, why="a rough kernel, cyclic blocks", kernel=M12(lengthscale=0.5), noise=0.3,
         solver=ap(rule="cyclic")),
    Case(cause=HEALTHY, why="a lengthscale for every input", solver=AUTO,
         data=partial(stretched, partial(waves, d=3), 1.0, 100.0, 0.01), noise=0.1,
         kernel=M52(lengthscale=(0.8, 80.0, 0.008))),
]  # fmt: skip
