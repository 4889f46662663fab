"""Posterior variances given the training rows near a group of test points: upper bounds, and usually tight.

Conditioning on some of the observations leaves a variance that is never below that of all. A group of test points that
are close together shares its rows and one Cholesky factor. The leading part of the factor is that of the rows that
explain most, so each variance is known for fewer rows too. It has settled if more rows would hardly lower it, by an
extrapolation that can be wrong: who predicts checks it on a sample. Where it has not settled, a solve with all rows is
needed. This is the idea of nearest-neighbour Gaussian processes (Vecchia, JRSS B 1988; Datta et al., JASA 2016).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from apviz.kernels import Stationary
from apviz.operators import CountingOperator

#: numbers of rows that groups are conditioned on, one after another until the variances settle
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
#: relative change of the standard deviation by all further rows, as extrapolated, below which it has settled
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

    def variances(self, points: Tensor, noise: float = 0.0) -> tuple[Tensor, Tensor]:
        """Return the variances at test inputs (m, d), to (m,), and whether each has settled, (m,) bool.

        A group costs the squared number of rows in kernel entries, and a Cholesky factor.

        Args:
            points: test inputs.
            noise: what predictions add to the variance of f: then that of the sum has to settle.
        """
        scaled = self._operator.scaled(points)
        variance = self._operator.formula.diagonal(scaled) + noise
        settled = torch.zeros(len(points), dtype=torch.bool, device=points.device)
        for count in _counts(self._operator.n):  # what has not settled is grouped again: few groups need many rows
            left = (~settled).nonzero()[:, 0]
            for group in self._groups(scaled[left]):
                of = left[group]
                found, settled[of] = self._of_group(count, points[of], scaled[of], noise)
                variance[of] = variance[of].minimum(found)
        return (variance - noise).clamp_min_(0.0), settled

    def left_out(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the variances of observations given those of other rows, and whether each has settled.

        Args:
            rows: (m,) indices of the observations.

        Returns:
            variance (m,), σ² included, and (m,) bool. It is that given all other rows, or larger.
        """
        operator, variances, settled = self._operator, [], []
        for row in rows.tolist():
            point, scaled = operator.given[row : row + 1].double(), operator.inputs[row : row + 1]
            noise = float(self._own[row] - operator.formula.diagonal(scaled)[0])
            for count in _counts(operator.n):
                variance, has_settled = self._of_group(count, point, scaled, noise, without=row)
                if has_settled:
                    break
            variances.append(variance)
            settled.append(has_settled)
        return torch.cat(variances), torch.cat(settled)

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

    def _of_group(
        self, count: int, points: Tensor, scaled: Tensor, noise: float, without: int = -1
    ) -> tuple[Tensor, Tensor]:
        """Return the variances of f plus noise at a group given `count` rows, and whether each has settled.

        Args:
            count: number of rows that the group is conditioned on.
            points, scaled: (c, d) test inputs, and these as the operator scales them.
            noise: what is added to the variance of f.
            without: index of a row that is left out.
        """
        operator = self._operator
        rows, c = self._nearest(points, scaled, count)
        others = rows != without
        factor = torch.linalg.cholesky(operator.block(rows[others]))
        explained = torch.linalg.solve_triangular(factor, c[others], upper=False).square_().cumsum(0)
        variance = (operator.formula.diagonal(scaled) - explained[-1]).clamp_min_(0.0) + noise
        return variance, _have_settled(variance, explained, operator.n) | (count >= operator.n)

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


def _counts(n: int) -> list[int]:
    """Return the numbers of rows that groups are conditioned on, one after another, of n rows in all."""
    return [*ROWS, *(count for count in FURTHER if n >= WORTH * count)]


def _have_settled(variance: Tensor, explained: Tensor, n: int) -> Tensor:
    """Return for which points all n rows would hardly lower the variance, (c,).

    What a quarter, a half and all of the rows explain, (b, c), is continued: each doubling of the rows, until they are
    n, adds what the one before did times the last ratio of two.
    """
    count = len(explained)
    quarter, half, last = (explained[max(count // part - 1, 0)] for part in (4, 2, 1))
    before, now = half - quarter, last - half
    ratio = now / before.clamp_min(torch.finfo(now.dtype).tiny)
    doublings = math.ceil(math.log2(n / count)) if n > count else 0
    remaining = torch.stack([now * ratio**k for k in range(doublings + 1)]).sum(0) - now
    return (now <= ROUNDING * last) | (remaining <= (1 - (1 + SETTLED) ** -2) * variance)


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
