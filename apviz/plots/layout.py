"""The frame of every figure: title, settings, legend below the chart, margins, zoom that survives updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import plotly.graph_objects as go

from apviz.plots.captions import TITLE_WIDTH, safe, statement, wrapped
from apviz.plots.style import CAPTION_SIZE, TITLE_SIZE, Theme, template

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

#: pixels of a title line, a caption line, a row of buttons
TITLE_LINE: Final = 24
CAPTION_LINE: Final = 18
BUTTONS: Final = 46


def as_traces(traces: Trace | Sequence[Trace]) -> list[Trace]:
    """One trace or several, as a list.

    Raises:
        ValueError: there is none.
    """
    several = list(traces) if isinstance(traces, (list, tuple)) or not hasattr(traces, "attrs") else [traces]
    if not several:
        raise ValueError(
            "no trace to draw; pass one or several, such as `recorder.trace` after "
            "`apviz.solve(system, solver, hooks=[recorder])`, or `apviz.open_trace(path)`"
        )
    return several


def finish(
    figure: go.Figure,
    traces: Sequence[Trace],
    theme: Theme,
    title: str,
    uirevision: str,
    notes: Sequence[str] = (),
) -> go.Figure:
    """Title, the settings of the traces, then `notes`, then the buttons if the figure has any."""
    heading = wrapped([title], TITLE_WIDTH)
    caption = wrapped(statement(traces)) + [line for note in notes for line in wrapped([note])]
    small = f'<span style="font-size:{CAPTION_SIZE}px;color:{theme.muted}">'
    text = "<br>".join([*heading, *(f"{small}{line}</span>" for line in caption)])
    top = 14 + TITLE_LINE * len(heading) + CAPTION_LINE * len(caption) + 14
    # plotly spaces every line of a title by the size of its first
    top += (TITLE_LINE - CAPTION_LINE) * len(caption)
    if figure.layout.updatemenus:
        top += BUTTONS
    figure.update_layout(
        template=template(theme),
        title={
            "text": text,
            "font": {"size": TITLE_SIZE},
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 14, "l": 16},
        },
        margin={"t": top, "l": 16, "r": 16, "b": 16, "autoexpand": True},
        legend={
            "orientation": "h",
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "groupclick": "togglegroup",
            "bgcolor": "rgba(0,0,0,0)",
        },
        hovermode="closest",
        uirevision=uirevision,
    )
    return figure


def tolerance_lines(figure: go.Figure, traces: Sequence[Trace], theme: Theme, row: int = 1, columns: int = 1) -> None:
    """A thin solid line at each tolerance, in every column of one row; the label stands where curves begin, far above."""
    for tol in sorted({trace.attrs["tol"] for trace in traces if trace.attrs.get("tol")}):
        for column in range(1, columns + 1):
            figure.add_shape(
                type="line",
                xref="x domain",
                x0=0,
                x1=1,
                y0=tol,
                y1=tol,
                line={"color": theme.muted, "width": 1.5},
                layer="below",
                row=row,
                col=column,
            )
        figure.add_annotation(
            xref="x domain",
            x=0.01,
            # on a log axis shapes take values, annotations their logarithm
            y=math.log10(tol),
            text=safe(f"tolerance {tol:g}"),
            showarrow=False,
            xanchor="left",
            yanchor="bottom",
            font={"size": CAPTION_SIZE, "color": theme.muted},
            row=row,
            col=1,
        )
