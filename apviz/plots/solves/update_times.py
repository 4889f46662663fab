"""Time that one update takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import as_traces, finish, log_ticks, name_rows, recorded
from apviz.plots._labels import legend_entry, run_names
from apviz.plots._style import ThemeName, method_color, theme_named

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace


#: Distance of a box below its name, where names are 1 apart, and its height.
_BELOW, _HEIGHT = 0.46, 0.3


def update_times(traces: Trace | Sequence[Trace], *, theme: ThemeName = "light") -> go.Figure:
    """Draw seconds per update of each run, or per iteration of a Krylov method: median, quartiles, extremes.

    Runs with fewer than two updates are left out, and the figure says so.

    Raises:
        ValueError: No trace, or none with two updates; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[recorder])
        >>> figure = apviz.plots.update_times(recorder.trace)
        >>> [box.name for box in figure.data]
        ['Alternating projection (greedy, b = 25)<br>Converged']
    """
    given, colors = as_traces(traces), theme_named(theme)
    several, notes = recorded(
        given, lambda trace: "update" in trace and trace["update"].sizes["update"] > 1, "have fewer than two updates",
        "no trace has two updates, so there is no time between updates to draw",
    )  # fmt: skip
    figure = go.Figure()
    quantiles = np.array([time_quantiles(trace) for trace in several])
    names = run_names(several)
    for place, (trace, name) in enumerate(zip(several, names, strict=True)):
        low, q1, median, q3, high = quantiles[place].tolist()
        color, entry = method_color(trace.method, theme), legend_entry(name, trace)
        figure.add_box(
            y=[place + _BELOW], width=_HEIGHT, q1=[q1], median=[median], q3=[q3], lowerfence=[low], upperfence=[high],
            orientation="h", name=entry, legendgroup=entry, showlegend=False, line={"color": color, "width": 2},
            fillcolor="rgba(0,0,0,0)", hoverinfo="x+name",
        )  # fmt: skip
    figure.update_xaxes(title_text="time per update (s)", type="log", **log_ticks(quantiles))
    name_rows(figure, names, colors, [_BELOW])
    return finish(figure, several, colors, "Time of one update, or of one iteration of CG", "update_times", notes)


def time_quantiles(trace: Trace) -> np.ndarray:
    """Return seconds between updates, (5,): minimum, quartiles with the median between them, and maximum.

    The trace must have two updates or more.
    """
    seconds = np.diff(trace["update"]["seconds"].values)
    # a clock with coarse ticks gives zeros, which a log axis cannot show
    seconds = np.maximum(seconds, np.finfo(float).tiny if not seconds.any() else seconds[seconds > 0].min())
    quantiles: np.ndarray = np.quantile(seconds, [0, 0.25, 0.5, 0.75, 1])
    return quantiles
