"""Conjugate gradients for many right-hand sides at once, plain or preconditioned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from apviz.method import CONJUGATE_GRADIENT, Method, settings_of, variant_of
from apviz.operators import CountingOperator, Operator
from apviz.partitions import PARTITIONS
from apviz.preconditioners import PRECONDITIONERS, Preconditioner
from apviz.preconditioners.base import Apply
from apviz.settings import require, require_tolerance, require_whole
from apviz.solvers.choices import resolve
from apviz.solvers.interface import SOLVERS, Prepared, Solver, StopReason
from apviz.solvers.refinement import Limits
from apviz.solvers.run import Run
from apviz.solvers.steps import column_squares


@SOLVERS.register(CONJUGATE_GRADIENT)
@dataclass(frozen=True, kw_only=True)
class ConjugateGradient(Solver):
    """Iterates by conjugate gradients (Hestenes & Stiefel, 1952), with one step length per right-hand side.

    Stops on the mean relative residual, as GPyTorch does (its minimum of 11 iterations, which the paper's
    experiments use, is `min_epochs=11`).

    Args:
        preconditioner: such as `apviz.PivotedCholesky(rank=500)`, or None.
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in iterations, each one product with K, 1.0 work.
        check_every: iterations between recomputations of the residual; convergence is always checked. A check
            replaces the residual, and restarts the recursion, only if the recursion claimed convergence wrongly.

    Raises:
        ValueError: a setting out of range, with what would be accepted.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(tol=1e-6))
        >>> solution.converged, solution.residual < 1e-6
        (True, True)
        >>> solution.work >= solution.epochs  # one product with K an iteration, and the checks
        True
    """

    preconditioner: Preconditioner | None = None
    tol: float = 1e-2
    max_epochs: int = 1000
    min_epochs: int = 0
    check_every: int = 50

    name: ClassVar[str] = "ConjugateGradient"

    def __post_init__(self) -> None:
        require_tolerance(self.tol)
        known = self.preconditioner is None or hasattr(self.preconditioner, "build")
        accepted = "an object of apviz.preconditioners, such as apviz.PivotedCholesky(rank=100), or None"
        require(known and not isinstance(self.preconditioner, type), "preconditioner", self.preconditioner, accepted)
        require_whole("max_epochs", self.max_epochs, 1)
        require_whole("min_epochs", self.min_epochs, 0, self.max_epochs)
        require_whole("check_every", self.check_every, 1)

    @property
    def method(self) -> Method:
        plain = Method(family=CONJUGATE_GRADIENT)
        if (inner := self.preconditioner) is None:
            return plain
        own = settings_of(inner)
        common = own.keys() & {"rank", "block_size", "overlap", "coarse_rank"}
        shared: dict[str, Any] = {name: own.pop(name) for name in common}
        if (partition := own.pop("partition", None)) is not None:
            shared["partition"] = partition if isinstance(partition, str) else PARTITIONS.name_of(partition)
        if own.pop("coarse", None) == "galerkin":
            shared["coarse"] = "galerkin"
        own.pop("seed", None)
        return replace(plain, preconditioner=PRECONDITIONERS.name_of(inner), variant=variant_of(own), **shared)

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[ConjugateGradient, Mapping[str, str]]:
        if self.preconditioner is None:
            return self, {}
        preconditioner, choices = resolve(self.preconditioner, operator, columns)
        return replace(self, preconditioner=preconditioner), choices

    def build(self, operator: CountingOperator, columns: int) -> Preconditioned:
        settings, choices = self.resolve(operator, columns)
        apply = settings.preconditioner.build(operator) if settings.preconditioner else None
        return Preconditioned(
            solver=settings, given=operator.uncounted, operator=operator.uncounted.sharded(),
            choices=choices, preconditioner=apply,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Preconditioned(Prepared):
    """Set-up: the preconditioner, or none."""

    solver: ConjugateGradient

    def run(self, run: Run) -> StopReason:
        b = self.in_order(run.b)
        if run.initial_weights is None:
            w, r = torch.zeros_like(b, dtype=torch.float64), b.to(run.operator.x.dtype, copy=True)
        else:
            w = self.in_order(run.initial_weights)
            r = run.residual_of(run.initial_weights).to(run.operator.x.dtype)
        iteration, s = Iteration(run, run.operator, self.preconditioner or _identity, b, w, r), self.solver
        run.start(iteration, Limits(s.tol, s.min_epochs, s.max_epochs, s.check_every))
        return iteration.iterate()


class Iteration:
    """The state of the iteration.

    Args:
        run: has been told of it before `iterate`.
        precondition: of residuals of which all rows are here.
        b, w, r: (n, l+1) the right-hand sides, and weights and residual to start from, which are changed.
        norms: of blocks of r, (m, l+1), where the run reports some.
    """

    def __init__(
        self, run: Run, operator: Operator, precondition: Apply, b: Tensor, w: Tensor, r: Tensor,
        norms: Callable[[Tensor], Tensor | None] = lambda r: None,
    ) -> None:  # fmt: skip
        self.run, self.operator = run, operator
        self._precondition = precondition
        self.b, self.w, self.r, self._norms = b, w, r, norms
        self.restart = True

    def iterate(self) -> StopReason:
        run, w, r, layout = self.run, self.w, self.r, self.operator.layout
        rz = p = r  # set at once by the restart
        while True:
            z = self.precondition(r)
            rz, rz_before = layout.sum(_inner(r, z)), rz
            p = z.clone() if self.restart else p.mul_(_ratio(rz, rz_before)).add_(z)
            self.restart = False
            kp = self.operator.matmul(p)
            curvature, slope = layout.sum(torch.stack([_inner(p, kp), _inner(p, r)]))
            step = _ratio(rz, curvature)
            w += p * step
            r.addcmul_(kp, step, value=-1)
            squared = layout.sum(column_squares(r))
            # h is quadratic; step · rᵀz ÷ 2 would hold only as far as rounding leaves p conjugate
            run.updated(-1, step.double() * (slope.double() - 0.5 * step.double() * curvature.double()), squared)
            reason = run.end_epoch(squared)
            if reason is not None:
                return reason

    def precondition(self, r: Tensor) -> Tensor:
        """Computes P⁻¹r for the rows that are here: every rank applies P to all of them."""
        layout = self.operator.layout
        return r if self._precondition is _identity else layout.local(self._precondition(layout.whole(r)))

    # --- what the run asks for ------------------------------------------------------------------------------------

    def weights(self) -> Tensor:
        return self.w

    def block_norms(self) -> Tensor | None:
        return self._norms(self.r)

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """A claim that was false restarts the recursion from B − KW."""
        if claimed:
            self.r.copy_(fresh)
            self.restart = True
        return claimed


def _identity(r: Tensor) -> Tensor:
    return r


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """aᵢᵀbᵢ for every column i: (n, p), (n, p) to (p,); in their dtype, as steps are, where energies are in float64."""
    return torch.einsum("np,np->p", a, b)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """a/b, and 0 where b is 0: a column that is solved exactly stays as it is."""
    return torch.where(b == 0, 0.0, a / b)
