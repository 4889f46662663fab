"""Bound of Theorem 1 beside the measured error, for several partitions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import system_label
from apviz.plots._style import BOUND_DASH, ThemeName, partition_color, theme_named

if TYPE_CHECKING:
    from apviz.rkhs import BoundComparison

HEIGHT = 560
#: below it a solve in float64 shows rounding
LOWEST = 1e-12


def bound_and_error(solves: Mapping[str, BoundComparison], share: float, *, theme: ThemeName = "light") -> go.Figure:
    """Error ‖W−W*‖²_K of gauss-southwell against epochs, with exp(−t/κ′) dotted, both as a share of the start.

    Args:
        solves: by partition, of one system and one block size.
        share: of the start, drawn as a thin line; the caption says after how many epochs each is there.

    Raises:
        ValueError: nothing to draw; an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import bound_and_error
        >>> x, b = rkhs.toy_problem("even", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
        >>> partitions = ("sequential", "shuffled")
        >>> solves = {
        ...     name: rkhs.compare_with_bound(span, b, block_size=6, partition=name, epochs=4) for name in partitions
        ... }
        >>> figure = bound_and_error(solves, share=0.01)
        >>> [curve.name for curve in figure.data if curve.line.dash]
        ['Theorem 1, sequential', 'Theorem 1, shuffled']
    """
    colors = theme_named(theme)
    if not solves:
        raise ValueError("no solve to draw; pass at least one, such as {'kd-tree': apviz.rkhs.compare_with_bound(...)}")
    figure = go.Figure()
    for name, solve in solves.items():
        color = partition_color(name, theme)
        figure.add_scatter(
            x=solve.epochs, y=solve.errors, mode="lines", name=f"measured, {name}", legendgroup=name,
            line={"color": color, "width": 3},
            hovertemplate=f"{name}, %{{x:.3g}} epochs: %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    for name, solve in solves.items():
        figure.add_scatter(
            x=solve.epochs, y=solve.bound, mode="lines", name=f"Theorem 1, {name}", legendgroup=name,
            line={"color": partition_color(name, theme), "width": 2, "dash": BOUND_DASH},
            hovertemplate=f"Theorem 1, {name}, %{{x:.3g}} epochs: at most %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    last = max(float(solve.epochs[-1]) for solve in solves.values())
    lowest = max(LOWEST, min(float(solve.errors.min()) for solve in solves.values()))
    figure.update_xaxes(title_text="epochs t", range=[0, last])
    figure.update_yaxes(
        type="log", title_text="‖W−W*‖²<sub>K</sub>, share of the start", exponentformat="power",
        range=[math.log10(min(lowest, share)) - 0.2, 0.3], dtick=max(1, math.ceil(-math.log10(lowest) / 8)),
    )  # fmt: skip
    line = {"color": colors.muted, "width": 1.5}
    figure.update_layout(
        height=HEIGHT,
        shapes=[{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": share, "y1": share, "line": line}],
    )
    first = next(iter(solves.values()))
    system = f"b = {len(first.trajectory.blocks[0])} · {system_label(first.trajectory.span)}"
    notes = [system, f"epochs to {share:g}, the thin line:"]
    notes += [
        f"{name}: {_epochs(solve.epochs_to(share), last)} (Theorem 1: {solve.bound_epochs_to(share):,.0f}; "
        f"κ′ = {solve.spectrum.kappa_prime:,.3g})"
        for name, solve in solves.items()
    ]
    return finish(figure, [], colors, "Theorem 1 and the measured error", "bound_and_error", notes)


def _epochs(epochs: float, last: float) -> str:
    return f"{epochs:.3g}" if math.isfinite(epochs) else f"over {last:.3g}"
