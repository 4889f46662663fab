"""The direct solve: a Cholesky factorisation of the whole K."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from apviz.factors import cholesky_with_jitter, more_digits
from apviz.memory import require_memory
from apviz.methods import CHOLESKY
from apviz.operators import CountingOperator
from apviz.settings import require_tolerance
from apviz.solvers.choosing.costs import memory_of_a_factor
from apviz.solvers.interface import SOLVERS, Prepared, Solver
from apviz.solvers.measuring.refinement import NO_GAIN
from apviz.solvers.state import EpochEnd, Events, Remeasure, State, Updated, column_inner

# Maximum number of refinements with the factor of K, or of K with jitter. Each gains the digits that the factor has.
MAX_REFINEMENTS = 10


@SOLVERS.register(CHOLESKY)
@dataclass(frozen=True, kw_only=True)
class Cholesky(Solver):
    """Direct solve with K = LLᵀ, W = L⁻ᵀL⁻¹B: O(n³) time, three n×n arrays; refined if one solve is not enough.

    Args:
        tol: tolerance on the mean of ‖r‖/‖b‖, recomputed. Above it the solve is refined, one epoch each; it has
            stagnated if a refinement gains nothing.

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
        require_memory(memory_of_a_factor(operator.uncounted), x.device, what, "use an iterative solver")
        scale = operator.largest_signal + operator.noise
        factor, jitter = cholesky_with_jitter(operator.block(slice(0, n)), "the matrix K", scale)
        if jitter:
            warnings.warn(
                f"the matrix needed a jitter of {jitter:.1e} on its diagonal to be factored; {more_digits(x.dtype)} "
                "avoids it",
                stacklevel=2,
            )
        return Factored(solver=self, given=operator.uncounted, operator=operator.uncounted, factor=factor)

    def epochs(self, prepared: Factored, state: State) -> Events:
        """Solve with the factor, then again for the remaining residual, to gain the digits that the factor lacks."""
        for _ in range(MAX_REFINEMENTS):
            before, residual = state.r.clone(), state.residual
            u = torch.cholesky_solve(state.r, prepared.factor)
            state.w += u
            fresh = yield Remeasure()
            yield Updated(-1, 0.5 * column_inner(u, before + fresh), is_whole_epoch=True)
            yield EpochEnd()
            if state.residual > NO_GAIN * residual:
                return


@dataclass(frozen=True, eq=False, kw_only=True)
class Factored(Prepared):
    """Set-up: the lower factor of K, (n, n)."""

    solver: Cholesky
    factor: Tensor
