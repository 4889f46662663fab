"""Partitions: the rows a block owns, and the rows it solves on.

Blocks own disjoint rows that cover [n]; with an overlap each also solves on a margin around its own rows. The
owned rows of a block are stored contiguously: `Partition.order` maps the stored order to the user's rows. All other
row numbers here are stored rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Final, Protocol

import torch
from torch import Tensor

from apviz.operators import native
from apviz.operators.interface import count
from apviz.operators.layout import Rows
from apviz.registry import Registry
from apviz.settings import Auto, chosen, require_overlap, require_seed

#: Number of landmarks of a block, which determine its distance to other blocks; size of the search for a margin, as a
#: multiple of the margin.
LANDMARKS = 16
CANDIDATES = 10
#: Number of a block's rows to which distances are measured; those of less than twice as many are all taken.
COMPARED = 1024
#: Size of the search for near rows, as a multiple of their number; smaller because near rows outnumber a margin.
NEAR_CANDIDATES = 2


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of n rows into m blocks: the rows a block owns, and the rows it solves on.

    Args:
        order: (n,) the user's row of each stored row.
        starts: m + 1 increasing integers; block j owns the stored rows starts[j] to starts[j + 1].
        margins: for each block the stored rows it solves on beyond those it owns; empty without overlap.
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
                    f"the margin of block {block} must hold stored rows from 0 to {n - 1}, each once; "
                    "it must not hold rows that the block owns"
                )

    def __len__(self) -> int:
        """Return m, the number of blocks."""
        return len(self.starts) - 1

    def owned(self, block: int) -> slice:
        """Return the stored rows that a block owns."""
        return slice(self.starts[block], self.starts[block + 1])

    def solved(self, block: int) -> Rows:
        """Return the stored rows that a block solves on; those it owns come first."""
        owned = self.owned(block)
        if not self.margins:
            return owned
        rows = torch.arange(owned.start, owned.stop, device=self.order.device)
        return torch.cat([rows, self.margins[block]])

    def owned_sizes(self) -> list[int]:
        """Return the number of rows that each block owns."""
        return list(self._sizes)

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(b - a for a, b in zip(self.starts, self.starts[1:], strict=False))

    def solved_sizes(self) -> list[int]:
        """Return the number of rows that each block solves on."""
        return [count(self.solved(j)) for j in range(len(self))]

    @property
    def is_identity(self) -> bool:
        """Whether the stored order is the user's."""
        return bool((self.order == torch.arange(len(self.order), device=self.order.device)).all())


class Partitioner(Protocol):
    """A callable that makes a `Partition` of the scaled inputs: (n, d); pass your own as `partition=`.

    If its blocks have margins, an attribute `overlap` says their size, for memory checks and names.
    """

    def __call__(self, inputs: Tensor, block_size: int) -> Partition: ...


PARTITIONS: Final = Registry[Partitioner]("partition", "apviz.partitions")


@dataclass(frozen=True, kw_only=True)
class _Consecutive(ABC):
    """Blocks of consecutive rows of an order, each with its nearest other rows as a margin."""

    overlap: float | Auto = 0.0
    #: whether blocks are compact in space, so that few blocks around one hold its margin
    is_compact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_overlap(self.overlap)

    def __call__(self, inputs: Tensor, block_size: int) -> Partition:
        order, overlap = self.order(inputs, block_size), chosen("overlap", self.overlap)
        return _with_margins(order, inputs, block_size, overlap, is_compact=self.is_compact)

    @abstractmethod
    def order(self, inputs: Tensor, block_size: int) -> Tensor:
        """Return the user's row of each stored row, (n,)."""


@PARTITIONS.register("sequential")
@dataclass(frozen=True, kw_only=True)
class Sequential(_Consecutive):
    """Blocks of consecutive rows in the given order: the paper's partition (section 5.1).

    Args:
        overlap: number of nearest other rows that a block also solves on, as a share of the rows it owns; the paper
            uses 0. `auto` chooses it from d (`apviz.solvers.recommended`).

    Raises:
        ValueError: an overlap out of range, with the accepted values.
    """

    is_compact = False

    def order(self, inputs: Tensor, block_size: int) -> Tensor:
        return torch.arange(len(inputs), device=inputs.device)


@PARTITIONS.register("shuffled")
@dataclass(frozen=True, kw_only=True)
class ShuffledRows(_Consecutive):
    """Blocks of rows in a random order.

    Args:
        overlap: as in `Sequential`.
        seed: seed of the order.
    """

    seed: int = 0
    is_compact = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_seed(self.seed)

    def order(self, inputs: Tensor, block_size: int) -> Tensor:
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(int(self.seed)))
        return order.to(inputs.device)


@PARTITIONS.register("kd-tree")
@dataclass(frozen=True, kw_only=True)
class KDTree(_Consecutive):
    """Blocks of neighbours in space: halves along the longest side, in units of lengthscale, until a block is full.

    Args:
        overlap: as in `Sequential`.
    """

    def order(self, inputs: Tensor, block_size: int) -> Tensor:
        return _tree(inputs, block_size, lambda points: points[:, int((points.amax(0) - points.amin(0)).argmax())])


@PARTITIONS.register("principal-axis-tree")
@dataclass(frozen=True, kw_only=True)
class PrincipalAxisTree(_Consecutive):
    """Blocks of neighbours in space: halves across the principal axis, in units of lengthscale, until a block is full.

    McNames (2001), "A fast nearest-neighbor algorithm based on a principal axis search tree". Blocks are rounder than
    those of a k-d tree if inputs are many and correlated.

    Args:
        overlap: as in `Sequential`.

    Examples:
        >>> import torch
        >>> from apviz.partitions import PrincipalAxisTree
        >>> PrincipalAxisTree(overlap=0.5)(torch.randn(40, 2), 10).solved_sizes()
        [15, 15, 15, 15]
    """

    def order(self, inputs: Tensor, block_size: int) -> Tensor:
        return _tree(inputs, block_size, _principal)


def _principal(points: Tensor) -> Tensor:
    """Return coordinates along the axis of largest variance: (n, d) to (n,)."""
    centred = (points - points.mean(0)).double()
    axis: Tensor = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -1]
    sign = axis[axis.abs().argmax()].sign()  # the sign of an eigenvector depends on the library
    return (centred @ axis * sign).to(points)


def _tree(inputs: Tensor, block_size: int, coordinate: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the order after repeated halving by a coordinate of each part; every block but the last is full."""
    parts = [torch.arange(len(inputs), device=inputs.device)]
    leaves: list[Tensor] = []
    while parts:
        rows = parts.pop()
        if len(rows) <= block_size:
            leaves.append(rows)
            continue
        # a cut at a whole number of blocks keeps all blocks but the last full
        cut = (math.ceil(len(rows) / block_size) // 2) * block_size
        rank = coordinate(inputs[rows]).argsort(stable=True)
        parts += [rows[rank[cut:]], rows[rank[:cut]]]
    return torch.cat(leaves)


def partitioner_named(name: str | Partitioner, seed: int = 0, overlap: float | Auto = 0.0) -> Partitioner:
    """Return the partitioner called `name`, with this overlap, and `seed` if random; return an object as it is."""
    if isinstance(name, type):
        raise ValueError(f"partition must be an object, such as {name.__name__}(), got the class")
    return name if not isinstance(name, str) and callable(name) else PARTITIONS.make(name, seed=seed, overlap=overlap)


def overlap_of(partition: str | Partitioner) -> float | Auto:
    """Return the overlap of a partitioner, 0 for a name and for an object that does not say."""
    return 0.0 if isinstance(partition, str) else getattr(partition, "overlap", 0.0)


def with_overlap(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain settings whose `overlap`, a setting of user interfaces, has become one of their `partition`.

    Without overlap the partition keeps its name, and so the seed of its solver.
    """
    others = {name: value for name, value in settings.items() if name != "overlap"}
    if settings.get("overlap") and "partition" in settings:
        seed, overlap = settings.get("seed", 0), settings["overlap"]
        others["partition"] = partitioner_named(settings["partition"], seed, overlap)
    return others


def _with_margins(order: Tensor, inputs: Tensor, block_size: int, overlap: float, *, is_compact: bool) -> Partition:
    """Return blocks of `block_size` consecutive rows of `order`, each with its ⌊overlap · owned⌋ nearest other rows.

    Nearest means nearest to any row the block owns, of a large block to any of about a thousand of them. If blocks are
    compact, the search covers the blocks around it: those with the nearest landmarks that hold `CANDIDATES` times the
    margin. Else it covers all rows, n²d operations.
    """
    n = len(order)
    starts = (*range(0, n, block_size), n)
    if overlap == 0 or len(starts) == 2:
        return Partition(order, starts)
    around = Neighbourhoods(inputs[order], starts)
    margins = []
    for j in range(len(starts) - 1):
        owned = starts[j + 1] - starts[j]
        size = min(int(overlap * owned), n - owned)
        looked_at = math.ceil(CANDIDATES * overlap) + 2 if is_compact else len(starts) - 1
        margins.append(around.nearest(j, size, looked_at))
    return Partition(order, starts, tuple(margins))


class Neighbourhoods:
    """Search for rows around each block of points: (n, d), cut at `starts` into blocks of equal size but the last."""

    def __init__(self, points: Tensor, starts: tuple[int, ...]) -> None:
        self._points, self._starts = points, starts
        size, d, n = starts[1], points.shape[1], len(points)
        full = n - n % size
        self._landmarks = torch.cat([_landmarks(points[:full].view(-1, size, d)), _landmarks(points[full:][None])])
        members = torch.tensor([min(LANDMARKS, b - a) for a, b in pairwise(starts)], device=points.device)
        self._home = torch.arange(len(starts) - 1, device=points.device).repeat_interleave(members)
        self._distances = squared_distances(points)

    def nearest(self, block: int, size: int, looked_at: int) -> Tensor:
        """Return the `size` rows nearest to any that a block owns, sorted, from the `looked_at` nearest blocks."""
        points, starts, home = self._points, self._starts, self._home
        nearest = self._distances(self._landmarks, self._landmarks[home == block])
        distance = nearest.new_full((len(starts) - 1,), torch.inf).scatter_reduce_(0, home, nearest, "amin")
        distance[block] = torch.inf
        around = distance.argsort()[:looked_at]
        around = around[around != block].sort().values
        rows = torch.cat([torch.arange(starts[k], starts[k + 1], device=points.device) for k in around.tolist()])
        # of a large block some rows say which others are near, and all would take most of the time of a partition
        step = max(1, (starts[block + 1] - starts[block]) // COMPARED)
        found = self._distances(points[rows], points[starts[block] : starts[block + 1] : step].contiguous())
        return rows[found.topk(min(size, len(rows)), largest=False).indices].sort().values


def near_rows(partition: Partition, inputs: Tensor, size: int, blocks: Iterable[int] | None = None) -> list[Tensor]:
    """Return, for every block or some, its solved rows and the nearest others to its owned rows: `size` in all, sorted.

    inputs: (n, d), scaled, in the stored order.
    """
    around, sizes = Neighbourhoods(inputs, partition.starts), partition.owned_sizes()
    found = []
    for block in range(len(partition)) if blocks is None else blocks:
        owned = sizes[block]
        solved = torch.zeros(len(inputs), dtype=torch.bool, device=inputs.device)
        solved[partition.solved(block)] = True
        if (others := min(size, len(inputs)) - owned) > 0 and len(partition) > 1:
            looked_at = math.ceil(NEAR_CANDIDATES * size / partition.starts[1]) + 2
            solved[around.nearest(block, others, looked_at)] = True
        found.append(solved.nonzero().flatten())
    return found


def _landmarks(blocks: Tensor) -> Tensor:
    """Return up to `LANDMARKS` points of each block, (m, b, d) to (m·min(b, `LANDMARKS`), d), block after block."""
    if blocks.shape[1] == 0:
        return blocks.flatten(0, 1)
    every = torch.arange(len(blocks), device=blocks.device)
    return blocks[every[:, None], farthest_first(blocks, LANDMARKS)].flatten(0, 1)


def farthest_first(blocks: Tensor, most: int) -> Tensor:
    """Return up to `most` places in each block of (m, b, d), each the farthest from those before (Gonzalez, 1985)."""
    m, b, _ = blocks.shape
    every = torch.arange(m, device=blocks.device)
    chosen = [(blocks - blocks.mean(1, keepdim=True)).square_().sum(2).argmin(1)]
    distance = blocks.new_full((m, b), torch.inf)
    while len(chosen) < min(most, b):
        torch.minimum(distance, (blocks - blocks[every, chosen[-1], None]).square_().sum(2), out=distance)
        chosen.append(distance.argmax(1))
    return torch.stack(chosen, 1)


def squared_distances(inputs: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that finds the squared distance of (n, d) points to the nearest of (m, d) others, (n,).

    Uses the compiled engine, 2 to 15 times as fast, if it is already loaded and supports the dtype and the device.
    """
    known = inputs.device.type == "cpu" and inputs.dtype in (torch.float32, torch.float64)
    return native.nearest if known and native.is_wanted() and native.library() is not None else _nearest


def _nearest(points: Tensor, others: Tensor) -> Tensor:
    """Return squared distances to the nearest by matrix products: fast on any device."""
    centre = others.mean(0)  # keeps the products below small compared to their difference
    points, others = points - centre, others - centre
    norms = others.square().sum(1)[:, None]
    # a chunk's distances stay in cache between the product and the minimum
    nearest = [torch.addmm(norms, others, chunk.T, alpha=-2).amin(0) for chunk in torch.split(points, 512)]
    # 0 may round to a negative number
    return torch.cat(nearest).add_(points.square().sum(1)).clamp_min_(0.0)
