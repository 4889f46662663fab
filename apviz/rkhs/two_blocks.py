"""Angles between the spans of two blocks, and the speed of alternating projection that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apviz.rkhs.kernels import Floats
from apviz.rkhs.span import MAX_POINTS, Span
from apviz.rkhs.trajectory import Trajectory
from apviz.settings import require, require_number, require_whole


def principal_angles(span: Span, first: Sequence[int], second: Sequence[int]) -> Floats:
    """Compute the principal angles between two spans (Björck & Golub 1973), in radians, smallest first.

    Examples:
        Two blocks with two points in common have two angles of zero:

        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> np.degrees(apviz.rkhs.principal_angles(span, [0, 1, 2, 3], [2, 3, 4, 5])).round(1)
        array([ 0. ,  0. , 84.3, 90. ])
    """
    return np.asarray(np.arccos(_decomposed(span, first, second)[1]))


def friedrichs_angle(span: Span, first: Sequence[int], second: Sequence[int]) -> float:
    """Compute the smallest angle in radians outside the intersection of both spans; π/2 if there is none.

    The k(xᵢ, ·) are linearly independent, so the intersection is the span of the points of both sets: each of them
    makes one principal angle zero, and the next angle is the Friedrichs angle.

    Args:
        first, second: points of the two sets, by number.

    Raises:
        ValueError: a set that is empty, or has a point that does not exist.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> angle = apviz.rkhs.friedrichs_angle(span, range(3), range(3, 6))
        >>> bool(np.isclose(np.cos(angle) ** 2, apviz.rkhs.contraction(span, range(3), range(3, 6))))
        True
    """
    apart = principal_angles(span, first, second)[_shared(first, second) :]
    return float(apart[0]) if len(apart) else float(np.pi / 2)


def principal_pair(span: Span, first: Sequence[int], second: Sequence[int]) -> tuple[Floats, Floats]:
    """Compute the weights (n,) of two functions of norm 1, one in each span, that meet at the Friedrichs angle.

    Raises:
        ValueError: a set that is empty, or holds all points of the other.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> u, v = apviz.rkhs.principal_pair(span, range(3), range(3, 6))
        >>> bool(np.isclose(span.inner(u, v), np.cos(apviz.rkhs.friedrichs_angle(span, range(3), range(3, 6)))))
        True
    """
    shared = _shared(first, second)
    a, _, b = _decomposed(span, first, second)
    if shared == min(a.shape[1], b.shape[1]):
        raise ValueError("neither set may contain the other, because then no angle remains between them")
    u, v = span.weights_of(a[:, shared]), span.weights_of(b[:, shared])
    sign = np.sign((span.gram @ u)[np.abs(span.gram @ u).argmax()])
    return sign * u, sign * v


def worst_case_rhs(span: Span, first: Sequence[int], second: Sequence[int]) -> Floats:
    """Compute the data (n,), of largest entry 1, that converge slowest under sweeps over `first` and then `second`.

    Their g is in the plane of `principal_pair` and orthogonal to the first span: the first update changes nothing, and
    each one after it leaves cos θ of the norm.

    Raises:
        ValueError: a set that is empty, or holds all points of the other.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> b = apviz.rkhs.worst_case_rhs(span, range(3), range(3, 6))
        >>> bool(np.allclose(b[:3], 0)), bool(np.isclose(np.abs(b).max(), 1))
        (True, True)
    """
    u, v = principal_pair(span, first, second)
    b = span.gram @ (v - span.inner(u, v) * u)
    return np.asarray(b / np.abs(b).max())


def contraction(span: Span, first: Sequence[int], second: Sequence[int]) -> float:
    """Compute cos²θ, the largest share of ‖r‖_H that a sweep after the first leaves; θ is the Friedrichs angle.

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
    """Compute principal vectors of the first span in orthonormal coordinates, the cosines, those of the second span."""
    a, _ = np.linalg.qr(span.factor[span.rows(first, "first")].T)
    b, _ = np.linalg.qr(span.factor[span.rows(second, "second")].T)
    u, cosines, vt = np.linalg.svd(a.T @ b, full_matrices=False)
    return a @ u, np.clip(cosines, 0.0, 1.0), b @ vt.T


#: distance between neighbours in a block, in units of x
SPACING = 0.1
#: share of ‖g‖_H below which errors are rounding
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
    """Place two blocks that own `points` points each, `SPACING` apart, on a line.

    Args:
        points: number that each block owns.
        distance: from the last point of the first block to the first point of the second.
        shared: number of points that both blocks solve on: the first takes the nearest of the second, and so in turn.

    Raises:
        ValueError: no point, too many points, a distance that is not positive, or more shared points than there are.

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
    """Errors after each sweep over two blocks, and their bound.

    Args:
        errors: (sweeps + 1,) ‖r‖_H before the first sweep and after each.
        bound: (sweeps + 1,) c²ᵏ⁻¹‖g‖_H after k sweeps, c the cosine of the Friedrichs angle; ‖g‖_H before the first.
        predicted: c², the limit of the ratio of an error to the one before.
        measured: that ratio in the last sweep whose error is above rounding; NaN if there is none after the first.
        measured_at: the number of that sweep; 0 for none.
    """

    errors: Floats
    bound: Floats
    predicted: float
    measured: float
    measured_at: int


def sweeps_of(trajectory: Trajectory) -> Sweeps:
    """Compare the predicted and measured contraction of a trajectory that takes two blocks in turn.

    Raises:
        ValueError: another number of blocks, or another rule than cyclic.

    Examples:
        The worst data attain the bound:

        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> b = apviz.rkhs.worst_case_rhs(span, range(3), range(3, 6))
        >>> found = apviz.rkhs.trajectory_on(span, b, [range(3), range(3, 6)], rule="cyclic", steps=6)
        >>> sweeps = apviz.rkhs.sweeps_of(found)
        >>> (sweeps.errors / sweeps.bound).round(6)
        array([1., 1., 1., 1.])
    """
    taken = [step.block for step in trajectory.steps[1:]]
    count, in_turn = len(trajectory.blocks), taken == [j % 2 for j in range(len(taken))]
    require(count == 2, "the trajectory", f"one over {count} blocks", "over two blocks")
    require(in_turn, "the rule", trajectory.method.name, "cyclic, so that sweeps are alike")
    errors = trajectory.errors()[::2]
    predicted = contraction(trajectory.span, *trajectory.blocks)
    bound = np.asarray(errors[0] * np.sqrt(predicted) ** np.maximum(2 * np.arange(len(errors)) - 1, 0))
    last = int(np.flatnonzero(errors > ROUNDING * errors[0]).max(initial=0))
    if last < 2:
        return Sweeps(errors, bound, predicted, float("nan"), 0)
    return Sweeps(errors, bound, predicted, float(errors[last] / errors[last - 1]), last)
