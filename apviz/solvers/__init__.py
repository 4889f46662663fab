"""Solvers: frozen settings, one file each, all returning the same `Solution`."""

from apviz.factors import NotPositiveDefinite
from apviz.solvers.alternating_projection import AlternatingProjection
from apviz.solvers.automatic import Automatic, overlapping
from apviz.solvers.cholesky import Cholesky
from apviz.solvers.conjugate_gradient import ConjugateGradient
from apviz.solvers.interface import Epoch, Hook, NotConverged, Prepared, Solution, Solver, StopReason, Update
from apviz.solvers.run import Run
from apviz.solvers.solve import attempt, solve

__all__ = [
    "AlternatingProjection", "Automatic", "Cholesky", "ConjugateGradient", "Epoch", "Hook", "NotConverged",
    "NotPositiveDefinite", "Prepared", "Run", "Solution", "Solver", "StopReason", "Update", "attempt", "overlapping",
    "solve",
]  # fmt: skip
