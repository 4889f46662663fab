"""Cached Cholesky factors of the blocks (paper, "Cached Cholesky Factors"), two in the memory of one."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence

import psutil
import torch
from torch import Tensor

from apviz.operators import CountingOperator, Operator, Rows
from apviz.operators.interface import count

# relative to the diagonal of K, tried in this order
JITTERS = (1e-6, 1e-5, 1e-4, 1e-3)
# blocks factored in one call hold at most this much beside the cache, or are one block
BATCH_BYTES = 16 * 2**20


class NotPositiveDefinite(ValueError):
    """A block of K, or K itself, has no Cholesky factor even with jitter."""


class BlockFactors:
    """K[I, I] = C D Cᵀ for the solved rows I of every block, C unit lower triangular, D diagonal.

    Two blocks of one size share a square: C of one lies below its diagonal, Cᵀ of the other above. That takes
    n·b·(1 + overlap)²/2 numbers in all, half of what a square for every block would. Blocks of one size are factored
    together, as many at a time as fit a memory budget.

    Args:
        rows: the rows each block solves on, in the operator's order.
        low_rank: (n, r) factor the blocks of K − LLᵀ instead, for L in the operator's order.

    Raises:
        MemoryError: the factors would not fit the free memory.
        NotPositiveDefinite: names the block and the jitter tried.
    """

    def __init__(self, operator: CountingOperator, rows: Sequence[Rows], low_rank: Tensor | None = None) -> None:
        self.rows, self._low_rank, self._operator = rows, low_rank, operator
        sizes = [count(block) for block in rows]
        x = operator.operator.x
        self.jitter = torch.zeros(len(rows), dtype=torch.float64)
        self.numbers = numbers(sizes)
        _check_memory(self.numbers * x.element_size(), x.device, max(sizes))
        self._unit: list[Tensor] = []
        self._pivots: list[Tensor] = []
        first = 0
        for size, members in itertools.groupby(sizes):
            end = first + len(list(members))
            pairs = max(1, BATCH_BYTES // (2 * size**2 * x.element_size()))
            for start in range(first, end, 2 * pairs):
                self._factor(size, range(start, min(start + 2 * pairs, end)))
            first = end
        if self.jitter.any():
            worst = int(self.jitter.argmax())
            warnings.warn(
                f"{int((self.jitter > 0).sum())} of {len(rows)} blocks needed jitter to be factored, up to "
                f"{self.jitter[worst]:.1e} on the diagonal of block {worst}; float64 or more noise avoids it",
                stacklevel=2,
            )

    def _factor(self, size: int, blocks: range) -> None:
        squares, pivots = self._triangles(size, blocks[0::2], upper=False)
        others, other_pivots = self._triangles(size, blocks[1::2], upper=True)
        squares[: len(others)] += others
        for k in range(len(blocks)):
            self._unit.append(squares[k // 2].mT if k % 2 else squares[k // 2])
            self._pivots.append((other_pivots if k % 2 else pivots)[k // 2])

    def _triangles(self, size: int, blocks: range, *, upper: bool) -> tuple[Tensor, Tensor]:
        """C of some blocks, or Cᵀ, (m, |I|, |I|), and the diagonals D, (m, |I|, 1)."""
        x = self._operator.operator.x
        matrices = x.new_empty(len(blocks), size, size).mT  # a column is contiguous, so LAPACK factors in place
        for matrix, block in zip(matrices, blocks, strict=True):
            matrix.copy_(self._matrix(self._operator, block).mT)
        failed = torch.empty(len(blocks), dtype=torch.int32, device=x.device)
        torch.linalg.cholesky_ex(matrices, upper=upper, out=(matrices, failed))
        for k in failed.nonzero().flatten().tolist():
            block = blocks[k]
            what = f"block {block} of {'K' if self._low_rank is None else 'K − LLᵀ'}"
            scale = float(self._operator.operator.diagonal()[0])  # rounding is of this size, whatever LLᵀ leaves
            evaluated_again = self._matrix(self._operator.operator, block)
            factor, self.jitter[block] = cholesky_with_jitter(evaluated_again, what, scale)
            matrices[k] = factor.mT if upper else factor
        diagonal = matrices.diagonal(dim1=1, dim2=2).clone()[:, :, None]
        matrices.div_(diagonal if upper else diagonal.mT)
        return matrices, diagonal.square_()

    def _matrix(self, operator: CountingOperator | Operator, block: int) -> Tensor:
        rows = self.rows[block]
        k = operator.block(rows)
        return k if self._low_rank is None else k.addmm_(self._low_rank[rows], self._low_rank[rows].T, alpha=-1)

    def __len__(self) -> int:
        return len(self._unit)

    def solve(self, block: int, r: Tensor) -> Tensor:
        """U = K[I, I]⁻¹ r, for r: (|I|, l+1)."""
        unit = self._unit[block]  # not torch.cholesky_solve, which copies the factor at every call
        half = torch.linalg.solve_triangular(unit, r, upper=False, unitriangular=True).div_(self._pivots[block])
        u: Tensor = torch.linalg.solve_triangular(unit.mT, half, upper=True, unitriangular=True)
        return u

    def matrices(self) -> Iterator[Tensor]:
        """K[I, I] of every block, evaluated again, for what looks on: not counted as work, without jitter."""
        return (self._operator.operator.block(block) for block in self.rows)


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
    sizes = [_solved(x, block_size, overlap)] * math.ceil(len(x) / block_size)
    return numbers(sizes) * x.element_size()


def numbers(sizes: Iterable[int]) -> int:
    """What the factors of blocks of these many solved rows hold: a square for every two neighbours of one size."""
    return sum(math.ceil(len(list(members)) / 2) * size**2 for size, members in itertools.groupby(sizes))


def _solved(x: Tensor, block_size: int, overlap: float) -> int:
    return min(len(x), int(block_size * (1 + overlap)))


def _check_memory(needed: int, device: torch.device, largest: int) -> None:
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    if needed > 0.9 * free:
        raise MemoryError(
            f"the Cholesky factors of the blocks (largest: {largest} rows) need {needed / 2**30:.1f} GiB, "
            f"{free / 2**30:.1f} GiB are free; use a smaller block_size or overlap: memory is n·b·(1 + overlap)²/2"
        )
