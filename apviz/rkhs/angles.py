"""Angles between subspaces, and what they say about the speed of alternating projection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apviz.rkhs.span import Floats, Span


def principal_angles(span: Span, first: Sequence[int], second: Sequence[int]) -> Floats:
    """Angles in radians, smallest first, between the spans of k(xᵢ, ·) over two sets of points (Björck, Golub)."""
    _, cosines, _ = _decomposed(span, first, second)
    return np.asarray(np.arccos(cosines))


def friedrichs_angle(span: Span, first: Sequence[int], second: Sequence[int]) -> float:
    """The smallest angle that is not of what both subspaces hold; a right angle where there is none.

    The k(xᵢ, ·) are linearly independent, so both hold the span of the points that both sets have, and no more: that
    many principal angles are zero, and the next is the Friedrichs angle.
    """
    apart = principal_angles(span, first, second)[_shared(first, second) :]
    return float(apart[0]) if len(apart) else float(np.pi / 2)


def principal_pair(span: Span, first: Sequence[int], second: Sequence[int]) -> tuple[Floats, Floats]:
    """(n,) weights of the two functions of norm 1, one in each span, that meet at the Friedrichs angle.

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


def hardest_data(span: Span, first: Sequence[int], second: Sequence[int]) -> Floats:
    """(n,) data b of size 1 for which no sweep, first `first` and then `second`, does better than the angle promises.

    Its g is in the plane of `principal_pair` and at right angles to all of the first span: the first update does
    nothing, the second leaves cos θ of it, and each one after that cos θ again.

    Raises:
        ValueError: one set holds the other.
    """
    u, v = principal_pair(span, first, second)
    b = span.gram @ (v - span.inner(u, v) * u)
    return np.asarray(b / np.abs(b).max())


def contraction(span: Span, first: Sequence[int], second: Sequence[int]) -> float:
    """cos² of the Friedrichs angle: the share of ‖r‖_H that a sweep over two blocks leaves, after the first.

    ‖(P₂P₁)ᵏ − P‖ = c²ᵏ⁻¹ for the projections onto two subspaces (Aronszajn 1950; Kayalar & Weinert 1988), here the
    orthogonal complements of the spans, whose Friedrichs angle is that of the spans themselves (Deutsch 1995, "The
    angle between subspaces of a Hilbert space").
    """
    return float(np.cos(friedrichs_angle(span, first, second)) ** 2)


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    return len(set(first) & set(second))


def _decomposed(span: Span, first: Sequence[int], second: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Principal vectors of the first span in orthonormal coordinates, cosines largest first, those of the second."""
    a, _ = np.linalg.qr(span.factor[list(first)].T)
    b, _ = np.linalg.qr(span.factor[list(second)].T)
    u, cosines, vt = np.linalg.svd(a.T @ b, full_matrices=False)
    return a @ u, np.clip(cosines, 0.0, 1.0), b @ vt.T
