"""Local solves: K[I, I]⁻¹ of a block, by a low rank and a diagonal where few vectors suffice, else exactly.

With L of randomly pivoted Cholesky, K[I, I] ≈ LLᵀ + Λ, where Λ is the noise plus twice the diagonal that L leaves out:
too large a Λ makes a solve too short a step, too small a one may make it too long. The rank is raised until the sum of
what is left out, divided by the rank, is a small share of the noise: it stands for the first eigenvalue that L lacks.
Sources: Snelson & Ghahramani (2006), for Λ; Quiñonero-Candela &
Rasmussen (2005), "fully independent training conditional".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.factors import cholesky_with_jitter
from apviz.operators import Operator
from apviz.preconditioners.randomly_pivoted_cholesky import pivoted_rows

#: largest sum of the diagonal that the low rank leaves out, per vector and relative to the noise
LEFT_OUT = 0.2
#: multiple of it that Λ contains
COUNTED = 2.0
#: rounding of (I + LᵀΛ⁻¹L), relative to I, above which it is factored in float64
ROUNDED = 1e-2


class LocalSolve(ABC):
    """An approximation of K[I, I]⁻¹, of a rank (that of the rows if it is exact), which holds some numbers."""

    rank: int
    numbers: int

    @abstractmethod
    def __call__(self, r: Tensor) -> Tensor:
        """Solve for r: (|I|, p), to the same shape."""


class LowRankSolve(LocalSolve):
    """(LLᵀ + Λ)⁻¹ by Woodbury's identity; factor: Lᵀ, (r, |I|), diagonal: Λ, (|I|,) float64."""

    def __init__(self, factor: Tensor, diagonal: Tensor, kept: torch.dtype) -> None:
        self.rank, self.numbers = len(factor), factor.numel()
        weights = 1.0 / diagonal
        scaled = factor * weights.sqrt().to(factor)
        rounding = torch.finfo(factor.dtype).eps * float(scaled.square().sum())
        middle = scaled @ scaled.T if rounding < ROUNDED else scaled.double() @ scaled.double().T
        middle.diagonal().add_(1.0)
        self._middle = torch.linalg.cholesky(middle).to(factor)
        self._scaled, self._roots = scaled.to(kept), weights.sqrt()[:, None].to(factor)

    def __call__(self, r: Tensor) -> Tensor:
        scaled = self._scaled.to(r.dtype)
        inner = r * self._roots
        inside = torch.cholesky_solve(scaled @ inner, self._middle)
        return inner.sub_(scaled.T @ inside).mul_(self._roots)


class ExactSolve(LocalSolve):
    """K[I, I]⁻¹ by Cholesky."""

    def __init__(self, operator: Operator, rows: Tensor, kept: torch.dtype) -> None:
        self.rank, self.numbers = len(rows), len(rows) ** 2
        block = operator.block(rows)
        factor, _ = cholesky_with_jitter(block, f"a block of {len(rows)} rows", float(operator.diagonal()[0]))
        self._factor = factor.to(kept)

    def __call__(self, r: Tensor) -> Tensor:
        lower = self._factor.to(r.dtype)
        half = torch.linalg.solve_triangular(lower, r, upper=False)
        u: Tensor = torch.linalg.solve_triangular(lower.mT, half, upper=True)
        return u


@dataclass(frozen=True)
class LocalSolves:
    """Settings of local solves; `kept` is the dtype of what is stored.

    Args:
        most: largest rank, as a share of the rows; a block that needs more is solved exactly, and with 0 every block.
    """

    most: float
    seed: int
    kept: torch.dtype

    def of(self, operator: Operator, rows: Tensor) -> LocalSolve:
        """Return the local solve for some rows of K."""
        found = self.low_rank(operator, rows, round(self.most * len(rows))) if self.most else None
        return found or ExactSolve(operator, rows, self.kept)

    def low_rank(self, operator: Operator, rows: Tensor, most: int) -> LowRankSolve | None:
        """Return the local solve for some rows of K by at most this rank; None if that leaves out too much."""
        part, noise = operator.reordered(rows), operator.noise_of(rows)
        factor = pivoted_rows(part, most, self.seed, LEFT_OUT * part.noise)
        left = (part.signal() - factor.double().square().sum(0)).clamp_(min=0.0)
        if float(left.sum()) > LEFT_OUT * part.noise * len(factor):
            return None
        return LowRankSolve(factor, noise + COUNTED * left, self.kept)
