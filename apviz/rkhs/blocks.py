"""Blocks given point by point, which may share points: a walk over subspaces of one's own choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from apviz.partitions import Partition
from apviz.rkhs.span import Floats, Span
from apviz.rkhs.walk import Rule, Walk, walk
from apviz.settings import require


@dataclass(frozen=True)
class GivenBlocks:
    """A partitioner: block j solves on `sets[j]`; a point that several hold is owned by the first of them.

    Raises:
        ValueError: a point that no block holds, or that is none; a block all of whose points others own before.
    """

    sets: tuple[tuple[int, ...], ...]

    def __call__(self, inputs: Tensor, block_size: int, overlap: float) -> Partition:
        n = len(inputs)
        held = set().union(*map(set, self.sets))
        require(held == set(range(n)), "the blocks", self.sets, f"sets of points that hold all from 0 to {n - 1}")
        order: list[int] = []
        starts, margins = [0], []
        for block in self.sets:
            place = {point: stored for stored, point in enumerate(order)}
            margins.append(torch.tensor([place[point] for point in block if point in place], dtype=torch.long))
            owned = [point for point in block if point not in place]
            require(bool(owned), "a block", block, "a set with a point that no block before it holds")
            order += owned
            starts.append(len(order))
        shared = any(len(margin) for margin in margins)
        return Partition(torch.tensor(order), tuple(starts), tuple(margins) if shared else ())


def walk_on(
    span: Span,
    b: Floats,
    sets: Sequence[Sequence[int]],
    *,
    rule: Rule = "gauss-southwell",
    steps: int = 20,
    seed: int = 0,
) -> Walk:
    """A walk over the spans of given sets of points, counted from 0.

    Raises:
        ValueError: sets that leave a point out, or with nothing of their own; what `walk` refuses.
    """
    given = GivenBlocks(tuple(tuple(block) for block in sets))
    largest = max(len(block) for block in given.sets)
    found = walk(span, b, block_size=largest, rule=rule, steps=steps, seed=seed, partition=given)
    blocks = tuple(tuple(sorted(block)) for block in found.blocks)
    return replace(found, blocks=blocks, label=f"AP {rule}")
