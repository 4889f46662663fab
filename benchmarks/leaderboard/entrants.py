"""apviz's own methods on the leaderboard, with their users' defaults."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import apviz
from apviz.solvers import (
    ASkotch,
    ColouredProjection,
    CoordinateDescentPlusPlus,
    GradientDescent,
    NotPositiveDefinite,
    Solution,
    Solver,
    StochasticDualDescent,
    attempt,
    overlapping,
)
from apviz.solvers.recommended import FEW_INPUTS
from benchmarks.leaderboard.problem import Entrant, Problem

MOST = 100_000
# r of SDD, as in its authors' notebook: what they derive from a number of steps set beforehand, here would be of MOST
SDD_AVERAGING = 0.01
HERE = Path(__file__).parent


Make = Callable[[Problem, dict[str, Any]], Solver]


class Ours:
    """A solver of apviz, in float32, then in float64 if float32 is not enough; its random numbers follow the seed."""

    def __init__(self, name: str, make: Make, most_inputs: int | None = None) -> None:
        self.name, self._make, self.most_inputs = name, make, most_inputs

    def prepare(self, problem: Problem) -> None:
        """Keep the system; the set-up is part of the solve, which may choose it by B and tolerance."""
        self._problem = problem
        self.work, self.label = 0.0, ""

    def solve(self, b: np.ndarray, tol: float) -> np.ndarray:
        """Solve to the tolerance, or as far as possible; float64 continues from the float32 result."""
        solver = self._make(self._problem, {"tol": tol, "max_epochs": MOST})
        self.label, found = f"{solver.method.name}, float32", None
        with contextlib.suppress(NotPositiveDefinite):  # by rounding, as float64 will show
            found = self._solved(b, solver, torch.float32)
        if found is None or not found.converged:
            self.label = f"{solver.method.name}, float64"
            weights = found.weights if found is not None and found.residual < 1 else None
            found = self._solved(b, solver, torch.float64, weights)
        return found.weights.numpy()

    def _solved(self, b: np.ndarray, solver: Solver, dtype: torch.dtype, start: torch.Tensor | None = None) -> Solution:
        system = self._problem.system(dtype).with_right_hand_sides(torch.from_numpy(b))
        solution = attempt(system, solver, initial_weights=start)
        self.work += solution.work
        return solution


def _cg(preconditioner: Callable[[int], Any] | None = None) -> Make:
    """Return CG with a preconditioner, made from a seed."""

    def make(problem: Problem, settings: dict[str, Any]) -> Solver:
        made = preconditioner(problem.seed) if preconditioner else None
        return apviz.ConjugateGradient(preconditioner=made, **settings)

    return make


def _drawing(solver: Callable[..., Solver]) -> Make:
    """Return a solver with a seed of its own."""
    return lambda problem, settings: solver(seed=problem.seed, **settings)


OURS = (
    Ours("auto", _drawing(apviz.Automatic)),
    Ours("A: AP, overlapping", _drawing(overlapping)),
    Ours("coloured, Fourier", _drawing(functools.partial(ColouredProjection, products="fourier")), FEW_INPUTS),
    Ours("AP, the paper's", _drawing(functools.partial(apviz.AlternatingProjection, block_size=400))),
    Ours("B: CG, two-level Schwarz", _cg(lambda seed: apviz.TwoLevelSchwarz(seed=seed))),
    Ours("Cholesky", lambda problem, settings: apviz.Cholesky(tol=settings["tol"])),
    Ours("CG", _cg()),
    Ours("CG, pivoted Cholesky 500", _cg(lambda seed: apviz.PivotedCholesky(rank=500))),
    Ours("CG, randomly pivoted Cholesky 500", _cg(lambda seed: apviz.RandomlyPivotedCholesky(rank=500, seed=seed))),
    Ours("CG, Nyström 500", _cg(lambda seed: apviz.preconditioners.Nystrom(rank=500, seed=seed))),
    Ours("CD++", _drawing(CoordinateDescentPlusPlus)),
    Ours("ASkotch, n/100", _drawing(ASkotch)),
    Ours(
        "ASkotch, n/10",
        lambda problem, settings: ASkotch(block_size=len(problem.x) // 10, seed=problem.seed, **settings),
    ),
    Ours("SDD", _drawing(functools.partial(StochasticDualDescent, averaging=SDD_AVERAGING))),
    Ours("steepest descent", _drawing(GradientDescent)),
)


def entrant(name: str) -> Entrant:
    """Return an entrant by its name here, or create that of a file: `path/to/file.py:ClassName`.

    Raises:
        ValueError: neither.
    """
    known = {each.name: each for each in OURS}
    if name in known:
        return known[name]
    path, _, kind = name.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"an entrant is path/to/file.py:ClassName, or one of {', '.join(known)}; got {name!r}")
    spec = importlib.util.spec_from_file_location("outsider", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Entrant = getattr(module, kind)()
    return made


HIGP = f"{HERE / 'higp_afn.py'}:AFN"


def names() -> tuple[str, ...]:
    """Return the default entrants: ours, SciPy, EFGP, and HiGP if it is installed."""
    others = (f"{HERE / 'minres.py'}:Minres", f"{HERE / 'efgp.py'}:EFGP")
    return (*(each.name for each in OURS), *others, *([HIGP] if has_higp() else []))


def has_higp() -> bool:
    """Test whether HiGP is installed and works."""
    return importlib.util.find_spec("higp_cext") is not None
