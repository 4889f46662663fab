"""Conjugate gradients for many right-hand sides at once, plain or preconditioned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from apviz.method import Method, settings_of, variant_of
from apviz.methods import CONJUGATE_GRADIENT
from apviz.operators import CountingOperator, Operator
from apviz.partitions import PARTITIONS, overlap_of
from apviz.preconditioners import PRECONDITIONERS, Preconditioner
from apviz.preconditioners.base import Apply
from apviz.settings import require
from apviz.solvers.interface import SOLVERS, Prepared, Solver
from apviz.solvers.recommended import resolve
from apviz.solvers.state import EpochEnd, Events, State, Updated
from apviz.solvers.stopping import Stopping


@SOLVERS.register(CONJUGATE_GRADIENT)
@dataclass(frozen=True, kw_only=True)
class ConjugateGradient(Solver):
    """Conjugate gradients (Hestenes & Stiefel, 1952), with one step length per right-hand side.

    Stops on the mean relative residual, as GPyTorch does (its minimum of 11 iterations, which the paper's
    experiments use, is `min_epochs=11`).

    Args:
        preconditioner: such as `apviz.PivotedCholesky(rank=500)`, or None.
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in iterations, each one product with K, 1.0 work.
        check_every: iterations between recomputations of the residual; convergence is always checked. A check
            replaces the residual, and restarts the recursion, only if the recursion claimed convergence wrongly.

    Raises:
        ValueError: a setting out of range, with the accepted values.

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
        Stopping.of(self)
        known = self.preconditioner is None or hasattr(self.preconditioner, "build")
        accepted = "an object of apviz.preconditioners, such as apviz.PivotedCholesky(rank=100), or None"
        require(known and not isinstance(self.preconditioner, type), "preconditioner", self.preconditioner, accepted)

    @property
    def method(self) -> Method:
        plain = Method(family=CONJUGATE_GRADIENT)
        if (inner := self.preconditioner) is None:
            return plain
        own = settings_of(inner)
        common = own.keys() & {"rank", "block_size", "coarse_rank"}
        shared: dict[str, Any] = {name: own.pop(name) for name in common}
        if (partition := own.pop("partition", None)) is not None:
            shared["partition"] = partition if isinstance(partition, str) else PARTITIONS.name_of(partition)
            shared["overlap"] = overlap_of(partition)
        if own.pop("coarse", None) == "galerkin":
            shared["coarse"] = "galerkin"
        own.pop("seed", None)
        return replace(plain, preconditioner=PRECONDITIONERS.name_of(inner), variant=variant_of(own), **shared)

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[ConjugateGradient, Mapping[str, str]]:
        if self.preconditioner is None:
            return self, {}
        preconditioner, choices = resolve(self.preconditioner, operator, columns)
        return replace(self, preconditioner=preconditioner), choices

    def build(self, operator: CountingOperator, columns: int) -> Prepared:
        apply = self.preconditioner.build(operator) if self.preconditioner else None
        whole = operator.uncounted
        return Prepared(solver=self, given=whole, operator=whole.sharded(), preconditioner=apply)

    def init(self, prepared: Prepared, state: State) -> Directions:
        return Directions(**vars(state), precondition=prepared.preconditioner or _identity)

    def epochs(self, prepared: Prepared, state: Directions) -> Events:
        return iterations(state)


@dataclass(eq=False, kw_only=True)
class Directions(State):
    """State of the iteration.

    Args:
        precondition: r ↦ P⁻¹r, for residuals with all rows.
        norms: computes the norms of blocks of r, (m, l+1), if the solve reports them.
    """

    precondition: Apply
    norms: Callable[[Tensor], Tensor | None] = lambda r: None
    restart: bool = True

    def preconditioned(self) -> Tensor:
        """Return P⁻¹r for the local rows; every rank applies P to all rows."""
        layout = self.operator.layout
        return self.r if self.precondition is _identity else layout.local(self.precondition(layout.whole(self.r)))

    def block_norms(self) -> Tensor | None:
        return self.norms(self.r)

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """Restart the recursion from B − KW if its claim was false."""
        if claimed:
            self.r.copy_(fresh)
            self.restart = True
        return claimed


def iterations(state: Directions) -> Events:
    """Iterate (Hestenes & Stiefel, 1952), with separate step lengths per right-hand side."""
    w, r, operator = state.w, state.r, state.operator
    rz = p = r  # the restart sets both at once
    while True:
        z = state.preconditioned()
        rz, rz_before = operator.layout.sum(_inner(r, z)), rz
        p = z.clone() if state.restart else p.mul_(_ratio(rz, rz_before)).add_(z)
        state.restart = False
        kp = operator.matmul(p)
        curvature, slope = operator.layout.sum(torch.stack([_inner(p, kp), _inner(p, r)]))
        step = _ratio(rz, curvature)
        w += p * step
        r.addcmul_(kp, step, value=-1)
        # h is quadratic; step · rᵀz ÷ 2 would be exact only if rounding left p conjugate
        decrease = step.double() * (slope.double() - 0.5 * step.double() * curvature.double())
        yield Updated(-1, decrease, is_whole_epoch=True)
        yield EpochEnd()


def _identity(r: Tensor) -> Tensor:
    return r


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Return aᵢᵀbᵢ for every column i: (n, p), (n, p) to (p,); in their dtype, as for steps; energies use float64."""
    return torch.einsum("np,np->p", a, b)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """Return a/b, and 0 if b is 0: an exactly solved column stays unchanged."""
    return torch.where(b == 0, 0.0, a / b)
