"""Error in the K-norm and Euclidean residual of CG and alternating projection over work, with theory's bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish, log_ticks, positive
from apviz.plots._labels import comparison_labels, progress_label
from apviz.plots._style import BOUND_DASH, ThemeName, method_color, theme_named

if TYPE_CHECKING:
    from apviz.rkhs import EigenPath

#: shares of the start below this are not drawn
FLOOR = 1e-12


def error_by_work(
    cg: EigenPath, ap: EigenPath, work: float, *, most: float | None = None, theme: ThemeName = "light"
) -> go.Figure:
    """Error ‖W−W*‖²_K over its start above, dotted what theory promises; residual ‖r‖/‖b‖ below.

    Args:
        work: how much is done; marked.
        most: the end of the work axis; that of CG by default.

    Raises:
        ValueError: an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import error_by_work
        >>> x, b = rkhs.toy_problem("even", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
        >>> cg = rkhs.eigen_path(rkhs.trajectory(span, b, method="cg", steps=8))
        >>> ap = rkhs.eigen_path(rkhs.trajectory(span, b, block_size=6, steps=24))
        >>> figure = error_by_work(cg, ap, work=3)
        >>> [curve.name for curve in figure.data if curve.line.dash]
        ['bound of CG by κ', 'Theorem 1, by κ′']
    """
    colors = theme_named(theme)
    data: list[dict[str, Any]] = []
    for path, called in ((cg, "bound of CG by κ"), (ap, "Theorem 1, by κ′")):
        color, at, bound = method_color(path.trajectory.method, theme), max(path.at(work), 0), path.bound()
        errors = path.error.sum(1) / path.error[0].sum()
        residuals = np.sqrt(path.residual.sum(1) / path.residual[0].sum())
        curve = {"type": "scatter", "mode": "lines", "x": path.work, "name": path.trajectory.method.label}
        promised = {
            "y": positive(bound), "name": called, "showlegend": bool(np.isfinite(bound).all()),
            "line": {"color": color, "width": 2, "dash": BOUND_DASH},
            "hovertemplate": "work %{x:.3g}: at most %{y:.4g}<extra>%{fullData.name}</extra>",
        }  # fmt: skip
        data.append(curve | promised)
        for axis, y, what in (("y", errors, "squared error"), ("y2", residuals, "residual")):
            line = {
                "y": positive(y), "yaxis": axis, "showlegend": axis == "y", "line": {"color": color, "width": 2.5},
                "hovertemplate": f"work %{{x:.3g}}: {what} %{{y:.4g}}<extra>%{{fullData.name}}</extra>",
            }  # fmt: skip
            mark = {
                "type": "scatter", "mode": "markers", "x": path.work[[at]], "y": positive(y)[[at]], "yaxis": axis,
                "showlegend": False, "hoverinfo": "skip",
                "marker": {"color": color, "size": 12, "line": {"color": colors.ink, "width": 1.5}},
            }  # fmt: skip
            data += [curve | line, mark]
    line = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"color": colors.muted, "width": 1}}
    layout = {
        "xaxis": {
            "anchor": "y2", "range": [0, cg.work[-1] if most is None else most],
            "title": {"text": "work (kernel entries ÷ n²)"},
        },
        "yaxis": {**_log_axis(data, "y"), "domain": [0.53, 1], "title": {"text": "‖W−W*‖²<sub>K</sub> ÷ start"}},
        "yaxis2": {**_log_axis(data, "y2"), "domain": [0, 0.47], "title": {"text": "residual ‖r‖/‖b‖"}},
        "shapes": [{**line, "x0": work, "x1": work, "layer": "below"}],
        "height": 600,
    }  # fmt: skip
    figure = go.Figure({"data": data, "layout": layout})
    growth = cg.first_cg_step()
    first = f"CG's first step takes ‖r‖ times {np.sqrt(growth):.3g}: {'up' if growth > 1 else 'down'}"
    notes = [progress_label(cg, ap, work), first, *comparison_labels(cg, ap)]
    return finish(figure, [], colors, "Error and residual over work", "error_by_work", notes)


def _log_axis(data: list[dict[str, Any]], axis: str) -> dict[str, Any]:
    """From the smallest value drawn, but for rounding, to the largest."""
    y = np.concatenate([each["y"] for each in data if each.get("yaxis", "y") == axis])
    low, high = np.log10(max(np.nanmin(y), FLOOR)), np.log10(np.nanmax(y))
    return {"type": "log", "range": [low - 0.2, high + 0.3], **log_ticks([10**low, 10**high], most=6)}
