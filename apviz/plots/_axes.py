"""The frame of every figure: title, settings, legend below the chart, margins, zoom that survives updates.

Where a log axis has labels.

The x axis of curves: work, epochs or seconds, switched by buttons in the figure itself.

Panels of curves on a grid as plain data: a figure that grows while a solve runs is made several times a second.

One panel per run, stacked, for the figures that show a run block by block.

A figure for a projector: larger type, thicker lines, larger markers.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.plots._labels import TITLE_WIDTH, legend_entry, run_names, seamed, statement
from apviz.plots._style import CAPTION_SIZE, TEXT_SIZE, TITLE_SIZE, Theme, template

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace
if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

#: pixels of a line of the title, which plotly makes 1.3 times as high as its font; around it; of buttons; of a
#: colour bar; of the ticks and the title of an x axis; of a legend
LINE: Final = 20.0
ABOVE: Final = 26
BUTTONS: Final = 44
COLOR_BAR: Final = 60
AXIS: Final = 64
LEGEND: Final = 32
#: of the axes, and of each row of them more; of a line of the legend
_AXES: Final = 100
_ROW: Final = 200
_ENTRY: Final = 23
#: a line that goes on the one before it, by what stood between them
_SEAMS: Final = {"": "", " ": ' class="words"', " · ": ' class="parts"'}
#: the norm in H or by K as it is written in a line whose letters are counted, and as plotly draws it
_NORM, _SUBSCRIPT = re.compile("‖(²?)_([HK])"), r"‖\1<sub>\2</sub>"


def as_traces(traces: Trace | Sequence[Trace]) -> list[Trace]:
    """One trace or several, as a list.

    Raises:
        ValueError: there is none.
    """
    several = list(traces) if isinstance(traces, Iterable) else [traces]
    if not several:
        raise ValueError(
            "no trace to draw; pass one or several, such as `recorder.trace` after "
            "`apviz.solve(system, solver, hooks=[recorder])`, or `apviz.open_trace(path)`"
        )
    return several


def frame(
    traces: Sequence[Trace],
    theme: Theme,
    title: str,
    uirevision: str,
    notes: Sequence[str] = (),
    *,
    buttons: bool = False,
    rows: int = 1,
    entries: Iterable[str] = (),
) -> dict[str, Any]:
    """The layout around the axes: title, the settings of the traces, then `notes`, then room for buttons if asked.

    Args:
        rows: of panels.
        entries: of the legend, for each of which a phone needs a line.
    """
    lines = _lines(seamed([title], TITLE_WIDTH), f"font-size:{TITLE_SIZE}px")
    for parts in (statement(traces), *([note] for note in notes)):
        lines += _lines(seamed(parts), f"font-size:{CAPTION_SIZE}px;color:{theme.muted}")
    top = ABOVE + round(LINE * len(lines)) + BUTTONS * buttons
    below = AXIS + _ENTRY * sum(1 + entry.count("<br>") for entry in entries)
    return {
        "template": template(theme),
        # JupyterLab gives a figure that does not ask for more 360 pixels
        "height": top + _AXES + _ROW * rows + below,
        "title": {
            "text": "<br>".join(lines),
            "font": {"size": LINE / 1.3},
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 22, "l": 16},
        },
        "margin": {"t": top, "l": 16, "r": 16, "b": 16},
        "legend": {
            "orientation": "h",
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 0.01,
            "yref": "container",
            "yanchor": "bottom",
            "groupclick": "togglegroup",
            "bgcolor": "rgba(0,0,0,0)",
        },
        "hovermode": "closest",
        "uirevision": uirevision,
    }


def _lines(seams: Iterable[tuple[str, str]], style: str) -> list[str]:
    """Lines of a title. Their class, which plotly passes over, is for pages: there, lines are joined where one fits."""
    return [f'<span{_SEAMS[seam]} style="{style}">{_NORM.sub(_SUBSCRIPT, line)}</span>' for line, seam in seams]


def finish(
    figure: go.Figure,
    traces: Sequence[Trace],
    theme: Theme,
    title: str,
    uirevision: str,
    notes: Sequence[str] = (),
) -> go.Figure:
    """Puts the frame around a figure."""
    rows = len({axis.domain for axis in figure.select_yaxes()})
    entries = [each.name for each in figure.data if each.name and each.showlegend is not False]
    around = frame(traces, theme, title, uirevision, notes, rows=max(rows, 1), entries=entries)
    own, bar = figure.layout.height, figure.layout.coloraxis.colorbar
    figure.update_layout(around | {"height": own or around["height"]})
    if bar.thickness:
        # what stands around these charts has a known size; room made by plotly would come on top of it
        has_legend = any(each.showlegend for each in figure.data)
        bottom = AXIS + (LEGEND if has_legend else 0)
        room = COLOR_BAR + bar.ypad
        top = figure.layout.margin.t + room
        figure.update_layout(margin={"t": top, "b": bottom, "l": 70, "r": 20, "autoexpand": False})
        if not own:
            figure.layout.height += room
    return figure


#: powers of ten that an axis spans where labels change from a few even ones to 1, 2, 5, and to powers of ten
_EVEN: Final = 0.7
_DECADES: Final = 2.3


def log_ticks(values: Any, most: int = 5) -> dict[str, Any]:
    """Labels of a log axis: numbers in full over few decades, else powers of ten.

    plotly's own between powers of ten are bare digits, 2 and 5, which do not say of which power.

    Args:
        values: what is drawn; what a log axis cannot take is left out.
        most: powers of ten with a label, or one more.
    """
    drawn = np.asarray(values, dtype=float)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    span = math.log10(drawn.max() / drawn.min()) if len(drawn) else 0.0
    if span > _DECADES:
        return {"dtick": math.ceil(span / most), "exponentformat": "power"}
    # over less there may be no 1, 2 or 5, and plotly finds other places
    return {"tickformat": "~g"} | ({"dtick": "D2"} if span > _EVEN else {"nticks": 4})


X = Literal["work", "epochs", "seconds"]

#: the x values of one plotly trace in each unit
Choice = dict[str, list[float | None]]

X_TITLES: Final[dict[str, str]] = {
    "work": "work (kernel entries ÷ n²)",
    "epochs": "epochs (of CG: iterations)",
    "seconds": "time since the start (s)",
}

#: the variable of the group `epoch` behind each unit
VARIABLES: Final = {"work": "work", "epochs": "epoch", "seconds": "seconds"}


def x_buttons(choices: Sequence[Choice], x: str, theme: Theme, rows: int) -> dict[str, Any]:
    """Layout of buttons that exchange the x values of all traces and the title of the lowest of so many x axes.

    They restyle x and leave visibility alone, so runs hidden through the legend stay hidden; they work in
    exported HTML, without Python.
    """
    axes = ["xaxis", *(f"xaxis{row}" for row in range(2, rows + 1))]
    buttons = [
        {
            "label": unit,
            "method": "update",
            "args": [
                {"x": [choice[unit] for choice in choices]},
                {f"{axes[-1]}.title.text": X_TITLES[unit]} | {f"{axis}.autorange": True for axis in axes},
            ],
        }
        for unit in get_args(X)
    ]
    menu = {
        "type": "buttons",
        "direction": "right",
        "active": get_args(X).index(x),
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "pad": {"b": 8, "t": 0, "l": 0, "r": 0},
        "bgcolor": theme.button,
        "bordercolor": theme.muted,
        "font": {"color": theme.button_text},
        "buttons": buttons,
    }
    return {"updatemenus": [menu]}


def without_buttons(figure: go.Figure) -> go.Figure:
    """The figure for a page that switches the x axis of all its charts itself."""
    figure.layout.updatemenus = ()
    figure.layout.margin.t -= BUTTONS
    return figure


class Grid:
    """Layout and data of a figure of panels, as plotly's JSON has them.

    `go.Figure` takes all of it at once in a tenth of the time that adding piece by piece takes.

    Args:
        rows, columns: of panels.
        spacing: of `plotly.subplots.make_subplots`.

    Attributes:
        layout, data: of the figure.
    """

    def __init__(self, rows: int = 1, columns: int = 1, **spacing: Any) -> None:
        self.rows, self.columns = rows, columns
        self.layout: dict[str, Any] = copy.deepcopy(_empty(rows, columns, tuple(spacing.items())))
        self.data: list[dict[str, Any]] = []

    def add_scatter(self, row: int, column: int, **scatter: Any) -> None:
        """A curve, or markers, in a panel."""
        number = self._number(row, column)
        self.data.append({"type": "scatter", **scatter, "xaxis": f"x{number}", "yaxis": f"y{number}"})

    def axis(self, letter: str, row: int, column: int) -> dict[str, Any]:
        """The layout of the axis x or y of a panel."""
        found: dict[str, Any] = self.layout[f"{letter}axis{self._number(row, column)}"]
        return found

    def add_line(self, row: int, column: int, y: float, line: dict[str, Any]) -> None:
        """A horizontal line through a panel, below its curves."""
        number = self._number(row, column)
        shape = {"type": "line", "xref": f"x{number} domain", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line,
                 "yref": f"y{number}", "layer": "below"}  # fmt: skip
        self.layout.setdefault("shapes", []).append(shape)

    def add_words(self, row: int, column: int, **annotation: Any) -> None:
        """Words in a panel, x as a part of its width."""
        number = self._number(row, column)
        place = {"xref": f"x{number} domain", "yref": f"y{number}", "showarrow": False}
        self.layout.setdefault("annotations", []).append({**place, **annotation})

    def _number(self, row: int, column: int) -> str:
        number = (row - 1) * self.columns + column
        return "" if number == 1 else str(number)


@lru_cache
def _empty(rows: int, columns: int, spacing: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    layout: dict[str, Any] = make_subplots(rows=rows, cols=columns, **dict(spacing)).to_plotly_json()["layout"]
    layout.pop("template", None)
    return layout


#: pixels of a panel, once there are more than two
_PANEL: Final = 260


def block_runs(traces: Trace | Sequence[Trace], figure: str) -> list[Trace]:
    """The traces, all of which have blocks.

    Raises:
        ValueError: no trace; a trace without blocks.
    """
    several = as_traces(traces)
    without = [trace.label for trace in several if "block" not in trace]
    if without:
        raise ValueError(
            f"{figure} draws runs of AlternatingProjection, block by block; "
            f"{', '.join(without)} has no blocks. Leave it out"
        )
    return several


def stacked(traces: Sequence[Trace]) -> go.Figure:
    """An empty panel per run, headed by its name and how it ended."""
    count = len(traces)
    entries = [legend_entry(name, trace) for name, trace in zip(run_names(traces), traces, strict=True)]
    figure = make_subplots(
        rows=count,
        cols=1,
        shared_xaxes=True,
        subplot_titles=entries,
        vertical_spacing=min(0.12, 0.24 / count),
    )
    figure.update_annotations(font_size=TEXT_SIZE)
    if count > 2:
        figure.update_layout(height=_PANEL * count + 200)
    return figure


def block_axis(trace: Trace) -> dict[str, Any]:
    """The y axis of a panel: whole block numbers."""
    few = trace["block"].sizes["block"] <= 8
    return {"title": {"text": "block"}, "tickformat": ",d", **({"dtick": 1} if few else {"nticks": 8})}


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
