"""Principal angles of two subspaces as a fan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import system_label
from apviz.plots._style import ThemeName, rule_color, theme_named, translucent

if TYPE_CHECKING:
    from apviz.rkhs import Span
    from apviz.rkhs.span import Floats

HEIGHT = 400


def angle_fan(span: Span, angles: Floats, shared: int, *, theme: ThemeName = "light") -> go.Figure:
    """Rays at the principal angles from the ray that stands for the first span; the Friedrichs angle is lit.

    Args:
        angles: radians, smallest first.
        shared: how many of them are zero because both spans hold the same functions.

    Raises:
        ValueError: an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import angle_fan
        >>> blocks = rkhs.two_blocks(5, 0.1)
        >>> span = rkhs.Span(blocks.x, apviz.Matern52(lengthscale=0.3), noise=0.05)
        >>> angles = rkhs.principal_angles(span, blocks.first, blocks.second)
        >>> figure = angle_fan(span, angles, shared=0)
        >>> [rays.name for rays in figure.data if rays.showlegend]
        ['other principal angles', 'the Friedrichs angle θ']
    """
    colors = theme_named(theme)
    lit, both = rule_color("shuffled", theme), rule_color("random", theme)
    friedrichs = float(angles[shared]) if shared < len(angles) else np.pi / 2
    figure = go.Figure()
    turn = np.linspace(0, np.pi / 2, 91)
    figure.add_scatter(
        x=np.concatenate([[0], np.cos(turn), [0]]), y=np.concatenate([[0], np.sin(turn), [0]]), mode="lines",
        line={"color": colors.muted, "width": 1}, hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip
    wedge = np.linspace(0, friedrichs, 46)
    figure.add_scatter(
        x=np.concatenate([[0], np.cos(wedge), [0]]), y=np.concatenate([[0], np.sin(wedge), [0]]), mode="lines",
        fill="toself", fillcolor=translucent(lit, 0.2), line={"color": lit, "width": 0}, hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip
    numbers = np.arange(len(angles))
    for name, chosen, color, width in (
        ("other principal angles", numbers > shared, colors.muted, 1.5),
        (f"0° for each of the {shared} shared points", numbers < shared, both, 5),
        ("the Friedrichs angle θ", numbers == shared, lit, 4),
    ):
        some = angles[chosen]
        gap = np.full(len(some), np.nan)
        figure.add_scatter(
            x=np.column_stack([np.zeros(len(some)), np.cos(some), gap]).ravel(),
            y=np.column_stack([np.zeros(len(some)), np.sin(some), gap]).ravel(),
            mode="lines+markers", name=name, line={"color": color, "width": width},
            marker={"color": color, "size": 7}, showlegend=bool(chosen.any()),
            customdata=np.column_stack([numbers[chosen] + 1, np.degrees(some), np.cos(some) ** 2]).repeat(3, axis=0),
            hovertemplate="angle %{customdata[0]}: %{customdata[1]:.2f}°, cos² %{customdata[2]:.4f}<extra></extra>",
        )  # fmt: skip
    ticks = np.arange(0, 91, 15)
    figure.add_scatter(
        x=1.09 * np.cos(np.radians(ticks)), y=1.07 * np.sin(np.radians(ticks)), mode="text",
        text=[f"{tick}°" for tick in ticks],
        textfont={"color": colors.muted, "size": 12}, hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    bare = {"visible": False, "constrain": "domain"}
    figure.update_layout(
        height=HEIGHT, xaxis={**bare, "range": [-0.06, 1.2]}, yaxis={**bare, "range": [-0.06, 1.16], "scaleanchor": "x"}
    )
    left = f"a sweep leaves cos²θ = {np.cos(friedrichs) ** 2:.4g}"
    notes = [system_label(span), f"θ = {np.degrees(friedrichs):.2f}° · {left}"]
    # as many lines with and without, so that nothing below moves
    notes.append(
        "shared points have angle 0 and do not count" if shared else "no points are shared: every angle counts"
    )
    return finish(figure, [], colors, "Principal angles of the two spans", "angle_fan", notes)
