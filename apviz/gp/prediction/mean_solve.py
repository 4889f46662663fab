"""The solve for the weights of a mean: its system and its solver, its error, and what it leaves for later solves."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from apviz.gp.prediction.accuracy import ACCURACY, FactorKeeper, mean_error, mean_tolerance, warning_of
from apviz.gp.prediction.mean_products import operator_for
from apviz.gp.prediction.mean_system import MeanSystem
from apviz.gp.prediction.prediction_accuracy import MeanResidual
from apviz.gp.prediction.variances import to_tolerance
from apviz.operators import CountingOperator
from apviz.solvers import Hook, Prepared, Solution, Solver, StopReason, attempt, checked_hooks
from apviz.solvers.cholesky import Factored
from apviz.solvers.measuring.residuals import residual_for
from apviz.system import KernelSystem, check_finite, tensor_of

# bound on the errors of means, in posterior standard deviations, below which the weights need no correction
SMALL_BOUND = 0.1


class MeanSolve:
    """The solve of K W = y − μ: by which solver, its weights, and how far these are from exact.

    Args:
        given: the user's solver. None: the first that reaches the accuracy (`accuracy.ways`).
        accuracy: largest error of any mean, in posterior standard deviations. None: 0.05, but a given solver keeps its
            own tolerance.

    Attributes:
        system, solver: K and y − μ, and the solver.
        operator, double: the system's operator, which counts kernel entries, and the same in float64.
        solution: None if the weights were given.
        weights: (n,) float64.
        error: bound on the error of every mean, in posterior standard deviations; NaN if the weights were given.
        prepared: set-up of the solver, if it may serve other right-hand sides; else None.
        work: of all solves so far.
    """

    system: KernelSystem
    solver: Solver
    weights: Tensor

    def __init__(self, given: Solver | None, accuracy: float | None) -> None:
        self.given, self.accuracy = given, ACCURACY if accuracy is None else float(accuracy)
        self._may_tighten = given is None or accuracy is not None
        self.solution: Solution | None = None
        self.prepared: Prepared | None = None
        self._residual: MeanResidual | None = None
        self.error, self.work = math.nan, 0.0

    def run(self, systems: MeanSystem, hooks: Iterable[Hook], initial_weights: Any = None) -> None:
        """Solve by one way after another, until the error is small enough or the next solve would end the same way."""
        for system, solver in systems.ways(self.given, self.accuracy):
            self._begin(system, solver)
            self._solve(hooks, initial_weights)
            if self._is_done():
                return
            initial_weights = self.weights if bool(torch.isfinite(self.weights).all()) else None

    def take(self, systems: MeanSystem, weights: Any) -> None:
        """Take weights that are already known, (n,), without a solve."""
        self._begin(*next(systems.ways(self.given, self.accuracy)))
        given: Tensor = tensor_of(weights, "weights").to(self.system.device, torch.float64)
        if given.shape != (self.system.n,):
            raise ValueError(f"weights must have shape ({self.system.n},), got {tuple(given.shape)}")
        check_finite(given[:, None], "weights")
        self.system.operator.fix_engine(10.0 * self.system.n**2, 1)  # as a solve would
        self.weights = given

    def of_targets(self, y: Any, mean: float, hooks: Iterable[Hook], initial_weights: Any) -> MeanSolve:
        """Solve for other targets y, (n,), minus their mean by the same solver, whose set-up is built once."""
        y = tensor_of(y, "y")
        if y.shape != (self.system.n,):
            raise ValueError(f"y must have shape ({self.system.n},), got {tuple(y.shape)}")
        if self.prepared is None:
            self.prepared = self.solver.prepare(self.system.operator)
        made = self.replaced(y.double() - mean, self.weights, self.error)
        made.work = 0.0
        made._solve(hooks, initial_weights)
        return made

    def replaced(self, b: Tensor, weights: Tensor, error: float) -> MeanSolve:
        """Return this solve with other targets minus their mean, (n,), their weights, and the bound on errors."""
        made = copy.copy(self)
        made.system, made.weights, made.error = self.system.with_right_hand_sides(b), weights, error
        made._residual = None
        return made

    def warn(self, stacklevel: int) -> None:
        """Warn if the solve did not converge, or its error may exceed the accuracy."""
        assert self.solution is not None  # just solved
        if (warning := warning_of(self.system, self.solution, self.error, self.accuracy)) is not None:
            warnings.warn(warning, stacklevel=stacklevel)

    @property
    def seconds(self) -> float:
        """Seconds of the solve, or 0 if the weights were given."""
        return 0.0 if self.solution is None else self.solution.seconds

    @property
    def has_factor(self) -> bool:
        """Whether the solve left a Cholesky factor of K."""
        return isinstance(self.prepared, Factored)

    def attempt(self, b: Tensor, solver: Solver, hooks: Iterable[Hook], prepared: Prepared | None = None) -> Solution:
        """Solve K W = B, (n,) or (n, p), by any solver, with its set-up if it is that of the mean."""
        if prepared is None and solver is self.solver:
            prepared = self.prepared
        solution = attempt(self.system.with_right_hand_sides(b), solver, hooks, prepared=prepared)
        self.work += solution.work
        return solution

    def residual(self) -> MeanResidual:
        """Evaluate y − μ − KW in float64, once; entries cost 1.0 work."""
        if self._residual is None:
            self._residual = self._residual_of(None)
        return self._residual

    def corrected_residual(self, solver: Solver, hooks: list[Hook]) -> MeanResidual:
        """Return the residual of the weights or, if it is large, that of weights which this solver corrects."""
        found = self.residual()
        if found.bound <= SMALL_BOUND:
            return found
        tighter = to_tolerance(solver, 0.5 * SMALL_BOUND / found.bound)
        solution = attempt(self.system.with_right_hand_sides(found.r), tighter, hooks)
        return self._residual_of(solution.weights.to(found.r))

    def _residual_of(self, correction: Tensor | None) -> MeanResidual:
        b, w = self.system.given_b.double(), self.weights if correction is None else self.weights + correction
        found = residual_for(self._residual_operator, "operator").residual(b, w[:, None], 0.0)
        return MeanResidual(found.r[:, 0], float(found.rounding[0]), self._residual_operator.noise_of(), correction)

    @cached_property
    def _residual_operator(self) -> CountingOperator:
        return operator_for(self.operator, self.solution)

    def _begin(self, system: KernelSystem, solver: Solver) -> None:
        self.system, self.solver, self.operator = system, solver, CountingOperator(system.operator)
        self.double = self.operator if system.dtype is torch.float64 else self.operator.certifying()
        self.prepared = None

    def _solve(self, hooks: Iterable[Hook], initial_weights: Any) -> None:
        solver, keeper = self.solver, FactorKeeper()
        if self._may_tighten:
            solver = to_tolerance(solver, mean_tolerance(self.system, self.accuracy))
        self.solution = found = attempt(
            self.system, solver, [*checked_hooks(hooks), keeper], initial_weights, prepared=self.prepared
        )
        if self.prepared is None:
            self.prepared = keeper.factored
        self.work += found.work
        self.error = mean_error(self.system, found, self.double)
        self.weights = found.weights.to(self.system.device, torch.float64)

    def _is_done(self) -> bool:
        """Return whether the solve is good enough, or another attempt would end the same way."""
        assert self.solution is not None  # just solved
        reason = self.solution.stop_reason
        capped = self.given is not None and reason is StopReason.MAX_EPOCHS
        is_over = self.solution.converged or capped or reason is StopReason.STOPPED
        return is_over or self.error <= self.accuracy
