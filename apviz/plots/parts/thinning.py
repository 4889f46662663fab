"""Fewer points of a long curve, for drawing only: what is highest and lowest stays."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: points of a curve that a browser pans without delay, twelve curves at once; twice what a screen has pixels
DRAWN_POINTS: Final = 3_000

#: what a figure says of curves with more
THINNED: Final = (
    f"of curves with more than {DRAWN_POINTS:,} points the highest and the lowest of each of {DRAWN_POINTS // 2:,} "
    "stretches are drawn"
)


def thinned(values: Any, most: int = DRAWN_POINTS) -> NDArray[np.int64]:
    """Which of the values to draw: all up to `most`; else the first, the last, and the extremes of each stretch.

    Stretches are equally long, half as many as `most`. What is not finite is neither high nor low.
    """
    values = np.asarray(values, dtype=float)
    if len(values) <= most:
        return np.arange(len(values))
    kept = [0, len(values) - 1]
    known = np.isfinite(values)
    low, high = np.where(known, values, np.inf), np.where(known, values, -np.inf)
    edges = np.linspace(0, len(values), max(1, most // 2) + 1).astype(int)
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        kept += [start + int(low[start:end].argmin()), start + int(high[start:end].argmax())]
    return np.unique(kept)
