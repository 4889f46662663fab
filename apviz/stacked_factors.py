"""Factors of the blocks in one stack, for a device that chooses the next block without telling the host which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar, overload

import torch
from torch import Tensor

from apviz.factors import Block, BlockFactors, batch_of
from apviz.memory import SHARE, free_memory
from apviz.operators import CountingOperator, Operator, Rows
from apviz.operators.interface import count

T = TypeVar("T")

#: devices that are waited for where the host reads a number
STACKED_ON: Final = ("cuda",)
#: the most that blocks may be filled up by, of the numbers in their squares
MOST_FILLED = 1.25
#: diagonal of K in rows that only fill up a block: its update there is 1/this of the residual, R and W take it alike
FILLED: Final = {torch.float32: 2.0**120, torch.float64: 2.0**1000}


class Stacked(Sequence[T]):
    """What belongs to each block, found by its number on the host, or filled up to one shape by that on the device.

    Args:
        each: of every block.
        filled: (m, …) the same, filled up.
    """

    def __init__(self, each: Sequence[T], filled: Tensor) -> None:
        self._each, self._filled = each, filled
        self._last: tuple[Tensor | None, Tensor | None] = None, None

    def __len__(self) -> int:
        return len(self._each)

    @overload
    def __getitem__(self, block: int) -> T: ...
    @overload
    def __getitem__(self, block: Tensor) -> Tensor: ...
    @overload
    def __getitem__(self, block: slice) -> Sequence[T]: ...
    def __getitem__(self, block: int | Tensor | slice) -> T | Tensor | Sequence[T]:
        if not isinstance(block, Tensor):
            return self._each[block]
        chosen, found = self._last
        if found is None or chosen is not block:  # an update asks more than once
            found = self._filled.index_select(0, block)[0]
            self._last = block, found
        return found


def stacked_indices(each: Sequence[Tensor], fill: Sequence[Tensor] | None = None) -> Tensor:
    """Returns indices of every block in one tensor, (m, longest).

    Args:
        each: (number,) of every block, at least one.
        fill: what fills up the shorter ones, enough of it; None: their first index.
    """
    longest = max(len(held) for held in each)
    fill = [held[:1].expand(longest) for held in each] if fill is None else fill
    return torch.stack([torch.cat([a, b[: longest - len(a)]]) for a, b in zip(each, fill, strict=True)])


class StackedFactors(BlockFactors):
    """Factors K[I, I] = L Lᵀ of all blocks in one stack, (m, b, b), shorter ones filled up by rows that do not move.

    Takes twice the memory of `BlockFactors`, and blocks of about one size. In return `rows` and `project` take the
    number of a block as the tensor that an argmax leaves on the device, and nothing waits for it.

    Args:
        rows: the rows each block solves on, in the operator's order.

    Raises:
        MemoryError: the factors would not fit the free memory.
        NotPositiveDefinite: names the block and the jitter tried.
    """

    is_stacked = True

    def __init__(self, operator: CountingOperator, rows: Sequence[Rows]) -> None:
        x, sizes = operator.x, [count(held) for held in rows]
        longest, every = max(sizes), torch.arange(operator.n, device=x.device)
        self.rows = Stacked(rows, stacked_indices([every[held] for held in rows]))
        self._low_rank, self._operator, self.dtype = None, operator, x.dtype
        self.numbers = len(rows) * longest**2
        self.jitter = torch.zeros(len(rows), dtype=torch.float64)
        self._require_memory(max(sizes))
        self._stack = x.new_zeros(len(rows), longest, longest)
        self._chosen: tuple[Tensor | None, int] = None, 0
        together = batch_of(longest, x)
        for first in range(0, len(rows), together):
            self._factor_some(range(first, min(first + together, len(rows))))
        self._warn_of_jitter()

    def _factor_some(self, blocks: range) -> None:
        """Factors some blocks at once, in the stack."""
        part = self._stack[blocks.start : blocks.stop]
        for block, k in zip(blocks, part, strict=True):
            if (size := count(self.rows[block])) == len(k):
                self._operator.block(self.rows[block], out=k)
            else:
                k.diagonal().fill_(FILLED[k.dtype])
                k[:size, :size] = self._operator.block(self.rows[block])
        factors, failed = torch.linalg.cholesky_ex(part)
        part.copy_(factors)
        for k in failed.nonzero().flatten().tolist():
            size = count(self.rows[blocks[k]])
            part[k].fill_(0.0).diagonal().fill_(FILLED[part.dtype] ** 0.5)
            part[k, :size, :size] = self._factor_with_jitter(blocks[k], part.new_empty(1, size, size))

    def index(self, block: int | Tensor) -> Block:
        """Returns the number of a block as it is: what is on the device stays there.

        Raises:
            ValueError: it is the tensor of the update before, with another number in it.
        """
        if not isinstance(block, Tensor) or block.device != self._stack.device:
            return int(block)
        now = block, 0 if block.is_inference() else block._version
        if self._chosen[0] is block and self._chosen[1] != now[1]:
            raise ValueError("a rule must return a new tensor for every update, got one that it has written to again")
        self._chosen = now
        return block

    def project(self, block: Block, r: Tensor) -> Tensor:
        return self.solve(block, r[self.rows[block]])

    def solve(self, block: Block, r: Tensor) -> Tensor:
        if isinstance(block, Tensor):
            return torch.cholesky_solve(r, self._stack.index_select(0, block)[0])
        return torch.cholesky_solve(r, self._stack[block, : len(r), : len(r)])


def is_asynchronous(operator: Operator) -> bool:
    """Tests whether the device of an operator works on as the host does, so that the host is not to wait for it.

    Ranks talk to each other by way of the host, in any case.
    """
    return operator.x.device.type in STACKED_ON and operator.layout.ranks == 1


def factors_of(operator: CountingOperator, rows: Sequence[Rows], dtype: torch.dtype) -> BlockFactors:
    """Factors the blocks: in a stack on a GPU, where that fits, two in the memory of one elsewhere.

    Args:
        rows: the rows each block solves on, in the operator's order.
        dtype: in which factors are kept.
    """
    x, sizes = operator.x, [count(held) for held in rows]
    filled, held = len(sizes) * max(sizes) ** 2, sum(size**2 for size in sizes)
    is_for = is_asynchronous(operator) and dtype == x.dtype and dtype in FILLED
    if is_for and filled <= MOST_FILLED * held + max(sizes) ** 2:  # the last block may be short, of few or many
        needed = (filled + batch_of(max(sizes), x) * max(sizes) ** 2) * dtype.itemsize
        if needed <= SHARE * free_memory(x.device):
            return StackedFactors(operator, rows)
    return BlockFactors(operator, rows, dtype=dtype)
