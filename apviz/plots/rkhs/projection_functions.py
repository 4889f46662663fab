"""Projection as functions: the arrows of `projection_step`, each drawn as the function that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import blocks_label, superscript, system_label
from apviz.plots._style import ThemeName, theme_named
from apviz.plots.rkhs.projection_step import Picture, step_colors

if TYPE_CHECKING:
    from apviz.rkhs import StepGeometry

PLACES = 200
HEIGHT = 400


def projection_functions(
    geometry: StepGeometry,
    *,
    picture: Picture = "residual",
    ends: tuple[float, float] | None = None,
    theme: ThemeName = "light",
) -> go.Figure:
    """Functions before the step, projected, and left over, which is zero at the points of the block.

    A function of H has at each point the spike that its part of σ²δ adds: curves are without it, dots with it.

    Args:
        picture: `residual` draws r⁽ʲ⁻¹⁾ and r⁽ʲ⁾, `solution` g and s⁽ʲ⁾, the same step seen from the other side.
        ends: of the x axis, so that it stands still where points move; without them, a little beyond the points.

    Raises:
        ValueError: a trajectory over several inputs; an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import projection_functions
        >>> span = rkhs.Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.4), noise=0.1)
        >>> found = rkhs.trajectory_on(span, [1.0, -0.5, 0.7], [(0, 1), (2,)], steps=4)
        >>> geometry = rkhs.step_geometry(found, 2)
        >>> figure = projection_functions(geometry)
        >>> [curve.name for curve in figure.data if curve.mode == "lines"]
        ['r⁽¹⁾', 'its projection', 'r⁽²⁾, what is left']
    """
    colors = theme_named(theme)
    trajectory, j = geometry.trajectory, geometry.number
    span = trajectory.span
    if span.x.shape[1] != 1:
        raise ValueError(f"projection_functions draws functions of one input, this trajectory has {span.x.shape[1]}")
    lit_color, projected, left = step_colors(theme)
    x = span.x[:, 0]
    margin = 0.12 * (float(np.ptp(x)) or 1.0)
    low_end, high_end = ends or (x.min() - margin, x.max() + margin)
    grid = np.linspace(low_end, high_end, PLACES)
    now, earlier = trajectory.steps[j].weights, trajectory.steps[max(j - 1, 0)].weights
    before, after = superscript(max(j - 1, 0)), superscript(j)
    if picture == "residual":
        curves = [
            (trajectory.goal - earlier, f"r{before}" + (" = g" if j <= 1 else ""), colors.ink),
            (now - earlier, "its projection", projected),
            (trajectory.goal - now, f"r{after}, what is left", left),
        ]
    else:
        curves = [
            (trajectory.goal, "g", colors.ink),
            (now, f"s{after}", projected),
            (trajectory.goal - now, f"r{after} = g − s{after}", left),
        ]
    figure = go.Figure()
    for weights, name, color in curves:
        figure.add_scatter(
            x=grid, y=span.values(weights, grid), mode="lines", name=name, line={"color": color, "width": 3},
            hovertemplate="x = %{x:.3g}: %{y:.4g}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
        figure.add_scatter(
            x=x, y=span.gram @ weights, mode="markers", showlegend=False, marker={"color": color, "size": 9},
            name=name, hovertemplate="at the point x = %{x:.3g}: %{y:.4g}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    lit = x[list(geometry.block)]
    figure.add_scatter(
        x=lit, y=np.zeros(len(lit)), mode="markers", name="its block: 0 is left",
        marker={"color": lit_color, "size": 17, "symbol": "circle-open", "line": {"width": 3, "color": lit_color}},
        hovertemplate="x = %{x:.3g} is in the block<extra></extra>",
    )  # fmt: skip
    every = np.concatenate([trajectory.goal[None] - [step.weights for step in trajectory.steps], [trajectory.goal]])
    heights = np.concatenate([(every @ span.gram).ravel(), span.values(trajectory.goal, grid), [0.0]])
    low, high = float(heights.min()), float(heights.max())
    edge = 0.12 * ((high - low) or 1.0)
    figure.update_layout(
        height=HEIGHT,
        xaxis={"title": {"text": "x"}, "range": [grid[0], grid[-1]]},
        yaxis={
            "title": {"text": "function value"}, "range": [low - edge, high + edge], "zeroline": True,
            "zerolinecolor": colors.muted,
        },
    )  # fmt: skip
    title = "The same step as functions" if j else "The data as a function: g"
    chosen = f"step {j}: block {blocks_label([geometry.block])}" if j else "step 0: nothing projected yet"
    notes = [system_label(span), chosen, "dots: with σ²δ, which is part of k; curves: without"]
    return finish(figure, [], colors, title, "projection_functions", notes)
