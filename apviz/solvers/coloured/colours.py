"""Colours of blocks: blocks of one colour are far apart, so that they can be projected onto at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from apviz.operators.layout import Rows
from apviz.partitions import squared_distances

#: rows of each block between which distances are measured
SAMPLED = 64


def colours_of(inputs: Tensor, blocks: Sequence[Rows], distance: float, seed: int = 0) -> list[list[int]]:
    """Colour blocks greedily (Welsh & Powell, 1967) so that those nearer than a distance have different colours.

    Args:
        inputs: (n, d) scaled inputs, in lengthscales.
        blocks: the rows of each block.
        distance: in lengthscales, between sampled rows of two blocks.
        seed: of the sampled rows.

    Returns:
        the blocks of each colour.

    Examples:
        >>> import torch
        >>> from apviz.solvers.coloured.colours import colours_of
        >>> x = torch.linspace(0, 40, 400)[:, None]
        >>> colours_of(x, [slice(100 * k, 100 * k + 100) for k in range(4)], distance=2.0)
        [[0, 2], [1, 3]]
    """
    near = _near(inputs, blocks, distance, seed)
    colour = torch.full((len(blocks),), -1)
    for block in near.sum(1).argsort(descending=True, stable=True).tolist():
        used = set(colour[near[block]].tolist())
        colour[block] = next(k for k in range(len(blocks)) if k not in used)
    found: list[list[int]] = [[] for _ in range(int(colour.max()) + 1)]
    for block, k in enumerate(colour.tolist()):
        found[k].append(block)
    return found


def _near(inputs: Tensor, blocks: Sequence[Rows], distance: float, seed: int) -> Tensor:
    """Test which blocks share rows or are nearer than a distance to each other, (m, m); not to themselves."""
    near = _sharing(len(inputs), blocks)
    generator = torch.Generator().manual_seed(seed)
    of_blocks = [inputs[rows] for rows in blocks]
    sampled = torch.cat([x[torch.randint(len(x), (SAMPLED,), generator=generator)] for x in of_blocks])
    nearest = squared_distances(sampled)
    for block in range(len(blocks)):
        own = sampled[block * SAMPLED : (block + 1) * SAMPLED]
        near[block] |= (nearest(sampled, own).view(-1, SAMPLED).amin(1) < distance**2).cpu()
    near |= near.T.clone()
    return near.fill_diagonal_(False)


def _sharing(n: int, blocks: Sequence[Rows]) -> Tensor:
    """Test which blocks share rows, (m, m)."""
    rows = [np.arange(each.start, each.stop) if isinstance(each, slice) else each.cpu().numpy() for each in blocks]
    ends = np.cumsum([0, *map(len, rows)])
    held = csr_array((np.ones(ends[-1], dtype=np.int32), np.concatenate(rows), ends), shape=(len(blocks), n))
    return torch.from_numpy((held @ held.T).toarray() > 0)
