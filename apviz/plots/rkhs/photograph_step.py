"""Photograph during a solve: the residual with the block of the update, and next to it the posterior mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import escaped, outcome
from apviz.plots._snapshots import step
from apviz.plots._style import CAPTION_SIZE, Theme, ThemeName, theme_named
from apviz.plots.residual_map import ResidualMap

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

#: where the left panel ends and the right one begins
_LEFT, _RIGHT = 0.49, 0.51


def photograph_step(trace: Trace, update: int, *, theme: ThemeName = "light") -> go.Figure:
    """Residual of `apviz.plots.residual_map` left, the block outlined and its margin shaded; posterior mean right.

    Every update of every solve has the same traces: pixels, margin, block, colour bar, mean. For pages that know how
    wide it is, the layout's `meta` says how high both pictures are: a part of the width of the axes.

    Args:
        trace: with rows, and snapshots with weights.

    Raises:
        ValueError: an update or weights that were not recorded; rows with a noise each; an unknown theme.

    Examples:
        >>> import torch, apviz
        >>> from apviz.plots.rkhs import photograph_step
        >>> x = torch.cartesian_prod(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 12))
        >>> system = apviz.KernelSystem(x, torch.sin(4 * x.sum(1)), apviz.Matern52(lengthscale=0.3), noise=0.05)
        >>> recorder = apviz.Recorder(rows=True, snapshots=range(4), weights=True)
        >>> solution = apviz.solve(system, apviz.AlternatingProjection(block_size=16), hooks=[recorder])
        >>> figure = photograph_step(recorder.trace, update=2)
        >>> [panel.text for panel in figure.layout.annotations]
        ['residual r', 'posterior mean so far']
    """
    colors = theme_named(theme)
    figure = ResidualMap(trace, theme=theme).figure(update)
    pixels, marks = figure.data[0], figure.data[1:3]
    for mark in marks:
        _spell_out(mark)
    b = trace["rows"]["target"].values
    mean = _posterior_mean(trace, update)
    figure.add_heatmap(
        x=pixels.x, y=pixels.y, z=np.round(mean, 3), zmin=float(b.min()),
        zmax=float(b.max()), colorscale="Greys_r", showscale=False, xaxis="x2", yaxis="y2", hoverongaps=False,
        hovertemplate="row %{y:d}, column %{x:d}<br>grey %{z:.3g}, standardised<extra></extra>",
    )  # fmt: skip
    key = "outline: block · shade: margin" if marks[1].mode == "lines" else "dots: block · faint dots: margin"
    notes = [f"{escaped(trace.label)} — {outcome(trace)}", key, step(trace, update)[1]]
    finish(figure, [trace], colors, "What each block takes away", "photograph_step", notes)
    shared: dict[str, Any] = {"showgrid": False, "showticklabels": False, "ticks": "", "showline": False}
    figure.update_layout(
        xaxis={"domain": [0, _LEFT]},
        xaxis2={**shared, "domain": [_RIGHT, 1], "anchor": "y2", "range": figure.layout.xaxis.range}
        | {"constrain": "domain"},
        yaxis2={**shared, "anchor": "x2", "range": figure.layout.yaxis.range, "scaleanchor": "x2"}
        | {"constrain": "domain", "constraintoward": "top"},
        # labels that lie side by side on a phone too
        coloraxis={"colorbar": {"len": _LEFT, "tickangle": 0, "tickfont": {"size": CAPTION_SIZE - 2}}},
        margin={"l": 16, "r": 16, "b": 16},
        height=500,
        meta={"heightOverWidth": _shape(figure) * _LEFT},
    )
    # in place of what is there, which an update would merge with
    figure.layout.annotations = [_name("residual r", 0, colors), _name("posterior mean so far", _RIGHT, colors)]
    return figure


def _posterior_mean(trace: Trace, update: int) -> np.ndarray:
    """Compute Kw − σ²w = b − r − σ²w at the rows after an update, (n,)."""
    snapshots, noise = trace["snapshot"], float(trace.attrs["noise"])
    if "weights" not in snapshots or trace.attrs.get("largest_noise", noise) != noise:
        raise ValueError(
            "photograph_step needs one noise for all rows, and apviz.Recorder(rows=True, snapshots=..., weights=True)"
        )
    state = snapshots.sel(update=update)
    found: np.ndarray = trace["rows"]["target"].values - state["residual"].values - noise * state["weights"].values
    return found


def _shape(figure: go.Figure) -> float:
    """Height over width of a picture."""
    (left, right), (bottom, top) = figure.layout.xaxis.range, figure.layout.yaxis.range
    return float(abs(top - bottom) / abs(right - left))


def _name(text: str, x: float, colors: Theme) -> dict[str, Any]:
    """The name of a panel, above it."""
    return {
        "text": text, "showarrow": False, "x": x, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper",
        "yanchor": "bottom", "yshift": 6, "font": {"size": CAPTION_SIZE, "color": colors.ink},
    }  # fmt: skip


def _spell_out(mark: go.Scatter) -> None:
    """Says what is left to plotly's defaults, so that a figure changed in place keeps nothing of another kind."""
    lines = mark.mode == "lines"
    mark.update(
        fill=mark.fill or "none",
        line={"width": mark.line.width if lines and mark.line.width is not None else 0, "color": mark.line.color},
        marker={"size": 0 if lines else mark.marker.size, "opacity": 1.0 if lines else mark.marker.opacity},
    )
