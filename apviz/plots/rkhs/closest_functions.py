"""Functions of two blocks of points: their kernel functions, and the two of their spans that are most alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import system_label
from apviz.plots._style import ThemeName, rule_color, theme_named, translucent

if TYPE_CHECKING:
    from apviz.rkhs import Span, TwoBlocks
    from apviz.rkhs.span import Floats

PLACES = 300
HEIGHT = 400


def block_colors(theme: ThemeName) -> tuple[str, str, str]:
    """Colours of the first block, of the second, and of what both hold."""
    return rule_color("gauss-southwell", theme), rule_color("cyclic", theme), rule_color("random", theme)


def closest_functions(
    span: Span, blocks: TwoBlocks, pair: tuple[Floats, Floats], angle: float, *, theme: ThemeName = "light"
) -> go.Figure:
    """Points by block, k(xᵢ, ·) of each, faint, and the pair of unit functions that meet at the Friedrichs angle.

    Args:
        pair: (n,) weights of both.
        angle: between them, radians.

    Raises:
        ValueError: an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import closest_functions
        >>> blocks = rkhs.two_blocks(5, 0.1)
        >>> span = rkhs.Span(blocks.x, apviz.Matern52(lengthscale=0.3), noise=0.05)
        >>> pair = rkhs.principal_pair(span, blocks.first, blocks.second)
        >>> figure = closest_functions(span, blocks, pair, span.angle(*pair))
        >>> [curve.name for curve in figure.data if curve.showlegend is None]
        ['u, of the first', 'v, of the second']
    """
    colors = theme_named(theme)
    first, second, both = block_colors(theme)
    x = span.x[:, 0]
    reach = 0.15 * float(np.ptp(x))
    grid = np.linspace(x.min() - reach, x.max() + reach, PLACES)
    parts = (
        ("first only", sorted(set(blocks.first) - set(blocks.shared)), first, "circle"),
        ("second only", sorted(set(blocks.second) - set(blocks.shared)), second, "square"),
        ("in both", list(blocks.shared), both, "diamond"),
    )
    figure = go.Figure()
    for name, points, color, _ in parts:
        curves = span.values(np.eye(span.n)[:, points], grid) if points else np.zeros((0, 0))
        gaps = np.full((1, len(points)), np.nan)
        figure.add_scatter(
            x=np.tile(np.append(grid, np.nan), len(points)), y=np.vstack([curves, gaps]).T.ravel() if points else [],
            mode="lines", line={"color": translucent(color, 0.35), "width": 1}, name=f"k(x, ·), {name}",
            showlegend=False, hoverinfo="skip",
        )  # fmt: skip
    heights = [np.array(span.gram.max() - span.noise)]
    for weights, name, color in zip(pair, ("u, of the first", "v, of the second"), (first, second), strict=True):
        curve, dots = span.values(weights, grid), span.gram @ weights
        heights += [curve, dots]
        figure.add_scatter(
            x=grid, y=curve, mode="lines", name=name, line={"color": color, "width": 3},
            hovertemplate="x = %{x:.3g}: %{y:.4g}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    every = np.concatenate([np.ravel(each) for each in heights])
    low, high = min(float(every.min()), 0.0), float(every.max())
    floor = low - 0.12 * (high - low)
    for name, points, color, symbol in parts:
        figure.add_scatter(
            x=x[points], y=np.full(len(points), floor), mode="markers", name=f"{name}: {len(points)}",
            marker={"color": color, "symbol": symbol, "size": 11}, showlegend=bool(points),
            hovertemplate="x = %{x:.3g}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    figure.update_layout(
        height=HEIGHT,
        xaxis={"title": {"text": "x"}, "range": [grid[0], grid[-1]]},
        yaxis={
            "title": {"text": "function value"}, "range": [floor - 0.1 * (high - low), high + 0.08 * (high - low)],
        },
    )  # fmt: skip
    shared = len(blocks.shared)
    notes = [
        system_label(span),
        f"{len(blocks.first)} and {len(blocks.second)} points, {shared} in both · thin: their k(xᵢ, ·)",
        f"u, v meet at {np.degrees(angle):.1f}° (with σ²δ, which is not drawn)",
    ]
    return finish(figure, [], colors, "Where the two spans are closest", "closest_functions", notes)
