"""Style of all charts: two themes, one colour per method, one dash per block size, one symbol per variant of a method.

The colours follow Okabe & Ito (2008), with changes. Every pair is distinguishable under simulated protanopia,
deuteranopia and tritanopia, and has a contrast of at least 3 with its background. Dotted lines always mean "bound";
dashes distinguish block sizes. Methods that differ only in the partition have different colours. Partitions that are
a method of their own share the colour of that method.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from apviz.method import LIBRARIES, Method
from apviz.methods import ALTERNATING_PROJECTION, METHODS, entry_of

ThemeName = Literal["light", "dark"]

FONT: Final = "Open Sans, Segoe UI, Helvetica, Arial, sans-serif"
TITLE_SIZE: Final = 19
TEXT_SIZE: Final = 15
CAPTION_SIZE: Final = 13

#: Line of a bound; lines of block sizes by rank, solid for a single block size.
BOUND_DASH: Final = "dot"
DASHES: Final = (
    "solid", "10px,4px", "24px,5px", "10px,4px,3px,4px", "24px,4px,3px,4px", "10px,4px,3px,4px,3px,4px",
)  # fmt: skip
#: Symbols with one meaning in every figure; variants of a method never use them.
CONVERGED_SIZE: Final = 13
NOT_CONVERGED: Final = "x"
UNFINISHED: Final = "circle-open"
CHECK: Final = "diamond-open"
ZERO: Final = "triangle-down"
SUFFICIENT: Final = "star-diamond"

#: Number of ordered settings that have colours of their own on a page, in either theme.
_ORDERED: Final = 20

VARIANTS: Final = (
    "circle", "square", "triangle-up", "pentagon", "bowtie", "triangle-right", "hourglass", "triangle-left",
)  # fmt: skip

#: Colours of a family of methods, of one hue: on white, on black.
COLORS: Final[dict[str, tuple[str, str]]] = {
    "gauss-southwell": ("#1F77D0", "#6CB8FF"),
    "cyclic": ("#D27E00", "#FFA62B"),
    "random": ("#A8138F", "#D873C8"),
    "shuffled": ("#0E6B55", "#2FE39B"),
    # gauss-southwell over blocks of neighbours
    "AP kd-tree": ("#600C00", "#B98A7A"),
    "AP pa-tree": ("#0089A8", "#4FD8EE"),
    "AP overlapping": ("#5A7A00", "#A6D94A"),
    **{entry.name: entry.colours for entry in METHODS.values() if entry.colours is not None},
}

#: Keys of `COLORS` for gauss-southwell over blocks of neighbours, by partition.
_TREES: Final = {"kd-tree": "AP kd-tree", "principal-axis-tree": "AP pa-tree"}
#: Key of `COLORS` for preconditioners without a colour of their own.
_PRECONDITIONED: Final = METHODS["pcg"].name

#: Colours of methods outside these families.
OTHERS: Final[tuple[tuple[str, str], ...]] = (
    ("#2C0495", "#9C02FC"),
    ("#44054D", "#A74434"),
)


@dataclass(frozen=True)
class Theme:
    """Colours of everything except data."""

    name: ThemeName
    paper: str
    ink: str
    muted: str
    grid: str
    button: str
    button_text: str


# plotly.js paints the active button nearly white in any theme, so buttons have dark text in both
THEMES: Final[dict[str, Theme]] = {
    "light": Theme("light", "#FFFFFF", "#1B1F24", "#59626D", "#E1E5EA", "#D3DAE3", "#1B1F24"),
    "dark": Theme("dark", "#14171C", "#EDF0F3", "#A9B3BF", "#2F363F", "#98A3B0", "#14171C"),
}


def theme_named(name: str) -> Theme:
    """Return the theme called `name`, `light` or `dark`."""
    if not isinstance(name, str) or name not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(get_args(ThemeName))}, got {name!r}")
    return THEMES[name]


def color_family(method: Method) -> str:
    """Return the key of `COLORS` for a method; its source and family if it has no colour."""
    if method.has_blocks:
        if method.overlap:
            return "AP overlapping"
        rule = (method.rule or "").partition(" ")[0]  # the schedule of the last block has no colour of its own
        tree = _TREES.get(method.partition or "") if rule == "gauss-southwell" else None
        return tree or rule
    entry = None if method.source in LIBRARIES else entry_of(method.family, method.preconditioner)
    if entry is not None and entry.colours is not None:
        return entry.name
    if method.preconditioner is not None and method.source not in LIBRARIES:
        return _PRECONDITIONED
    return method.family if method.source is None else f"{method.source} {method.family}"


def method_color(method: Method, theme: ThemeName = "light") -> str:
    """Return the colour of a method as `#RRGGBB`; it depends on the method only, so it is the same in every figure.

    All block sizes and ranks of one method share it, and all overlaps above 0; dashes and symbols distinguish them.
    Gauss-southwell over a tree has a colour of its own, because charts compare blocks of neighbours with others.

    Args:
        method: Method of a solver or a trace.

    Raises:
        ValueError: An unknown theme.

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
    """Return the colour of alternating projection with a rule; figures about rules alone use it for the rule."""
    return method_color(Method(family=ALTERNATING_PROJECTION, rule=rule), theme)


def method_symbols(methods: Sequence[Method]) -> list[str]:
    """Return plotly's name of the marker symbol of each run.

    The method determines the symbol. If two runs have the same colour and symbol, the later one takes the next free
    symbol (if none is free, they share it).
    """
    symbols: list[str] = []
    taken: dict[str, set[str]] = {}
    for method in methods:
        family = color_family(method)
        used = taken.setdefault(family, set())
        settings = {name: value for name, value in method.plain().items() if name not in ("family", "source")}
        # a method without settings, such as CG, has a circle
        first = zlib.crc32(json.dumps(settings, sort_keys=True).encode()) % len(VARIANTS) if settings else 0
        order = VARIANTS[first:] + VARIANTS[:first]
        symbol = next((s for s in order if s not in used), order[0])
        used.add(symbol)
        symbols.append(symbol)
    return symbols


@dataclass(frozen=True)
class Look:
    """Look of a curve: the colour of its method, the dash of its block size, and its own marker symbol."""

    color: str
    dash: str
    symbol: str

    def line(self, width: float = 2.5) -> dict[str, Any]:
        """Return the line as plotly's settings."""
        return {"color": self.color, "width": width, "dash": self.dash}


def looks(methods: Sequence[Method], theme: ThemeName) -> list[Look]:
    """Return the look of each run's curve by its method; runs drawn together may share a colour but not a look.

    With more block sizes than `DASHES`, the first and the seventh share a dash and differ in the symbol.
    """
    sizes = sorted({method.block_size for method in methods if isinstance(method.block_size, int)})
    dashes = {size: DASHES[place % len(DASHES)] for place, size in enumerate(sizes)}
    return [
        Look(method_color(method, theme), dashes.get(method.block_size, DASHES[0]), symbol)  # type: ignore[arg-type]
        for method, symbol in zip(methods, method_symbols(methods), strict=True)
    ]


def sequential_colors(count: int, theme: ThemeName = "light") -> list[str]:
    """Return `count` ordered colours for an ordered setting such as the block size.

    The end of viridis that is close to the background is left out.
    """
    low, high = (0.0, 0.82) if theme_named(theme).name == "light" else (0.36, 1.0)
    places = [low + (high - low) * i / max(count - 1, 1) for i in range(count)]
    return list(sample_colorscale("Viridis", places))


def dark_colors() -> dict[str, str]:
    """Map colours of a light figure to those of a dark one, as `#rrggbb`, for pages that follow the reader's theme.

    The text colour of buttons is left out: in the light theme it equals the colour of all other text.
    """
    light, dark = (vars(theme) for theme in THEMES.values())
    pairs = [(light[part], dark[part]) for part in ("paper", "ink", "muted", "grid", "button")]
    pairs += [*COLORS.values(), *OTHERS]
    # where two positions round to one colour, that of fewer curves counts, which is easier to compare
    for count in range(_ORDERED, 0, -1):
        pairs += zip(sequential_colors(count), sequential_colors(count, "dark"), strict=True)
    return {_hex(one): _hex(other) for one, other in pairs}


def _hex(color: str) -> str:
    if color.startswith("#"):
        return color.lower()
    return "#" + "".join(f"{int(part):02x}" for part in color[4:-1].split(","))


def translucent(color: str, alpha: float) -> str:
    """Return the colour `#RRGGBB` with an opacity from 0 to 1, in CSS notation."""
    red, green, blue = _channels(color)
    return f"rgba({red},{green},{blue},{alpha})"


#: Contrast of text with its background that WCAG 2 asks for at level AA.
_TEXT_CONTRAST: Final = 4.5


def readable(color: str, theme: Theme) -> str:
    """Return the colour `#RRGGBB`, mixed with the ink of a theme as far as text in it needs."""
    wanted, ink = _channels(color), _channels(theme.ink)
    for share in range(0, 101, 5):
        mixed = [round(a + (b - a) * share / 100) for a, b in zip(wanted, ink, strict=True)]
        found = "#" + "".join(f"{each:02X}" for each in mixed)
        if _contrast(found, theme.paper) >= _TEXT_CONTRAST:
            return found
    return theme.ink


def _channels(color: str) -> list[int]:
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]


def _contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours as WCAG 2 defines it."""
    dark, light = sorted(_luminance(each) for each in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in _channels(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def template(theme: Theme) -> go.layout.Template:
    """Return the fonts, backgrounds and axes of a theme."""
    axis = {
        "gridcolor": theme.grid, "linecolor": theme.muted, "showline": True, "ticks": "outside",
        "tickcolor": theme.muted, "zeroline": False, "automargin": True, "title": {"standoff": 10},
    }  # fmt: skip
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": TEXT_SIZE, "color": theme.ink}, "paper_bgcolor": theme.paper,
            "plot_bgcolor": theme.paper, "xaxis": axis, "yaxis": axis,
            "hoverlabel": {"font": {"family": FONT, "size": TEXT_SIZE}, "align": "left"},
        }
    )  # fmt: skip
