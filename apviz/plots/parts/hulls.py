"""Convex hulls of rows in a plane, as closed lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

Floats = NDArray[np.float64]


def hull(points: Floats) -> Floats:
    """The corners (k, 2) of the convex hull of points (n, 2), counterclockwise, the first again at the end.

    Of points on one line the two ends; of none, none.
    """
    if len(points) > 2:
        try:
            corners = points[ConvexHull(points).vertices]
            return np.concatenate([corners, corners[:1]])
        except QhullError:
            pass  # they lie on one line
    if not len(points):
        return points
    order = np.lexsort(points.T[::-1])
    return points[order[[0, -1, 0]]]


def within(points: Floats, ring: Floats) -> NDArray[np.bool_]:
    """Which of points (n, 2) lie in a hull or on its edge; of a line, none."""
    if len(ring) < 4:
        return np.zeros(len(points), bool)
    start, edge = ring[:-1], np.diff(ring, axis=0)
    # on which side of every edge: twice the area of a triangle, of which rounding leaves a little
    away = points[:, None, :] - start
    side = edge[:, 0] * away[:, :, 1] - edge[:, 1] * away[:, :, 0]
    return np.asarray((side >= -1e-9 * np.abs(edge).max() * np.ptp(ring, axis=0).max()).all(axis=1))
