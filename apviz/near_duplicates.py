"""Rows whose inputs are nearly equal, found in O(n log n) without comparing all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: largest difference of near-duplicate rows in any input, in lengthscales
NEAR = 1e-6
#: rows are sorted along a direction, and compared with neighbours up to this many places away
NEIGHBOURS = 8


def near_duplicates(x: Array, scales: Array) -> NDArray[np.intp]:
    """Return pairs of rows that differ by at most 1e-6 lengthscales in every input, (p, 2).

    Args:
        x: (n, d) different rows.
        scales: (d,) positive lengthscales.

    Examples:
        >>> import numpy as np
        >>> from apviz.near_duplicates import near_duplicates
        >>> near_duplicates(np.array([[0.0], [1.0], [1e-9]]), np.array([0.5]))
        array([[0, 2]])
    """
    direction: Array = np.random.default_rng(0).uniform(0.5, 1.0, (x.shape[1],))
    return near_pairs((x - np.median(x, axis=0)) / scales, NEAR, direction)


def near_pairs(scaled: Array, width: float, direction: Array) -> NDArray[np.intp]:
    """Return pairs of rows that differ by at most `width` in every column, the smaller position first.

    Such rows are neighbours along any direction, so that sorting finds them. Each row is compared with 8 neighbours on
    either side: where more are that close, the row still has pairs, but not all of them.

    Args:
        scaled: (n, d).
        direction: (d,), positive.
    """
    along = scaled @ direction
    order = np.argsort(along, kind="stable")
    along, scaled, found = along[order], scaled[order], [np.empty((0, 2), dtype=np.intp)]
    for lag in range(1, min(NEIGHBOURS, len(scaled) - 1) + 1):
        start = np.flatnonzero(along[lag:] - along[:-lag] <= width * direction.sum())
        start = start[np.abs(scaled[start] - scaled[start + lag]).max(axis=1, initial=0.0) <= width]
        found.append(np.column_stack([order[start], order[start + lag]]))
    return np.asarray(np.sort(np.concatenate(found), axis=1))
