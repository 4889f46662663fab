"""Blocks of points: by consecutive rows, in random order, by a k-d tree, or as given; with margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apviz.rkhs.kernels import Floats, require_one_of
from apviz.rkhs.rules import Draws
from apviz.rkhs.span import Span
from apviz.settings import require, require_number, require_whole

Points = tuple[int, ...]
PARTITIONS = ("sequential", "shuffled", "kd-tree")


class Blocks(NamedTuple):
    """Points that each block owns, where every point has one owner, and points that each block solves on."""

    owned: tuple[Points, ...]
    solved: tuple[Points, ...]


def blocks_of(span: Span, block_size: int, partition: str) -> tuple[Points, ...]:
    """Return the points of every block of a partition, as `apviz.AlternatingProjection` makes it.

    Args:
        block_size: points a block owns.
        partition: sequential, shuffled or kd-tree.

    Examples:
        A k-d tree puts neighbours into one block, whatever the order of the rows:

        >>> span = apviz.rkhs.Span([0.1, 0.9, 0.2, 0.8], apviz.Matern52(lengthscale=0.2), noise=0.1)
        >>> apviz.rkhs.blocks_of(span, 2, "sequential"), apviz.rkhs.blocks_of(span, 2, "kd-tree")
        (((0, 1), (2, 3)), ((0, 2), (3, 1)))
    """
    return blocks_with_margins(span, block_size, partition, 0.0).owned


def blocks_with_margins(span: Span, block_size: int, partition: str, overlap: float) -> Blocks:
    """Cut points into blocks, each with its ⌊overlap · owned⌋ nearest other points as a margin."""
    require_whole("block_size", block_size, 1)
    require_number("overlap", overlap, 0, "a finite fraction of a block's points, at least 0")
    require_one_of(partition, "partition", PARTITIONS)
    x, order = span.scaled, np.arange(span.n)
    if partition == "shuffled":
        order = np.array(Draws(0).permutation(span.n))
    if partition == "kd-tree":
        order = _kd_tree(x, block_size)
    owned = [order[start : start + block_size] for start in range(0, span.n, block_size)]
    solved = [np.append(own, _margin(x, order, own, overlap)) for own in owned]
    return Blocks(*(tuple(tuple(rows.tolist()) for rows in blocks) for blocks in (owned, solved)))


def given_blocks(span: Span, sets: Sequence[Sequence[int]]) -> Blocks:
    """Return blocks that solve on given sets; a point of several sets is owned by the first of them."""
    require(isinstance(sets, Sequence) and len(sets) > 0, "sets", sets, "sets of points, at least one")
    solved = tuple(tuple(sorted(set(span.rows(block, "sets")))) for block in sets)
    held: set[int] = set()
    owned = []
    for block in solved:
        owned.append(tuple(point for point in block if point not in held))
        require(len(owned[-1]) > 0, "a block", block, "a set with a point that no earlier block has")
        held.update(block)
    require(len(held) == span.n, "the blocks", sets, f"sets of points that hold all from 0 to {span.n - 1}")
    return Blocks(tuple(owned), solved)


def _kd_tree(x: Floats, block_size: int) -> NDArray[np.intp]:
    """Order points (n, d) by halving along the longest side, every block but the last full."""
    parts, leaves = [np.arange(len(x))], []
    while parts:
        rows = parts.pop()
        if len(rows) <= block_size:
            leaves.append(rows)
            continue
        # a cut at a whole number of blocks keeps all blocks but the last full
        cut = (-(-len(rows) // block_size) // 2) * block_size
        rank = x[rows, np.ptp(x[rows], axis=0).argmax()].argsort(kind="stable")
        parts += [rows[rank[cut:]], rows[rank[:cut]]]
    return np.concatenate(leaves)


def _margin(x: Floats, order: NDArray[np.intp], own: NDArray[np.intp], overlap: float) -> NDArray[np.intp]:
    """Find the points nearest to any that a block owns."""
    others = order[~np.isin(order, own)]
    if overlap == 0 or len(others) == 0:
        return others[:0]
    distances = ((x[others, None] - x[own]) ** 2).sum(axis=2).min(axis=1)
    nearest = np.sort(distances.argsort(kind="stable")[: int(overlap * len(own))])
    return np.asarray(others[nearest])
