"""Error after every sweep over two blocks, measured, beside what their angle promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish, log_ticks
from apviz.plots._labels import system_label
from apviz.plots._style import BOUND_DASH, ThemeName, rule_color, theme_named

if TYPE_CHECKING:
    from apviz.rkhs import Sweeps, Trajectory

HEIGHT = 400
#: a part of the start; what is below is rounding, and not drawn
FLOOR = 1e-9


def sweep_errors(trajectory: Trajectory, sweeps: Sweeps, *, theme: ThemeName = "light") -> go.Figure:
    """Error ‖r‖_H after every sweep, and the bound c²ᵏ⁻¹‖g‖_H, whose slope is the contraction by c² = cos²θ.

    Raises:
        ValueError: an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import sweep_errors
        >>> blocks = rkhs.two_blocks(5, 0.1)
        >>> span = rkhs.Span(blocks.x, apviz.Matern52(lengthscale=0.3), noise=0.05)
        >>> found = rkhs.trajectory_on(span, blocks.x**2, (blocks.first, blocks.second), rule="cyclic", steps=8)
        >>> figure = sweep_errors(found, rkhs.sweeps_of(found))
        >>> bound, measured = figure.data
        >>> bool((measured.y <= bound.y + 1e-9).all())
        True
    """
    colors = theme_named(theme)
    ours = rule_color("shuffled", theme)
    start = sweeps.errors[0] or 1.0
    numbers = np.arange(len(sweeps.errors))
    errors, bound = (np.where(each > FLOOR * start, each / start, np.nan) for each in (sweeps.errors, sweeps.bound))
    ratios = np.append(np.nan, errors[1:] / errors[:-1])
    figure = go.Figure()
    figure.add_scatter(
        x=numbers, y=bound, mode="lines", name="bound c²ᵏ⁻¹, c = cos θ",
        line={"color": colors.muted, "width": 2.5, "dash": BOUND_DASH},
        hovertemplate="sweep %{x}: at most %{y:.4g}<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=numbers, y=errors, mode="lines+markers", name="measured ‖r‖<sub>H</sub>", line={"color": ours, "width": 2.5},
        marker={"color": ours, "size": 7}, customdata=np.nan_to_num(ratios, nan=-1.0),
        hovertemplate="sweep %{x}: %{y:.4g}, %{customdata:.4g} of the one before<extra></extra>",
    )  # fmt: skip
    seen = np.concatenate([errors, bound])
    low = float(np.nanmin(seen, initial=1.0))
    shown = int(max(np.flatnonzero(np.isfinite(bound) | np.isfinite(errors)).max(initial=0), 3))
    span = max(-np.log10(low), 0.2)
    figure.update_layout(
        height=HEIGHT,
        xaxis={
            "title": {"text": "sweeps k of an update per block"}, "range": [-0.5, shown + 0.5], "tickformat": ",d",
        },
        yaxis={
            "title": {"text": "‖r‖<sub>H</sub> ÷ ‖g‖<sub>H</sub>"}, "type": "log", **log_ticks([low, 1.0], most=8),
            "range": [np.log10(low) - 0.08 * span, 0.08 * span],
        },
    )  # fmt: skip
    measured = "solved in the first sweep"
    if sweeps.measured_at:
        measured = f"measured {sweeps.measured:.4g} in sweep {sweeps.measured_at}"
    notes = [system_label(trajectory.span), f"a sweep leaves: predicted cos²θ = {sweeps.predicted:.4g},", measured]
    return finish(figure, [], colors, "Error per sweep, and its bound", "sweep_errors", notes)
