"""Self-contained pages: a filled template, plotly's script, and figures in both themes, all compressed."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import jinja2
import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

import apviz
from apviz.places import P, Place, beginning, is_there, write_whole
from apviz.plots._style import ThemeName

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
    shared = {"version": apviz.__version__, "plotly": _packed(get_plotlyjs())}
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
        parts: Plotly's data, layout and frames in the light theme, and what differs in the dark one, packed.
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
    light, dark = (_lighter(json.loads(draw(theme=theme).to_json())) for theme in get_args(ThemeName))
    height = _height(light["layout"])
    for layout in (light["layout"], dark["layout"]):
        # plotly would lose the height when the window is resized, and take the page's
        layout.pop("height", None)
    parts = json.dumps([light, _changes(light, dark)], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Figure(heading, text, _packed(parts), height, has_legend)


def _changes(light: Any, dark: Any) -> Any:
    """Return what differs in the dark theme: objects by key or index, a changed value in a list; None if nothing."""
    if isinstance(light, dict) and isinstance(dark, dict) and light.keys() == dark.keys():
        both = {key: (light[key], dark[key]) for key in light}
    elif isinstance(light, list) and isinstance(dark, list) and len(light) == len(dark):
        both = {str(place): pair for place, pair in enumerate(zip(light, dark, strict=True))}
    else:
        return None if light == dark else [dark]
    found = {key: _changes(*pair) for key, pair in both.items()}
    return {key: change for key, change in found.items() if change is not None} or None


def _lighter(parts: Any) -> Any:
    """Return arrays in their smallest form: whole numbers as text, float64 in float32 if that keeps six digits."""
    if isinstance(parts, list):
        return [_lighter(each) for each in parts]
    if not isinstance(parts, dict):
        return parts
    if "bdata" not in parts:
        return {key: _lighter(value) for key, value in parts.items()}
    exact = np.frombuffer(base64.b64decode(parts["bdata"]), dtype=np.dtype(parts["dtype"]).newbyteorder("<"))
    if exact.dtype.kind in "iu" and "shape" not in parts:
        return exact.tolist()
    with np.errstate(over="ignore"):
        halved = exact.astype("<f4")
    if parts["dtype"] != "f8" or not np.allclose(halved, exact, rtol=1e-6, atol=0, equal_nan=True):
        return parts
    return parts | {"dtype": "f4", "bdata": base64.b64encode(halved.tobytes()).decode()}


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
    needed = f"{around}px + (100cqw - {across}px) * {abs((top - bottom) / (right - left)):.4f}"
    return f"min(max({asked}, 90vh), {needed})"


def _packed(text: str) -> str:
    """Compress a text for a script element, in characters that cannot end it; `unpacked` of the page is the inverse."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
