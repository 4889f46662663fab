"""Two levels: a fine preconditioner M for what is local, and r vectors for what is smooth."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class TwoLevel:
    """r ↦ V G Vᵀr + (I − V Tᵀ) M (I − T Vᵀ) r, in a basis with VᵀT = I.

    Both kinds of coarse space have this form. What is inside the span is taken out before M and again after it, so
    rounding cannot make the sum indefinite, however large λmax/σ² is; Woodbury's difference can. `low_rank` and
    `galerkin` make one.

    Args:
        fine: M, symmetric positive definite.
        v, t: (n, r), spanning the coarse space and its image.
        spectrum: (r,) Λ of M⁻¹ + UΛUᵀ, or None where T = KV.
    """

    def __init__(self, fine: Callable[[Tensor], Tensor], v: Tensor, t: Tensor, spectrum: Tensor | None = None) -> None:
        self.fine = fine
        self.v, self.t, factor = biorthonormal(v, t)
        middle = identity = torch.eye(len(factor)).to(factor)
        if spectrum is not None:
            inverse = torch.linalg.cholesky(identity + factor.T @ (spectrum[:, None] * factor))
            middle = torch.cholesky_inverse(inverse)
        self.middle = middle.to(v)

    def __call__(self, r: Tensor) -> Tensor:
        inside = self.v.T @ r
        y = self.fine(r - self.t @ inside)
        return y.add_(self.v @ (self.middle @ inside - self.t.T @ y))


def biorthonormal(v: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """V F⁻ᵀ and T F⁻ᵀ, whose product is I, and the factor VᵀT = FFᵀ in float64; v, t: (n, r), VᵀT symmetric."""
    e = v.double().T @ t.double()
    factor = torch.linalg.cholesky((e + e.T) / 2)
    basis = torch.linalg.solve_triangular(factor, torch.eye(len(e)).to(e), upper=False).T.to(v)
    return v @ basis, t @ basis, factor


def low_rank(fine: Callable[[Tensor], Tensor], factor: Tensor) -> TwoLevel:
    """r ↦ (M⁻¹ + LLᵀ)⁻¹ r for the factor L: (n, r).

    With LLᵀ = UΛUᵀ, V = MU and T = U, Woodbury's M − V(Λ⁻¹ + VᵀU)⁻¹Vᵀ is the sum that `TwoLevel` forms, with
    G = (I + FᵀΛF)⁻¹ for VᵀU = FFᵀ.
    """
    q, triangle = torch.linalg.qr(factor)
    spectrum, vectors = torch.linalg.eigh(triangle.double() @ triangle.double().T)
    u = q @ vectors.to(q)
    return TwoLevel(fine, fine(u), u, spectrum.clamp_min(0))


def galerkin(fine: Callable[[Tensor], Tensor], factor: Tensor, matmul: Callable[[Tensor], Tensor]) -> TwoLevel:
    """r ↦ (Q + (I − QK) M (I − KQ)) r with Q = V(VᵀKV)⁻¹Vᵀ, V the span of the factor: (n, r); one product KV."""
    v = torch.linalg.qr(factor).Q
    return TwoLevel(fine, v, matmul(v))
