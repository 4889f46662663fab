"""The randomly pivoted Cholesky preconditioner: pivots drawn in proportion to the remaining diagonal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from apviz.operators import Operator
from apviz.preconditioners.base import PRECONDITIONERS, Preconditioner
from apviz.preconditioners.low_rank import LowRankPlusNoise
from apviz.settings import require_seed, require_whole

# Proposals a round: many proposals turn the work into matrix products, few waste fewer entries on rejected pivots.
PROPOSALS = 128
IDLE_ROUNDS = 20


@PRECONDITIONERS.register("randomly-pivoted-cholesky")
@dataclass(frozen=True, kw_only=True)
class RandomlyPivotedCholesky(Preconditioner):
    """Preconditioner P = LLᵀ + σ²I, L the columns of a Cholesky factor of k(X, X) at random pivots.

    Chen, Epperly, Tropp & Webber (2025); as a preconditioner Díaz, Epperly, Frangella, Tropp & Webber (2023).
    Set-up evaluates about rank/n work.

    Args:
        rank: r, the number of columns; holds n·r numbers.
        seed: of the pivots.

    Raises:
        ValueError: a rank below 1, a seed below 0.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> preconditioner = apviz.RandomlyPivotedCholesky(rank=20, seed=1)
        >>> preconditioned = apviz.ConjugateGradient(preconditioner=preconditioner, tol=1e-6)
        >>> apviz.solve(system, preconditioned).epochs < apviz.solve(system, apviz.ConjugateGradient(tol=1e-6)).epochs
        True
    """

    rank: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole("rank", self.rank, 1)
        require_seed(self.seed)

    def build(self, operator: Operator) -> LowRankPlusNoise:
        return LowRankPlusNoise(randomly_pivoted_cholesky(operator, self.rank, self.seed), operator.noise_of())


def randomly_pivoted_cholesky(operator: Operator, rank: int, seed: int) -> Tensor:
    """Compute L (n, r), r ≤ rank; stop early if the remaining diagonal is rounding."""
    return pivoted_rows(operator, rank, seed).T.contiguous()


def pivoted_rows(operator: Operator, rank: int, seed: int, enough: float = 0.0) -> Tensor:
    """Compute Lᵀ (r, n), r ≤ rank; stop early if the remaining diagonal is rounding, or sums to at most `enough` · r.

    Pivots are proposed in blocks and accepted by rejection. This draws from the same law as one at a time, and
    works in matrix products (Epperly, Tropp & Webber, 2024, "Embrace rejection", algorithm 2.1).
    """
    n, x = operator.n, operator.x
    rank = min(rank, n)
    signal = operator.signal()
    floor = 4 * torch.finfo(x.dtype).eps * operator.largest_signal
    generator = torch.Generator().manual_seed(int(seed))
    factor = torch.empty(rank, n, dtype=x.dtype, device=x.device)  # row-major, so that a round reads whole rows
    left = signal.clone()
    k = idle = 0
    while k < rank and left.max() > floor * (k + 1) and left.sum() > enough * k:
        proposed = torch.multinomial(left.cpu(), min(PROPOSALS, rank), replacement=True, generator=generator)
        rows = proposed.to(x.device)
        submatrix = operator.block(rows)
        submatrix = submatrix.double()
        submatrix.diagonal().copy_(signal[rows])  # without noise, and bitwise equal to the start of `left`
        submatrix -= factor[:k, rows].double().T @ factor[:k, rows].double()
        accepted, lower = _accept(submatrix.cpu(), left[rows].cpu(), rank - k, floor * (k + 1), generator)
        idle = 0 if len(accepted) else idle + 1
        if idle == IDLE_ROUNDS:  # the remaining diagonal is rounding
            break
        pivots = rows[accepted.to(x.device)]
        columns = operator.columns(pivots).T - factor[:k, pivots].T @ factor[:k]
        new = torch.linalg.solve_triangular(lower.to(columns), columns, upper=False)
        factor[k : k + len(pivots)] = new
        left = (left - new.double().square().sum(0)).clamp_(min=0)
        left[pivots] = 0
        k += len(pivots)
    return factor[:k]


def _accept(
    submatrix: Tensor, proposed_with: Tensor, at_most: int, floor: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the accepted proposals, and the Cholesky factor of the remaining k at them.

    A proposal drawn with weight uᵢ is accepted with probability (its remaining diagonal)/uᵢ; `submatrix` (s, s)
    is the remainder before the round.
    """
    # NumPy, because a step is a few thousand operations
    k, size = submatrix.numpy(), len(submatrix)
    left, lower = k.diagonal().copy(), np.zeros((size, min(at_most, size)))
    chances = (torch.rand(size, generator=generator, dtype=torch.float64) * proposed_with).numpy()
    accepted: list[int] = []
    for i in range(size):
        if (taken := len(accepted)) == at_most:
            break
        if left[i] <= floor or chances[i] >= left[i]:
            continue
        column = (k[i:, i] - lower[i:, :taken] @ lower[i, :taken]) / left[i] ** 0.5
        lower[i:, taken] = column
        left[i:] -= column * column
        accepted.append(i)
    return torch.tensor(accepted, dtype=torch.int64), torch.from_numpy(lower[accepted, : len(accepted)])
