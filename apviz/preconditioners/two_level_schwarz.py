"""Two-level Schwarz: independent projections onto overlapping blocks, and a coarse space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from apviz.factors import BlockFactors, check_fits
from apviz.operators import CountingOperator
from apviz.partitions import Partition, Partitioner, PrincipalAxisTree, overlap_of, partitioner_named
from apviz.preconditioners.base import PRECONDITIONERS, Preconditioner
from apviz.preconditioners.low_rank import TwoLevel, galerkin, low_rank
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from apviz.settings import Auto, chosen, require, require_seed, require_whole_or_auto

Coarse = Literal["low-rank", "galerkin"]


@PRECONDITIONERS.register("two-level-schwarz")
@dataclass(frozen=True, kw_only=True)
class TwoLevelSchwarz(Preconditioner):
    """Preconditioner of independent projections onto all blocks at once (M), and r vectors V for global components.

    M = Σⱼ D Aⱼ⁻¹ D over the solved rows of block j, each row weighted by D = 1/√(number of blocks that hold it)
    before and after. An application evaluates no kernel entries. Set-up: the factors, Σ|solved|²/n², and r/n for
    the randomly pivoted Cholesky factor L that both kinds of coarse space start from.

    - `low-rank`: P = M⁻¹ + LLᵀ with A = K − LLᵀ: L covers the smooth part, and the blocks the rest of K, which has a
      shorter range. No product with K.
    - `galerkin`: P⁻¹ = Q + (I − QK) M (I − KQ) with A = K, Q = V(VᵀKV)⁻¹Vᵀ and V the span of L: the balancing
      preconditioner of Mandel (1993); Tang, Nabben, Vuik & Erlangga (2009), "BNN". KV costs 1.0 work and n²r
      multiplications once.

    Args:
        block_size: rows a block owns.
        coarse_rank: r, the number of vectors; holds 2nr numbers; 0: no coarse space. These two and the overlap of the
            partition may be `auto` (`apviz.solvers.recommended`).
        partition: as in `apviz.AlternatingProjection`; a name stands for blocks without overlap.
        coarse: `low-rank` or `galerkin`.
        seed: seed of the pivots.

    Raises:
        ValueError: a setting out of range, with the accepted values.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> blocks = apviz.partitions.PrincipalAxisTree(overlap=0.5)
        >>> preconditioner = apviz.TwoLevelSchwarz(block_size=50, partition=blocks, coarse_rank=10)
        >>> preconditioned = apviz.ConjugateGradient(preconditioner=preconditioner, tol=1e-6)
        >>> apviz.solve(system, preconditioned).epochs < apviz.solve(system, apviz.ConjugateGradient(tol=1e-6)).epochs
        True
    """

    block_size: int | Auto = "auto"
    coarse_rank: int | Auto = "auto"
    partition: str | Partitioner = PrincipalAxisTree(overlap="auto")  # noqa: RUF009  # frozen
    coarse: Coarse = "low-rank"
    seed: int = 0

    def __post_init__(self) -> None:
        require_whole_or_auto("block_size", self.block_size, 1)
        require_whole_or_auto("coarse_rank", self.coarse_rank, 0)
        require_seed(self.seed)
        require(self.coarse in get_args(Coarse), "coarse", self.coarse, f"one of {', '.join(get_args(Coarse))}")
        partitioner_named(self.partition)

    def build(self, operator: CountingOperator) -> OneLevel | TwoLevel:
        size, rank = int(chosen("block_size", self.block_size)), int(chosen("coarse_rank", self.coarse_rank))
        partitioner = partitioner_named(self.partition, self.seed)
        check_fits(operator.x, size, chosen("overlap", overlap_of(partitioner)))
        partition = partitioner(operator.inputs, size)
        if rank == 0:
            return OneLevel(operator, partition)
        factor = randomly_pivoted_cholesky(operator, rank, self.seed)
        if self.coarse == "galerkin":
            return galerkin(OneLevel(operator, partition), factor, operator.matmul)
        return low_rank(OneLevel(operator, partition, factor), factor)


class OneLevel:
    """The map r ↦ M r = Σⱼ D Aⱼ⁻¹ D r with A = K − LLᵀ and independent blocks; rows are in the user's order."""

    def __init__(self, operator: CountingOperator, partition: Partition, low_rank: Tensor | None = None) -> None:
        self.rows = [partition.order[partition.solved(block)] for block in range(len(partition))]
        self.factors = BlockFactors(operator, self.rows, low_rank)
        held = torch.bincount(torch.cat(self.rows), minlength=operator.n)
        self.weights = held.to(operator.x).rsqrt()[:, None]

    def __call__(self, r: Tensor) -> Tensor:
        weighted, result = r * self.weights, torch.zeros_like(r)
        for block, rows in enumerate(self.rows):
            result.index_add_(0, rows, self.factors.solve(block, weighted[rows]))
        return result.mul_(self.weights)
