"""Cached Cholesky factors of the blocks (paper, "Cached Cholesky Factors")."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import psutil
import torch
from torch import Tensor

from apviz.operators import CountingOperator, Rows
from apviz.operators.interface import count

# relative to the diagonal of K, tried in this order
JITTERS = (1e-6, 1e-5, 1e-4, 1e-3)
# blocks factored in one call hold at most this much beside the cache, or are one block
BATCH_BYTES = 64 * 2**20


class NotPositiveDefinite(ValueError):
    """A block of K, or K itself, has no Cholesky factor even with jitter."""


class BlockFactors:
    """Lower Cholesky factors of K[I, I] for the solved rows of every block, n·b·(1 + overlap)² numbers in all.

    Blocks of one size are factored together, as many at a time as fit a memory budget.

    Args:
        rows: the rows each block solves on, in the operator's order.
        low_rank: (n, r) factor the blocks of K − LLᵀ instead, for L in the operator's order.

    Raises:
        MemoryError: the factors would not fit the free memory.
        NotPositiveDefinite: names the block and the jitter tried.
    """

    def __init__(self, operator: CountingOperator, rows: Sequence[Rows], low_rank: Tensor | None = None) -> None:
        self.rows, self._low_rank = rows, low_rank
        sizes = [count(block) for block in rows]
        x = operator.operator.x
        self.jitter = torch.zeros(len(rows), dtype=torch.float64)
        _check_memory(sum(size**2 for size in sizes) * x.element_size(), x.device, max(sizes))
        self._factors: list[Tensor] = []
        first = 0
        while first < len(sizes):
            last = first + max(1, BATCH_BYTES // (sizes[first] ** 2 * x.element_size()))
            last = next((j for j in range(first, min(last, len(sizes))) if sizes[j] != sizes[first]), last)
            self._factors += self._factor(operator, range(first, min(last, len(sizes))))
            first = last
        if self.jitter.any():
            worst = int(self.jitter.argmax())
            warnings.warn(
                f"{int((self.jitter > 0).sum())} of {len(rows)} blocks needed jitter to be factored, up to "
                f"{self.jitter[worst]:.1e} on the diagonal of block {worst}; float64 or more noise avoids it",
                stacklevel=2,
            )

    def _factor(self, operator: CountingOperator, blocks: range) -> list[Tensor]:
        size = count(self.rows[blocks[0]])
        matrices = operator.operator.x.new_empty(len(blocks), size, size)
        for matrix, block in zip(matrices, blocks, strict=True):
            matrix.copy_(operator.block(self.rows[block]))
            if self._low_rank is not None:
                part = self._low_rank[self.rows[block]]
                matrix.addmm_(part, part.T, alpha=-1)
        factors, info = torch.linalg.cholesky_ex(matrices)
        for k in info.nonzero().flatten().tolist():
            what = f"block {blocks[k]} of {'K' if self._low_rank is None else 'K − LLᵀ'}"
            scale = float(operator.operator.diagonal()[0])  # rounding is of this size, whatever LLᵀ leaves
            factors[k], self.jitter[blocks[k]] = cholesky_with_jitter(matrices[k], what, scale)
        return list(factors)

    def __len__(self) -> int:
        return len(self._factors)

    def __getitem__(self, block: int) -> Tensor:
        """The lower factor of K[I, I] + jitter, (|I|, |I|)."""
        return self._factors[block]

    def solve(self, block: int, r: Tensor) -> Tensor:
        """U = K[I, I]⁻¹ r, for r: (|I|, l+1)."""
        factor = self._factors[block]  # not torch.cholesky_solve, which copies the factor at every call
        half = torch.linalg.solve_triangular(factor, r, upper=False)
        u: Tensor = torch.linalg.solve_triangular(factor.mT, half, upper=True)
        return u


def cholesky_with_jitter(matrix: Tensor, what: str, scale: float) -> tuple[Tensor, float]:
    """The lower factor of `matrix` plus the first jitter, relative to `scale`, that works, and that jitter.

    Raises:
        NotPositiveDefinite: names the matrix and the jitter tried.
    """
    for relative in (0.0, *JITTERS):
        shifted = matrix.clone()
        shifted.diagonal().add_(relative * scale)
        factor, info = torch.linalg.cholesky_ex(shifted)
        if int(info) == 0:
            return factor, relative * scale
    raise NotPositiveDefinite(
        f"{what} is not positive definite, even with {JITTERS[-1] * scale:.1e} added to its diagonal (tried "
        f"{', '.join(f'{j * scale:.1e}' for j in JITTERS)}); raise the noise, use dtype=torch.float64, or look for "
        "duplicate rows"
    )


def check_fits(x: Tensor, block_size: int, overlap: float) -> None:
    """Before rows are put into blocks, which may take long: whether the factors for the inputs x: (n, d) will fit.

    Raises:
        MemoryError: they would not fit the free memory.
    """
    _check_memory(factor_bytes(x, block_size, overlap), x.device, _solved(x, block_size, overlap))


def factor_bytes(x: Tensor, block_size: int, overlap: float) -> int:
    """Memory of the factors for the inputs x: (n, d)."""
    return math.ceil(len(x) / block_size) * _solved(x, block_size, overlap) ** 2 * x.element_size()


def _solved(x: Tensor, block_size: int, overlap: float) -> int:
    return min(len(x), int(block_size * (1 + overlap)))


def _check_memory(needed: int, device: torch.device, largest: int) -> None:
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    if needed > 0.9 * free:
        raise MemoryError(
            f"the Cholesky factors of the blocks (largest: {largest} rows) need {needed / 2**30:.1f} GiB, "
            f"{free / 2**30:.1f} GiB are free; use a smaller block_size or overlap: memory is n·b·(1 + overlap)²"
        )
