"""The pivoted-Cholesky preconditioner, GPyTorch's choice and the paper's for CG (section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.operators import Operator
from apviz.preconditioners.base import PRECONDITIONERS, Preconditioner
from apviz.preconditioners.low_rank import LowRankPlusNoise
from apviz.settings import require_whole


@PRECONDITIONERS.register("pivoted-cholesky")
@dataclass(frozen=True, kw_only=True)
class PivotedCholesky(Preconditioner):
    """Preconditioner P = LLᵀ + σ²I, L the first `rank` columns of a Cholesky factor of k(X, X), largest pivot first.

    Harbrecht, Peters & Schneider (2012); Gardner et al. (2018), section 4.1. Set-up evaluates rank/n work.

    Args:
        rank: r, the number of columns; holds n·r numbers.

    Raises:
        ValueError: a rank below 1.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> preconditioned = apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=20), tol=1e-6)
        >>> apviz.solve(system, preconditioned).epochs < apviz.solve(system, apviz.ConjugateGradient(tol=1e-6)).epochs
        True
    """

    rank: int = 500

    def __post_init__(self) -> None:
        require_whole("rank", self.rank, 1)

    def build(self, operator: Operator) -> LowRankPlusNoise:
        return LowRankPlusNoise(pivoted_cholesky(operator, self.rank), operator.noise_of())


def pivoted_cholesky(operator: Operator, rank: int) -> Tensor:
    """Compute L (n, r), r ≤ rank; stop early if the remaining diagonal is rounding."""
    n, device = operator.n, operator.x.device
    rank = min(rank, n)
    left = operator.signal().to(operator.x.dtype)
    # rounding of a zero after k subtractions of numbers up to the largest
    floor = 4 * torch.finfo(operator.x.dtype).eps * operator.largest_signal
    factor = torch.zeros(rank, n, dtype=operator.x.dtype, device=device)  # row-major, so that a step reads whole rows
    for k in range(rank):
        pivot = left.argmax()
        if left[pivot] <= floor * (k + 1):
            return factor[:k].T.contiguous()
        column = operator.columns(pivot[None])[:, 0]
        column -= factor[:k, pivot] @ factor[:k]
        factor[k] = column / left[pivot].sqrt()
        left = (left - factor[k].square()).clamp_(min=0)
        left[pivot] = 0
    return factor.T.contiguous()
