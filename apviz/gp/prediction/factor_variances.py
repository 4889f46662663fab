"""Posterior variances by the Cholesky factor that a solve has left behind: one triangular solve for a batch of points.

With K + E = LLᵀ and v = L⁻¹c, cᵀ(K + E)⁻¹c = ‖v‖². It differs from cᵀK⁻¹c by wᵀEw to first order, w = L⁻ᵀv, so by at
most ‖E‖ ‖w‖². As all eigenvalues of K are at least σ², ‖w‖ ≤ ‖v‖/σ, which needs no second solve. The size of E, which
contains the rounding of the factorisation and a jitter, is measured by products with random vectors.
"""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers import Prepared
from apviz.solvers.cholesky import Factored

#: random vectors that measure ‖E‖, and what their mean is multiplied by: it may be too small, and a triangular solve
#: rounds as well
PROBES, SAFETY = 4, 3.0
# rounding error of an entry of k(X, x*), in ε
ROUNDINGS = 8.0


class Explained(NamedTuple):
    """Explained variances of m points.

    Attributes:
        values: cᵀK⁻¹c, (m,).
        error: bounds on their errors, (m,).
        residual: a bound on the relative residual of w, averaged over points.
        w: K⁻¹c, (n, m), if it was computed for a tight bound.
    """

    values: Tensor
    error: Tensor
    residual: float
    w: Tensor | None = None


class FactorVariances:
    """Explained variances cᵀK⁻¹c by a lower factor L of K, both in float64; `error` estimates ‖LLᵀ − K‖ from above."""

    def __init__(self, factor: Tensor, operator: CountingOperator) -> None:
        self._factor, self._noise = factor, operator.noise
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(operator.n, PROBES, generator=generator, dtype=torch.float64).to(factor)
        difference = factor @ (factor.T @ z) - operator.uncounted.matmul(z)
        self.error = SAFETY * float(torch.linalg.vector_norm(difference)) / PROBES**0.5

    @classmethod
    def of(cls, prepared: Prepared, operator: CountingOperator) -> FactorVariances | None:
        """Return the variances by the factor of a solver's set-up; None if it has no factor in float64."""
        return cls(prepared.factor, operator) if cls.fits(prepared) else None

    @staticmethod
    def fits(prepared: Prepared) -> TypeGuard[Factored]:
        """Return whether a set-up has a factor in float64."""
        return isinstance(prepared, Factored) and prepared.factor.dtype is torch.float64

    def explained(self, c: Tensor, *, tightly: bool = False) -> Explained:
        """Compute cᵀK⁻¹c of each column of c: (n, m); `tightly`: bound it by w, by a second triangular solve."""
        v = torch.linalg.solve_triangular(self._factor, c, upper=False)
        found, norms = torch.einsum("nm,nm->m", v, v), torch.linalg.vector_norm(c, dim=0)
        if tightly:
            w = torch.linalg.solve_triangular(self._factor.T, v, upper=True)
            weights = torch.linalg.vector_norm(w, dim=0)
        else:
            w = None
            weights = (found / self._noise).sqrt()
        of_entries = 2 * ROUNDINGS * torch.finfo(c.dtype).eps * norms * weights
        residual = self.error * float((weights / norms.clamp_min(torch.finfo(c.dtype).tiny)).mean())
        return Explained(found, self.error * weights.square() + of_entries, residual, w)
