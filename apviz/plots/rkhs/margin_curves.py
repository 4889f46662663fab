"""Residual of a photograph over work, with margins of several widths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._curves import thinned
from apviz.plots._labels import escaped, outcome
from apviz.plots._style import CAPTION_SIZE, ThemeName, sequential_colors, theme_named

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

#: points of a curve; a widget sends all of them at every change
_POINTS: Final = 600


def margin_curves(traces: Mapping[float, Trace], shown: float, update: int, *, theme: ThemeName = "light") -> go.Figure:
    """Residual ‖r‖/‖b‖ after every update of solves that differ in the overlap alone, one curve each.

    Args:
        traces: by overlap.
        shown: the overlap that is looked at, drawn thick, with a mark at `update`.

    Raises:
        ValueError: an unknown theme.

    Examples:
        >>> import torch, apviz
        >>> from apviz.plots.rkhs import margin_curves
        >>> x = torch.cartesian_prod(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 12))
        >>> system = apviz.KernelSystem(x, torch.sin(4 * x.sum(1)), apviz.Matern52(lengthscale=0.3), noise=0.05)
        >>> recorder, margins = apviz.Recorder(), (0.0, 0.5)
        >>> for margin in margins:
        ...     solver = apviz.AlternatingProjection(block_size=16, overlap=margin)
        ...     solution = apviz.solve(system, solver, hooks=[recorder])
        >>> figure = margin_curves(dict(zip(margins, recorder.traces)), shown=0.5, update=2)
        >>> [curve.name.partition(":")[0] for curve in figure.data if curve.showlegend is None]
        ['no margin', 'margin 50%']
    """
    colors = theme_named(theme)
    chosen = traces[shown]
    palette = dict(zip(traces, sequential_colors(len(traces), theme), strict=True))
    data: list[dict[str, Any]] = []
    for overlap, trace in traces.items():
        name = "no margin" if overlap == 0 else f"margin {overlap:.0%}"
        x, y = _curve(trace)
        kept = thinned(np.log10(y), _POINTS)
        curve = {
            "type": "scatter", "mode": "lines", "x": x[kept], "y": y[kept], "name": f"{name}: {outcome(trace)}",
            "line": {"color": palette[overlap], "width": 4 if overlap == shown else 1.8},
            "hovertemplate": f"{name}, work %{{x:.3g}}: ‖r‖/‖b‖ = %{{y:.3g}}<extra></extra>",
        }  # fmt: skip
        data.append(curve)
    x, y = _curve(chosen)
    mark = {"color": palette[shown], "size": 14, "line": {"color": colors.ink, "width": 1.5}}
    here = {"x": x[[update]], "y": y[[update]], "marker": mark, "showlegend": False, "hoverinfo": "skip"}
    data.append({"type": "scatter", "mode": "markers"} | here)
    tol = float(chosen.attrs["tol"])
    line = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": tol, "y1": tol, "layer": "below",
        "line": {"color": colors.muted, "width": 1.5},
    }  # fmt: skip
    words = {
        "text": f"tolerance {tol:g}", "xref": "paper", "x": 0.99, "xanchor": "right", "y": np.log10(tol),
        "yanchor": "top", "showarrow": False, "font": {"size": CAPTION_SIZE, "color": colors.muted},
    }  # fmt: skip
    longest = max(float(trace.attrs["work"]) for trace in traces.values())
    layout = {
        "xaxis": {"title": {"text": "work (kernel entries ÷ n²)"}, "range": [0, 1.03 * longest]},
        "yaxis": {"type": "log", "title": {"text": "residual ‖r‖/‖b‖"}, "exponentformat": "power", "dtick": 1},
        "shapes": [line],
        "annotations": [words],
        "height": 460,
    }
    figure = go.Figure({"data": data, "layout": layout})
    return finish(figure, [chosen], colors, "What a margin saves", "margin_curves", [escaped(chosen.label)])


def _curve(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Work and residual after every update, and before the first."""
    start, update = trace["epoch"].isel(epoch=0), trace["update"]
    work = np.concatenate([[float(start["work"])], update["work"].values])
    residual = np.concatenate([[float(start["residual"])], update["residual"].values[:, 0]])
    return work, residual
