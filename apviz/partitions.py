"""Partitions: which rows a block owns, and on which rows it solves.

Blocks own disjoint rows that cover [n]; with an overlap each also solves on a margin around what it owns. The
owned rows of a block are stored contiguously: `Partition.order` maps the stored order to the user's rows, and
everything else here counts in stored rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from apviz.operators.interface import Rows, count


@dataclass(frozen=True, eq=False)
class Partition:
    """m blocks of n rows.

    Args:
        order: (n,) the user's row behind each stored row.
        starts: m + 1 increasing integers; block j owns the stored rows starts[j] to starts[j + 1].
        margins: for each block the stored rows it solves on beyond those it owns; empty if there is no overlap.
    """

    order: Tensor
    starts: tuple[int, ...]
    margins: tuple[Tensor, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.order)
        increasing = all(a < b for a, b in zip(self.starts, self.starts[1:], strict=False))
        if len(self.starts) < 2 or not increasing or self.starts[0] != 0 or self.starts[-1] != n:
            raise ValueError(f"starts must rise from 0 to n = {n}, so that every row is owned exactly once")
        if not torch.equal(self.order.sort().values.cpu(), torch.arange(n)):
            raise ValueError(f"order must be a permutation of the {n} rows, so that every row is owned exactly once")
        if self.margins and len(self.margins) != len(self):
            raise ValueError(f"{len(self.margins)} margins were given for {len(self)} blocks")
        for block, margin in enumerate(self.margins):
            owned = self.owned(block)
            outside = (margin < 0) | (margin >= n) | ((margin >= owned.start) & (margin < owned.stop))
            if outside.any() or len(set(margin.tolist())) < len(margin):
                raise ValueError(
                    f"the margin of block {block} must hold stored rows from 0 to {n - 1}, each once, "
                    "and none that the block owns"
                )

    def __len__(self) -> int:
        """m, the number of blocks."""
        return len(self.starts) - 1

    def owned(self, block: int) -> slice:
        return slice(self.starts[block], self.starts[block + 1])

    def solved(self, block: int) -> Rows:
        """The stored rows block `block` solves on; the owned ones come first."""
        owned = self.owned(block)
        if not self.margins:
            return owned
        rows = torch.arange(owned.start, owned.stop, device=self.order.device)
        return torch.cat([rows, self.margins[block]])

    def owned_sizes(self) -> list[int]:
        return list(self._sizes)

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(b - a for a, b in zip(self.starts, self.starts[1:], strict=False))

    def solved_sizes(self) -> list[int]:
        return [count(self.solved(j)) for j in range(len(self))]

    @property
    def is_identity(self) -> bool:
        return bool((self.order == torch.arange(len(self.order), device=self.order.device)).all())


class Partitioner(Protocol):
    """Anything that makes a `Partition` of the scaled inputs; pass one as `partition=` to bring your own."""

    def __call__(self, inputs: Tensor, block_size: int, overlap: float) -> Partition: ...


@dataclass(frozen=True)
class Sequential:
    """Rows in the order they come in: the paper's partition (section 5.1)."""

    def __call__(self, inputs: Tensor, block_size: int, overlap: float) -> Partition:
        order = torch.arange(len(inputs), device=inputs.device)
        return _with_margins(order, inputs, block_size, overlap)


@dataclass(frozen=True)
class Shuffled:
    """Rows in a random order."""

    seed: int = 0

    def __call__(self, inputs: Tensor, block_size: int, overlap: float) -> Partition:
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(self.seed))
        return _with_margins(order.to(inputs.device), inputs, block_size, overlap)


@dataclass(frozen=True)
class KDTree:
    """Neighbours in space: halves along the longest side, in units of lengthscale, until a block is full."""

    def __call__(self, inputs: Tensor, block_size: int, overlap: float) -> Partition:
        parts = [torch.arange(len(inputs), device=inputs.device)]
        leaves: list[Tensor] = []
        while parts:
            rows = parts.pop()
            if len(rows) <= block_size:
                leaves.append(rows)
                continue
            points = inputs[rows]
            side = int((points.amax(0) - points.amin(0)).argmax())
            # a cut at a whole number of blocks keeps all blocks but the last full
            cut = (math.ceil(len(rows) / block_size) // 2) * block_size
            rank = points[:, side].argsort(stable=True)
            parts += [rows[rank[cut:]], rows[rank[:cut]]]
        return _with_margins(torch.cat(leaves), inputs, block_size, overlap)


PARTITIONS: dict[str, Partitioner] = {"sequential": Sequential(), "shuffled": Shuffled(), "kd-tree": KDTree()}


def partitioner_named(name: str | Partitioner) -> Partitioner:
    """The partitioner called `name`, or the object itself.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    if not isinstance(name, str) and callable(name):
        return name
    if name not in PARTITIONS:
        raise ValueError(
            f"partition must be one of {', '.join(PARTITIONS)}, or a partitioner of apviz.partitions, got {name!r}"
        )
    return PARTITIONS[str(name)]


def _with_margins(order: Tensor, inputs: Tensor, block_size: int, overlap: float) -> Partition:
    """Blocks of `block_size` consecutive rows of `order`, each with its ⌊overlap · owned⌋ nearest other rows.

    Nearest to the bounding box of what the block owns; the distance to the box's centre breaks ties.
    """
    n = len(order)
    starts = (*range(0, n, block_size), n)
    if overlap == 0 or len(starts) == 2:
        return Partition(order, starts)
    points = inputs[order]
    margins = []
    for first, last in zip(starts, starts[1:], strict=False):
        size = min(int(overlap * (last - first)), n - (last - first))
        low, high = points[first:last].amin(0), points[first:last].amax(0)
        to_box = points - torch.minimum(torch.maximum(points, low), high)
        to_centre = points - (low + high) / 2
        distance = to_box.square().sum(1) + 1e-6 * to_centre.square().sum(1)
        distance[first:last] = torch.inf
        margins.append(distance.topk(size, largest=False).indices.sort().values)
    return Partition(order, starts, tuple(margins))
