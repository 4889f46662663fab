"""Factors of the blocks in one stack, for a device that chooses the next block without reporting it to the host."""

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

#: Devices for which the host must wait to read a number.
STACKED_ON: Final = ("cuda",)
#: Largest total size of the padded blocks, relative to the numbers in their squares.
MOST_FILLED = 1.25
#: Diagonal of K in padding rows: the update there is 1/this of the residual, in R and in W.
FILLED: Final = {torch.float32: 2.0**120, torch.float64: 2.0**1000}


class Stacked(Sequence[T]):
    """Items of each block, indexed by a number on the host, or padded to one shape, (m, …), by one on the device."""

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
        if found is None or chosen is not block:  # an update asks several times
            found = self._filled.index_select(0, block)[0]
            self._last = block, found
        return found


def stacked_indices(each: Sequence[Tensor], fill: Sequence[Tensor] | None = None) -> Tensor:
    """Return indices of every block in one tensor, (m, longest), padded by `fill`, or by the first of each."""
    longest = max(len(held) for held in each)
    fill = [held[:1].expand(longest) for held in each] if fill is None else fill
    return torch.stack([torch.cat([a, b[: longest - len(a)]]) for a, b in zip(each, fill, strict=True)])


class StackedFactors(BlockFactors):
    """Factors K[I, I] = L Lᵀ of all blocks in one stack, (m, b, b), shorter ones padded by rows that do not change.

    The stack takes twice the memory of `BlockFactors`, and requires blocks of similar size. In return `rows` and
    `project` accept the number of a block as the tensor that an argmax leaves on the device, and the host does not
    wait.

    Args:
        rows: Rows each block solves on, in the operator's order.

    Raises:
        MemoryError: The factors would not fit the free memory.
        NotPositiveDefinite: Names the block and the jitter tried.
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
        """Factor some blocks at once, in the stack."""
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
        """Return the number of a block as it is; a tensor stays on its device.

        Raises:
            ValueError: it is the tensor of the previous update, with another number in it.
        """
        if not isinstance(block, Tensor) or block.device != self._stack.device:
            return int(block)
        now = block, 0 if block.is_inference() else block._version
        if self._chosen[0] is block and self._chosen[1] != now[1]:
            raise ValueError("a rule must return a new tensor for every update, got one that it had returned before")
        self._chosen = now
        return block

    def project(self, block: Block, r: Tensor) -> Tensor:
        return self.solve(block, r[self.rows[block]])

    def solve(self, block: Block, r: Tensor) -> Tensor:
        if isinstance(block, Tensor):
            return torch.cholesky_solve(r, self._stack.index_select(0, block)[0])
        return torch.cholesky_solve(r, self._stack[block, : len(r), : len(r)])


def is_asynchronous(operator: Operator) -> bool:
    """Test whether the operator's device runs asynchronously, so that the host should not wait for it.

    Always false for several ranks, which communicate through the host.
    """
    return operator.x.device.type in STACKED_ON and operator.layout.ranks == 1


def factors_of(operator: CountingOperator, rows: Sequence[Rows], dtype: torch.dtype) -> BlockFactors:
    """Factor the blocks in a dtype: in one stack on a GPU if it fits, else two blocks in the memory of one."""
    x, sizes = operator.x, [count(held) for held in rows]
    filled, held = len(sizes) * max(sizes) ** 2, sum(size**2 for size in sizes)
    is_for = is_asynchronous(operator) and dtype == x.dtype and dtype in FILLED
    if is_for and filled <= MOST_FILLED * held + max(sizes) ** 2:  # with few or many blocks, the last may be short
        needed = (filled + batch_of(max(sizes), x) * max(sizes) ** 2) * dtype.itemsize
        if needed <= SHARE * free_memory(x.device):
            return StackedFactors(operator, rows)
    return BlockFactors(operator, rows, dtype=dtype)
