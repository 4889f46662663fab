"""The frame of every figure: title, settings, legend below the chart, margins, zoom that survives updates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import plotly.graph_objects as go

from apviz.plots.parts.captions import TITLE_WIDTH, seamed, statement
from apviz.plots.parts.style import CAPTION_SIZE, TITLE_SIZE, Theme, template

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
