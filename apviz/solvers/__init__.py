"""Solvers: frozen settings, one file each, all returning the same `Solution`."""

from apviz.factors import NotPositiveDefinite
from apviz.solvers.askotch import ASkotch
from apviz.solvers.automatic import Automatic, overlapping
from apviz.solvers.cholesky import Cholesky
from apviz.solvers.coloured_projection import ColouredProjection
from apviz.solvers.columns import Exact, Skeletons
from apviz.solvers.conjugate_gradient import ConjugateGradient
from apviz.solvers.coordinate_descent import CoordinateDescentPlusPlus
from apviz.solvers.gradient_descent import GradientDescent
from apviz.solvers.interface import SOLVERS, Epoch, Hook, NotConverged, Prepared, Solution, Solver, StopReason, Update
from apviz.solvers.precision import Precision
from apviz.solvers.projection import AlternatingProjection
from apviz.solvers.residuals import Certificate
from apviz.solvers.run import Run
from apviz.solvers.solve import attempt, checked_hooks, solve
from apviz.solvers.state import EpochEnd, Events, Remeasure, State, Updated
from apviz.solvers.steps import PlainStep, Subspace
from apviz.solvers.stochastic_dual_descent import StochasticDualDescent
from apviz.solvers.stopping import Stopping

__all__ = [
    "SOLVERS", "ASkotch", "AlternatingProjection", "Automatic", "Certificate", "Cholesky", "ColouredProjection",
    "ConjugateGradient", "CoordinateDescentPlusPlus", "Epoch", "EpochEnd", "Events", "Exact", "GradientDescent",
    "Hook", "NotConverged", "NotPositiveDefinite", "PlainStep", "Precision", "Prepared", "Remeasure", "Run",
    "Skeletons", "Solution", "Solver", "State", "StochasticDualDescent", "StopReason", "Stopping", "Subspace",
    "Update", "Updated", "attempt", "checked_hooks", "overlapping", "solve",
]  # fmt: skip
