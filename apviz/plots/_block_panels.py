"""Runs block by block: a panel a run, with the blocks upwards, and one colour scale of powers of ten for all panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.plots._axes import Floats, as_traces, horizontal_bar, positive
from apviz.plots._labels import legend_entry, run_names
from apviz.plots._style import TEXT_SIZE, ThemeName, sequential_colors

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

#: pixels of a panel, once there are more than two
_PANEL: Final = 260
#: pixels of the name of a panel, up to two lines between it and the bar
PANEL_NAME: Final = 48

#: powers of ten shown below the largest value; rounding noise further down would take all the colours
DECADES: Final = 8.0


def block_runs(traces: Trace | Sequence[Trace], figure: str) -> list[Trace]:
    """List of the traces, all of which have blocks.

    Raises:
        ValueError: no trace; a trace without blocks.
    """
    several = as_traces(traces)
    without = [trace.method_name for trace in several if "block" not in trace]
    if without:
        raise ValueError(
            f"{figure} draws runs of AlternatingProjection, block by block; "
            f"{', '.join(without)} has no blocks. Leave it out"
        )
    return several


def stacked(traces: Sequence[Trace]) -> go.Figure:
    """Panels one above the other, empty, one a run, headed by its name and how it ended."""
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
    """Axis y of a panel: whole block numbers."""
    few = trace["block"].sizes["block"] <= 8
    return {"title": {"text": "block"}, "tickformat": ",d", **({"dtick": 1} if few else {"nticks": 8})}


def logarithm(values: Any) -> Floats:
    """Logarithm to base 10 for the colour scale, NaN (left blank) where there is none."""
    return np.log10(positive(values))


def add_color_bar(
    figure: go.Figure,
    logarithms: list[Floats],
    title: str,
    theme: ThemeName,
    floor: float = -math.inf,
) -> None:
    """Adds a colour axis for `logarithms`, its bar above the chart, labelled by the values themselves.

    What lies below `floor`, or more than `DECADES` below the largest, takes the last colour, and the lowest
    label says so.
    """
    finite = np.concatenate([np.empty(0), *(each[np.isfinite(each)].ravel() for each in logarithms)])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (-1.0, 0.0)
    floor = max(floor, high - DECADES)
    clipped = low < floor < high
    if clipped:
        low = floor
    elif high == low:
        low, high = low - 0.5, high + 0.5
    step = max(1, math.ceil((high - low) / 6))
    places = [float(power) for power in range(math.ceil(low), math.floor(high) + 1, step)]
    if len(places) < 2:
        places = [low, high]
    labels = [f"10<sup>{p:.0f}</sup>" if p == round(p) else f"{10**p:.2g}" for p in places]
    if clipped:
        labels[0] = f"≤ {labels[0]}"
        low = places[0]
    axis = {
        "cmin": low,
        "cmax": high,
        "colorscale": sequential_colors(16, theme),
        "colorbar": horizontal_bar(title, places, labels, PANEL_NAME),
    }
    figure.update_layout(coloraxis=axis)
