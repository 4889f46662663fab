"""apviz's own methods on the leaderboard, as their users get them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import apviz
from apviz.solvers import (
    ASkotch,
    CoordinateDescentPlusPlus,
    GradientDescent,
    Solver,
    StochasticDualDescent,
    attempt,
    overlapping,
)
from benchmarks.leaderboard.problem import Entrant, Problem

MOST = 100_000
HERE = Path(__file__).parent


class Ours:
    """A solver of apviz, from float32 where it may."""

    def __init__(self, name: str, make: Callable[..., Solver], dtype: torch.dtype = torch.float32) -> None:
        self.name, self._make, self._dtype = name, make, dtype

    def prepare(self, problem: Problem) -> None:
        """Takes the system; the set-up is part of the solve, which may choose it by B and tolerance."""
        self._system = problem.system(self._dtype)
        self.work, self.label = 0.0, ""

    def solve(self, b: np.ndarray, tol: float) -> np.ndarray:
        """Solves to the tolerance, or as far as it gets."""
        solver = self._make(tol=tol, max_epochs=MOST)
        self.label = solver.label
        solution = attempt(self._system.with_right_hand_sides(torch.from_numpy(b)), solver)
        self.work += solution.work
        return solution.weights.numpy()


def _cg(preconditioner: Callable[[], Any] | None = None) -> Callable[..., Solver]:
    def make(**settings: Any) -> Solver:
        return apviz.ConjugateGradient(preconditioner=preconditioner() if preconditioner else None, **settings)

    return make


def _blocks(**fixed: Any) -> Callable[..., Solver]:
    return lambda **settings: apviz.AlternatingProjection(**fixed, **settings)


OURS = (
    Ours("auto", apviz.Automatic),
    Ours("A: AP, overlapping", overlapping),
    Ours("AP, the paper's", _blocks(block_size=400)),
    Ours("B: CG, two-level Schwarz", _cg(apviz.TwoLevelSchwarz)),
    Ours("CG", _cg()),
    Ours("CG, pivoted Cholesky 500", _cg(lambda: apviz.PivotedCholesky(rank=500))),
    Ours("CG, randomly pivoted Cholesky 500", _cg(lambda: apviz.RandomlyPivotedCholesky(rank=500))),
    Ours("CG, Nyström 500", _cg(lambda: apviz.preconditioners.Nystrom(rank=500))),
    Ours("CD++", CoordinateDescentPlusPlus),
    Ours("ASkotch, n/100", ASkotch),
    Ours("ASkotch, n/10", lambda **settings: ASkotch(block_size=400, **settings)),
    Ours("SDD", StochasticDualDescent),
    Ours("steepest descent", GradientDescent),
)


def entrant(name: str) -> Entrant:
    """Finds an entrant by its name here, or makes that of a file: `path/to/file.py:ClassName`.

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


#: who is on it where nobody is named
NAMES = (*(each.name for each in OURS), f"{HERE / 'minres.py'}:Minres")
