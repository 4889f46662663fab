"""The pivoted-Cholesky preconditioner, GPyTorch's choice and the paper's for CG (section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers.base import require


@dataclass(frozen=True)
class PivotedCholesky:
    """P = LLᵀ + σ²I, L the first `rank` columns of a Cholesky factor of k(X, X) with the largest pivot first.

    Harbrecht, Peters & Schneider (2012); Gardner et al. (2018), section 4.1. Set-up evaluates rank/n work.

    Args:
        rank: r, the number of columns; memory n·r.

    Raises:
        ValueError: a rank below 1.
    """

    rank: int = 500

    def __post_init__(self) -> None:
        require(self.rank >= 1, "rank", self.rank, "at least 1 (no preconditioner: preconditioner=None)")

    @property
    def label(self) -> str:
        return f"r={self.rank}"

    def build(self, operator: CountingOperator) -> LowRankPlusNoise:
        return LowRankPlusNoise(pivoted_cholesky(operator, self.rank), operator.operator.noise)


class LowRankPlusNoise:
    """r ↦ (LLᵀ + σ²I)⁻¹ r by Woodbury, with the columns of L made orthonormal against σ² for stability."""

    def __init__(self, low_rank: Tensor, noise: float) -> None:
        gram = (low_rank.T @ low_rank).double()
        gram.diagonal().add_(noise)
        chol = torch.linalg.cholesky(gram)
        inverse = torch.linalg.solve_triangular(chol, torch.eye(len(chol)).to(chol), upper=False)
        self.q = low_rank @ inverse.T.to(low_rank)
        self.noise = noise

    def __call__(self, r: Tensor) -> Tensor:
        return (r - self.q @ (self.q.T @ r)) / self.noise


def pivoted_cholesky(operator: CountingOperator, rank: int) -> Tensor:
    """L (n, r), r ≤ rank: stops early where nothing above rounding is left of the diagonal."""
    base = operator.operator
    n, device = base.n, base.x.device
    rank = min(rank, n)
    left = torch.full((n,), base.kernel.outputscale, dtype=base.x.dtype, device=device)
    floor = torch.finfo(base.x.dtype).eps * base.kernel.outputscale
    factor = torch.zeros(rank, n, dtype=base.x.dtype, device=device)  # row-major rows: a step reads what it needs
    for k in range(rank):
        pivot = left.argmax()
        if left[pivot] <= floor:
            return factor[:k].T.contiguous()
        column = operator.columns(pivot[None])[:, 0]
        column -= factor[:k, pivot] @ factor[:k]
        factor[k] = column / left[pivot].sqrt()
        left = (left - factor[k].square()).clamp_(min=0)
        left[pivot] = 0
    return factor.T.contiguous()
