"""A slider over round numbers, evenly spaced on a log scale: what a preset says is a place of the slider."""

from __future__ import annotations

from typing import Any, Final

import ipywidgets

#: those of a decade, ISO 3's series R″10
ROUND: Final = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_DECADES: Final = range(-6, 6)


def log_slider(description: str, low: float, high: float, **settings: Any) -> ipywidgets.SelectionSlider:
    """A slider from `low` to `high`; a value between two of its numbers is refused, not moved to one of them.

    Args:
        low, high: round numbers themselves, between 1e-6 and 1e5.
        settings: of `ipywidgets.SelectionSlider`.

    Raises:
        ValueError: an end that is none of its numbers.
    """
    every = [float(f"{digits}e{decade}") for decade in _DECADES for digits in ROUND]
    for end in (low, high):
        if end not in every:
            raise ValueError(f"{description} from {low:g} to {high:g}: an end must be one of {', '.join(ROUND)}, ×10ᵏ")
    options = [(f"{each:g}", each) for each in every if low <= each <= high]
    return ipywidgets.SelectionSlider(description=description, options=options, **settings)
