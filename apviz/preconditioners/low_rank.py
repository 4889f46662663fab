"""K ≈ LLᵀ + σ²I, inverted through the eigenvectors of LLᵀ: what the Cholesky-type preconditioners share."""

from __future__ import annotations

import torch
from torch import Tensor


class Eigenvectors:
    """LLᵀ = U diag(eigenvalues) Uᵀ for L: (n, r), with UᵀU = I to rounding.

    Attributes:
        u: (n, r) orthonormal columns, in the dtype of L.
        eigenvalues: (r,) float64, at least 0.
    """

    def __init__(self, low_rank: Tensor) -> None:
        q, r = torch.linalg.qr(low_rank)
        eigenvalues, vectors = torch.linalg.eigh(r.double() @ r.double().T)
        self.u = q @ vectors.to(q)
        self.eigenvalues = eigenvalues.clamp_min(0)

    def outside(self, r: Tensor, inside: Tensor) -> Tensor:
        """(I − UUᵀ) r, given `inside` = Uᵀr; projected twice, so that what is left of the span is clean."""
        outside: Tensor = r - self.u @ inside
        return outside.sub_(self.u @ (self.u.T @ outside))


class LowRankPlusNoise:
    """r ↦ (LLᵀ + σ²I)⁻¹ r = U(Λ + σ²)⁻¹Uᵀr + (I − UUᵀ)r/σ².

    Woodbury's (r − Q̃Q̃ᵀr)/σ² cancels along the leading eigenvectors, and in float32 loses positive definiteness
    once λmax/σ² passes about 1e6.
    """

    def __init__(self, low_rank: Tensor, noise: float) -> None:
        self.space = Eigenvectors(low_rank)
        self.scales = (1 / (self.space.eigenvalues + noise)).to(low_rank)[:, None]
        self.noise = noise

    def __call__(self, r: Tensor) -> Tensor:
        c = self.space.u.T @ r
        outside = self.space.outside(r, c)
        return outside.div_(self.noise).add_(self.space.u @ (c * self.scales))
