"""The direct solve: a Cholesky factorisation of the whole K."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import psutil
import torch

from apviz.factors import cholesky_with_jitter
from apviz.settings import require_tolerance
from apviz.solvers.interface import StopReason
from apviz.solvers.solve import Limits, Run, Solver, column_inner


@dataclass(frozen=True)
class Cholesky(Solver):
    """K = LLᵀ, W = L⁻ᵀL⁻¹B: O(n³) time, three n×n arrays. One update, set-up and all.

    Args:
        tol: what the recomputed residual is held against; a factorisation that misses it has stagnated.

    Raises:
        MemoryError: K does not fit the free memory.
        NotPositiveDefinite: K has no factor even with jitter.
    """

    tol: float = 1e-2
    name: ClassVar[str] = "Cholesky"

    def __post_init__(self) -> None:
        require_tolerance(self.tol)

    @property
    def label(self) -> str:
        return "Cholesky"

    def run(self, run: Run) -> StopReason:
        system, operator = run.system, run.operator
        needed = 3 * system.n**2 * system.x.element_size()
        if system.device.type == "cpu" and needed > 0.9 * psutil.virtual_memory().available:
            raise MemoryError(
                f"a Cholesky factorisation of n = {system.n} rows needs {needed / 2**30:.1f} GiB, "
                f"{psutil.virtual_memory().available / 2**30:.1f} GiB are free; use an iterative solver"
            )
        factor, jitter = cholesky_with_jitter(
            operator.block(slice(0, system.n)), "the matrix K", system.kernel.outputscale + system.noise
        )
        if jitter:
            warnings.warn(
                f"the matrix needed a jitter of {jitter:.1e} on its diagonal to be factored; float64 or more noise "
                "avoids it",
                stacklevel=2,
            )
        b = run.b
        w = torch.zeros_like(b) if run.initial_weights is None else run.initial_weights.clone()
        r = b.clone() if run.initial_weights is None else b - operator.matmul(w)
        run.start(lambda: w, r, None)
        r_before = r.clone()
        u = torch.cholesky_solve(r, factor)
        w += u
        fresh, squared = run.fresh_residual(b, w)
        r.copy_(fresh)
        run.updated(-1, 0.5 * column_inner(u, r_before + fresh), squared)
        # there is no recursion that could have drifted
        reason = run.end_epoch(squared, lambda: None, lambda: (fresh, squared), None, Limits(self.tol, 0, 1, 1))
        return StopReason.STAGNATED if reason is StopReason.MAX_EPOCHS or reason is None else reason
