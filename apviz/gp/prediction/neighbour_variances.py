"""Posterior variances given the training rows near a group of test points: upper bounds, and usually tight.

Conditioning on some of the observations leaves a variance that is never below that of all. A group of test points that
are close together shares its rows and one Cholesky factor. The leading part of the factor is that of the rows that
explain most, so each variance is known for fewer rows too. It has settled if more rows would hardly lower it, by an
extrapolation that can be wrong: who predicts checks it on a sample. Where it has not settled, a solve with all rows is
needed. This is the idea of nearest-neighbour Gaussian processes (Vecchia, JRSS B 1988; Datta et al., JASA 2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from apviz.kernels import Stationary
from apviz.operators import CountingOperator

#: numbers of rows that a group is conditioned on, one after another until its variances settle
ROWS = (512, 1_024, 2_048)
#: further numbers for what has not settled then, and the n ÷ their number from which a solve with all rows takes longer
FURTHER, WORTH = (4_096, 8_192), 64
#: test points in a group of few or of many inputs
FEW_INPUTS, GROUPS = 3, (256, 16)
#: rows near the box of a group, of which those that explain most are taken, ÷ their number
CANDIDATES = 4
#: largest number of rows inside the box of a group of few inputs
INSIDE = 128
#: points of a group, far apart, that choose its rows in turn
SPREAD = 16
#: relative change of the standard deviation of f by all further rows, as extrapolated, below which it has settled
SETTLED = 0.02
#: share of the explained variance that is rounding
ROUNDING = 1e-9


class NeighbourVariances:
    """Variances of f given the rows that explain most of a group of test points, by K in float64."""

    def __init__(self, operator: CountingOperator) -> None:
        self._operator = operator
        self._own = operator.diagonal().double()  # k(xᵢ, xᵢ) + σᵢ²
        few = operator.x.shape[1] <= FEW_INPUTS
        self._by_distance = few and isinstance(operator.kernel, Stationary)
        self._group = GROUPS[0 if few else 1]

    def variances(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the variances at test inputs (m, d), to (m,), and whether each has settled, (m,) bool.

        A group costs the squared number of rows in kernel entries, and a Cholesky factor.
        """
        scaled = self._operator.scaled(points)
        variance = self._own.new_empty(len(points))
        settled = torch.zeros(len(points), dtype=torch.bool, device=points.device)
        for group in self._groups(scaled):
            variance[group], settled[group] = self._of_group(points[group], scaled[group])
        return variance, settled

    def left_out(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the variances of observations given those of other rows, and whether each has settled.

        Args:
            rows: (m,) indices of the observations.

        Returns:
            variance (m,), σ² included, and (m,) bool. It is that given all other rows, or larger.
        """
        operator, found = self._operator, []
        for row in rows.tolist():
            point, scaled = operator.given[row : row + 1].double(), operator.inputs[row : row + 1]
            noise = float(self._own[row] - operator.formula.diagonal(scaled)[0])
            found.append(self._of_group(point, scaled, noise, without=row))
        variance, settled = zip(*found, strict=True)
        return torch.cat(variance), torch.cat(settled)

    def _groups(self, scaled: Tensor) -> Iterator[Tensor]:
        """Yield test points that are close together: with few inputs, few rows are in the box of each group."""
        rows = self._operator.inputs if self._by_distance else scaled[:0]
        waiting = [(torch.arange(len(scaled), device=scaled.device), rows)] if len(scaled) else []
        while waiting:
            group, rows = waiting.pop()
            low, high = scaled[group].amin(0), scaled[group].amax(0)
            rows = rows[((rows >= low) & (rows <= high)).all(1)]  # those in its box, so in that of the larger group too
            if len(group) <= self._group and (len(group) == 1 or len(rows) <= INSIDE):
                yield group
                continue
            along = scaled[group, int((high - low).argmax())].argsort()
            waiting += [(group[half], rows) for half in (along[: len(along) // 2], along[len(along) // 2 :])]

    def _of_group(self, points: Tensor, scaled: Tensor, noise: float = 0.0, without: int = -1) -> tuple[Tensor, Tensor]:
        """Return the variances of f plus noise at a group, and whether each has settled; `without` one of the rows."""
        prior = self._operator.formula.diagonal(scaled)
        variance, settled = prior + noise, torch.zeros(len(prior), dtype=torch.bool, device=prior.device)
        added = torch.full_like(prior, noise)
        for counts in (ROWS, *((count,) for count in FURTHER if self._operator.n >= WORTH * count)):
            left = (~settled).nonzero()[:, 0]
            if not len(left):
                break
            near, c = self._nearest(points[left], scaled[left], counts[-1])
            others = near != without
            variance[left], settled[left] = self._given(counts, near[others], c[others], prior[left], added[left])
        return variance, settled

    def _given(
        self, counts: Sequence[int], rows: Tensor, c: Tensor, prior: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the variances of f plus noise, (c,), given the leading rows (b,), and whether each has settled.

        Args:
            counts: numbers of the rows, one after another until all have settled.
            c: (b, c) k of rows and points.
            prior, noise: (c,) variances of f at the points, and of what is added to it.
        """
        variance, settled = prior + noise, torch.zeros(len(prior), dtype=torch.bool, device=prior.device)
        for count in sorted({min(count, len(rows)) for count in counts}):
            factor = torch.linalg.cholesky(self._operator.block(rows[:count]))
            explained = torch.linalg.solve_triangular(factor, c[:count], upper=False).square_().cumsum(0)
            variance = (prior - explained[-1]).clamp_min_(0.0) + noise
            settled = _have_settled(variance, explained) | (count == len(rows) and self._operator.n <= ROWS[-1])
            if settled.all():
                break
        return variance, settled

    def _nearest(self, points: Tensor, scaled: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return `count` rows that explain most of a group, the first first, and k of both: (b,) and (b, c)."""
        operator, count = self._operator, min(count, self._operator.n)
        if not self._by_distance:
            columns, near = operator.cross_columns(points), None
        else:
            near = self._nearest_box(scaled.amin(0), scaled.amax(0), min(CANDIDATES * count, operator.n))
            columns = operator.kernel(operator.given[near].double(), points.double())
        of_own = self._own if near is None else self._own[near]
        share = columns[:, _spread(scaled, SPREAD)].square().div_(of_own[:, None])
        rows = _taken_in_turn(share.topk(count, dim=0).indices)[:count]
        return rows if near is None else near[rows], columns[rows]

    def _nearest_box(self, low: Tensor, high: Tensor, count: int) -> Tensor:
        """Return the rows nearest to a box in the lowered inputs, the nearest first, (count,)."""
        centre, inputs = (low + high) / 2, self._operator.inputs
        # the rows of a ball around the centre are as near to the box or nearer, and so in the ball that is larger by it
        radius = self._tree.query(centre.cpu().numpy(), [count])[0].item() + float((high - centre).norm())
        ball = self._tree.query_ball_point(centre.cpu().numpy(), radius * (1 + torch.finfo(inputs.dtype).eps))
        rows = torch.tensor(ball, device=inputs.device)
        outside = inputs[rows] - inputs[rows].clamp(low, high)
        return rows[outside.square().sum(1).topk(count, largest=False).indices]

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self._operator.inputs.cpu().numpy())


def _have_settled(variance: Tensor, explained: Tensor) -> Tensor:
    """Return for which points more rows would hardly lower the variance, (c,).

    What a quarter, a half and all of the rows explain, (b, c), is continued as a geometric series.
    """
    count = len(explained)
    quarter, half, last = (explained[max(count // part - 1, 0)] for part in (4, 2, 1))
    before, now = half - quarter, last - half
    ratio = now / before.clamp_min(torch.finfo(now.dtype).tiny)
    remaining = now * ratio / (1 - ratio).clamp_min(torch.finfo(now.dtype).tiny)
    is_small = (now <= ROUNDING * last) | (remaining <= (1 - (1 + SETTLED) ** -2) * variance)
    return is_small & ((ratio < 1) | (now <= ROUNDING * last))


def _spread(points: Tensor, count: int) -> Tensor:
    """Return the places of some points, each as far from those before it as any is, (c,) at most `count`."""
    if len(points) <= count:
        return torch.arange(len(points), device=points.device)
    chosen, gap = [0], (points - points[0]).square().sum(1)
    while len(chosen) < count:
        chosen.append(int(gap.argmax()))
        gap = torch.minimum(gap, (points - points[chosen[-1]]).square().sum(1))
    return torch.tensor(chosen, device=points.device)


def _taken_in_turn(ranked: Tensor) -> Tensor:
    """Return the rows that several points rank, (b, c), best first and each once: every point takes one in turn."""
    rows, first = np.unique(ranked.reshape(-1).cpu().numpy(), return_index=True)
    return torch.as_tensor(rows[first.argsort()], device=ranked.device)
