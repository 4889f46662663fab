"""Solvers: frozen settings, one file each, all returning the same `Solution`."""

from apviz.factors import NotPositiveDefinite
from apviz.solvers.baselines.askotch import ASkotch
from apviz.solvers.baselines.coordinate_descent import CoordinateDescentPlusPlus
from apviz.solvers.baselines.gradient_descent import GradientDescent
from apviz.solvers.baselines.stochastic_dual_descent import StochasticDualDescent
from apviz.solvers.cholesky import Cholesky
from apviz.solvers.choosing.automatic import Automatic, overlapping
from apviz.solvers.coloured.projection import ColouredProjection
from apviz.solvers.columns import Exact, Skeletons
from apviz.solvers.conjugate_gradient import ConjugateGradient
from apviz.solvers.interface import SOLVERS, Epoch, Hook, NotConverged, Prepared, Solution, Solver, StopReason, Update
from apviz.solvers.measuring.residuals import Certificate
from apviz.solvers.precision import Precision
from apviz.solvers.projection import AlternatingProjection
from apviz.solvers.run import Run
from apviz.solvers.solve import attempt, checked_hooks, solve
from apviz.solvers.state import EpochEnd, Events, Remeasure, State, Updated
from apviz.solvers.steps import PlainStep, Subspace
from apviz.solvers.stopping import Stopping

__all__ = [
    "SOLVERS", "ASkotch", "AlternatingProjection", "Automatic", "Certificate", "Cholesky", "ColouredProjection",
    "ConjugateGradient", "CoordinateDescentPlusPlus", "Epoch", "EpochEnd", "Events", "Exact", "GradientDescent",
    "Hook", "NotConverged", "NotPositiveDefinite", "PlainStep", "Precision", "Prepared", "Remeasure", "Run",
    "Skeletons", "Solution", "Solver", "State", "StochasticDualDescent", "StopReason", "Stopping", "Subspace",
    "Update", "Updated", "attempt", "checked_hooks", "overlapping", "solve",
]  # fmt: skip
