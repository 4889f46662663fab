"""Cached Cholesky factors of the blocks (paper, "Cached Cholesky Factors"); two share the memory of one square."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from apviz.memory import numbers_held, require_memory
from apviz.operators import CountingOperator, Operator, Rows
from apviz.operators.interface import count

#: Number of a block: an int, or for stacked factors also a 0-d tensor on the device.
Block = Any

# Jitters relative to the diagonal of K, tried in this order.
JITTERS = (1e-6, 1e-5, 1e-4, 1e-3)
# Blocks of up to this size in total are factored together: one call instead of many small ones, and a full GPU.
BATCH_BYTES = 2**20
GPU_BATCH_BYTES = 2**28
# Noise below this share of the outputscale lets entries of a unit factor, up to the root of its inverse, approach
# float16's largest number.
HALF_NOISE = 1e-8
# Columns of a factor converted at a time, into memory that stays in cache.
PANEL = 256


class NotPositiveDefinite(ValueError):
    """Raised if a block of K, or K itself, has no Cholesky factor even with jitter."""


class BlockFactors:
    """Factors K[I, I] = C D Cᵀ for the solved rows I of every block, C unit lower triangular, D diagonal.

    Two blocks of equal size share a square: C of one lies below its diagonal, Cᵀ of the other above. This takes
    n·b·(1 + overlap)²/2 numbers in all, half of the numbers with a square for every block.

    Args:
        operator: K.
        rows: the rows each block solves on, in the operator's order.
        low_rank: (n, r) factor L in the operator's order; if given, the blocks of K − LLᵀ are factored.
        dtype: dtype of the stored C, no larger than the operator's, in which C is computed; None: the operator's. In
            float16 each entry is rounded by a relative 2⁻¹¹; entries are below √(κ of the block), which must be below
            65,504.

    Raises:
        MemoryError: the factors would not fit the free memory.
        NotPositiveDefinite: names the block and the jitter tried.
    """

    #: Whether `rows`, `project` and `solve` also accept the number of a block as a tensor.
    is_stacked = False

    def __init__(
        self, operator: CountingOperator, rows: Sequence[Rows], low_rank: Tensor | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        self.rows, self._low_rank, self._operator = rows, low_rank, operator
        of_size: dict[int, list[int]] = defaultdict(list)
        layout, x = operator.layout, operator.x
        for block, held in enumerate(rows):
            if layout.is_home(block):
                of_size[count(held)].append(block)
            else:
                operator.evaluated_elsewhere(count(held) ** 2)
        self.jitter = torch.zeros(len(rows), dtype=torch.float64)
        self.numbers = numbers_held(count(held) for block, held in enumerate(rows) if layout.is_home(block))
        self.dtype = dtype or x.dtype
        if self.dtype == torch.float16 and operator.noise < HALF_NOISE * operator.largest_signal:
            raise ValueError(
                f"factors in float16 need a noise of at least {HALF_NOISE:g} times the outputscale, got "
                f"{operator.noise / operator.largest_signal:.1e} times; use Precision(factors='recursion')"
            )
        self._require_memory(max(of_size, default=0))
        self._unit: dict[int, Tensor] = {}
        self._pivots: dict[int, Tensor] = {}
        for size, blocks in of_size.items():
            # one allocation, because single squares between temporary ones would fragment the memory
            squares = x.new_empty(math.ceil(len(blocks) / 2), size, size, dtype=self.dtype).mT
            together = batch_of(size, x)
            spare = x.new_empty(min(together, math.ceil(len(blocks) / 2)), size, size)
            for upper in (False, True):
                for first in range(0, len(half := blocks[upper::2]), together):
                    several = half[first : first + together]
                    self._factor(several, squares[first : first + len(several)], spare[: len(several)], upper)
        self.jitter = layout.sum(self.jitter.to(x.device)).cpu()
        self._warn_of_jitter()

    def _require_memory(self, largest: int) -> None:
        _check_memory(self.numbers, self.dtype, self._operator.x, largest)

    def _warn_of_jitter(self) -> None:
        if self.jitter.any():
            worst = int(self.jitter.argmax())
            warnings.warn(
                f"{int((self.jitter > 0).sum())} of {len(self)} blocks needed jitter to be factored, up to "
                f"{self.jitter[worst]:.1e} on the diagonal of block {worst}; "
                f"{more_digits(self._operator.x.dtype)} avoids it",
                stacklevel=3,
            )

    def _factor(self, blocks: Sequence[int], squares: Tensor, spare: Tensor, upper: bool) -> None:
        """Write C of some blocks of equal size into their squares, or add Cᵀ to the content."""
        factors = self._matrices(self._operator, blocks, spare)
        failed = torch.empty(len(blocks), dtype=torch.int32, device=factors.device)
        torch.linalg.cholesky_ex(factors, upper=upper, out=(factors, failed))
        for k in failed.nonzero().flatten().tolist():
            factor = self._factor_with_jitter(blocks[k], torch.empty_like(spare[:1]))
            factors[k] = factor.mT if upper else factor
        diagonal = factors.diagonal(dim1=1, dim2=2).clone()[:, :, None]
        factors.div_(diagonal if upper else diagonal.mT)
        if upper:
            squares.add_(factors)  # a solve with a unit triangle does not read the diagonal
        else:
            squares.copy_(factors)
        for block, square, pivots in zip(blocks, squares, diagonal.square_(), strict=True):
            self._unit[block], self._pivots[block] = square.mT if upper else square, pivots

    def _factor_with_jitter(self, block: int, out: Tensor) -> Tensor:
        """Return the factor of a block, evaluated again in out: (1, |I|, |I|), with the first jitter that works."""
        what = f"block {block} of {'K' if self._low_rank is None else 'K − LLᵀ'}"
        scale = float(self._operator.uncounted.diagonal()[0])  # rounding has this size for any LLᵀ
        (evaluated_again,) = self._matrices(self._operator.uncounted, [block], out)
        factor, self.jitter[block] = cholesky_with_jitter(evaluated_again, what, scale)
        return factor

    def _matrices(self, operator: CountingOperator | Operator, blocks: Sequence[int], out: Tensor) -> Tensor:
        """Return the matrices to factor, (m, |I|, |I|), in `out` and column by column, so LAPACK works in place."""
        for block, k in zip(blocks, out, strict=True):
            operator.block(rows := self.rows[block], out=k)
            if self._low_rank is not None:
                k.addmm_(self._low_rank[rows], self._low_rank[rows].T, alpha=-1)
        return out.mT  # symmetric: the same matrices

    def __len__(self) -> int:
        return len(self.rows)

    def index(self, block: int | Tensor) -> Block:
        """Return the number of the block that a rule has chosen, in the form that the methods here accept.

        The host waits for the GPU when it reads a GPU tensor.
        """
        return int(block)

    def project(self, block: Block, r: Tensor) -> Tensor:
        """Solve K[I, I] U = R_I, (|I|, l+1), for the residual r, of which the rows in the operator's layout are local.

        The rank that has the factor solves, and sends U to all others.
        """
        layout, rows = self._operator.layout, self.rows[block]
        at_home = layout.bring(r, rows, block)
        return layout.made_at_home(block, lambda: self.solve(block, at_home), r, count(rows))

    def solve(self, block: Block, r: Tensor) -> Tensor:
        """Solve K[I, I] U = r for r: (|I|, l+1), to the same shape."""
        unit = self._unit[block]  # avoid torch.cholesky_solve, which copies the factor at every call
        if unit.dtype != r.dtype:
            return _solve_by_panels(unit, self._pivots[block], r)
        half = torch.linalg.solve_triangular(unit, r, upper=False, unitriangular=True).div_(self._pivots[block])
        u: Tensor = torch.linalg.solve_triangular(unit.mT, half, upper=True, unitriangular=True)
        return u

    def matrices(self) -> Iterator[Tensor]:
        """Evaluate K[I, I] of every block again, for observers: not counted as work, without jitter."""
        return (self._operator.uncounted.block(block) for block in self.rows)


def batch_of(size: int, x: Tensor) -> int:
    """Return the number of blocks of a size to factor at once, on the device and in the dtype of x."""
    together = GPU_BATCH_BYTES if x.is_cuda else BATCH_BYTES
    return max(1, together // (size**2 * x.element_size()))


def _solve_by_panels(unit: Tensor, pivots: Tensor, r: Tensor) -> Tensor:
    """Solve C D Cᵀ u = r for C stored in another dtype; at most `PANEL` columns are converted at a time."""
    size, u = len(unit), r.clone()
    panels = [(first, min(first + PANEL, size)) for first in range(0, size, PANEL)]
    for first, end in panels:
        panel = unit[first:, first:end].to(r.dtype)
        u[first:end] = torch.linalg.solve_triangular(
            panel[: end - first], u[first:end], upper=False, unitriangular=True
        )
        u[end:].addmm_(panel[end - first :], u[first:end], alpha=-1)
    u.div_(pivots)
    for first, end in reversed(panels):
        panel = unit[first:, first:end].to(r.dtype)
        u[first:end].addmm_(panel[end - first :].mT, u[end:], alpha=-1)
        u[first:end] = torch.linalg.solve_triangular(
            panel[: end - first].mT, u[first:end], upper=True, unitriangular=True
        )
    return u


def cholesky_with_jitter(matrix: Tensor, what: str, scale: float) -> tuple[Tensor, float]:
    """Factor `matrix`: (b, b) with the first jitter, relative to `scale`, that works; return the factor and that."""
    for relative in (0.0, *JITTERS):
        shifted = matrix
        if relative:
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


def more_digits(dtype: torch.dtype) -> str:
    """Return the advice that keeps a block from needing jitter."""
    return "more noise" if dtype == torch.float64 else "float64 or more noise"


def check_fits(x: Tensor, block_size: int, overlap: float, dtype: torch.dtype | None = None, ranks: int = 1) -> None:
    """Check, before rows are assigned to blocks, that factors in a dtype for x: (n, d) fit the memory of the ranks."""
    sizes = _solved_sizes(len(x), block_size, overlap)
    _check_memory(numbers_held(sizes) // ranks, dtype or x.dtype, x, max(sizes))


def factor_bytes(x: Tensor, block_size: int, overlap: float) -> int:
    """Count the bytes of the factors for the inputs x: (n, d)."""
    return numbers_held(_solved_sizes(len(x), block_size, overlap)) * x.element_size()


def _solved_sizes(n: int, block_size: int, overlap: float) -> list[int]:
    """Return the solved rows of each block of `apviz.partitions`: only the last is not full; margins are capped."""
    owned = [block_size] * (n // block_size) + [n % block_size] * (n % block_size > 0)
    return [min(n, size + int(overlap * size)) for size in owned]


def _check_memory(needed: int, dtype: torch.dtype, x: Tensor, largest: int) -> None:
    """Check the memory for the needed numbers and for the squares that are factored at once."""
    together = batch_of(largest, x) if largest and x.is_cuda else 1
    require_memory(
        needed * dtype.itemsize + together * largest**2 * x.element_size(),
        x.device,
        f"the Cholesky factors of the blocks (largest: {largest} rows) need",
        "use a smaller block_size or overlap: memory is n·b·(1 + overlap)²/2",
    )
