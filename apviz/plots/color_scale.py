"""A logarithmic colour scale: colours by powers of ten, the bar below the chart."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apviz.plots.curves import positive
from apviz.plots.style import CAPTION_SIZE

#: perceptually even, and readable without red-green vision
COLORSCALE: Final = "Viridis"

#: powers of ten shown below the largest value; rounding noise further down would take all the colours
DECADES: Final = 8.0


def logarithm(values: Any) -> NDArray[np.float64]:
    """log10 for the colour scale, NaN (left blank) where there is none."""
    return np.log10(positive(values))


def color_axis(logarithms: list[NDArray[np.float64]], title: str) -> dict[str, Any]:
    """The scale for `logarithms`, labelled by the values themselves.

    What lies more than `DECADES` below the largest takes the last colour, and the lowest label says so.
    """
    finite = np.concatenate([each[np.isfinite(each)].ravel() for each in logarithms])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (-1.0, 0.0)
    clipped = high - low > DECADES
    if clipped:
        low = high - DECADES
    elif high == low:
        low, high = low - 0.5, high + 0.5
    step = max(1, math.ceil((high - low) / 6))
    places = [float(power) for power in range(math.ceil(low), math.floor(high) + 1, step)]
    if len(places) < 2:
        places = [low, high]
    labels = [f"10<sup>{place:.0f}</sup>" if place == round(place) else f"{10**place:.2g}" for place in places]
    if clipped:
        labels[0] = f"≤ {labels[0]}"
        low = places[0]
    return {
        "cmin": low,
        "cmax": high,
        "colorscale": COLORSCALE,
        "colorbar": {
            "title": {"text": title, "side": "top", "font": {"size": CAPTION_SIZE}},
            "orientation": "h",
            "x": 0.5,
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "thickness": 14,
            "len": 0.9,
            "tickvals": places,
            "ticktext": labels,
        },
    }
