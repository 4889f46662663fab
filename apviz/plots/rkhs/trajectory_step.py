"""A step of a trajectory as functions: what is built so far, what it lacks at the points, which block was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.plots._axes import finish
from apviz.plots._labels import system_label
from apviz.plots._style import ThemeName, rule_color, theme_named

if TYPE_CHECKING:
    from apviz.rkhs import Trajectory

#: places of a curve
PLACES = 300
HEIGHT = 600


def trajectory_step(trajectory: Trajectory, number: int, *, theme: ThemeName = "light") -> go.Figure:
    """Function s⁽ʲ⁾ above, with data and goal g; below, the residual b − Kw at the points, the chosen block lit.

    Every step of a trajectory has the same traces, axes and ranges, so that a player changes numbers only.

    Args:
        trajectory: over one input.
        number: of the step, from 0: before the first update.

    Raises:
        ValueError: a trajectory over several inputs; a step that it does not have; an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import trajectory_step
        >>> x, b = rkhs.toy_problem("even", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
        >>> figure = trajectory_step(rkhs.trajectory(span, b, blocks=4, steps=5), 2)
        >>> figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text
        ('function value', 'residual')
    """
    colors = theme_named(theme)
    if trajectory.span.x.shape[1] != 1:
        raise ValueError(
            f"trajectory_step draws functions of one input, this trajectory has {trajectory.span.x.shape[1]}"
        )
    if not 0 <= number < len(trajectory.steps):
        last = len(trajectory.steps) - 1
        raise ValueError(f"number must be from 0 to {last}, the steps of this trajectory, got {number}")
    step, x = trajectory.steps[number], trajectory.span.x[:, 0]
    grid = _grid(x)
    lit = np.zeros(trajectory.span.n, dtype=bool)
    if step.block >= 0:
        lit[list(trajectory.blocks[step.block])] = True
    ours, accent = rule_color("gauss-southwell", theme), rule_color("cyclic", theme)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.6, 0.4])
    goal = trajectory.span.values(trajectory.goal, grid)
    figure.add_scatter(
        x=grid, y=goal, mode="lines", name="goal: the posterior mean", line={"color": colors.muted, "width": 2}, row=1,
        col=1,
    )  # fmt: skip
    figure.add_scatter(
        x=grid, y=trajectory.span.values(step.weights, grid), mode="lines", name="s⁽ʲ⁾ so far",
        line={"color": ours, "width": 3}, row=1, col=1,
    )  # fmt: skip
    marks = {"color": np.where(lit, accent, colors.ink).tolist(), "size": np.where(lit, 12, 8).tolist()}
    figure.add_scatter(
        x=x, y=trajectory.b, mode="markers", name="data b", marker=marks, row=1, col=1,
        hovertemplate="x = %{x:.3g}: b = %{y:.4g}<extra></extra>",
    )  # fmt: skip
    stems_x, stems_y = _stems(x, step.residual)
    figure.add_scatter(
        x=stems_x, y=stems_y, mode="lines", showlegend=False, hoverinfo="skip",
        line={"color": colors.muted, "width": 1.5}, row=2, col=1,
    )  # fmt: skip
    figure.add_scatter(
        x=x, y=step.residual, mode="markers", name="residual b − Kw; zero on the lit block", marker=marks,
        row=2, col=1, hovertemplate="x = %{x:.3g}: residual %{y:.4g}<extra></extra>",
    )  # fmt: skip
    heights = np.concatenate([goal, trajectory.b])
    largest = max(float(np.abs(each.residual).max()) for each in trajectory.steps)
    figure.update_yaxes(range=_wider(heights.min(), heights.max()), title_text="function value", row=1, col=1)
    figure.update_yaxes(range=_wider(-largest, largest), title_text="residual", zeroline=True, row=2, col=1)
    figure.update_xaxes(title_text="x", row=2, col=1)
    figure.update_xaxes(range=[grid[0], grid[-1]])
    figure.update_layout(height=HEIGHT)
    chosen = "before the first update" if number == 0 else f"block {step.block} of 0 to {len(trajectory.blocks) - 1}"
    error = trajectory.span.norm(step.weights - trajectory.goal)
    state = f"step {number}: {chosen} · ‖r‖_H = {error:.4g} · Euclidean ‖r‖ = {np.linalg.norm(step.residual):.4g}"
    notes = [trajectory.method.label, system_label(trajectory.span), state]
    return finish(figure, [], colors, "One update after another", "trajectory_step", notes)


def _grid(x: np.ndarray) -> np.ndarray:
    margin = 0.05 * float(np.ptp(x))
    return np.linspace(x.min() - margin, x.max() + margin, PLACES)


def _wider(low: float, high: float) -> list[float]:
    margin = 0.15 * (high - low)
    return [low - margin, high + margin]


def _stems(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lines from zero to the values, with gaps between them."""
    gaps = np.full(len(x), np.nan)
    return np.column_stack([x, x, gaps]).ravel(), np.column_stack([np.zeros(len(x)), y, gaps]).ravel()
