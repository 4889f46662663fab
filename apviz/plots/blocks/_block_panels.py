"""Figures with one panel per run, block numbers on y, and one colour scale of powers of ten for all panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import Floats, as_traces, horizontal_bar, positive, require_all, stacked
from apviz.plots._labels import legend_entry, run_names
from apviz.plots._style import ThemeName, sequential_colors
from apviz.tracing.trace import Trace

#: Height in pixels of the name of a panel: up to two lines between the panel and the colour bar.
PANEL_NAME: Final = 48

#: Powers of ten shown below the largest value. Rounding noise further down would use up all the colours.
DECADES: Final = 8.0


def block_runs(traces: Trace | Sequence[Trace], figure: str, *, colours: bool = False) -> list[Trace]:
    """Return the traces as a list, and check that all have blocks, or colours of blocks if these will do."""
    several = as_traces(traces)
    require_all(
        several, lambda trace: "block" in trace or (colours and bool(trace.parts)),
        f"{figure} draws runs of AlternatingProjection, block by block; {{}} has no blocks. Leave it out",
    )  # fmt: skip
    return several


def panels(traces: Sequence[Trace]) -> go.Figure:
    """Return empty panels one above the other, one per run, each with the run's name and stop reason as its heading."""
    return stacked([legend_entry(name, trace) for name, trace in zip(run_names(traces), traces, strict=True)])


def block_axis(trace: Trace, group: str = "block") -> dict[str, Any]:
    """Return the y axis of a panel, with whole block numbers, or those of `group`."""
    few = trace[group].sizes[group] <= 8
    return {"title": {"text": group}, "tickformat": ",d", **({"dtick": 1} if few else {"nticks": 8})}


def logarithm(values: Any) -> Floats:
    """Return the logarithm to base 10 for the colour scale, NaN (left blank) for values that have none."""
    return np.log10(positive(values))


def add_color_bar(
    figure: go.Figure,
    logarithms: list[Floats],
    title: str,
    theme: ThemeName,
    floor: float = -math.inf,
) -> None:
    """Add a colour axis for `logarithms`, with its bar above the chart, labelled by the values themselves.

    Values below `floor`, or more than `DECADES` below the largest, take the last colour. Then the lowest label says
    "≤".
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
