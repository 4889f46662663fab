"""Figures inside a page: plotly's parts as JSON, in both themes, what they share only once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import plotly.graph_objects as go

from apviz.plots.parts.style import ThemeName


@dataclass(frozen=True)
class Figure:
    """One chart of a page: what to look at, and plotly's parts (data, layout, frames) as JSON.

    Attributes:
        both: the parts that are the same in both themes, such as the many pictures of an animation; `light` and
            `dark` hold the others.
        height: CSS; empty for the page's own.
    """

    heading: str
    text: str
    both: str
    light: str
    dark: str
    height: str


def embedded(heading: str, text: str, draw: Callable[[ThemeName], go.Figure]) -> Figure:
    """The figure that `draw` makes in each theme, for the macro `chart` of `parts.html.jinja`."""
    light, dark = (json.loads(draw(theme).to_json()) for theme in get_args(ThemeName))
    height = _height(light["layout"])
    for layout in (light["layout"], dark["layout"]):
        # plotly would forget it when the window changes its size, and ask the page
        layout.pop("height", None)
    both = {part: light.pop(part) for part in list(light) if light[part] == dark[part]}
    dark = {part: dark[part] for part in light}
    return Figure(heading, text, _embeddable(both), _embeddable(light), _embeddable(dark), height)


def _height(layout: dict[str, Any]) -> str:
    """What the figure asks for; with square pixels as much as the picture needs, at most what a window shows."""
    if "height" not in layout:
        return ""
    asked = f"{layout['height']}px"
    x, y, margin = layout.get("xaxis", {}), layout.get("yaxis", {}), layout["margin"]
    if y.get("scaleanchor") != "x":
        return asked
    (left, right), (bottom, top) = x["range"], y["range"]
    beside, around = margin["l"] + margin["r"], margin["t"] + margin["b"]
    needed = f"{around}px + (100cqw - {beside}px) * {abs((top - bottom) / (right - left)):.4f}"
    return f"min(max({asked}, 90vh), {needed})"


def _embeddable(parts: dict[str, Any]) -> str:
    """JSON that cannot end, or otherwise disturb, the script element it is put into: without any `<`."""
    text = json.dumps(parts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
