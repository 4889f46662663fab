"""Paths of CG and alternating projection in the plane of two eigenvectors of K."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import comparison_labels, progress_label
from apviz.plots._style import ThemeName, method_color, theme_named, translucent

if TYPE_CHECKING:
    from apviz.rkhs import EigenPath

_LINE: Final[dict[str, Any]] = {"type": "scatter", "mode": "lines"}
#: half the height of the picture at least, over the distance from start to goal
_UP = 0.25
#: places of a curve of equal error or residual
_PLACES = 361


def eigen_paths(
    cg: EigenPath, ap: EigenPath, pair: tuple[int, int], work: float, *, theme: ThemeName = "light"
) -> go.Figure:
    """Error of both in the orthonormal coordinates c of two eigenvectors; the goal is the origin.

    Two curves run through the start: all errors as large as its own, a circle, for ‖W−W*‖²_K = Σcᵢ²; and all with a
    residual as large as its own, an ellipse, for ‖r‖² = Σλᵢcᵢ². What is inside the circle and outside the ellipse
    has a smaller error and a larger residual.

    Args:
        pair: the eigenvectors by number, from 0: up, and to the right.
        work: how much of the paths is walked.

    Raises:
        ValueError: an unknown theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import eigen_paths
        >>> x, b = rkhs.toy_problem("even", 24)
        >>> span = rkhs.Span(x, apviz.Matern52(lengthscale=0.2), noise=0.05)
        >>> cg = rkhs.eigen_path(rkhs.trajectory(span, b, method="cg", steps=8))
        >>> ap = rkhs.eigen_path(rkhs.trajectory(span, b, block_size=6, steps=24))
        >>> figure = eigen_paths(cg, ap, pair=(0, 5), work=3)
        >>> figure.data[-1].name
        'the goal g'
    """
    colors = theme_named(theme)
    j, i = pair
    start = cg.coordinates[0, [i, j]]
    radius = float(np.hypot(*start)) or 1.0
    turn = np.linspace(0, 2 * np.pi, _PLACES)
    circle = radius * np.array([np.cos(turn), np.sin(turn)])
    share = np.sqrt(cg.eigenvalues[[i, j]] @ start**2)
    ellipse = share * np.array([np.cos(turn), np.sin(turn)]) / np.sqrt(cg.eigenvalues[[i, j], None])
    data: list[dict[str, Any]] = []
    for curve, name, width in (
        (circle, "circle: error as at the start", 1.5),
        (ellipse, "ellipse: residual as at the start", 3),
    ):
        line = {"color": translucent(colors.muted, 0.8), "width": width}
        data.append(_LINE | {"x": curve[0], "y": curve[1], "name": name, "hoverinfo": "skip", "line": line})
    for path in (cg, ap):
        color, at = method_color(path.trajectory.method, theme), path.at(work)
        x, y = path.coordinates[:, i], path.coordinates[:, j]
        to_come, walked = slice(max(at, 0), None), slice(0, at + 1)
        line = {"color": translucent(color, 0.35), "width": 1.5}
        data.append(_LINE | {"x": x[to_come], "y": y[to_come], "showlegend": False, "hoverinfo": "skip", "line": line})
        done = {
            "x": x[walked], "y": y[walked], "mode": "lines+markers", "name": path.trajectory.method.label,
            "line": {"color": color, "width": 2.5}, "customdata": path.work[walked],
            "marker": {"color": color, "size": [5] * max(at, 0) + [13], "opacity": 1},
            "hovertemplate": "work %{customdata:.3g}: %{x:.4g}, %{y:.4g}<extra>%{fullData.name}</extra>",
        }  # fmt: skip
        data.append(_LINE | done)
    goal = {"color": colors.ink, "symbol": "cross", "size": 12}
    data.append(
        _LINE | {"x": [0.0], "y": [0.0], "mode": "markers", "name": "the goal g", "hoverinfo": "name", "marker": goal}
    )
    here = np.concatenate([path.coordinates[:, [i, j]] for path in (cg, ap)])
    low = np.minimum(here.min(0), (-0.1 * radius, -_UP * radius))
    high = np.maximum(here.max(0), (radius, _UP * radius))
    margin = 0.06 * float((high - low).max())
    values = cg.eigenvalues
    ranges = np.column_stack([low - margin, high + margin]).tolist()
    shared = {"zeroline": True, "zerolinecolor": colors.muted, "constrain": "domain"}
    up = {"scaleanchor": "x", "constraintoward": "top"}
    layout = {
        "xaxis": {**shared, "title": {"text": _axis(i, values)}, "range": ranges[0]},
        "yaxis": {**shared, "title": {"text": _axis(j, values)}, "range": ranges[1], **up},
        "height": 540,
    }
    held = float(cg.error[0, [i, j]].sum() / cg.error[0].sum())
    notes = [
        "c<sub>i</sub>: the error along eigenvector i of K",
        f"these two hold {held:.0%} of the error at the start",
        progress_label(cg, ap, work),
        *comparison_labels(cg, ap),
    ]
    figure = go.Figure({"data": data, "layout": layout})
    return finish(figure, [], colors, "Two paths to one goal", f"eigen_paths/{pair}", notes)


def _axis(number: int, values: np.ndarray) -> str:
    return f"c<sub>{number + 1}</sub>, λ = {values[number]:.3g}"
