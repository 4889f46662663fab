"""Blocks given point by point, which may share points: a walk over subspaces of one's own choice.

Small data sets on which the rules of block selection differ, each with something to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from apviz.datasets import load
from apviz.partitions import Partition
from apviz.rkhs.span import Floats, Span
from apviz.rkhs.trajectory import Rule, Walk, walk
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


Situation = Literal["even", "one bump", "crowded", "photograph"]


def situation(name: Situation, n: int) -> tuple[Floats, Floats]:
    """Points in increasing order and data at them, (n,) each.

    `even`: a smooth function and noise at points spread evenly. `one bump`: data that are zero but for one place.
    `crowded`: half of the points close together, with a common offset. `photograph`: columns of the picture china
    and their mean luminance, standardised; n up to 512.

    Raises:
        ValueError: an unknown name, with the known ones; more columns than there are.
    """
    require(name in get_args(Situation), "situation", name, f"one of {', '.join(get_args(Situation))}")
    if name == "photograph":
        data = load("china-profile", n=n, dtype=torch.float64)
        order = np.argsort(data.train_x[:, 0].numpy())
        return data.train_x[:, 0].numpy()[order], data.train_y.numpy()[order]
    draws = np.random.default_rng(0)
    x = np.sort(draws.uniform(0, 1, n))
    noise = draws.standard_normal(n)
    if name == "even":
        return x, np.sin(9 * x) * np.exp(-x) + 0.1 * noise
    if name == "one bump":
        return x, np.exp(-0.5 * ((x - 0.7) / 0.06) ** 2) + 0.02 * noise
    crowd = n // 2
    x = np.sort(np.concatenate([0.1 + 0.05 * x[:crowd], draws.uniform(0.2, 1, n - crowd)]))
    return x, np.where(x < 0.16, 1.0, 0.9 * np.sign(np.sin(40 * x))) + 0.1 * noise
