"""Error and residual split by the eigenvectors of K, of CG beside alternating projection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish, positive
from apviz.plots._labels import comparison_labels, progress_label
from apviz.plots._style import ThemeName, method_color, theme_named, translucent

if TYPE_CHECKING:
    from apviz.rkhs import EigenPath

#: log10 of the shares below which nothing is drawn
LOWEST = -8.0


def eigen_shares(
    cg: EigenPath, ap: EigenPath, work: float, *, pair: tuple[int, int] | None = None, theme: ThemeName = "light"
) -> go.Figure:
    """Shares of every eigenvector: above in ‖W−W*‖²_K; below in ‖r‖², which are λᵢ times as much.

    Both over their sum at the start, whose shares are the shaded area.

    Args:
        work: how much of it is done.
        pair: eigenvectors by number, from 0, to be marked.

    Raises:
        ValueError: an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import eigen_shares
        >>> x, b = rkhs.toy_problem("even", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
        >>> cg = rkhs.eigen_path(rkhs.trajectory(span, b, method="cg", steps=8))
        >>> ap = rkhs.eigen_path(rkhs.trajectory(span, b, block_size=6, steps=24))
        >>> figure = eigen_shares(cg, ap, work=3)
        >>> figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text
        ('share of ‖W−W*‖²<sub>K</sub>', 'share of ‖r‖²')
    """
    colors = theme_named(theme)
    number = np.arange(1, len(cg.eigenvalues) + 1)
    data: list[dict[str, Any]] = []
    highest, below = 1.0, 10 ** (LOWEST - 2)
    for axis, what in (("y", "error"), ("y2", "residual")):
        shares = {path: getattr(path, what) / getattr(path, what)[0].sum() for path in (cg, ap)}
        area = {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"width": 0}, "x": number}
        area |= {"yaxis": axis, "name": "at the start", "fillcolor": translucent(colors.muted, 0.25)}
        data.append(area | {"y": np.full(len(number), below), "showlegend": False})
        data.append(area | {"y": np.maximum(shares[cg][0], below), "showlegend": axis == "y", "fill": "tonexty"})
        for path, symbol in ((cg, "circle"), (ap, "diamond")):
            color, y = method_color(path.trajectory.method, theme), shares[path][max(path.at(work), 0)]
            curve = {
                "type": "scatter", "mode": "lines+markers", "x": number, "y": positive(y), "yaxis": axis,
                "name": path.trajectory.method.label, "showlegend": axis == "y", "line": {"color": color, "width": 1.5},
                "marker": {"color": color, "symbol": symbol, "size": 6}, "customdata": cg.eigenvalues,
                "hovertemplate": f"eigenvector %{{x}}, λ = %{{customdata:.3g}}: %{{y:.3g}} of the {what}"
                "<extra>%{fullData.name}</extra>",
            }  # fmt: skip
            data.append(curve)
            highest = max(highest, float(shares[path].max()))
    shared = {"type": "log", "exponentformat": "power", "dtick": 2, "range": [LOWEST, np.log10(highest) + 0.3]}
    names = {"text": "share of ‖W−W*‖²<sub>K</sub>"}, {"text": "share of ‖r‖²"}
    line = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"color": colors.muted, "width": 1}}
    layout = {
        "xaxis": {
            "anchor": "y2", "range": [0, len(number) + 1], "title": {"text": "eigenvector of K, the largest λ first"}
        },
        "yaxis": {**shared, "domain": [0.53, 1], "title": names[0]},
        "yaxis2": {**shared, "domain": [0, 0.47], "title": names[1]},
        "shapes": [{**line, "x0": each + 1, "x1": each + 1, "layer": "below"} for each in pair or ()],
        "height": 620,
    }  # fmt: skip
    marked = [] if pair is None else ["thin lines: the two eigenvectors of the paths"]
    notes = ["shares of the sum at the start", *marked, progress_label(cg, ap, work), *comparison_labels(cg, ap)]
    figure = go.Figure({"data": data, "layout": layout})
    return finish(figure, [], colors, "What is left along each eigenvector", "eigen_shares", notes)
