"""Skeletons: few columns of K that stand for those of a block in the rows far from it.

Far from the rows I of a block, the columns K[:, I] have a small numerical rank: K[far, I] ≈ K[far, J] T for a skeleton
J ⊂ I, an interpolative decomposition (Cheng, Gimbutas, Martinsson & Rokhlin, SIAM J. Sci. Comput. 26, 2005). What is
near is always evaluated. J are points each farthest from those before it, which need no entries and serve as well as
pivots; T is fitted, with a little damping, to rows that are drawn the more likely the larger their entries: uniformly
drawn rows miss those just outside the near ones, where the error is.
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
from apviz.partitions import Partition, near_rows, squared_distances
from apviz.stacked_factors import Stacked, stacked_indices

# rows drawn for each row of T
SAMPLES = 8
# damping of T, of the largest norm of a skeleton's column: how small entries of the others count
DAMPING = 5e-3
# blocks on which the drift is estimated before all are decomposed: so many, and a share of all
PROBE_BLOCKS, PROBE_SHARE = 4, 0.1
# points of a block from which the distance of all others to it is taken
LANDMARKS = 32
# epochs for each factor of e by which the residual is to fall
EPOCHS = 0.5
# times the drift estimated for an update of each block, what later passes find
LATER_DRIFT = 2.5
# right-hand sides that are looked at
MOST_SIDES = 4


class Columns(Protocol):
    """What evaluates K[:, I] U for the blocks of a partition."""

    def subtract_(self, r: Tensor, block: Block, u: Tensor) -> None:
        """Subtracts K[:, I] u, u: (|I|, p), from r: (n, p) in place."""
        ...


class ExactColumns:
    """Columns as they are: n|I| entries.

    Args:
        operator: K, in the stored order.
        rows: those that each block solves on.
    """

    def __init__(self, operator: Operator, rows: Sequence[Rows]) -> None:
        self._operator, self._rows = operator, rows

    def subtract_(self, r: Tensor, block: Block, u: Tensor) -> None:
        self._operator.subtract_columns_(r, self._rows[block], u)


class BlockSkeletons:
    """The skeletons of all blocks, as part of a set-up: near rows N, J and T of each.

    Attributes:
        rank: |J|.
        drift: an estimate of ‖R − (B − KW)‖_F/‖B‖_F after a solve from W = 0: the error of the columns on drawn rows,
            for the updates that right-hand sides of random signs lead to.
        numbers: how many numbers it all holds.
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
        found = torch.zeros(2, dtype=torch.float64)  # squared errors, and the entries drawn for the fits
        for block, rows in enumerate(self._rows):
            skeletons.append(_indices(rows, inputs)[order[block]])
            if not operator.layout.is_home(block):
                continue
            # drawn alike wherever a block is at home
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
        """Lets blocks be found by a number on the device: evaluates more rows than the nearest, skips added columns."""
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
        """Returns the rows whose entries are always evaluated, sorted."""
        return self._near[block]

    def skeleton(self, block: int) -> Tensor:
        """Returns the rows whose columns stand for those of the block elsewhere."""
        return self._skeletons[block]

    def bind(self, operator: Operator) -> BoundSkeletons:
        """Returns the columns of these skeletons as `operator` evaluates, and counts, them."""
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
    """The fit of T for one block: the entries of drawn rows, each divided by the root of its chance to be drawn."""

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
        #: how many were evaluated
        self.entries = self._entries.numel()

    def map(self, rank: int) -> Tensor:
        """Fits T, (rank, |I|), for the first `rank` rows of the order."""
        entries = self._entries
        of_skeleton = entries[:, self._order[:rank]]
        gram = of_skeleton.T @ of_skeleton
        largest = gram.diagonal().amax()
        gram.diagonal().add_(DAMPING**2 * largest)
        factor, failed = torch.linalg.cholesky_ex(gram)
        if failed or not largest > torch.finfo(gram.dtype).tiny / torch.finfo(gram.dtype).eps:
            return torch.zeros_like(of_skeleton.T @ entries)  # what is far is zero, but for its rounding
        t: Tensor = torch.cholesky_solve(of_skeleton.T @ entries, factor)
        return t

    def squared_error(self, t: Tensor, u: Tensor) -> float:
        """Estimates ‖(K[far, I] − K[far, J] T) u‖²_F ÷ the columns of u."""
        missed = self._entries @ u - self._entries[:, self._order[: len(t)]] @ (t @ u)
        return float(missed.double().square().sum() / u.shape[1])


class Suggestion(NamedTuple):
    """A rank and a number of near rows, and the drift estimated for both."""

    rank: int
    near: int
    drift: float


def suggest(
    operator: CountingOperator, partition: Partition, ranks: Sequence[int], nears: Sequence[int], tol: float,
    like: Tensor | None, seed: int,
) -> Suggestion:  # fmt: skip
    """Finds the rank and the number of near rows with which epochs and passes together cost least.

    The drift is estimated on a few blocks. Each pass leaves about so much of the residual before it.

    Args:
        like: (n, l+1) right-hand sides in stored order, in whose directions the drift is to be small; None: in random
            ones, of which it is larger than of smooth ones.
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
        """Of the epochs."""
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
    """Columns of b that are not zero, of root mean square 1, as `like`; None for none."""
    scaled = b.double() / b.abs().amax(0).double().clamp_min(torch.finfo(torch.float64).tiny)
    norms: Tensor = torch.linalg.vector_norm(scaled, dim=0) / math.sqrt(len(b))
    kept = norms > 0
    return (scaled[:, kept] / norms[kept]).to(like) if bool(kept.any()) else None


def _farthest_first(inputs: Tensor, blocks: Sequence[Rows], size: int) -> list[Tensor]:
    """For each block up to `size` of its points, each the farthest from those before it (Gonzalez, 1985)."""
    of_size: dict[int, list[int]] = defaultdict(list)
    for block, rows in enumerate(blocks):
        of_size[count(rows)].append(block)
    found: list[Tensor] = [torch.empty(0)] * len(blocks)
    for number, several in of_size.items():
        points = torch.stack([inputs[blocks[block]] for block in several])
        every = torch.arange(len(several), device=inputs.device)
        chosen = [(points - points.mean(1, keepdim=True)).square_().sum(2).argmin(1)]
        distance = points.new_full(points.shape[:2], torch.inf)
        while len(chosen) < min(size, number):
            last = points[every, chosen[-1], None]
            torch.minimum(distance, (points - last).square_().sum(2), out=distance)
            chosen.append(distance.argmax(1))
        for block, order in zip(several, torch.stack(chosen, 1), strict=True):
            found[block] = order
    return found


def _drawn(chance: Tensor, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows drawn independently, about `size` of them with chances in proportion, and 1/√ of each one's chance."""
    p = chance * (size / chance.sum().clamp_min(torch.finfo(chance.dtype).tiny))
    for _ in range(6):  # what is certain leaves more draws to the others
        certain = p >= 1
        rest = p.masked_fill(certain, 0.0)
        left = rest.sum()
        if not certain.any() or left == 0:
            break
        p = torch.where(certain, 1.0, rest * ((size - certain.sum()).clamp_min(1) / left))
    drawn = (torch.rand(len(p), generator=generator).to(p) < p).nonzero().flatten()
    return drawn, p[drawn].clamp_max(1.0).rsqrt()


def _signs(size: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """Columns of random signs, (size, 4)."""
    return (2.0 * torch.randint(2, (size, 4), generator=generator) - 1.0).to(like)


def _indices(rows: Rows, like: Tensor) -> Tensor:
    return torch.arange(rows.start, rows.stop, device=like.device) if isinstance(rows, slice) else rows
