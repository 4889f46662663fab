"""Growth of λ′max with the block size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish, log_ticks
from apviz.plots._labels import system_label
from apviz.plots._style import BOUND_DASH, ThemeName, partition_color, theme_named

if TYPE_CHECKING:
    from apviz.rkhs import Span
    from apviz.rkhs.kernels import Floats

HEIGHT = 500


def largest_block_eigenvalue(
    span: Span,
    eigenvalues: Floats,
    sizes: Sequence[int],
    largest: Mapping[str, Floats],
    block_size: int,
    *,
    theme: ThemeName = "light",
) -> go.Figure:
    """Largest eigenvalue λ′max of the blocks against b for several partitions, from 1 + σ² of one point to λmax of all.

    Two bounds: λ′max ≤ λmax(K), and λ′max ≤ tr K[I, I] = b(k(x, x) + σ²), which points all in one place would reach.

    Args:
        eigenvalues: (n,) of K, largest first.
        sizes: the block sizes.
        largest: by partition, (len(sizes),) λ′max.
        block_size: that of the other figures, marked.

    Raises:
        ValueError: a block size that is not among the sizes; an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import largest_block_eigenvalue
        >>> x, b = rkhs.toy_problem("even", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
        >>> sizes, every = (3, 6, 12), rkhs.block_spectrum(span, [range(24)])
        >>> largest = {"sequential": rkhs.lambda_max_by_size(span, sizes, "sequential")}
        >>> figure = largest_block_eigenvalue(span, every.eigenvalues, sizes, largest, block_size=6)
        >>> bool((figure.data[0].y <= figure.data[1].y[0]).all())  # λ′max ≤ λmax(K)
        True
    """
    colors = theme_named(theme)
    if block_size not in sizes:
        raise ValueError(f"block_size must be one of {', '.join(map(str, sizes))}, got {block_size}")
    figure = go.Figure()
    low = eigenvalues[-1]
    at = list(sizes).index(block_size)
    for name, values in largest.items():
        color = partition_color(name, theme)
        figure.add_scatter(
            x=list(sizes), y=values, mode="lines+markers", name=name, line={"color": color, "width": 3},
            marker={"color": color, "size": [15 if i == at else 8 for i in range(len(sizes))], "opacity": 1},
            customdata=values / low,
            hovertemplate=f"{name}, b = %{{x:d}}: λ′max = %{{y:.4g}}, κ′ = %{{customdata:.4g}}<extra></extra>",
        )  # fmt: skip
    ends = np.array([sizes[0], sizes[-1]])
    bounds = {
        "bound: λmax(K)": np.full(2, eigenvalues[0]),
        "bound: trace of a block": ends * span.gram.diagonal().max(),
    }
    for name, values in bounds.items():
        figure.add_scatter(
            x=ends, y=values, mode="lines", name=name,
            line={"color": colors.ink if "trace" in name else colors.muted, "width": 1.5, "dash": BOUND_DASH},
            hovertemplate=f"{name}: %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    ticks = [size for size in sizes if size / sizes[0] in (1, 2, 3, 5, 10)]
    figure.update_xaxes(type="log", title_text="block size b", tickvals=ticks, ticktext=[str(b) for b in ticks])
    drawn = np.concatenate([*largest.values(), *bounds.values()])
    figure.update_yaxes(type="log", title_text="λ′max", **log_ticks(drawn))
    figure.update_layout(height=HEIGHT)
    here = " · ".join(f"{name} {values[at]:.3g}" for name, values in largest.items())
    notes = [system_label(span), f"at b = {block_size}: λ′max = {here}"]
    return finish(figure, [], colors, "λ′max grows with the block size", "largest_block_eigenvalue", notes)
