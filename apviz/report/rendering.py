"""Self-contained pages: a filled template, plotly's script, and figures in both themes, all compressed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import jinja2
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

import apviz
from apviz.places import P, Place, beginning, is_there, write_whole
from apviz.plots._style import ThemeName
from apviz.report.packing import packed, packed_figures

# text in the head of `base.html.jinja`
_HEAD, _MARK = 2_000, '<meta name="generator" content="apviz'


def write_page(path: P, template: str, **values: Any) -> P:
    """Write the page of a template with these values, completely or not at all; return its path.

    An existing page of apviz is replaced. If another kind of file has the name, the page gets another name.

    Args:
        template: File of `apviz/report/templates` that extends `base.html.jinja`.
    """
    names = (path.name, *(f"{path.stem}-{number}{path.suffix}" for number in range(2, 10_000)))
    places = (path.with_name(name) for name in names)
    path = next(each for each in places if not is_there(each) or _is_ours(each))
    loader = jinja2.PackageLoader("apviz.report", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    shared = {"version": apviz.__version__, "plotly": packed(get_plotlyjs())}
    page = environment.get_template(template).render(shared | values)
    write_whole(path, page.encode())
    return path


def _is_ours(path: Place) -> bool:
    """Test whether a page was made by apviz, by its head."""
    try:
        return _MARK in beginning(path, _HEAD).decode(errors="replace")
    except OSError:
        return False


@dataclass(frozen=True)
class Figure:
    """Chart of a page with its explanation.

    Attributes:
        parts: Plotly's data, layout and frames in both themes, packed.
        height: Height in CSS; empty for that of the page.
        has_legend: Whether the chart needs its own legend; false if a table next to it has one.
    """

    heading: str
    text: str
    parts: str
    height: str
    has_legend: bool = True


class Draw(Protocol):
    """A function that draws a figure in a theme."""

    def __call__(self, *, theme: ThemeName) -> go.Figure: ...


def embedded(heading: str, text: str, draw: Draw, *, has_legend: bool = True) -> Figure:
    """Return the figure that `draw` makes in each theme, for the macro `chart` of `parts.html.jinja`."""
    light, dark = (json.loads(draw(theme=theme).to_json()) for theme in get_args(ThemeName))
    height = _height(light["layout"])
    for layout in (light["layout"], dark["layout"]):
        # plotly would lose the height when the window is resized, and take the page's
        layout.pop("height", None)
    return Figure(heading, text, packed_figures(light, dark), height, has_legend)


def _height(layout: dict[str, Any]) -> str:
    """Return the height of a figure; with square pixels the height of the picture, limited to a window."""
    if "height" not in layout:
        return ""
    asked = f"{layout['height']}px"
    x, y, margin = layout.get("xaxis", {}), layout.get("yaxis", {}), layout["margin"]
    if y.get("scaleanchor") != "x":
        return asked
    (left, right), (bottom, top) = x["range"], y["range"]
    across, around = margin["l"] + margin["r"], margin["t"] + margin["b"]
    # the page saves lines of a title
    needed = f"{around}px - var(--saved, 0px) + (100cqw - {across}px) * {abs((top - bottom) / (right - left)):.4f}"
    return f"min(max({asked}, 90vh), {needed})"
