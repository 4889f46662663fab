"""Static figures in place of a widget, for pages without Python: a slider steps through the widget's states."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import plotly.io

from apviz.plots._axes import ABOVE, LINE
from apviz.plots._player import BUTTONS_WIDTH, PLAYER, play_buttons, slider
from apviz.plots._style import Theme

#: key in an output's metadata that says it stands in place of a widget; the value is the widget's id
STATIC: Final = "apviz_static"

_OUTPUT = ".jp-OutputArea-child"
#: a style for pages without Python: no "model not found" in place of the widget
HIDE_MISSING_WIDGET: Final = (
    f"{_OUTPUT}:has(+ {_OUTPUT} .apviz-static) > .jp-OutputArea-output.jupyter-widgets:not(:has(*)) {{ display: none }}"
)

#: a figure as plotly's data, layout and frames, of plain numbers, texts, lists and dicts
FigureDict = dict[str, Any]

#: states a slider steps through, and characters of JSON of one figure; beyond them, states are left out evenly
MAX_STATES: Final = 40
MAX_CHARACTERS: Final = 1_000_000
#: significant digits of what is drawn, and of pictures, which have this many values or more
DIGITS: Final = 5
PICTURE_VALUES: Final = 5_000
PICTURE_DIGITS: Final = 3
#: traces whose x and y are numbers along axes
PLANE_TRACES: Final = {"scatter", "bar"}
#: plotly's own, which a figure without a height has
DEFAULT_HEIGHT: Final = 450

_PLOTLY: Final = "application/vnd.plotly.v1+json"
_CONFIG: Final = {"displaylogo": False, "responsive": True}


def hide_static_figures(figures: int) -> str:
    """Style for where the widget is seen: hides the outputs after it, which are words and `figures` figures."""
    words = f"{_OUTPUT}:has(.apviz-figures-{figures}) + {_OUTPUT}:has(.apviz-static)"
    return ", ".join(words + f" + {_OUTPUT}" * k for k in range(figures + 1)) + " { display: none }"


def figure_html(figure: FigureDict, plotlyjs: str | bool) -> str:
    """Figure as HTML.

    Args:
        plotlyjs: where plotly.js comes from, as plotly's `to_html` has it; False where the page has it already.
    """
    height = f"{figure['layout']['height']}px"
    return str(
        plotly.io.to_html(
            figure, config=_CONFIG, include_plotlyjs=plotlyjs, full_html=False, default_height=height, auto_play=False,
            validate=False,
        )
    )  # fmt: skip


def figure_output(figure: FigureDict) -> dict[str, Any]:
    """Figure as an output of a notebook, by media type."""
    return {
        _PLOTLY: figure | {"config": _CONFIG},
        "text/html": figure_html(figure, "cdn"),
        "text/plain": "figure",
    }  # fmt: skip


def evenly_spaced(count: int, most: int, keep: int) -> list[int]:
    """Chooses at most `most` of `count` places, evenly from the first to the last, with `keep` among them."""
    places = np.linspace(0, count - 1, min(count, most)).round().astype(int)
    places[np.abs(places - keep).argmin()] = keep
    return sorted(set(places.tolist()))


def slider_figures(
    states: Sequence[Sequence[go.Figure]], names: Sequence[str], now: int, what: str, theme: Theme
) -> list[FigureDict]:
    """Figures, one for each that a state has, with a slider and a play button that step through the states.

    A figure that is the same in all states has no slider. Numbers are rounded for the page.

    Args:
        states: what the widget draws in each; the same traces in the same order.
        names: of the states, as the slider shows them.
        now: the state that is shown first.
        what: steps; before the name.
    """
    compact = [[_compact(figure) for figure in state] for state in states]
    chosen = list(range(len(states)))
    while True:
        drawn = [
            _slider_figure([compact[k][i] for k in chosen], [names[k] for k in chosen], chosen.index(now), what, theme)
            for i in range(len(states[0]))
        ]
        largest = max(len(json.dumps(each)) for each in drawn)
        most = min(len(chosen) - 1, len(chosen) * MAX_CHARACTERS // largest)
        if largest <= MAX_CHARACTERS or most < 2:
            return drawn
        chosen = [chosen[k] for k in evenly_spaced(len(chosen), most, chosen.index(now))]


def _slider_figure(states: Sequence[FigureDict], names: Sequence[str], now: int, what: str, theme: Theme) -> FigureDict:
    first = dict(states[now], frames=[])
    first["layout"] = dict(first["layout"])
    first["layout"].setdefault("height", DEFAULT_HEIGHT)
    if all(state == states[0] for state in states):
        return first
    traces = [_differing([state["data"][i] for state in states]) for i in range(len(first["data"]))]
    layouts = _differing([state["layout"] for state in states])
    # the hidden entries too: plotly adds none while it goes from frame to frame
    _fill(first["layout"], layouts[now])
    moving = [i for i, each in enumerate(traces) if any(each)]
    for k, name in enumerate(names):
        frame = {"name": name, "data": [traces[i][k] for i in moving], "traces": moving, "layout": layouts[k]}
        first["frames"].append(frame)
    _fix_ranges(first["layout"], states)
    _add_player(first["layout"], names, now, what, theme)
    return first


def _fix_ranges(layout: FigureDict, states: Sequence[FigureDict]) -> None:
    """Ranges that hold all states, where plotly would choose them: it chooses once, and not from frame to frame."""
    for letter in "xy":
        of_axes: dict[str, list[tuple[float, ...]]] = {}
        for state in states:
            for axis in {
                trace.get(f"{letter}axis", letter) for trace in state["data"] if trace["type"] in PLANE_TRACES
            }:
                at = [trace for trace in state["data"] if trace.get(f"{letter}axis", letter) == axis]
                values = [each for trace in at for each in trace.get(letter, []) if isinstance(each, float | int)]
                of_axes.setdefault(f"{letter}axis{axis[1:]}", []).append((min(values), max(values)) if values else ())
        for name, extents in of_axes.items():
            axis = layout.get(name, {})
            ends = [end for extent in extents for end in extent if end > 0 or axis.get("type") != "log"]
            if "range" in axis or len(set(extents)) == 1 or not ends:
                continue
            low, high = (math.log10(end) if axis.get("type") == "log" else end for end in (min(ends), max(ends)))
            margin = 0.06 * ((high - low) or 1.0)
            layout[name] = axis | {"range": [low - margin, high + margin], "autorange": False}


def _add_player(layout: FigureDict, names: Sequence[str], now: int, what: str, theme: Theme) -> None:
    """Slider and buttons below the caption, above whatever else stands over the chart."""
    margin = {"t": 100} | layout.get("margin", {})
    caption = round(LINE * (layout.get("title", {}).get("text", "").count("<br>") + 1)) + ABOVE
    gap = max(margin["t"] - caption, 12)
    if any(each.get("yref") == "paper" and each.get("y", 0) >= 1 for each in layout.get("annotations", [])):
        gap = max(gap, 34)
    place: FigureDict = {"y": 1, "yanchor": "bottom", "x": 0}
    bar = slider(names, theme, **place, len=1, pad={"l": BUTTONS_WIDTH, "r": 8, "b": gap, "t": 0})
    layout["sliders"] = [bar | {"active": now, "currentvalue": bar["currentvalue"] | {"prefix": f"{what}: "}}]
    buttons = play_buttons(theme, **place, xanchor="left", pad={"l": 0, "r": 0, "b": gap + 10, "t": 0})
    layout["updatemenus"] = [*layout.get("updatemenus", []), buttons]
    layout["margin"] = margin | {"t": caption + PLAYER + gap}
    layout["height"] += layout["margin"]["t"] - margin["t"]


def _compact(figure: go.Figure) -> FigureDict:
    """The parts of a figure, with numbers as short as the page needs them."""
    data = [_plain(trace.to_plotly_json()) for trace in figure.data]
    return {"data": data, "layout": _plain(figure.layout.to_plotly_json())}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return _rounded(value)
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        if len(value) > 8 and all(type(each) is float for each in value):
            return _rounded(np.array(value))
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return value


def _rounded(values: np.ndarray) -> Any:
    """As nested lists; what is not finite is a gap."""
    digits = PICTURE_DIGITS if values.size >= PICTURE_VALUES else DIGITS
    short = [float(f"{each:.{digits}g}") if np.isfinite(each) else None for each in values.ravel().tolist()]
    return np.array(short, dtype=object).reshape(values.shape).tolist()


def _differing(values: Sequence[FigureDict]) -> list[FigureDict]:
    """What differs among them, for each; null for what one of them lacks, since plotly keeps what it is not told."""
    found: list[FigureDict] = [{} for _ in values]
    for key in {key: None for value in values for key in value}:
        each: list[Any] = [value.get(key) for value in values]
        if all(one == each[0] for one in each):
            continue
        if all(isinstance(one, Mapping) for one in each):
            each = list(_differing(each))
        elif _of_objects(each):
            each = list(_equally_long(each))
        for frame, one in zip(found, each, strict=True):
            frame[key] = one
    return found


def _of_objects(each: Sequence[Any]) -> bool:
    """Whether these are lists such as annotations and shapes, which plotly merges entry by entry."""
    return any(one and isinstance(one, list) and isinstance(one[0], Mapping) for one in each)


def _fill(layout: FigureDict, frame: Mapping[str, Any]) -> None:
    """Gives lists of objects in a layout as many entries as they have in a frame of the same state."""
    for key, value in frame.items():
        if isinstance(value, Mapping) and isinstance(layout.get(key), Mapping):
            layout[key] = dict(layout[key])
            _fill(layout[key], value)
        elif _of_objects([value]):
            layout[key] = value


def _equally_long(each: Sequence[Any]) -> list[list[FigureDict]]:
    """Lists of the same length whose entries have the same keys; entries too many are hidden."""
    lists = [list(one or []) for one in each]
    longest = max(map(len, lists))
    filled: list[list[FigureDict]] = [[] for _ in lists]
    for i in range(longest):
        entries = [
            one[i] | {"visible": one[i].get("visible", True)} if i < len(one) else {"visible": False} for one in lists
        ]
        keys = {key: None for entry in entries for key in entry}
        for out, entry in zip(filled, entries, strict=True):
            out.append({key: entry.get(key) for key in keys})
    return filled
