"""Angles between the spans of two blocks, and what they say of the speed of alternating projection over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apviz.rkhs.span import MAX_POINTS, Floats, Span
from apviz.rkhs.trajectory import Trajectory
from apviz.settings import require, require_number, require_whole


def principal_angles(span: Span, first: Sequence[int], second: Sequence[int]) -> Floats:
    """Angles in radians, smallest first, between the spans of k(xᵢ, ·) over two sets of points (Björck & Golub 1973).

    Examples:
        Of the angles between two blocks with two points in common, two are zero:

        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> np.degrees(apviz.rkhs.principal_angles(span, [0, 1, 2, 3], [2, 3, 4, 5])).round(1)
        array([ 0. ,  0. , 84.3, 90. ])
    """
    _, cosines, _ = _decomposed(span, first, second)
    return np.asarray(np.arccos(cosines))


def friedrichs_angle(span: Span, first: Sequence[int], second: Sequence[int]) -> float:
    """Smallest angle in radians that is not of what both spans hold; a right angle where there is none.

    The k(xᵢ, ·) are linearly independent, so both hold the span of the points that both sets have, and no more: that
    many principal angles are zero, and the next is the Friedrichs angle.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> round(float(np.degrees(apviz.rkhs.friedrichs_angle(span, [0, 1, 2, 3], [2, 3, 4, 5]))), 1)
        84.3
    """
    apart = principal_angles(span, first, second)[_shared(first, second) :]
    return float(apart[0]) if len(apart) else float(np.pi / 2)


def principal_pair(span: Span, first: Sequence[int], second: Sequence[int]) -> tuple[Floats, Floats]:
    """Weights (n,) each of the two functions of norm 1, one in each span, that meet at the Friedrichs angle.

    Raises:
        ValueError: one set holds the other, so that there is no such pair.
    """
    shared = _shared(first, second)
    a, _, b = _decomposed(span, first, second)
    if shared == min(a.shape[1], b.shape[1]):
        raise ValueError("one of the two sets must not hold all points of the other, for a pair at an angle")
    u, v = span.weights_of(a[:, shared]), span.weights_of(b[:, shared])
    sign = np.sign((span.gram @ u)[np.abs(span.gram @ u).argmax()])
    return sign * u, sign * v


def worst_case_rhs(span: Span, first: Sequence[int], second: Sequence[int]) -> Floats:
    """Data (n,) of largest entry 1 for which a sweep, `first` and then `second`, leaves as much as the angle allows.

    Its g is in the plane of `principal_pair` and at right angles to all of the first span: the first update does
    nothing, the second leaves cos θ of it, and each one after that cos θ again.

    Raises:
        ValueError: one set holds the other.
    """
    u, v = principal_pair(span, first, second)
    b = span.gram @ (v - span.inner(u, v) * u)
    return np.asarray(b / np.abs(b).max())


def contraction(span: Span, first: Sequence[int], second: Sequence[int]) -> float:
    """Share cos²θ of ‖r‖_H that a sweep over two blocks leaves at the worst, after the first; θ the Friedrichs angle.

    ‖(P₂P₁)ᵏ − P‖ = c²ᵏ⁻¹ for the projections onto two subspaces (Aronszajn 1950; Kayalar & Weinert 1988), here the
    orthogonal complements of the spans, whose Friedrichs angle is that of the spans themselves (Deutsch 1995, "The
    angle between subspaces of a Hilbert space").

    Examples:
        More noise opens the angle, and a sweep leaves less:

        >>> x, kernel = np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.5)
        >>> spans = [apviz.rkhs.Span(x, kernel, noise) for noise in (0.01, 0.1, 1.0)]
        >>> [round(apviz.rkhs.contraction(span, range(3), range(3, 6)), 2) for span in spans]
        [0.88, 0.67, 0.23]
    """
    return float(np.cos(friedrichs_angle(span, first, second)) ** 2)


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    return len(set(first) & set(second))


def _decomposed(span: Span, first: Sequence[int], second: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Principal vectors of the first span in orthonormal coordinates, cosines largest first, those of the second."""
    a, _ = np.linalg.qr(span.factor[span.rows(first, "first")].T)
    b, _ = np.linalg.qr(span.factor[span.rows(second, "second")].T)
    u, cosines, vt = np.linalg.svd(a.T @ b, full_matrices=False)
    return a @ u, np.clip(cosines, 0.0, 1.0), b @ vt.T


#: between neighbours in a block, in units of x
SPACING = 0.1
#: share of ‖g‖_H below which a measured ratio is one of rounding errors
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class TwoBlocks:
    """Points of two blocks on a line.

    Args:
        x: (n,) places, rising.
        first, second: the points of the two blocks; some may be in both.
    """

    x: Floats
    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def shared(self) -> tuple[int, ...]:
        """Points of both blocks, rising."""
        return tuple(sorted(set(self.first) & set(self.second)))


def two_blocks(points: int, distance: float, shared: int = 0) -> TwoBlocks:
    """Places two blocks that own `points` each, `SPACING` apart, on a line.

    Args:
        points: each block owns.
        distance: between the blocks, from the last point of the first to the first of the second.
        shared: points that both blocks solve on: the nearest of the other block, taken in turn by the first and the
            second.

    Raises:
        ValueError: no points; a distance that is not positive; so many shared that a block would hold everything.

    Examples:
        >>> blocks = apviz.rkhs.two_blocks(3, 0.5, shared=1)
        >>> blocks.x
        array([-0.45, -0.35, -0.25,  0.25,  0.35,  0.45])
        >>> blocks.first, blocks.second
        ((0, 1, 2, 3), (3, 4, 5))
    """
    require_whole("points", points, 1, MAX_POINTS)
    require_number("distance", distance, 0, "a positive distance", strictly=True)
    require_whole("shared", shared, 0, 2 * points - 2)
    right = distance / 2 + SPACING * np.arange(points)
    x = np.concatenate([-right[::-1], right])
    by_first, by_second = -(-shared // 2), shared // 2
    first, second = range(points + by_first), range(points - by_second, 2 * points)
    return TwoBlocks(x, tuple(first), tuple(second))


@dataclass(frozen=True, eq=False)
class Sweeps:
    """Errors after each sweep over two blocks, with what theory says of them.

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


def sweeps_of(trajectory: Trajectory) -> Sweeps:
    """Compares predicted and measured contraction of a trajectory that takes two blocks in turn.

    Raises:
        ValueError: a trajectory over another number of blocks, or that takes them in another order.

    Examples:
        For the worst data the bound is what happens:

        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> b = apviz.rkhs.worst_case_rhs(span, range(3), range(3, 6))
        >>> found = apviz.rkhs.trajectory_on(span, b, [range(3), range(3, 6)], rule="cyclic", steps=6)
        >>> sweeps = apviz.rkhs.sweeps_of(found)
        >>> (sweeps.errors / sweeps.bound).round(6)
        array([1., 1., 1., 1.])
    """
    taken = [step.block for step in trajectory.steps[1:]]
    require(
        len(trajectory.blocks) == 2, "the trajectory", f"one over {len(trajectory.blocks)} blocks", "over two blocks"
    )
    require(
        taken == [j % 2 for j in range(len(taken))],
        "the rule",
        trajectory.method.label,
        "cyclic, so that sweeps are alike",
    )
    errors = trajectory.errors()[::2]
    predicted = contraction(trajectory.span, *trajectory.blocks)
    cosine = np.sqrt(predicted)
    powers = np.maximum(2 * np.arange(len(errors)) - 1, 0)
    bound = np.asarray(errors[0] * cosine**powers)
    above = np.flatnonzero(errors > ROUNDING * errors[0])
    last = int(above[-1]) if len(above) else 0
    measured = float(errors[last] / errors[last - 1]) if last >= 2 else float("nan")
    return Sweeps(errors, bound, predicted, measured, last if last >= 2 else 0)
