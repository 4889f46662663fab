"""Two blocks of points on a line, and what their angle says of a sweep over both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apviz.rkhs.angles import contraction
from apviz.rkhs.span import Floats
from apviz.rkhs.walk import Walk
from apviz.settings import require, require_number, require_whole

#: between neighbours in a block
SPACING = 0.1
#: a part of ‖g‖_H below which a measured ratio is one of rounding errors
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class TwoBlocks:
    """Points on a line.

    Args:
        x: (n,) places, rising.
        first, second: the points of the two blocks; some may be in both.
    """

    x: Floats
    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def shared(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.first) & set(self.second)))


def two_blocks(points: int, distance: float, shared: int = 0) -> TwoBlocks:
    """Two blocks that own `points` each, `SPACING` apart, with `distance` between the two.

    Args:
        shared: points that both blocks solve on: the nearest of the other block, taken in turn by the first and the
            second.

    Raises:
        ValueError: no points; a distance that is not positive; so many shared that a block would hold everything.
    """
    require_whole("points", points, 1)
    require_number("distance", distance, 0, "a positive distance", strictly=True)
    require_whole("shared", shared, 0, 2 * points - 2)
    right = distance / 2 + SPACING * np.arange(points)
    x = np.concatenate([-right[::-1], right])
    by_first, by_second = -(-shared // 2), shared // 2
    first, second = range(points + by_first), range(points - by_second, 2 * points)
    return TwoBlocks(x, tuple(first), tuple(second))


@dataclass(frozen=True, eq=False)
class Sweeps:
    """What theory says of each sweep over two blocks, and what happened.

    Args:
        errors: (sweeps + 1,) ‖r‖_H before the first sweep and after each.
        bound: (sweeps + 1,) c²ᵏ⁻¹‖g‖_H after k sweeps, c the cosine of the Friedrichs angle; ‖g‖_H before the first.
        predicted: c², the ratio of one sweep to the one before, in the end.
        measured: that ratio in the last sweep that ended above rounding; NaN where the first ended below.
        measured_at: the number of that sweep; 0 for none.
    """

    errors: Floats
    bound: Floats
    predicted: float
    measured: float
    measured_at: int


def sweeps_of(walk: Walk) -> Sweeps:
    """Predicted and measured contraction of a walk that takes two blocks in turn.

    Raises:
        ValueError: a walk over another number of blocks, or that takes them in another order.
    """
    taken = [step.block for step in walk.steps[1:]]
    require(len(walk.blocks) == 2, "the walk", f"one over {len(walk.blocks)} blocks", "over two blocks")
    require(taken == [j % 2 for j in range(len(taken))], "the rule", walk.label, "cyclic, so that sweeps are alike")
    errors = walk.errors()[::2]
    predicted = contraction(walk.span, *walk.blocks)
    cosine = np.sqrt(predicted)
    powers = np.maximum(2 * np.arange(len(errors)) - 1, 0)
    bound = np.asarray(errors[0] * cosine**powers)
    above = np.flatnonzero(errors > ROUNDING * errors[0])
    last = int(above[-1]) if len(above) else 0
    measured = float(errors[last] / errors[last - 1]) if last >= 2 else float("nan")
    return Sweeps(errors, bound, predicted, measured, last if last >= 2 else 0)
