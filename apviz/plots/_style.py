"""How charts look: two themes, one colour per method, one symbol per variant of a method.

The colours follow Okabe & Ito (2008), moved apart until every pair stays distinguishable under simulated
protanopia, deuteranopia and tritanopia, and has a contrast of at least 3 with its background. Dashes mean
"bound" everywhere and nothing else.

One colour per partition, for figures in which the rule is the same and the partition differs.

A logarithmic colour scale: colours by powers of ten, the bar below the chart.

Residuals as colours: blue, white, red, by the square root so that small ones show; one scale for all updates.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.colors import sample_colorscale

from apviz.plots._curves import positive

ThemeName = Literal["light", "dark"]

FONT: Final = "Open Sans, Segoe UI, Helvetica, Arial, sans-serif"
TITLE_SIZE: Final = 19
TEXT_SIZE: Final = 15
CAPTION_SIZE: Final = 13

#: the dash of a bound
BOUND_DASH: Final = "dash"
#: symbols with one meaning in every figure; variants of a method never use them
CONVERGED_SIZE: Final = 13
NOT_CONVERGED: Final = "x"
UNFINISHED: Final = "circle-open"
CHECK: Final = "diamond-open"
ZERO: Final = "triangle-down"
SUFFICIENT: Final = "star-diamond"

VARIANTS: Final = (
    "circle", "square", "triangle-up", "pentagon", "hexagram", "triangle-right", "star", "triangle-left",
)  # fmt: skip

#: family of methods: (colour on white, colour on black), one hue
COLORS: Final[dict[str, tuple[str, str]]] = {
    "gauss-southwell": ("#1F77D0", "#6CB8FF"),
    "cyclic": ("#D27E00", "#FFA62B"),
    "random": ("#A8138F", "#D873C8"),
    "shuffled": ("#0E6B55", "#2FE39B"),
    # of gauss-southwell, over blocks of neighbours
    "AP kd-tree": ("#600C00", "#B98A7A"),
    "AP pa-tree": ("#0089A8", "#4FD8EE"),
    "AP overlapping": ("#5A7A00", "#A6D94A"),
    "CG": ("#A83600", "#E8592F"),
    "PCG": ("#1A1A1F", "#F4F4F4"),
    "PCG randomly pivoted": ("#7A45F0", "#9470F0"),
    "PCG two-level": ("#A88454", "#E9D694"),
    "Cholesky": ("#8C9096", "#8C9097"),
}

#: for methods that none of the families covers
OTHERS: Final[tuple[tuple[str, str], ...]] = (
    ("#2C0495", "#9C02FC"),
    ("#44054D", "#A74434"),
)


@dataclass(frozen=True)
class Theme:
    """The colours that are not data."""

    name: ThemeName
    paper: str
    ink: str
    muted: str
    grid: str
    button: str
    button_text: str


# plotly.js paints the active button nearly white in any theme, so buttons carry dark text in both
THEMES: Final[dict[str, Theme]] = {
    "light": Theme("light", "#FFFFFF", "#1B1F24", "#59626D", "#E1E5EA", "#D3DAE3", "#1B1F24"),
    "dark": Theme("dark", "#14171C", "#EDF0F3", "#A9B3BF", "#2F363F", "#98A3B0", "#14171C"),
}


def theme_named(name: str) -> Theme:
    """The theme called `name`.

    Raises:
        ValueError: neither `light` nor `dark`.
    """
    if name not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(get_args(ThemeName))}, got {name!r}")
    return THEMES[name]


def family(label: str) -> str:
    """The family of a label such as "AP gauss-southwell b=1000": a key of `COLORS`, or the label itself."""
    words = label.split()
    if not words:
        return label
    head, rest = words[0], " ".join(words[1:]).lower()
    if head == "AP" and len(words) > 1:
        if any(word.startswith("+") and word.endswith(("%", "auto")) for word in words):
            return "AP overlapping"
        tree = next((f"AP {word}" for word in words[2:] if f"AP {word}" in COLORS), "")
        # the second word is the rule; a partition may be called `shuffled` too, so only that word counts
        return tree if tree and words[1] == "gauss-southwell" else words[1]
    if head == "PCG":
        if any(word in rest for word in ("two-level", "twolevel", "schwarz")):
            return "PCG two-level"
        randomly = any(word in rest for word in ("random", "rp"))
        return "PCG randomly pivoted" if randomly else "PCG"
    return head if head in COLORS else label


def method_color(label: str, theme: ThemeName = "light") -> str:
    """The colour of a method: a function of its label alone, so it is the same in every figure.

    All block sizes and ranks of one method share it, and all overlaps above 0; `method_symbols` tells those apart.
    Blocks of neighbours are the subject of charts, so gauss-southwell over a tree has a colour of its own.
    """
    of_family = family(label)
    pair = COLORS.get(of_family) or OTHERS[zlib.crc32(of_family.encode()) % len(OTHERS)]
    return pair[theme_named(theme).name == "dark"]


def method_symbols(labels: Sequence[str]) -> list[str]:
    """The marker symbol of each run.

    It follows from the label, except that of two runs with the same colour and symbol the later takes the
    next free symbol (and, should all be taken, shares one).
    """
    symbols: list[str] = []
    taken: dict[str, set[str]] = {}
    for label in labels:
        used = taken.setdefault(family(label), set())
        # a method without settings in its label, such as CG, is a circle
        plain = label == family(label)
        first = 0 if plain else zlib.crc32(label.encode()) % len(VARIANTS)
        order = VARIANTS[first:] + VARIANTS[:first]
        symbol = next((s for s in order if s not in used), order[0])
        used.add(symbol)
        symbols.append(symbol)
    return symbols


def sequential_colors(count: int, theme: ThemeName = "light") -> list[str]:
    """`count` ordered colours, for an ordered setting such as the batch size.

    The end of viridis that would vanish in the background is left out.
    """
    low, high = (0.0, 0.82) if theme_named(theme).name == "light" else (0.28, 1.0)
    places = [low + (high - low) * i / max(count - 1, 1) for i in range(count)]
    return list(sample_colorscale("Viridis", places))


def translucent(color: str, alpha: float) -> str:
    """`#RRGGBB` with an opacity."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def template(theme: Theme) -> go.layout.Template:
    """Fonts, backgrounds and axes of a theme."""
    axis = {
        "gridcolor": theme.grid,
        "linecolor": theme.muted,
        "showline": True,
        "ticks": "outside",
        "tickcolor": theme.muted,
        "zeroline": False,
        "automargin": True,
        "title": {"standoff": 10},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": TEXT_SIZE, "color": theme.ink},
            "paper_bgcolor": theme.paper,
            "plot_bgcolor": theme.paper,
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"font": {"family": FONT, "size": TEXT_SIZE}, "align": "left"},
        }
    )


#: on white, on black; those of the methods that have them, all of gauss-southwell
PARTITION_COLORS: Final[dict[str, tuple[str, str]]] = {
    "sequential": COLORS["gauss-southwell"],
    "kd-tree": COLORS["AP kd-tree"],
    "shuffled": COLORS["Cholesky"],
    "principal-axis-tree": COLORS["AP pa-tree"],
}


def partition_color(name: str, theme: ThemeName = "light") -> str:
    """The colour of a partition by its name in `apviz.partitions`.

    Raises:
        ValueError: an unknown partition or theme.
    """
    if name not in PARTITION_COLORS:
        raise ValueError(f"partition must be one of {', '.join(PARTITION_COLORS)}, got {name!r}")
    return PARTITION_COLORS[name][theme_named(theme).name == "dark"]


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
