"""Numbers as a table shows them: one value, or a mean and its spread over seeds, as the paper writes them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def spread(values: Sequence[float], digits: int = 3) -> str:
    """`0.046`, or `0.046 ± 0.001`: mean and sample standard deviation; `–` for none or NaN."""
    if not values or any(math.isnan(value) for value in values):
        return "–"
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def duration(seconds: float) -> str:
    """`13.5 s`, `9.6 min`, `2.7 h`."""
    if math.isnan(seconds):
        return "–"
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
