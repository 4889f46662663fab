"""Where a log axis has labels."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

#: powers of ten that an axis spans where labels change from a few even ones to 1, 2, 5, and to powers of ten
_EVEN: Final = 0.7
_DECADES: Final = 2.3


def log_ticks(values: Any, most: int = 5) -> dict[str, Any]:
    """Labels of a log axis: numbers in full over few decades, else powers of ten.

    plotly's own between powers of ten are bare digits, 2 and 5, which do not say of which power.

    Args:
        values: what is drawn; what a log axis cannot take is left out.
        most: powers of ten with a label, or one more.
    """
    drawn = np.asarray(values, dtype=float)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    span = math.log10(drawn.max() / drawn.min()) if len(drawn) else 0.0
    if span > _DECADES:
        return {"dtick": math.ceil(span / most), "exponentformat": "power"}
    # over less there may be no 1, 2 or 5, and plotly finds other places
    return {"tickformat": "~g"} | ({"dtick": "D2"} if span > _EVEN else {"nticks": 4})
