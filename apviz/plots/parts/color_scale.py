"""A logarithmic colour scale: colours by powers of ten, the bar below the chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apviz.plots.parts.curves import positive
from apviz.plots.parts.style import CAPTION_SIZE, ThemeName, sequential_colors

#: pixels of the name of a panel, up to two lines between it and the bar
PANEL_NAME: Final = 48

#: powers of ten shown below the largest value; rounding noise further down would take all the colours
DECADES: Final = 8.0


def logarithm(values: Any) -> NDArray[np.float64]:
    """log10 for the colour scale, NaN (left blank) where there is none."""
    return np.log10(positive(values))


def add_color_bar(
    figure: go.Figure,
    logarithms: list[NDArray[np.float64]],
    title: str,
    theme: ThemeName,
    floor: float = -math.inf,
) -> None:
    """A colour axis for `logarithms`, its bar above the chart, labelled by the values themselves.

    What lies below `floor`, or more than `DECADES` below the largest, takes the last colour, and the lowest
    label says so.
    """
    finite = np.concatenate([np.empty(0), *(each[np.isfinite(each)].ravel() for each in logarithms)])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (-1.0, 0.0)
    floor = max(floor, high - DECADES)
    clipped = low < floor < high
    if clipped:
        low = floor
    elif high == low:
        low, high = low - 0.5, high + 0.5
    step = max(1, math.ceil((high - low) / 6))
    places = [float(power) for power in range(math.ceil(low), math.floor(high) + 1, step)]
    if len(places) < 2:
        places = [low, high]
    labels = [f"10<sup>{p:.0f}</sup>" if p == round(p) else f"{10**p:.2g}" for p in places]
    if clipped:
        labels[0] = f"≤ {labels[0]}"
        low = places[0]
    axis = {
        "cmin": low,
        "cmax": high,
        "colorscale": sequential_colors(16, theme),
        "colorbar": horizontal_bar(title, places, labels, PANEL_NAME),
    }
    figure.update_layout(coloraxis=axis)


def horizontal_bar(title: str, places: Sequence[float], labels: Sequence[str], gap: int) -> dict[str, Any]:
    """A colour bar as wide as the chart, `gap` pixels above it, with a label at each place."""
    return {
        "title": {"text": title, "side": "top", "font": {"size": CAPTION_SIZE}},
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "xpad": 0,
        # at exactly 1 plotly would make room by shifting every other title of the figure
        "y": 0.9999,
        "yanchor": "bottom",
        "ypad": gap,
        "thickness": 14,
        "len": 1,
        "tickvals": places,
        "ticktext": labels,
    }
