"""Eigenvalues of K, and of the blocks of several partitions of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish, log_ticks
from apviz.plots._labels import system_label
from apviz.plots._style import BOUND_DASH, ThemeName, partition_color, theme_named, translucent

if TYPE_CHECKING:
    from apviz.rkhs import BoundComparison

HEIGHT = 500


def block_eigenvalues(solves: Mapping[str, BoundComparison], *, theme: ThemeName = "light") -> go.Figure:
    """Eigenvalues λ₁ ≥ λ₂ ≥ … of K and of every K[I, I] against their index, both logarithmic; from dense matrices.

    By Cauchy's interlacing no curve of a block crosses that of K. Each partition's λ′max is marked.

    Args:
        solves: by partition, of one system and one block size.

    Raises:
        ValueError: nothing to draw; an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import block_eigenvalues
        >>> x, b = rkhs.toy_problem("even", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
        >>> partitions = ("sequential", "shuffled")
        >>> solves = {
        ...     name: rkhs.compare_with_bound(span, b, block_size=6, partition=name, epochs=4) for name in partitions
        ... }
        >>> figure = block_eigenvalues(solves)
        >>> [curve.name for curve in figure.data if curve.showlegend is None]
        ['K', 'blocks, sequential', 'blocks, shuffled', 'σ² ≤ λmin']
    """
    colors = theme_named(theme)
    if not solves:
        raise ValueError("no solve to draw; pass at least one, such as {'kd-tree': apviz.rkhs.compare_with_bound(...)}")
    first = next(iter(solves.values()))
    span, values = first.trajectory.span, first.spectrum.eigenvalues
    figure = go.Figure()
    figure.add_scatter(
        x=np.arange(1, span.n + 1), y=values, mode="lines", name="K", line={"color": colors.muted, "width": 4},
        hovertemplate="eigenvalue %{x:d} of K: %{y:.4g}<extra></extra>",
    )  # fmt: skip
    for name, solve in solves.items():
        color = partition_color(name, theme)
        curves = [np.append(block, np.nan) for block in solve.spectrum.blocks]
        index = [np.append(np.arange(1.0, len(block) + 1), np.nan) for block in solve.spectrum.blocks]
        figure.add_scatter(
            x=np.concatenate(index), y=np.concatenate(curves), mode="lines", name=f"blocks, {name}",
            legendgroup=name, line={"color": translucent(color, 0.7), "width": 1.2},
            hovertemplate=f"eigenvalue %{{x:d}} of a block, {name}: %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    for name, solve in solves.items():
        figure.add_scatter(
            x=[1], y=[solve.spectrum.lambda_max_block], mode="markers", name=f"λ′max, {name}", legendgroup=name,
            showlegend=False, cliponaxis=False,
            marker={"color": partition_color(name, theme), "size": 13, "line": {"color": colors.paper, "width": 2}},
            hovertemplate=f"λ′max, {name}: %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=[1, span.n], y=[span.noise, span.noise], mode="lines", name="σ² ≤ λmin",
        line={"color": colors.ink, "width": 1.5, "dash": BOUND_DASH}, hovertemplate="σ² = %{y:.3g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(type="log", title_text="index, largest eigenvalue first", dtick=1, tickformat=",d")
    figure.update_yaxes(type="log", title_text="eigenvalue", **log_ticks([span.noise, *values]))
    figure.update_layout(height=HEIGHT)
    primes = ", ".join(f"{solve.spectrum.kappa_prime:,.3g} {name}" for name, solve in solves.items())
    coupled = ", ".join(f"{solve.spectrum.kappa_coupled:,.3g} {name}" for name, solve in solves.items())
    notes = [
        f"b = {len(first.trajectory.blocks[0])} · {system_label(span)}",
        f"κ = {first.spectrum.kappa:,.3g} · κ′ = {primes}",
        f"1/λmin(D⁻¹K) = {coupled}",
    ]
    return finish(figure, [], colors, "Eigenvalues of K and of its blocks", "block_eigenvalues", notes)
