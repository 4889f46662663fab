"""Scaling and rounding of raw numbers without overflow or underflow, and reports of values that become equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Share of a column's different values that must stay different.
LEAST_SHARE = 0.5


def unit(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """Scale each column by 2^−e, so that its largest value is between ½ and 1; return e too.

    The scaling is exact, and squares of the result neither overflow nor underflow where it matters.

    Args:
        values: (n,) or (n, d), finite.
    """
    exponent = np.frexp(np.abs(values).max(axis=0))[1]
    return np.ldexp(values, -exponent), exponent


def merged_rows(raw: Array, exact: Array, rounded: NDArray[Any]) -> list[str]:
    """Report how many different rows of `raw` are still different when `rounded`, and if `exact` keeps more."""
    before, left = _different(raw), _different(rounded)
    if left == before:
        return []
    hint = "; float64 keeps more of them different" if _different(exact) > left else ""
    return [f"of {before:,} different rows of inputs {left:,} are left in {rounded.dtype}{hint}"]


def lost(names: tuple[str, ...], raw: Array, rounded: NDArray[Any]) -> list[str]:
    """Report each column of (n, d) that keeps less than half of its different values."""
    found = []
    for name, column, after in zip(names, raw.T, rounded.T, strict=True):
        before, left = _different(column), _different(after)
        if left < LEAST_SHARE * before:
            # halved, because a difference may overflow
            row = int(np.abs(column / 2 - np.median(column) / 2).argmax())
            text = (
                f"of {before:,} different values of {name}, from {column.min():.3g} to {column.max():.3g}, {left:,} are"
            )
            left_in = f"left in {after.dtype} when they are scaled"
            found.append(f"{text} {left_in}; farthest from the others is row {row + 1} with {column[row]:.3g}")
    return found


def _different(rows: NDArray[Any]) -> int:
    """Count different rows of (n, d), or values of (n,)."""
    return int(len(rows) - pd.DataFrame(rows).duplicated().sum())
