"""Scaling and rounding of raw numbers: no overflow and no underflow on the way, and what they make alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: of a column's different values, the share that must stay different
LEAST_SHARE = 0.5


def unit(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """Scales each column by 2^−e, so that its largest value lies between ½ and 1; returns e too.

    This rounds nothing, and no square of what is returned overflows, or underflows where it counts.

    Args:
        values: (n,) or (n, d), finite.
    """
    exponent = np.frexp(np.abs(values).max(axis=0))[1]
    return np.ldexp(values, -exponent), exponent


def merged_rows(raw: Array, exact: Array, rounded: NDArray[Any]) -> list[str]:
    """Says how many of the different rows of `raw` are not in `rounded`; nothing where all are.

    Args:
        raw, rounded: (n, d), the rows as they were given and as they are solved with.
        exact: (n, d), what was rounded, in float64.
    """
    before, left = _different(raw), _different(rounded)
    if left == before:
        return []
    hint = "; float64 tells more of them apart" if _different(exact) > left else ""
    return [f"of {before:,} different rows of inputs {left:,} are left in {rounded.dtype}{hint}"]


def copies(rows: Array) -> int:
    """Counts the rows of (n, d) that are exact copies of one before."""
    return len(rows) - _different(rows)


def lost(names: tuple[str, ...], raw: Array, rounded: NDArray[Any]) -> list[str]:
    """Says of each column of (n, d) where less than half of the different values are left."""
    found = []
    for name, column, after in zip(names, raw.T, rounded.T, strict=True):
        before, left = _different(column), _different(after)
        if left < LEAST_SHARE * before:
            # halved, for a difference may overflow
            row = int(np.abs(column / 2 - np.median(column) / 2).argmax())
            said = (
                f"of {before:,} different values of {name}, from {column.min():.3g} to {column.max():.3g}, {left:,} are"
            )
            left_in = f"left in {after.dtype} when they are scaled"
            found.append(f"{said} {left_in}; farthest from the others is row {row + 1} with {column[row]:.3g}")
    return found


def _different(rows: NDArray[Any]) -> int:
    """Rows of (n, d), or values of (n,)."""
    return int(len(rows) - pd.DataFrame(rows).duplicated().sum())
