"""Conjugate gradients for many right-hand sides at once, plain or preconditioned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from apviz.preconditioners.base import Preconditioner
from apviz.settings import require_tolerance, require_whole
from apviz.solvers.interface import StopReason
from apviz.solvers.solve import Limits, Run, Solver, column_squares
from apviz.system import KernelSystem


@dataclass(frozen=True)
class ConjugateGradient(Solver):
    """Conjugate gradients (Hestenes & Stiefel, 1952), one step length per right-hand side.

    Stops on the mean relative residual, as GPyTorch does (its minimum of 11 iterations, which the paper's
    experiments use, is `min_iterations=11`).

    Args:
        preconditioner: such as `apviz.PivotedCholesky(rank=500)`, or None.
        tol: stop when the mean relative residual, recomputed, is below this.
        max_iterations, min_iterations: one iteration is one product with K, 1.0 work.
        check_every: iterations between recomputations of the residual; convergence is always checked. A check
            replaces the residual, and restarts the recursion, only if the recursion claimed convergence wrongly.

    Raises:
        ValueError: a setting out of range, with what would be accepted.
    """

    preconditioner: Preconditioner | None = None
    tol: float = 1e-2
    max_iterations: int = 1000
    min_iterations: int = 0
    check_every: int = 50

    name: ClassVar[str] = "ConjugateGradient"

    def __post_init__(self) -> None:
        require_tolerance(self.tol)
        require_whole("max_iterations", self.max_iterations, 1)
        require_whole("min_iterations", self.min_iterations, 0, self.max_iterations)
        require_whole("check_every", self.check_every, 1)

    @property
    def label(self) -> str:
        return f"PCG {self.preconditioner.label}" if self.preconditioner else "CG"

    def resolve(self, system: KernelSystem) -> tuple[Solver, Mapping[str, str]]:
        if self.preconditioner is None:
            return self, {}
        preconditioner, choices = self.preconditioner.resolve(system)
        return replace(self, preconditioner=preconditioner), choices

    def run(self, run: Run) -> StopReason:
        operator, b = run.operator, run.b
        precondition = run.preconditioner = self.preconditioner.build(operator) if self.preconditioner else _identity
        w = torch.zeros_like(b) if run.initial_weights is None else run.initial_weights.clone()
        r = b.clone() if run.initial_weights is None else b - operator.matmul(w)
        run.start(lambda: w, r, None)
        limits = Limits(self.tol, self.min_iterations, self.max_iterations, self.check_every)
        restart = True
        rz = p = r  # set at once by the restart

        def adopt(fresh: Tensor, claimed: bool) -> None:
            nonlocal restart
            if claimed:
                r.copy_(fresh)
                restart = True

        while True:
            z = precondition(r)
            rz, rz_before = _inner(r, z), rz
            p = z.clone() if restart else p.mul_(_ratio(rz, rz_before)).add_(z)
            restart = False
            kp = operator.matmul(p)
            step = _ratio(rz, _inner(p, kp))
            w.addcmul_(p, step)
            r.addcmul_(kp, step, value=-1)
            # exact line search: each column lowers h by half of step · rᵀz
            squared = column_squares(r)
            run.updated(-1, 0.5 * step.double() * rz.double(), squared)
            reason = run.end_epoch(squared, lambda: None, lambda: run.fresh_residual(b, w), adopt, limits)
            if reason is not None:
                return reason


def _identity(r: Tensor) -> Tensor:
    return r


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """aᵢᵀbᵢ for every column i: (n, p), (n, p) to (p,)."""
    return torch.einsum("np,np->p", a, b)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """a/b, and 0 where b is 0: a column that is solved exactly stays as it is."""
    return torch.where(b == 0, 0.0, a / b)
