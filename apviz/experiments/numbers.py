"""Numbers as a table shows them: one value, or a mean and its spread over seeds, as the paper writes them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

#: significant digits of what the paper's decimals would round away
SIGNIFICANT = 3


def spread(values: Sequence[float], digits: int = 3) -> str:
    """`0.046`, or `0.046 ± 0.001`: mean and sample standard deviation; `–` for none or NaN.

    So many decimals, as in the paper; what is too small to show two digits with them gets three significant ones,
    `0.00120 ± 0.00004`.
    """
    if not values or any(math.isnan(value) for value in values):
        return "–"
    if any(math.isinf(value) for value in values):
        return "∞"
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    form = _form(max(abs(mean), deviation), digits)
    return f"{mean:{form}}" if len(values) == 1 else f"{mean:{form}} ± {deviation:{form}}"


def _form(size: float, digits: int) -> str:
    """The format of numbers up to `size`."""
    exponent = math.floor(math.log10(size)) if size else 0
    if exponent >= min(0, 1 - digits):
        return f".{digits}f"
    return f".{SIGNIFICANT - 1 - exponent}f" if exponent >= -4 else f".{SIGNIFICANT - 1}e"


def duration(seconds: float) -> str:
    """`13.5 s`, `9.6 min`, `2.7 h`; three significant digits below a second."""
    if math.isnan(seconds):
        return "–"
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.{SIGNIFICANT}g} s"
