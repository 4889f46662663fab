"""Residuals of runs against work, epochs or seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from apviz.plots._axes import X, as_traces
from apviz.plots._curves import RESIDUAL, Curves, Grid
from apviz.plots._labels import legend_entry, run_names
from apviz.plots._style import CHECK, ThemeName, method_color, method_symbols, theme_named

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace


def residuals(traces: Trace | Sequence[Trace], *, x: X = "work", theme: ThemeName = "light") -> go.Figure:
    """Mean relative residual of each run, and its tolerance (paper, Figure 1).

    One point per epoch, or per iteration of a Krylov method. Open diamonds are residuals recomputed from B − KW; a run
    that converged ends in a large filled marker, one that did not in a cross, an unfinished one in an open circle.
    Buttons switch x.

    Args:
        x: the unit of the x axis at first: `work`, `epochs` or `seconds`.

    Raises:
        ValueError: no trace; an unknown x or theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[recorder])
        >>> figure = apviz.plots.residuals(recorder.trace)
        >>> figure.layout.xaxis.title.text
        'work (kernel entries ÷ n²)'
    """
    several, colors = as_traces(traces), theme_named(theme)
    curves = Curves(Grid(), colors, x)
    symbols = method_symbols([trace.method for trace in several])
    checked = False
    for trace, name, symbol in zip(several, run_names(several), symbols, strict=True):
        color, entry = method_color(trace.method, theme), legend_entry(name, trace)
        # checks first, so that the end of a run, which is one, is on top and answers to the pointer
        checked |= curves.add_checks(trace, color, entry)
        curves.add_run(trace, trace["epoch"]["residual"].values, "residual", color, symbol, entry)
    if checked:
        curves.add_key(
            "recomputed from B − KW",
            mode="markers",
            marker={"symbol": CHECK, "color": colors.muted, "size": 12},
        )
    curves.log_axis(RESIDUAL, tolerances_of=several)
    curves.buttons()
    title = "Residual of each run, and tolerance"
    return curves.finish(several, title, f"residuals/{x}")
