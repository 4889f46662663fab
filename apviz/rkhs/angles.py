"""Angles between subspaces, and what they say about the speed of alternating projection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apviz.rkhs.span import Floats, Span

#: cosines so close to 1 belong to what both subspaces hold
SHARED = 1e-9


def principal_angles(span: Span, first: Sequence[int], second: Sequence[int]) -> Floats:
    """Angles in radians, smallest first, between the spans of k(xᵢ, ·) over two sets of points (Björck, Golub)."""
    a, _ = np.linalg.qr(span.factor[list(first)].T)
    b, _ = np.linalg.qr(span.factor[list(second)].T)
    return np.asarray(np.arccos(np.clip(np.linalg.svd(a.T @ b, compute_uv=False), -1.0, 1.0)))


def friedrichs_angle(span: Span, first: Sequence[int], second: Sequence[int]) -> float:
    """The smallest angle that is not of what both subspaces hold; a right angle where there is none."""
    cosines = np.cos(principal_angles(span, first, second))
    apart = cosines[cosines < 1 - SHARED]
    return float(np.arccos(apart.max())) if len(apart) else float(np.pi / 2)


def contraction(span: Span, first: Sequence[int], second: Sequence[int]) -> float:
    """cos² of the Friedrichs angle: the share of ‖r‖_H that a sweep over two blocks leaves, after the first.

    ‖(P₂P₁)ᵏ − P‖ = c²ᵏ⁻¹ for the projections onto two orthogonal complements (Aronszajn 1950; Kayalar & Weinert 1988),
    whose Friedrichs angle is that of the subspaces themselves where the two together span everything.
    """
    return float(np.cos(friedrichs_angle(span, first, second)) ** 2)
