"""Numbers as colours: powers of ten with a bar below the chart, and residuals from blue to red, by the square root so
that small ones show; one scale for all updates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.colors import sample_colorscale

from apviz.plots._curves import positive
from apviz.plots._style import CAPTION_SIZE, ThemeName, sequential_colors

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


Floats = NDArray[np.float64]
Integers = NDArray[np.int16]

#: blue, white, red of ColorBrewer's RdBu, without its darkest ends, on which an outline would vanish; the same in
#: both themes, since white is zero
_COLORS: Final = ("#2166AC", "#67A9CF", "#D1E5F0", "#F7F7F7", "#FDDBC7", "#EF8A62", "#B2182B")
#: behind the pixels or points
NO_ROW: Final = "#D9DEE4"


@dataclass(frozen=True)
class Coded:
    """Residuals as 16-bit multiples of a power of ten.

    Args:
        codes: of the shape of the residuals.
        limit: the largest residual, rounded up.
        power: a code stands for itself times 10^−power, which is between 1/3,277 and 1/32,767 of the limit.
    """

    codes: Integers
    limit: float
    power: int

    @property
    def top(self) -> float:
        """The limit as a code."""
        return float(self.limit * 10.0**self.power)

    @property
    def unit(self) -> str:
        """What a code is a multiple of, for a hover text."""
        return f" × 10<sup>{-self.power}</sup>".replace("-", "−") if self.power else ""


def coded(values: Floats) -> Coded:
    """Residuals of all updates, for one scale."""
    limit = rounded_up(float(np.abs(values).max()))
    power = math.floor(math.log10(np.iinfo(np.int16).max / limit))
    return Coded(np.rint(values * 10.0**power).astype(np.int16), limit, power)


def rounded_up(largest: float) -> float:
    """To two digits; 1 for 0."""
    if largest == 0:
        return 1.0
    unit = 10.0 ** (math.floor(math.log10(largest)) - 1)
    return math.ceil(largest / unit) * unit


def colorscale(square_root: bool) -> list[tuple[float, str]]:
    """Blue, white, red over −limit to limit; evenly, or as the values whose square roots are even."""
    even = np.linspace(-1, 1, 65)
    places = even if square_root else np.sign(even) * even**2
    colors = sample_colorscale(list(_COLORS), (even + 1) / 2)
    return list(zip(((places + 1) / 2).tolist(), colors, strict=True))


def picture(
    x: Any, y: Any, codes: Integers, scale: Coded, owner: Any, *, on_grid: bool, place: str = ""
) -> go.Heatmap | go.Scatter:
    """Residuals of one update as pixels or points; `place` says in a hover text what x and y are."""
    block = "" if owner is None else "<br>block %{text}"
    place = place or ("row %{y:d}, column %{x:d}" if on_grid else "inputs %{x:.4g}, %{y:.4g}")
    value = "%{z:+,d}" if on_grid else "%{marker.color:+,d}"
    colors = {"colorscale": colorscale(square_root=False), "showscale": False}
    shared = {
        "x": x,
        "y": y,
        "text": owner,
        "hovertemplate": f"{place}{block}<br>residual {value}{scale.unit}<extra></extra>",
    }
    if on_grid:
        return go.Heatmap(z=codes, zmin=-scale.top, zmax=scale.top, hoverongaps=False, **colors, **shared)
    marker = {"color": codes, "cmin": -scale.top, "cmax": scale.top, "size": marker_size(len(x)), **colors}
    return go.Scatter(mode="markers", marker=marker, **shared)


def marker_size(points: int) -> int:
    """Pixels of a point among so many."""
    return 9 if points <= 500 else 6 if points <= 4000 else 4


def add_residual_color_bar(figure: go.Figure, limit: float, right_hand_sides: int, gap: int) -> None:
    """A bar `gap` pixels above the picture: the colours are even, the labels are the residuals they stand for."""
    figure.add_scatter(x=[None], y=[None], mode="markers", marker={"color": [0], "coloraxis": "coloraxis"})
    places = (-1, -0.5, 0, 0.5, 1)
    name = "residual r" if right_hand_sides == 1 else "residual r of the first right-hand side"
    labels = [f"{math.copysign(place * place, place) * limit:.2g}".replace("-", "−") for place in places]
    bar = horizontal_bar(f"{name}, colours by √|r|", places, labels, gap)
    figure.update_layout(coloraxis={"cmin": -1, "cmax": 1, "colorscale": colorscale(square_root=True), "colorbar": bar})
