"""Two norms of one residual: in the kernel's Hilbert space it never rises, in the Euclidean sense it may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from apviz.method import PLAIN_CG
from apviz.plots._axes import finish, log_ticks
from apviz.plots._labels import blocks_label, system_label
from apviz.plots._style import ThemeName, method_color, rule_color, theme_named
from apviz.rkhs import Trajectory
from apviz.settings import require_kind, require_whole

HEIGHT = 400
#: Smallest value drawn; smaller ones are rounding.
FLOOR = 1e-12


def two_norms(trajectory: Trajectory, number: int = 0, *, theme: ThemeName = "light") -> go.Figure:
    """Draw ‖r‖_H = ‖W−W*‖_K and Euclidean ‖r‖ after every step, relative to their start; step `number` is marked.

    Raises:
        TypeError: Not a trajectory.
        ValueError: A step that is not part of the trajectory; an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots import two_norms
        >>> x, b = rkhs.toy_problem("even", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
        >>> figure = two_norms(rkhs.trajectory(span, b, blocks=4, steps=5), 2)
        >>> in_h, euclidean = figure.data[:2]
        >>> bool((in_h.y[1:] <= in_h.y[:-1]).all())
        True
    """
    colors = theme_named(theme)
    require_kind("trajectory", trajectory, Trajectory, "what apviz.rkhs.trajectory returns")
    require_whole("number", number, 0)
    if not 0 <= number < len(trajectory.steps):
        last = len(trajectory.steps) - 1
        raise ValueError(f"number must be from 0 to {last}, the steps of this trajectory, got {number}")
    figure = go.Figure()
    ours, euclidean = rule_color("gauss-southwell", theme), method_color(PLAIN_CG, theme)
    steps = np.arange(len(trajectory.steps))
    # a list of sizes would make the markers translucent, with an outline
    plain, drawn = {"opacity": 1.0, "line": {"width": 0}}, []
    for norms, name, color, symbol in (
        (trajectory.errors(), "‖r‖<sub>H</sub> = ‖W−W*‖<sub>K</sub>", ours, "circle"),
        (trajectory.residual_norms(), "Euclidean ‖r‖", euclidean, "diamond"),
    ):
        relative = norms / (norms[0] or 1.0)
        shown = np.where(relative > FLOOR, relative, np.nan)
        drawn.append(shown)
        figure.add_scatter(
            x=steps, y=shown, mode="lines+markers", name=name, line={"color": color, "width": 2.5},
            marker={"color": color, "symbol": symbol, "size": np.where(steps == number, 15, 6).tolist(), **plain},
            customdata=norms,
            hovertemplate="step %{x}: %{customdata:.4g}, %{y:.4g} of its start<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    in_h, up = (np.flatnonzero(np.diff(each) > 1e-9 * each[:-1]) + 1 for each in drawn)
    figure.add_scatter(
        x=up, y=drawn[1][up], mode="markers", name="a rise", hoverinfo="skip",
        marker={"color": euclidean, "symbol": "triangle-up-open", "size": 17, "line": {"width": 2.5}},
    )  # fmt: skip
    xaxis = {"title": {"text": "step j"}, "range": [-0.5, max(len(steps) - 0.5, 1.5)], "tickformat": ",d"}
    figure.update_layout(height=HEIGHT, xaxis=xaxis, yaxis=_log_axis(drawn))
    notes = [
        system_label(trajectory.span),
        f"{trajectory.method.name} · blocks {blocks_label(trajectory.blocks)}",
        f"in {len(steps) - 1} steps ‖r‖_H rose {_times(len(in_h))}, Euclidean ‖r‖ {_times(len(up))}",
    ]
    return finish(figure, [], colors, "‖r‖_H never rises, Euclidean ‖r‖ may", "two_norms", notes)


def _log_axis(drawn: Sequence[np.ndarray]) -> dict[str, Any]:
    low = min(float(np.nanmin(each, initial=1.0)) for each in drawn)
    high = max(float(np.nanmax(each, initial=1.0)) for each in drawn)
    decades = [np.log10(low), np.log10(high)]
    margin = 0.08 * max(decades[1] - decades[0], 0.5)
    return {
        "title": {"text": "relative to the start"}, "type": "log", **log_ticks([low, high], most=6),
        "range": [decades[0] - margin, decades[1] + margin],
    }  # fmt: skip


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
