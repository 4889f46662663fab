"""Predictions of observations that the model had not seen, against what was observed."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from scipy.stats import norm

from apviz.plots._axes import finish
from apviz.plots._labels import escaped
from apviz.plots._style import COLORS, ThemeName, theme_named, translucent
from apviz.plots.models.prediction import LINE
from apviz.settings import require
from apviz.system import tensor_of


def predicted_against_observed(
    observed: ArrayLike,
    mean: ArrayLike,
    sd: ArrayLike,
    *,
    name: str = "y",
    level: float = 0.95,
    theme: ThemeName = "light",
) -> go.Figure:
    """Draw predicted against observed targets, each with its interval; one that misses the diagonal has another colour.

    Args:
        observed: (m,) Targets of rows that were held out.
        mean, sd: (m,) Predicted mean and standard deviation of these observations, noise included.
        name: Name of the target.
        level: Level of the intervals.

    Raises:
        ValueError: Arrays of different lengths, or none; a level outside (0, 1); an unknown theme.

    Examples:
        >>> import apviz
        >>> figure = apviz.plots.predicted_against_observed([1.0, 2.0, 9.0], [1.1, 1.8, 3.0], [0.2, 0.2, 0.2])
        >>> [(trace.name, len(trace.x)) for trace in figure.data if trace.mode == "markers"]
        [('inside its 95% interval', 2), ('outside', 1)]
    """
    style = theme_named(theme)
    require(isinstance(name, str), "name", name, "a text, such as y")
    require(0 < level < 1, "level", level, "a number between 0 and 1")
    given = {"observed": observed, "mean": mean, "sd": sd}
    y, m, s = (tensor_of(values, each).double().cpu().numpy() for each, values in given.items())
    if not (y.ndim == 1 and len(y) and y.shape == m.shape == s.shape):
        raise ValueError(f"observed, mean and sd must have one shape (m,), got {y.shape}, {m.shape} and {s.shape}")
    half = float(norm.ppf(0.5 + level / 2)) * s
    inside = np.abs(y - m) <= half
    low, high = min(y.min(), m.min()), max(y.max(), m.max())
    figure = go.Figure()
    figure.add_scatter(
        x=[low, high], y=[low, high], mode="lines", name="predicted = observed", hoverinfo="skip",
        line={"width": 1.5, "color": style.muted},
    )  # fmt: skip
    outside = COLORS["cyclic"][style.name == "dark"]
    kinds = ((f"inside its {100 * level:g}% interval", inside, LINE[style.name]), ("outside", ~inside, outside))
    for words, rows, color in kinds:
        gap = np.full(int(rows.sum()), np.nan)
        figure.add_scatter(
            x=np.column_stack([y[rows], y[rows], gap]).ravel(), showlegend=False, hoverinfo="skip", mode="lines",
            y=np.column_stack([(m - half)[rows], (m + half)[rows], gap]).ravel(), legendgroup=words,
            line={"width": 1, "color": translucent(color, 0.4)},
        )  # fmt: skip
        figure.add_scatter(
            x=y[rows], y=m[rows], mode="markers", name=words, legendgroup=words, customdata=half[rows],
            marker={"size": 5, "color": color},
            hovertemplate="observed %{x:.4g}<br>predicted %{y:.4g} ± %{customdata:.3g}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text=f"observed {escaped(name)}")
    figure.update_yaxes(title_text=f"predicted {escaped(name)}")
    notes = [f"{int(inside.sum()):,} of {len(y):,} observations are inside their {100 * level:g}% interval"]
    return finish(figure, [], style, "Predicted against observed", "predicted_against_observed", notes)
