"""Skeletons: few columns of K that represent those of a block in the rows far from it.

Far from the rows I of a block, the columns K[:, I] have a small numerical rank: K[far, I] ≈ K[far, J] T for a skeleton
J ⊂ I, an interpolative decomposition (Cheng, Gimbutas, Martinsson & Rokhlin, SIAM J. Sci. Comput. 26, 2005). Near
entries are always evaluated. Each point of J is the farthest from the previous ones; this choice needs no entries and
is as good as pivots. T is fitted, with a little damping, to random rows drawn with larger probability if their entries
are larger. Uniformly drawn rows would miss those just outside the near ones, which have the largest error.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from apviz.factors import Block, BlockFactors
from apviz.memory import require_memory
from apviz.operators import CountingOperator, Operator, Rows
from apviz.operators.interface import count
from apviz.partitions import Partition, farthest_first, near_rows, squared_distances
from apviz.stacked_factors import Stacked, stacked_indices

# Number of drawn rows for each row of T.
SAMPLES = 8
# Damping of T, relative to the largest column norm of a skeleton: limits the weight of small entries.
DAMPING = 5e-3
# The drift is estimated on this share of the blocks, and at least on this number, before all are decomposed.
PROBE_BLOCKS, PROBE_SHARE = 4, 0.1
# Number of points of a block that measure the distance of all other points to it.
LANDMARKS = 32
# Epochs to lower the residual by a factor of e.
EPOCHS = 0.5
# Drift that later passes find, as a multiple of the drift estimated for an update of each block.
LATER_DRIFT = 2.5
# Largest number of right-hand sides used.
MOST_SIDES = 4


class Columns(Protocol):
    """Evaluates K[:, I] U for the blocks of a partition."""

    def subtract_(self, r: Tensor, block: Block, u: Tensor) -> None:
        """Subtract K[:, I] u, u: (|I|, p), from r: (n, p) in place."""
        ...


class ExactColumns:
    """Exact columns, for the rows that each block solves on: n|I| entries."""

    def __init__(self, operator: Operator, rows: Sequence[Rows]) -> None:
        self._operator, self._rows = operator, rows

    def subtract_(self, r: Tensor, block: Block, u: Tensor) -> None:
        self._operator.subtract_columns_(r, self._rows[block], u)


class BlockSkeletons:
    """Skeletons of all blocks, as part of a set-up: near rows N, J and T of each.

    Attributes:
        rank: |J|.
        drift: Estimate of ‖R − (B − KW)‖_F/‖B‖_F after a solve from W = 0: the error of the columns on drawn rows, for
            the updates of right-hand sides with random signs.
        numbers: Total number of stored numbers.
    """

    def __init__(
        self, operator: CountingOperator, partition: Partition, factors: BlockFactors, rank: int, near: int, seed: int
    ) -> None:
        self._rows = factors.rows
        self.rank, self.near_size = rank, near
        longest = max(count(rows) for rows in self._rows)
        self.numbers, kept = len(partition) * longest * rank, factors.dtype
        what = f"skeletons of rank {rank} for {len(partition)} blocks need"
        require_memory(self.numbers * kept.itemsize, operator.x.device, what, "use columns=apviz.solvers.Exact()")
        inputs = operator.inputs
        self._near: Sequence[Tensor] = near_rows(partition, inputs, near)
        order = _farthest_first(inputs, self._rows, rank)
        skeletons, maps = list[Tensor](), dict[int, Tensor]()
        self._skeletons: Sequence[Tensor] = skeletons
        self._maps: dict[int, Tensor] | Stacked[Tensor] = maps
        found = torch.zeros(2, dtype=torch.float64)  # squared errors, and the number of entries drawn for the fits
        for block, rows in enumerate(self._rows):
            skeletons.append(_indices(rows, inputs)[order[block]])
            if not operator.layout.is_home(block):
                continue
            # the same draws on any rank
            generator = torch.Generator().manual_seed(int(seed) + block)
            fit = _Fit(operator, rows, self._near[block], order[block], SAMPLES * rank, generator)
            t = fit.map(len(order[block]))
            maps[block] = t.to(kept)
            z = _signs(count(rows), inputs, generator)
            found[0] += fit.squared_error(t, factors.solve(block, z))
            found[1] += fit.entries
        entries, (error, evaluated) = float(found[1]), operator.layout.sum(found.to(inputs.device)).tolist()
        operator.evaluated_elsewhere(round(evaluated - entries))
        self.drift = math.sqrt(error / len(inputs))
        if factors.is_stacked:
            self._stack(len(inputs))

    def _stack(self, n: int) -> None:
        """Index blocks by a number on the device: evaluate more rows than the nearest, ignore added columns."""
        others = []
        for near in self._near:
            is_far = torch.ones(n, dtype=torch.bool, device=near.device)
            is_far[near] = False
            others.append(is_far.nonzero().flatten())
        filled = stacked_indices(self._near, others)
        self._near = Stacked(list(filled), filled)
        self._skeletons = Stacked(self._skeletons, stacked_indices(self._skeletons))
        maps = [self._maps[block] for block in range(len(self._rows))]
        longest, widest = (max(t.shape[side] for t in maps) for side in (0, 1))
        self._maps = Stacked(maps, torch.stack([pad(t, (0, widest - t.shape[1], 0, longest - len(t))) for t in maps]))

    def near(self, block: int) -> Tensor:
        """Return the rows whose entries are always evaluated, sorted."""
        return self._near[block]

    def skeleton(self, block: int) -> Tensor:
        """Return the rows whose columns represent those of the block elsewhere."""
        return self._skeletons[block]

    def bind(self, operator: Operator) -> BoundSkeletons:
        """Return the columns of these skeletons for `operator`, which evaluates and counts entries."""
        return BoundSkeletons(self, operator)


class BoundSkeletons:
    """Columns whose far entries are those of the skeleton: |N||I| + n|J| entries."""

    def __init__(self, skeletons: BlockSkeletons, operator: Operator) -> None:
        self._of, self._operator = skeletons, operator

    def subtract_(self, r: Tensor, block: Block, u: Tensor) -> None:
        of, operator, layout = self._of, self._operator, self._operator.layout
        near, skeleton = of._near[block], of._skeletons[block]
        here = layout.here(near)
        kept = r[here]
        if len(near) < operator.n:
            of_skeleton = layout.made_at_home(block, lambda: of._maps[block].to(u) @ u, u, len(skeleton))
            operator.subtract_columns_(r, skeleton, of_skeleton)
        r[here] = kept
        operator.subtract_part_(r, near, of._rows[block], u)


class _Fit:
    """Fit of T for one block: entries of drawn rows, each divided by the root of the probability of the row."""

    def __init__(
        self, operator: CountingOperator, rows: Rows, near: Tensor, order: Tensor, size: int, generator: torch.Generator
    ) -> None:
        inputs = operator.inputs
        landmarks = inputs[rows][order[:LANDMARKS]]
        # landmarks are farther than the nearest row of the block by about half their spacing
        spacing = 0.5 * math.sqrt(float(squared_distances(inputs)(inputs[rows], landmarks).mean()))
        distance = squared_distances(inputs)(inputs, landmarks).sqrt_().sub_(spacing).clamp_min_(0.0).square_()
        chance = operator.decay_(distance).square_()
        chance[near] = 0.0
        drawn, weight = _drawn(chance, size, generator)
        self._order = order
        self._entries = operator.part(drawn, rows).mul_(weight[:, None])
        #: Number of evaluated entries.
        self.entries = self._entries.numel()

    def map(self, rank: int) -> Tensor:
        """Fit T, (rank, |I|), for the first `rank` rows of the order."""
        entries = self._entries
        of_skeleton = entries[:, self._order[:rank]]
        gram = of_skeleton.T @ of_skeleton
        largest = gram.diagonal().amax()
        gram.diagonal().add_(DAMPING**2 * largest)
        factor, failed = torch.linalg.cholesky_ex(gram)
        if failed or not largest > torch.finfo(gram.dtype).tiny / torch.finfo(gram.dtype).eps:
            return torch.zeros_like(of_skeleton.T @ entries)  # far entries are zero up to rounding
        t: Tensor = torch.cholesky_solve(of_skeleton.T @ entries, factor)
        return t

    def squared_error(self, t: Tensor, u: Tensor) -> float:
        """Estimate ‖(K[far, I] − K[far, J] T) u‖²_F ÷ the columns of u."""
        missed = self._entries @ u - self._entries[:, self._order[: len(t)]] @ (t @ u)
        return float(missed.double().square().sum() / u.shape[1])


class Suggestion(NamedTuple):
    """Rank and number of near rows, with their estimated drift."""

    rank: int
    near: int
    drift: float


def suggest(
    operator: CountingOperator, partition: Partition, ranks: Sequence[int], nears: Sequence[int], tol: float,
    like: Tensor | None, seed: int,
) -> Suggestion:  # fmt: skip
    """Return the rank and the number of near rows that minimise the cost of epochs and passes together.

    The drift is estimated on a few blocks. Each pass leaves about the drift's share of the previous residual.

    Args:
        like: (n, l+1) right-hand sides in stored order, for which the drift should be small; None for random ones,
            whose drift is larger than that of smooth ones.
    """
    several = min(len(partition), max(PROBE_BLOCKS, round(PROBE_SHARE * len(partition))))
    blocks = [k * len(partition) // several for k in range(several)]
    rows = [partition.solved(block) for block in blocks]
    most, longest = max(1, min(count(held) for held in rows) // 3), max(count(held) for held in rows)
    factors = BlockFactors(operator, rows)
    generator = torch.Generator().manual_seed(int(seed))
    order = _farthest_first(operator.inputs, rows, min(most, max(ranks)))
    sides = None if like is None else _of_unit_size(like[:, :MOST_SIDES], operator.inputs)
    updates = []
    for k, held in enumerate(rows):
        z = _signs(count(held), operator.inputs, generator) if sides is None else sides[held]
        updates.append(factors.solve(k, z))
    total = operator.n / len(partition) * len(blocks)
    fits: dict[int, list[_Fit]] = {}

    def drift(rank: int, near: int) -> float:
        if near not in fits:
            near_of = near_rows(partition, operator.inputs, near, blocks)
            size = SAMPLES * len(order[0])
            fits[near] = [_Fit(operator, held, near_of[k], order[k], size, generator) for k, held in enumerate(rows)]
        pairs = zip(fits[near], updates, strict=True)
        return math.sqrt(sum(fit.squared_error(fit.map(rank), u) for fit, u in pairs) / total)

    epochs = 1 + EPOCHS * math.log(1 / tol)

    def work(rank: int, near: int) -> float:
        """Return the work of the epochs."""
        return epochs * len(partition) * (near * longest / operator.n**2 + rank / operator.n)

    found: list[tuple[float, Suggestion]] = []
    for rank, near in sorted(
        {(min(most, rank), near) for rank in ranks for near in nears}, key=lambda each: work(*each)
    ):
        if found and work(rank, near) + 1.0 >= min(found)[0]:
            break
        estimated = drift(rank, near)
        passes = max(1, math.ceil(math.log(tol) / math.log(min(0.9, max(LATER_DRIFT * estimated, 1e-30)))))
        found.append((work(rank, near) + passes, Suggestion(rank, near, estimated)))
    return min(found)[1]


def _of_unit_size(b: Tensor, like: Tensor) -> Tensor | None:
    """Return the nonzero columns of b, scaled to root mean square 1, as `like`; None if there are none."""
    scaled = b.double() / b.abs().amax(0).double().clamp_min(torch.finfo(torch.float64).tiny)
    norms: Tensor = torch.linalg.vector_norm(scaled, dim=0) / math.sqrt(len(b))
    kept = norms > 0
    return (scaled[:, kept] / norms[kept]).to(like) if bool(kept.any()) else None


def _farthest_first(inputs: Tensor, blocks: Sequence[Rows], size: int) -> list[Tensor]:
    """Return up to `size` points of each block, farthest first, blocks of one size together."""
    of_size: dict[int, list[int]] = defaultdict(list)
    for block, rows in enumerate(blocks):
        of_size[count(rows)].append(block)
    found: list[Tensor] = [torch.empty(0)] * len(blocks)
    for several in of_size.values():
        points = torch.stack([inputs[blocks[block]] for block in several])
        for block, order in zip(several, farthest_first(points, size), strict=True):
            found[block] = order
    return found


def _drawn(chance: Tensor, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw about `size` independent rows with probabilities proportional to `chance`; return also 1/√probability."""
    p = chance * (size / chance.sum().clamp_min(torch.finfo(chance.dtype).tiny))
    for _ in range(6):  # rows with probability 1 leave more draws to the others
        certain = p >= 1
        rest = p.masked_fill(certain, 0.0)
        left = rest.sum()
        if not certain.any() or left == 0:
            break
        p = torch.where(certain, 1.0, rest * ((size - certain.sum()).clamp_min(1) / left))
    drawn = (torch.rand(len(p), generator=generator).to(p) < p).nonzero().flatten()
    return drawn, p[drawn].clamp_max(1.0).rsqrt()


def _signs(size: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """Return columns of random signs, (size, 4)."""
    return (2.0 * torch.randint(2, (size, 4), generator=generator) - 1.0).to(like)


def _indices(rows: Rows, like: Tensor) -> Tensor:
    return torch.arange(rows.start, rows.stop, device=like.device) if isinstance(rows, slice) else rows
