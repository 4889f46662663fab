"""The direct solve: a Cholesky factorisation of the whole K."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from apviz.factors import cholesky_with_jitter, more_digits
from apviz.memory import require_memory
from apviz.method import CHOLESKY
from apviz.operators import CountingOperator
from apviz.settings import require_tolerance
from apviz.solvers.interface import SOLVERS, Prepared, Solver, StopReason
from apviz.solvers.refinement import NO_GAIN, Limits
from apviz.solvers.run import Run
from apviz.solvers.steps import column_inner

# with the factor of K, or of K with jitter: each lowers the residual by what the factor lacks in digits
MAX_REFINEMENTS = 10


def arrays(n: int) -> int:
    """Counts the numbers that a factorisation holds at once: three n × n arrays."""
    return 3 * n**2


@SOLVERS.register(CHOLESKY)
@dataclass(frozen=True, kw_only=True)
class Cholesky(Solver):
    """Factors K = LLᵀ and solves W = L⁻ᵀL⁻¹B: O(n³) time, three n×n arrays; refined where one update is not enough.

    Args:
        tol: what the mean of ‖r‖/‖b‖, recomputed, is held against; while it is missed, the solve is
            refined (an epoch each), and has stagnated where that gains nothing.

    Raises:
        MemoryError: K does not fit the free memory.
        NotPositiveDefinite: K has no factor even with jitter.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solution = apviz.solve(system, apviz.Cholesky())
        >>> solution.epochs, solution.residual < 1e-9
        (1, True)
    """

    tol: float = 1e-2
    name: ClassVar[str] = "Cholesky"

    def __post_init__(self) -> None:
        require_tolerance(self.tol)

    def build(self, operator: CountingOperator, columns: int) -> Factored:
        n, x = operator.n, operator.x
        what = f"a Cholesky factorisation of n = {n} rows needs"
        require_memory(arrays(n) * x.element_size(), x.device, what, "use an iterative solver")
        scale = operator.largest_signal + operator.noise
        factor, jitter = cholesky_with_jitter(operator.block(slice(0, n)), "the matrix K", scale)
        if jitter:
            warnings.warn(
                f"the matrix needed a jitter of {jitter:.1e} on its diagonal to be factored; {more_digits(x.dtype)} "
                "avoids it",
                stacklevel=2,
            )
        return Factored(solver=self, given=operator.uncounted, operator=operator.uncounted, factor=factor)


@dataclass(frozen=True, eq=False, kw_only=True)
class Factored(Prepared):
    """Set-up: the lower factor of K, (n, n)."""

    solver: Cholesky
    factor: Tensor

    def run(self, run: Run) -> StopReason:
        return _Direct(self, run).solve()


class _Direct:
    """The update of a direct solve, and its refinements."""

    def __init__(self, prepared: Factored, run: Run) -> None:
        self.prepared, self.run, self.b = prepared, run, run.b
        if run.initial_weights is None:
            self.w, self.r = torch.zeros_like(self.b, dtype=torch.float64), self.b.to(run.operator.x.dtype, copy=True)
        else:
            self.w = run.initial_weights
            self.r = run.residual_of(self.w).to(run.operator.x.dtype)

    def solve(self) -> StopReason:
        run, r = self.run, self.r
        run.start(self, Limits(self.prepared.solver.tol, 0, MAX_REFINEMENTS, 1))
        while True:
            before, residual = r.clone(), run.residual
            u = torch.cholesky_solve(r, self.prepared.factor)
            self.w += u
            fresh, squared = run.fresh_residual()
            r.copy_(fresh)
            run.updated(-1, 0.5 * column_inner(u, before + fresh), squared)
            reason = run.end_epoch(squared, is_fresh=True)
            if reason is StopReason.MAX_EPOCHS or (reason is None and run.residual > NO_GAIN * residual):
                return StopReason.STAGNATED
            if reason is not None:
                return reason

    # --- what the run asks for ------------------------------------------------------------------------------------

    def weights(self) -> Tensor:
        return self.w

    def block_norms(self) -> None:
        return None

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """There is no recursion: each update starts from B − KW."""
        return True
