"""Residuals for different block sizes, against epochs and against seconds."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from apviz.plots._axes import as_traces, require_all
from apviz.plots._curves import RESIDUAL, Curves, Grid
from apviz.plots._labels import legend_entry, run_names, shared_method
from apviz.plots._style import ThemeName, theme_named
from apviz.plots.sweeps._curves import looks_over_sizes
from apviz.tracing.trace import Trace

_PANELS = (("epochs", "epochs"), ("seconds", "time (s)"))


def batch_sizes(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw the residual of alternating projection for several block sizes b (paper, Figure 3).

    The left panel is against epochs, the right one against seconds, on one log axis. For runs of one method, colours
    follow the order of b, from the smallest to the largest, and all lines are solid. For runs of several methods, the
    colour is the method and the dash the block size, as in other figures.

    Raises:
        ValueError: No trace; a trace without a block size; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> for size in (50, 20):
        ...     _ = apviz.solve(system, apviz.AlternatingProjection(block_size=size), hooks=[recorder])
        >>> figure = apviz.plots.batch_sizes(recorder.traces)
        >>> [curve.name for curve in figure.data if curve.showlegend]
        ['b = 20 — Converged', 'b = 50 — Converged']
    """
    several, colors = as_traces(traces), theme_named(theme)
    require_block_sizes(several, "batch_sizes")
    several.sort(key=lambda trace: trace.block_size or 0)
    sizes = [trace.block_size or 0 for trace in several]
    curves = Curves(Grid(1, 2, shared_yaxes=True, horizontal_spacing=0.04), colors, "epochs")
    alone = len(set(sizes)) == len(several) and (len(several) == 1 or bool(shared_method(several)))
    names = [f"b = {size:,}" for size in sizes] if alone else run_names(several)
    for trace, name, look in zip(several, names, looks_over_sizes(several, theme), strict=True):
        for column, (unit, _) in enumerate(_PANELS, start=1):
            curves.add_run(
                trace, trace["epoch"]["residual"].values, "residual", look, legend_entry(name, trace), column=column,
                x=unit, showlegend=column == 1,
            )  # fmt: skip
    for column, (_, title) in enumerate(_PANELS, start=1):
        curves.grid.axis("x", 1, column).update(title={"text": title}, rangemode="tozero", nticks=6)
    curves.log_axis(RESIDUAL, tolerances_of=several)
    title = "Block sizes by epochs (left), time (right)"
    return curves.finish(several, title, "batch_sizes")


def require_block_sizes(traces: Sequence[Trace], figure: str) -> None:
    """Check that all traces of a figure over b have a block size."""
    require_all(
        traces, lambda trace: trace.block_size is not None,
        f"{figure} draws runs of AlternatingProjection, which have a block_size; {{}} has none. Leave it out, or draw "
        "it with apviz.plots.residuals",
    )  # fmt: skip
