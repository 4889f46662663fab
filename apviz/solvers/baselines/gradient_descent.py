"""Gradient descent and steepest descent on h(W) = ½tr(WᵀKW) − tr(BᵀW): the baseline of every other method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch

from apviz.method import Method, variant_of
from apviz.operators import CountingOperator
from apviz.settings import require
from apviz.solvers.baselines.iterates import Iterate, Iteration, IterativeSolver, estimated_largest_eigenvalue
from apviz.solvers.interface import SOLVERS, Prepared
from apviz.solvers.state import State, column_inner, column_squares

StepLength = Literal["exact", "constant"]


@SOLVERS.register("gradient-descent")
@dataclass(frozen=True, kw_only=True)
class GradientDescent(IterativeSolver):
    """Descent along the residual, with a constant step or the one that lowers h most (Cauchy, 1847).

    With exact steps the K-norm of the error after t steps is at most ((κ−1)/(κ+1))ᵗ of the initial one (Saad,
    *Iterative Methods for Sparse Linear Systems*, 2003, theorem 5.2); for conjugate gradients replace κ by √κ.

    Args:
        step: `exact`, a line search for every right-hand side: steepest descent; `constant`: 1/λmax(K), estimated from
            500 rows.
        tol, max_epochs, min_epochs, check_every, seed: as for every iterative solver; an epoch is a step, 1.0 work.

    Raises:
        ValueError: a setting out of range, with the accepted values.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=1.0, device="cpu")
        >>> steepest = apviz.solve(system, apviz.solvers.GradientDescent(tol=1e-4))
        >>> steepest.epochs > apviz.solve(system, apviz.ConjugateGradient(tol=1e-4)).epochs
        True
    """

    step: StepLength = "exact"

    name: ClassVar[str] = "GradientDescent"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.step in get_args(StepLength), "step", self.step, f"one of {', '.join(get_args(StepLength))}")

    @property
    def method(self) -> Method:
        return Method(family="gradient-descent", variant=variant_of({"step": self.step}))

    def build(self, operator: CountingOperator, columns: int) -> _Prepared:
        largest = estimated_largest_eigenvalue(operator, self.seed) if self.step == "constant" else None
        return _Prepared(solver=self, given=operator.uncounted, operator=operator.uncounted, largest=largest)

    def init(self, prepared: _Prepared, state: State) -> _Descent:
        return _Descent(prepared, state)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Prepared(Prepared):
    solver: GradientDescent
    #: estimate of λmax(K), for constant steps
    largest: float | None


class _Descent(Iteration):
    """State of one solve."""

    def __init__(self, prepared: _Prepared, start: State) -> None:
        super().__init__(start, prepared.solver.seed)
        self.largest = prepared.largest

    def update(self) -> None:
        r = self.point.r.clone()
        kr = self.operator.matmul(r)
        if self.largest is None:
            curvature = column_inner(r, kr)
            step = torch.where(curvature > 0, column_squares(r).to(curvature) / curvature, 0.0)
        else:
            step = torch.full_like(column_squares(r), 1 / self.largest)
        self.point.add_(Iterate(r.double(), -kr), step)
