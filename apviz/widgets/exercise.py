"""Exercises of the notebooks: an answer, and whether it is right."""

from __future__ import annotations

from typing import Any

import numpy as np
from IPython.display import Markdown, display


def check(answer: Any, right: Any, *, hint: str, tolerance: float = 1e-6) -> bool:
    """Says under the cell whether an answer is right, and gives a hint where it is not.

    Args:
        answer: what the student gives; `...` for none yet.
        right: what the cell computed: a number, an array, a text, or true or false.
        hint: one sentence that helps, and does not tell.
        tolerance: relative to the largest entry of what is right, for numbers.

    Returns:
        Whether it is right.
    """
    if answer is ...:
        display(Markdown("*No answer yet: put yours in place of the dots, and run this cell again.*"))
        return False
    found, why = _compare(answer, right, tolerance)
    display(Markdown(f"✓ **Right.** {why}" if found else f"✗ **Not yet.** {why} *Hint: {hint}*"))
    return found


def _compare(answer: Any, right: Any, tolerance: float) -> tuple[bool, str]:
    if isinstance(right, str | bool | np.bool_):
        return type(answer)(right) == answer, f"You say {answer}."
    try:
        yours, theirs = np.asarray(answer, dtype=float), np.asarray(right, dtype=float)
    except (TypeError, ValueError):
        return False, f"An array of shape {np.shape(right)} is asked for, yours is of type {type(answer).__name__}."
    if yours.shape != theirs.shape:
        return False, f"The shape is {yours.shape}, and should be {theirs.shape}."
    if not np.isfinite(yours).all():
        return False, "There is something in it that is no finite number."
    gap = float(np.abs(yours - theirs).max(initial=0.0))
    scale = float(np.abs(theirs).max(initial=0.0)) or 1.0
    if gap <= tolerance * scale:
        return True, f"It differs from the computed value by {gap / scale:.1g} of it, at most."
    return False, f"Yours differs by {gap / scale:.2g} of the largest entry, {tolerance:g} is allowed."
