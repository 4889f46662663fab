"""Frame of every figure: title and settings, axes and their labels, legend, colour bar.

The file has four parts: the frame, which leaves room for a phone's title and legend; log axes; the units of the x axis
of curves, and the buttons that switch them; the same figure for a projector.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from apviz.plots._labels import TITLE_WIDTH, settings_labels, wrapped
from apviz.plots._style import CAPTION_SIZE, TEXT_SIZE, TITLE_SIZE, Theme, template
from apviz.tracing.trace import Trace, traces_in

Floats = NDArray[np.float64]

#: Heights in pixels: of a title line, which plotly makes 1.3 times as high as its font; of the space above the title;
#: of buttons; of a colour bar; of the ticks and the title of an x axis; of a legend.
LINE: Final = 20.0
ABOVE: Final = 26
BUTTONS: Final = 44
COLOR_BAR: Final = 60
AXIS: Final = 64
LEGEND: Final = 32
#: Heights in pixels: of the axes without rows; of each row of axes; of a line of the legend.
_AXES: Final = 100
_ROW: Final = 200
_ENTRY: Final = 23
#: Heights in pixels of a row with a name above what is drawn, and of the name.
_NAMED_ROW, _NAME = 52, 24
#: Length of a colour bar, as a fraction of the chart's width.
_BAR: Final = 0.94
#: Height in pixels of a panel, if there are more than two.
_PANEL: Final = 260
#: Number of shadows on top of each other that make a halo around text.
_HALO: Final = 8
#: Classes of title lines, by the separator between a line and the one before it.
_LINE_CLASS: Final = {"": "", " ": ' class="words"', " · ": ' class="parts"'}
#: Norm in H or by K: as written in a line whose characters are counted, and as plotly draws it.
_NORM, _SUBSCRIPT = re.compile("‖(²?)_([HK])"), r"‖\1<sub>\2</sub>"


def as_traces(traces: Trace | Sequence[Trace]) -> list[Trace]:
    """Return one or several traces as a list.

    Raises:
        TypeError: An item is not a trace.
        ValueError: The list is empty.
    """
    several = traces_in(traces)
    if not several:
        raise ValueError(
            "no trace to draw; pass one or several, such as `recorder.trace` after "
            "`apviz.solve(system, solver, hooks=[recorder])`, or `apviz.open_trace(path)`"
        )
    return several


def recorded(
    given: Sequence[Trace], has: Callable[[Trace], bool], lacking: str, none: str
) -> tuple[list[Trace], list[str]]:
    """Return the traces that have what a figure needs, and a note that counts the others, which lack it.

    If all do, raise a ValueError with the message `none`.
    """
    several = [trace for trace in given if has(trace)]
    if not several:
        raise ValueError(none)
    left_out = len(given) - len(several)
    return several, [f"{left_out} of {len(given)} runs {lacking} and are left out"] if left_out else []


def has_values(trace: Trace, name: str) -> bool:
    """Test whether a quantity of epochs was recorded."""
    return name in trace["epoch"] and bool(np.isfinite(trace["epoch"][name].values).any())


def require_all(traces: Sequence[Trace], has: Callable[[Trace], bool], message: str) -> None:
    """Check that all traces have what a figure needs; the message names the methods of the others at `{}`."""
    if without := [trace.method_name for trace in traces if not has(trace)]:
        raise ValueError(message.format(", ".join(without)))


def stacked(entries: Sequence[str], *, titles: bool = True) -> go.Figure:
    """Return empty panels one above the other, with these headings."""
    count = len(entries)
    figure = make_subplots(
        rows=count, cols=1, shared_xaxes=True, subplot_titles=entries if titles else None,
        vertical_spacing=min(0.12, 0.24 / count),
    )  # fmt: skip
    figure.update_annotations(font_size=TEXT_SIZE)
    if count > 2:
        figure.update_xaxes(showticklabels=True)
        figure.update_layout(height=_PANEL * count + 200)
    return figure


def add_level(
    figure: go.Figure, value: float, text: str, theme: Theme, *, right: bool = False, below: bool = False, **place: Any
) -> None:
    """Draw a thin line at a value of a logarithmic y axis, with a text at its left or right end, above or below it.

    Args:
        place: plotly's row and col.
    """
    figure.add_hline(value, line={"color": theme.muted, "width": 1.5}, layer="below", **place)
    figure.add_annotation(
        # on a log axis, shapes take values, annotations take their logarithm
        xref="x domain", x=0.99 if right else 0.01, y=math.log10(value), text=text, showarrow=False,
        xanchor="right" if right else "left", yanchor="top" if below else "bottom", **on_paper(theme), **place,
    )  # fmt: skip


def on_paper(theme: Theme) -> dict[str, Any]:
    """Return the look of small text in a plot, with a halo where lines would strike it through."""
    halo = ", ".join([f"0 0 5px {theme.paper}"] * _HALO)
    return {"font": {"size": CAPTION_SIZE, "color": theme.muted, "shadow": halo}}


def name_rows(figure: go.Figure, texts: Sequence[str], theme: Theme, levels: Sequence[float]) -> None:
    """Write a text at each whole y, above what is drawn below it: next to it a name would not fit a phone.

    Args:
        levels: Heights of what is drawn, each with a thin line from the left, as distances below the text from 0 to 1.
    """
    first, last = -0.5 * _NAME / _NAMED_ROW, len(texts) - 0.5 * _NAME / _NAMED_ROW
    figure.update_yaxes(
        range=(last, first), showticklabels=False, ticks="", fixedrange=True,
        tickvals=[place + level for place in range(len(texts)) for level in levels],
    )  # fmt: skip
    figure.update_layout(meta={"axes": _NAMED_ROW * len(texts)})
    for place, text in enumerate(texts):
        figure.add_annotation(
            text=text, x=0, xref="paper", xanchor="left", xshift=4, y=place, showarrow=False, font={"size": TEXT_SIZE},
            bgcolor=theme.paper, borderpad=1,
        )  # fmt: skip


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
    """Return the layout around the axes: title, settings of the traces, `notes`, and room for buttons if requested.

    Args:
        rows: Number of rows of panels.
        entries: Entries of the legend. On a phone each needs a line of its own.
    """
    lines = _lines(wrapped([title], TITLE_WIDTH), f"font-size:{TITLE_SIZE}px")
    for parts in (settings_labels(traces), *([note] for note in notes)):
        lines += _lines(wrapped(parts), f"font-size:{CAPTION_SIZE}px;color:{theme.muted}")
    top = ABOVE + round(LINE * len(lines)) + BUTTONS * buttons
    below = AXIS + _ENTRY * sum(1 + entry.count("<br>") for entry in entries)
    return {
        "template": template(theme),
        # JupyterLab draws figures without a height 360 pixels high
        "height": top + _AXES + _ROW * rows + below,
        "title": {
            "text": "<br>".join(lines), "font": {"size": LINE / 1.3}, "x": 0, "xref": "container", "xanchor": "left",
            "y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 22, "l": 16},
        },
        "margin": {"t": top, "l": 16, "r": 16, "b": 16},
        "legend": {
            "orientation": "h", "x": 0, "xref": "container", "xanchor": "left", "y": 0.01, "yref": "container",
            "yanchor": "bottom", "groupclick": "togglegroup", "bgcolor": "rgba(0,0,0,0)",
        },
        "hovermode": "closest",
        "uirevision": uirevision,
    }  # fmt: skip


def _lines(lines: Iterable[tuple[str, str]], style: str) -> list[str]:
    """Return the lines of a title as HTML.

    plotly ignores their class. Pages use it to join lines that fit next to each other.
    """
    return [
        f'<span{_LINE_CLASS[separator]} style="{style}">{_NORM.sub(_SUBSCRIPT, line)}</span>'
        for line, separator in lines
    ]


def finish(
    figure: go.Figure,
    traces: Sequence[Trace],
    theme: Theme,
    title: str,
    uirevision: str,
    notes: Sequence[str] = (),
) -> go.Figure:
    """Put the frame around a figure."""
    rows = len({axis.domain for axis in figure.select_yaxes()})
    entries = [each.name for each in figure.data if each.name and each.showlegend is not False]
    around = frame(traces, theme, title, uirevision, notes, rows=max(rows, 1), entries=entries)
    own, bar = figure.layout.height, figure.layout.coloraxis.colorbar
    if figure.layout.meta:
        # the height of the axes alone, for pages that decide on the rest
        own = around["height"] - _AXES - _ROW * max(rows, 1) + figure.layout.meta["axes"]
    figure.update_layout(around | {"height": own or around["height"]})
    if bar.thickness:
        # the margins of these charts have a known size; plotly would add its own room to it
        has_legend = any(each.showlegend for each in figure.data)
        bottom = AXIS + (LEGEND if has_legend else 0)
        room = COLOR_BAR + bar.ypad
        top = figure.layout.margin.t + room
        figure.update_layout(margin={"t": top, "b": bottom, "l": 70, "r": 20, "autoexpand": False})
        if not own:
            figure.layout.height += room
    return figure


def horizontal_bar(title: str, places: Sequence[float], labels: Sequence[str], gap: int) -> dict[str, Any]:
    """Return a colour bar above the chart, with a label at each place.

    It is `gap` pixels above the chart and slightly narrower, so that the labels at its ends stay within the chart.
    """
    return {
        "title": {"text": title, "side": "top", "font": {"size": CAPTION_SIZE}},
        "orientation": "h",
        "x": 0.5,
        "xanchor": "center",
        "xpad": 0,
        # at exactly 1, plotly would shift every other title of the figure to make room
        "y": 0.9999,
        "yanchor": "bottom",
        "ypad": gap,
        "thickness": 14,
        "len": _BAR,
        "tickfont": {"size": CAPTION_SIZE},
        "tickvals": places,
        "ticktext": labels,
    }


def positive(values: Any) -> Floats:
    """Return the values for a log axis: NaN, drawn as a gap, if they are zero, negative or not finite."""
    values = np.asarray(values, dtype=float)
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


#: Decades an axis spans at most with a few evenly spaced labels, and at most with labels at 1, 2 and 5 times powers of
#: ten. Longer axes have labels at powers of ten only.
_EVEN: Final = 0.7
_DECADES: Final = 2.3


def log_ticks(values: Any, most: int = 5) -> dict[str, Any]:
    """Return the labels of a log axis: full numbers over few decades, otherwise powers of ten.

    Between powers of ten, plotly writes only the digits 2 and 5, without their power.

    Args:
        values: Values drawn; those that a log axis cannot show are ignored.
        most: Number of labelled powers of ten, up to one more.
    """
    drawn = np.asarray(values, dtype=float)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    span = math.log10(drawn.max() / drawn.min()) if len(drawn) else 0.0
    if span > _DECADES:
        return {"dtick": math.ceil(span / most), "exponentformat": "power"}
    # a shorter axis may contain no 1, 2 or 5 times a power of ten; plotly then places ticks elsewhere
    return {"tickformat": "~g"} | ({"dtick": "D2"} if span > _EVEN else {"nticks": 4})


X = Literal["work", "epochs", "seconds"]

#: Values of x of one plotly trace in each unit.
Choice = dict[str, list[float | None]]

X_TITLES: Final[dict[str, str]] = {
    "work": "work (kernel entries ÷ n²)",
    "epochs": "epochs (CG: iterations)",
    "seconds": "time since the start (s)",
}

#: Variable of the group `epoch` behind each unit.
VARIABLES: Final = {"work": "work", "epochs": "epoch", "seconds": "seconds"}


def x_buttons(
    choices: Sequence[Choice], x: str, theme: Theme, rows: int, limits: Mapping[str, float | None]
) -> dict[str, Any]:
    """Return the layout of buttons that exchange the x values of all traces and the title of the lowest x axis.

    They change x and not visibility, so runs hidden through the legend stay hidden. They work in exported HTML, without
    Python.

    Args:
        limits: Values at which the axis ends in each unit, so that outliers do not stretch it; None for no limit.
    """
    axes = ["xaxis", *(f"xaxis{row}" for row in range(2, rows + 1))]
    buttons = [
        {
            "label": unit,
            "method": "update",
            "args": [
                {"x": [choice[unit] for choice in choices]},
                {f"{axes[-1]}.title.text": X_TITLES[unit]}
                | {f"{axis}.autorange": True for axis in axes}
                | ({f"{axis}.autorangeoptions.clipmax": limits[unit] for axis in axes} if any(limits.values()) else {}),
            ],
        }
        for unit in get_args(X)
    ]
    menu = {
        "type": "buttons", "direction": "right", "active": get_args(X).index(x), "x": 0, "xanchor": "left", "y": 1,
        "yanchor": "bottom", "pad": {"b": 8, "t": 0, "l": 0, "r": 0}, "bgcolor": theme.button,
        "bordercolor": theme.muted, "font": {"color": theme.button_text}, "buttons": buttons,
    }  # fmt: skip
    return {"updatemenus": [menu]}


def without_buttons(figure: go.Figure) -> go.Figure:
    """Remove the buttons and their room, for a page that switches the x axis of all its charts itself."""
    if figure.layout.updatemenus:
        figure.layout.updatemenus = ()
        figure.layout.margin.t -= BUTTONS
    return figure


#: Scale of text, lines and markers on a projector, relative to a desktop screen.
FACTOR: Final = 1.4


def enlarged(figure: go.Figure) -> go.Figure:
    """Return the figure for a projector: text, lines, markers and the margins around them `FACTOR` times as large."""
    # part by part, because plotly converts numbers of a whole figure to text;
    # the template is shared by figures, and sets the size of all text without its own size
    layout = _scaled(figure.layout.to_plotly_json())
    data = [_scaled(each.to_plotly_json()) for each in figure.data]
    return go.Figure(data, layout, figure.frames)


#: Distances in pixels between axes and the texts next to them.
_GAPS: Final = {"xpad", "ypad", "xshift", "yshift"}
_SIZES: Final = {"size", "width", "thickness", "ticklen", "standoff", "t", "l", "r", "b"}
_PLACES: Final = {"font", "tickfont", "titlefont", "line", "marker", "colorbar", "margin", "pad", "title", "hoverlabel"}
_PIXELS: Final = re.compile(r"font-size:([\d.]+)px")


def _scaled(value: Any, place: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _scaled_entry(key, each, place) for key, each in value.items()}
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        return [_scaled(each, place) for each in value]
    return value


def _scaled_entry(key: str, value: Any, place: str) -> Any:
    is_size = key in {"height", *_GAPS} or (key in _SIZES and place in _PLACES)
    if is_size and isinstance(value, int | float):
        return value * FACTOR
    if key == "text" and isinstance(value, str):
        return _PIXELS.sub(lambda found: f"font-size:{float(found[1]) * FACTOR:.0f}px", value)
    return _scaled(value, key if isinstance(value, dict) else place)
