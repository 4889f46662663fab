"""One panel per run, stacked, for the figures that show a run block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.plots.parts.captions import legend_entry, run_names
from apviz.plots.parts.layout import as_traces
from apviz.plots.parts.style import TEXT_SIZE

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

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
