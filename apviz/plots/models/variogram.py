"""Empirical variogram of a table, with a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import escaped
from apviz.plots._style import ThemeName, sequential_colors, theme_named

if TYPE_CHECKING:
    from apviz.gp.kriging.empirical_variogram import EmpiricalVariogram
    from apviz.gp.kriging.variogram import Variogram

#: Number of points of the model's curve.
CURVE: Final = 200
#: Diameter in pixels of the marker of the fullest bin, and of an empty one.
LARGEST: Final = 16
SMALLEST: Final = 5


def variogram(
    empirical: EmpiricalVariogram, model: Variogram | None = None, *, theme: ThemeName = "light"
) -> go.Figure:
    """Draw an empirical variogram, half the mean squared difference of targets by distance, and a model.

    The larger a marker, the more pairs are in its bin. The caption says how many pairs were used.

    Args:
        empirical: of the rows, from `apviz.gp.empirical_variogram`.
        model: a variogram to draw as a curve, such as that of a fitted model.

    Raises:
        TypeError: Something other than an empirical variogram, or than a variogram.
        ValueError: An unknown theme.

    Examples:
        >>> import apviz, numpy as np
        >>> x = np.random.default_rng(0).uniform(size=(400, 2))
        >>> found = apviz.gp.empirical_variogram(x, np.sin(6 * x[:, 0]))
        >>> model = apviz.Variogram("gaussian", sill=0.6, range=0.4, convention="effective")
        >>> figure = apviz.plots.variogram(found, model)
        >>> [trace.name for trace in figure.data]
        ['empirical', 'model']
    """
    colors = theme_named(theme)
    for name, given, attribute in (("empirical", empirical, "semivariances"), ("model", model, "nugget")):
        if not hasattr(given, attribute) and not (name == "model" and given is None):
            wanted = "apviz.gp.empirical_variogram(x, y)" if name == "empirical" else "an apviz.Variogram, or None"
            raise TypeError(f"{name} must be {wanted}, got {type(given).__name__}")
    of_rows, of_model = sequential_colors(2, theme)
    share = np.sqrt(empirical.counts / empirical.counts.max())
    figure = go.Figure()
    figure.add_scatter(
        x=empirical.distances, y=empirical.semivariances, mode="markers", name="empirical",
        marker={"color": of_rows, "size": SMALLEST + (LARGEST - SMALLEST) * share}, customdata=empirical.counts,
        hovertemplate="distance %{x:.4g}<br>γ = %{y:.4g}<br>%{customdata:,} pairs<extra></extra>",
    )  # fmt: skip
    notes = [f"n = {empirical.rows:,} · {empirical.sentence}", f"{empirical.estimator.capitalize()}'s estimator"]
    if model is not None:
        h = np.linspace(0.0, float(empirical.distances.max()) * 1.05, CURVE)
        figure.add_scatter(
            x=h, y=model(h), mode="lines", name="model", line={"color": of_model, "width": 2.5},
            hovertemplate="distance %{x:.4g}<br>γ = %{y:.4g}<extra>model</extra>",
        )  # fmt: skip
        notes.append(escaped(f"model: {model}"))
    figure.update_xaxes(title_text="distance (input units)", rangemode="tozero")
    figure.update_yaxes(title_text="semivariance γ (target units²)", rangemode="tozero")
    return finish(figure, [], colors, "Variogram", "variogram", notes)
