"""Style of all charts: two themes, one colour per method, one dash per block size, one symbol per variant of a method.

The colours follow Okabe & Ito (2008), moved apart until every pair stays distinguishable under simulated
protanopia, deuteranopia and tritanopia, and has a contrast of at least 3 with its background. Dots mean "bound"
everywhere and nothing else; dashes tell block sizes apart. Where only the partition differs, it has the colour, and
those that are a method of their own share that of the method.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from apviz.method import Method
from apviz.methods import ALTERNATING_PROJECTION, METHODS, entry_of

ThemeName = Literal["light", "dark"]

FONT: Final = "Open Sans, Segoe UI, Helvetica, Arial, sans-serif"
TITLE_SIZE: Final = 19
TEXT_SIZE: Final = 15
CAPTION_SIZE: Final = 13

#: the line of a bound; and of block sizes, by rank: where there is one alone, its line is unbroken
BOUND_DASH: Final = "dot"
DASHES: Final = (
    "solid", "10px,4px", "24px,5px", "10px,4px,3px,4px", "24px,4px,3px,4px", "10px,4px,3px,4px,3px,4px",
)  # fmt: skip
#: symbols with one meaning in every figure; variants of a method never use them
CONVERGED_SIZE: Final = 13
NOT_CONVERGED: Final = "x"
UNFINISHED: Final = "circle-open"
CHECK: Final = "diamond-open"
ZERO: Final = "triangle-down"
SUFFICIENT: Final = "star-diamond"

#: settings in order that have colours of their own on a page in either theme
_ORDERED: Final = 20

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
    **{entry.name: entry.colours for entry in METHODS.values() if entry.colours is not None},
}

#: neighbours as blocks of gauss-southwell: their keys of `COLORS`
_TREES: Final = {"kd-tree": "AP kd-tree", "principal-axis-tree": "AP pa-tree"}
#: what preconditioners without a colour of their own have
_PRECONDITIONED: Final = METHODS["pcg"].name

#: for methods that none of the families covers
OTHERS: Final[tuple[tuple[str, str], ...]] = (
    ("#2C0495", "#9C02FC"),
    ("#44054D", "#A74434"),
)


@dataclass(frozen=True)
class Theme:
    """Colours of all that is not data."""

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
    """Theme called `name`.

    Raises:
        ValueError: neither `light` nor `dark`.
    """
    if not isinstance(name, str) or name not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(get_args(ThemeName))}, got {name!r}")
    return THEMES[name]


def color_family(method: Method) -> str:
    """Key of `COLORS` for a method, or source and family of one that none of them covers."""
    if method.has_blocks:
        if method.overlap:
            return "AP overlapping"
        rule = (method.rule or "").partition(" ")[0]  # the schedule of the last block has no colour of its own
        tree = _TREES.get(method.partition or "") if rule == "gauss-southwell" else None
        return tree or rule
    entry = entry_of(method.family, method.preconditioner) if method.source != "gpytorch" else None
    if entry is not None and entry.colours is not None:
        return entry.name
    if method.preconditioner is not None and method.source != "gpytorch":
        return _PRECONDITIONED
    return method.family if method.source is None else f"{method.source} {method.family}"


def method_color(method: Method, theme: ThemeName = "light") -> str:
    """Colour of a method, `#RRGGBB`: a function of the method alone, so it is the same in every figure.

    All block sizes and ranks of one method share it, and all overlaps above 0; dashes and symbols tell those apart.
    Blocks of neighbours are the subject of charts, so gauss-southwell over a tree has a colour of its own.

    Args:
        method: of a solver or a trace.

    Raises:
        ValueError: an unknown theme.

    Examples:
        >>> import apviz
        >>> small, large = (apviz.AlternatingProjection(block_size=b).method for b in (100, 500))
        >>> apviz.plots.method_color(small) == apviz.plots.method_color(large)
        True
        >>> apviz.plots.method_color(small) == apviz.plots.method_color(small, theme="dark")
        False
    """
    family = color_family(method)
    pair = COLORS.get(family) or OTHERS[zlib.crc32(family.encode()) % len(OTHERS)]
    return pair[theme_named(theme).name == "dark"]


def rule_color(rule: str, theme: ThemeName = "light") -> str:
    """Colour of alternating projection by a rule, which is that of the rule in figures about nothing else."""
    return method_color(Method(family=ALTERNATING_PROJECTION, rule=rule), theme)


def method_symbols(methods: Sequence[Method]) -> list[str]:
    """Marker symbol of each run, by plotly's name.

    It follows from the method, except that of two runs with the same colour and symbol the later takes the
    next free symbol (and, should all be taken, shares one).
    """
    symbols: list[str] = []
    taken: dict[str, set[str]] = {}
    for method in methods:
        family = color_family(method)
        used = taken.setdefault(family, set())
        settings = {name: value for name, value in method.plain().items() if name not in ("family", "source")}
        # a method without settings, such as CG, is a circle
        first = zlib.crc32(json.dumps(settings, sort_keys=True).encode()) % len(VARIANTS) if settings else 0
        order = VARIANTS[first:] + VARIANTS[:first]
        symbol = next((s for s in order if s not in used), order[0])
        used.add(symbol)
        symbols.append(symbol)
    return symbols


@dataclass(frozen=True)
class Look:
    """Look of a curve: the colour of its method, the dash of its block size, and a marker symbol of its own."""

    color: str
    dash: str
    symbol: str

    def line(self, width: float = 2.5) -> dict[str, Any]:
        """Line of plotly."""
        return {"color": self.color, "width": width, "dash": self.dash}


def looks(methods: Sequence[Method], theme: ThemeName) -> list[Look]:
    """Look of the curve of each run, by its method: what is drawn together shares colours, not looks.

    Of more block sizes than there are `DASHES` the first and the seventh share one, and differ in the symbol.
    """
    sizes = sorted({method.block_size for method in methods if isinstance(method.block_size, int)})
    dashes = {size: DASHES[place % len(DASHES)] for place, size in enumerate(sizes)}
    return [
        Look(method_color(method, theme), dashes.get(method.block_size, DASHES[0]), symbol)  # type: ignore[arg-type]
        for method, symbol in zip(methods, method_symbols(methods), strict=True)
    ]


def sequential_colors(count: int, theme: ThemeName = "light") -> list[str]:
    """Colours in order, `count` of them, for an ordered setting such as the batch size.

    The end of viridis that would vanish in the background is left out.
    """
    low, high = (0.0, 0.82) if theme_named(theme).name == "light" else (0.28, 1.0)
    places = [low + (high - low) * i / max(count - 1, 1) for i in range(count)]
    return list(sample_colorscale("Viridis", places))


def dark_colors() -> dict[str, str]:
    """What a colour of a light figure is in a dark one, as `#rrggbb`: for pages that follow the reader's theme.

    The text of buttons, which shares its colour with all other text where it is light, is not among them.
    """
    light, dark = (vars(theme) for theme in THEMES.values())
    pairs = [(light[part], dark[part]) for part in ("paper", "ink", "muted", "grid", "button")]
    pairs += [*COLORS.values(), *OTHERS]
    for count in range(1, _ORDERED + 1):
        pairs += zip(sequential_colors(count), sequential_colors(count, "dark"), strict=True)
    return {_hex(one): _hex(other) for one, other in pairs}


def _hex(color: str) -> str:
    if color.startswith("#"):
        return color.lower()
    return "#" + "".join(f"{int(part):02x}" for part in color[4:-1].split(","))


def translucent(color: str, alpha: float) -> str:
    """Colour `#RRGGBB` with an opacity from 0 to 1, as CSS has it."""
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
