"""Two levels: a fine preconditioner M for the local part of K, and r vectors for the smooth part."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from apviz.operators import Noise


class TwoLevel:
    """The map r ↦ V G Vᵀr + (I − V Tᵀ) M (I − T Vᵀ) r for VᵀT = I, the form of every coarse space here.

    The part inside the span is removed before M and again after it. So rounding cannot make the sum indefinite, however
    large λmax/σ² is; it can make Woodbury's difference indefinite.

    Args:
        fine: M, symmetric positive definite.
        v, t: (n, r), the coarse space and its image.
        middle: (r, r) G, symmetric positive definite.
    """

    def __init__(self, fine: Callable[[Tensor], Tensor], v: Tensor, t: Tensor, middle: Tensor) -> None:
        self.fine, self.v, self.t, self.middle = fine, v, t, middle.to(v)

    def __call__(self, r: Tensor) -> Tensor:
        inside = self.v.T @ r
        y = self.fine(r - self.t @ inside)
        return y.add_(self.v @ (self.middle @ inside - self.t.T @ y))


def biorthonormal(v: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute V F⁻ᵀ and T F⁻ᵀ, whose product is I, and F of VᵀT = FFᵀ in float64; v, t: (n, r), VᵀT symmetric."""
    e = v.double().T @ t.double()
    factor = torch.linalg.cholesky((e + e.T) / 2)
    basis = torch.linalg.solve_triangular(factor, torch.eye(len(e)).to(e), upper=False).T.to(v)
    return v @ basis, t @ basis, factor


def eigenvectors(factor: Tensor) -> tuple[Tensor, Tensor]:
    """Compute U (n, r) and Λ (r,) float64 of LLᵀ = UΛUᵀ for the factor L: (n, r)."""
    q, triangle = torch.linalg.qr(factor)
    spectrum, vectors = torch.linalg.eigh(triangle.double() @ triangle.double().T)
    return q @ vectors.to(q), spectrum.clamp_min(0)


def low_rank(fine: Callable[[Tensor], Tensor], factor: Tensor) -> TwoLevel:
    """Build r ↦ (M⁻¹ + LLᵀ)⁻¹ r for the factor L: (n, r).

    With LLᵀ = UΛUᵀ, V = MU and T = U, Woodbury's M − V(Λ⁻¹ + VᵀU)⁻¹Vᵀ is the sum that `TwoLevel` forms, with
    G = (I + FᵀΛF)⁻¹ for VᵀU = FFᵀ.
    """
    u, spectrum = eigenvectors(factor)
    v, t, root = biorthonormal(fine(u), u)
    inverse = torch.linalg.cholesky(torch.eye(len(root)).to(root) + root.T @ (spectrum[:, None] * root))
    return TwoLevel(fine, v, t, torch.cholesky_inverse(inverse))


def galerkin(fine: Callable[[Tensor], Tensor], factor: Tensor, matmul: Callable[[Tensor], Tensor]) -> TwoLevel:
    """Build r ↦ (Q + (I − QK) M (I − KQ)) r, Q = V(VᵀKV)⁻¹Vᵀ, V the span of the factor: (n, r); one product KV."""
    v = torch.linalg.qr(factor).Q
    v, t, _ = biorthonormal(v, matmul(v))
    return TwoLevel(fine, v, t, torch.eye(v.shape[1]))


class LowRankPlusNoise:
    """The map r ↦ (LLᵀ + D)⁻¹ r for the factor L: (n, r), and draws from N(0, LLᵀ + D); D: σ²I, or (n,) diagonal."""

    def __init__(self, factor: Tensor, noise: Noise) -> None:
        self.factor = factor
        self.noise = noise[:, None].to(factor) if isinstance(noise, Tensor) else noise
        self._apply = low_rank(lambda r: r / self.noise, factor)

    def __call__(self, r: Tensor) -> Tensor:
        return self._apply(r)

    def sample(self, columns: int, generator: torch.Generator) -> Tensor:
        """Draw independent columns, (n, columns); the generator is on the CPU, so all devices draw the same numbers."""
        n, rank = self.factor.shape
        inside, outside = (torch.randn(rows, columns, generator=generator).to(self.factor) for rows in (rank, n))
        return (self.factor @ inside).add_(outside * self.noise**0.5)
