"""Points of a figure that a pointer can drag; the controls behind them follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go


@dataclass(frozen=True, eq=False)
class Handles:
    """What is drawn over a figure in a widget that lives, and in no still: there nothing would answer.

    Args:
        marks: where the points are, in axes x and y of the figure.
        moves: for every point the names of the controls that hold its x and its y.
    """

    marks: go.Scatter
    moves: tuple[tuple[str, str], ...]


def nearest_place(slider: Any, value: float) -> float:
    """The place of a slider that is nearest to a value, as a decimal number that is typed as it is shown."""
    steps = round((min(max(value, slider.min), slider.max) - slider.min) / slider.step)
    digits = max(0, math.ceil(-math.log10(slider.step)))
    return float(min(round(slider.min + steps * slider.step, digits), slider.max))
