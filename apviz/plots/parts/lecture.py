"""A figure for a projector: larger type, thicker lines, larger markers."""

from __future__ import annotations

import re
from typing import Any, Final

import plotly.graph_objects as go

#: type, lines and markers against those of a screen on a desk
FACTOR: Final = 1.4


def enlarged(figure: go.Figure, factor: float = FACTOR) -> go.Figure:
    """The figure with type, lines, markers and the margins around them `factor` times as large."""
    plain = figure.to_plotly_json()
    # the template is shared by figures, and holds the type of everything without its own
    plain["layout"] = _scaled(plain["layout"], factor)
    plain["data"] = [_scaled(each, factor) for each in plain["data"]]
    return go.Figure(plain)


#: distances in pixels of what stands beside axes
_GAPS: Final = {"xpad", "ypad", "xshift", "yshift"}
_SIZES: Final = {"size", "width", "thickness", "ticklen", "standoff", "t", "l", "r", "b"}
_PLACES: Final = {"font", "tickfont", "titlefont", "line", "marker", "colorbar", "margin", "pad", "title", "hoverlabel"}
_PIXELS: Final = re.compile(r"font-size:([\d.]+)px")


def _scaled(value: Any, factor: float, place: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _scaled_entry(key, each, factor, place) for key, each in value.items()}
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        return [_scaled(each, factor, place) for each in value]
    return value


def _scaled_entry(key: str, value: Any, factor: float, place: str) -> Any:
    if key in {"height", *_GAPS} and isinstance(value, int | float):
        return value * factor
    if key in _SIZES and place in _PLACES and isinstance(value, int | float):
        return value * factor
    if key == "text" and isinstance(value, str):
        return _PIXELS.sub(lambda found: f"font-size:{float(found[1]) * factor:.0f}px", value)
    return _scaled(value, factor, key if isinstance(value, dict) else place)
