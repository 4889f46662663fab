"""Predictions over one or two inputs: a curve with its interval and the data, or a map."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from numpy.typing import ArrayLike

from apviz.plots._axes import finish
from apviz.plots._labels import escaped
from apviz.plots._style import CAPTION_SIZE, Theme, ThemeName, theme_named, translucent

#: Number of points drawn along one input, as a screen has not many more pixels; and of points that are not on a grid.
DRAWN: Final = 500
DRAWN_POINTS: Final = 3_000
LINE: Final = {"light": "#1F77D0", "dark": "#6CB8FF"}
_TITLES: Final = {"mean": "Predicted mean", "sd": "Predicted standard deviation"}


def prediction(
    predictions: xr.Dataset,
    name: str = "mean",
    *,
    observed: tuple[ArrayLike, ArrayLike] | None = None,
    theme: ThemeName = "light",
) -> go.Figure:
    """Draw predictions: a curve over one input, the mean with its interval; a map over two, of a grid or of points.

    Args:
        predictions: variables `mean`, and if there are `sd`, `lower` and `upper`, over a grid of one or two inputs, as
            `apviz predict --grid` writes them; or over one dimension of points, with two inputs as coordinates.
            The attributes `long_name` and `units` of a variable become the title of its axis.
        name: Variable to draw.
        observed: Inputs (n,) and targets (n,) of the data, drawn as points behind a curve.

    Raises:
        ValueError: No such variable; more than two inputs; an unknown theme.

    Examples:
        >>> import apviz, numpy as np, xarray as xr
        >>> x = np.linspace(0, 1, 50)
        >>> found = {"mean": np.sin(6 * x), "lower": np.sin(6 * x) - 0.1, "upper": np.sin(6 * x) + 0.1}
        >>> predictions = xr.Dataset({name: ("x", values) for name, values in found.items()}, {"x": x})
        >>> figure = apviz.plots.prediction(predictions, observed=([0.2, 0.8], [0.9, -1.0]))
        >>> [trace.name for trace in figure.data if trace.name]
        ['data', '95% interval', 'mean']
    """
    style = theme_named(theme)
    if name not in predictions:
        there = ", ".join(map(str, predictions))
        raise ValueError(f"name must be a variable of the predictions, {there}; got {name!r}")
    variable, drawn = predictions[name], thinned(predictions)
    axes = [str(each) for each in (variable.dims if variable.dims[0] in variable.coords else variable.coords)]
    is_image = axes == ["row", "column"]  # of pixels, whose first row is at the top
    axes = axes[::-1] if is_image else axes
    if not 1 <= len(axes) <= 2:
        raise ValueError(f"a prediction is drawn over one or two inputs, not over {len(axes)}: {', '.join(axes)}")
    figure, titles = go.Figure(), [_title(predictions[each], each) for each in (*axes, name)]
    if len(axes) == 1:
        _add_curve(figure, drawn, name, observed, style)
    else:
        _add_map(figure, drawn, name, axes)
        bar = {
            "orientation": "h", "x": 0, "xanchor": "left", "xpad": 0, "y": 0.9999, "yanchor": "bottom", "ypad": 10,
            "thickness": 14, "len": 1, "title": {"text": titles[2], "side": "top", "font": {"size": CAPTION_SIZE}},
        }  # fmt: skip
        figure.update_layout(coloraxis={"colorscale": "Viridis", "colorbar": bar})
    figure.update_layout(xaxis_title_text=titles[0], yaxis_title_text=titles[1])
    notes = []
    if any(drawn.sizes[each] < size for each, size in predictions.sizes.items()):
        notes.append(f"every k-th point, at most {max(drawn.sizes.values()):,} along a dimension")
    finish(figure, [], style, _TITLES.get(name, name.capitalize()), f"prediction/{name}", notes)
    if is_image or (len(axes) == 2 and _has_square_cells(predictions, axes)):
        x, y = ((float(drawn[each].min()), float(drawn[each].max())) for each in axes)
        y = y[::-1] if is_image else y
        # whatever is left of a page is below and to the right, not between the text and the map
        figure.update_xaxes(range=x, constrain="domain", constraintoward="left")
        figure.update_yaxes(range=y, constrain="domain", constraintoward="top", scaleanchor="x")
    return figure


def thinned(predictions: xr.Dataset) -> xr.Dataset:
    """Return every k-th point along each dimension, for the smallest k that leaves few enough to draw."""
    most = {name: DRAWN if name in predictions.coords else DRAWN_POINTS for name in predictions.sizes}
    return predictions.isel({
        name: slice(None, None, math.ceil(size / most[name])) for name, size in predictions.sizes.items()
    })  # fmt: skip


def _add_curve(
    figure: go.Figure, drawn: xr.Dataset, name: str, observed: tuple[ArrayLike, ArrayLike] | None, style: Theme
) -> None:
    x, color = drawn[drawn[name].dims[0]].values, LINE[style.name]
    if observed is not None and name == "mean":
        inputs, targets = (np.asarray(each, dtype=float) for each in observed)
        some = np.linspace(0, len(inputs) - 1, min(len(inputs), DRAWN_POINTS)).round().astype(int)
        figure.add_scatter(
            x=inputs[some], y=targets[some], mode="markers", name="data",
            marker={"size": 5, "color": style.muted, "symbol": "circle-open", "line": {"width": 1}},
            hovertemplate="%{x:.4g}<br>observed %{y:.4g}<extra></extra>",
        )  # fmt: skip
    if name == "mean" and "lower" in drawn:
        level = 100 * float(drawn.attrs.get("interval_level", 0.95))
        edge: dict[str, Any] = {"x": x, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        figure.add_scatter(y=drawn["lower"].values, showlegend=False, **edge)
        filled = {"fill": "tonexty", "fillcolor": translucent(color, 0.25), "name": f"{level:g}% interval"}
        figure.add_scatter(y=drawn["upper"].values, **filled, **edge)
    figure.add_scatter(
        x=x, y=drawn[name].values, mode="lines", name=name, line={"width": 2.5, "color": color},
        hovertemplate=f"%{{x:.4g}}<br>{name} %{{y:.4g}}<extra></extra>",
    )  # fmt: skip


def _add_map(figure: go.Figure, drawn: xr.Dataset, name: str, axes: list[str]) -> None:
    x, y = (drawn[each].values for each in axes)
    if drawn[name].ndim == 2:
        # plotly's rows are y
        figure.add_heatmap(x=x, y=y, z=drawn[name].transpose(axes[1], axes[0]).values, coloraxis="coloraxis")
        return
    figure.add_scatter(
        x=x, y=y, mode="markers", showlegend=False, customdata=drawn[name].values,
        marker={"size": 6, "color": drawn[name].values, "coloraxis": "coloraxis"},
        hovertemplate=f"%{{x:.4g}}, %{{y:.4g}}<br>{name} %{{customdata:.4g}}<extra></extra>",
    )  # fmt: skip


def _title(variable: xr.DataArray, name: str) -> str:
    words, units = variable.attrs.get("long_name", name), variable.attrs.get("units", "unknown")
    return escaped(f"{words}" + ("" if units == "unknown" else f" ({units})"))


def _has_square_cells(predictions: xr.Dataset, axes: list[str]) -> bool:
    """Return whether both inputs of a grid have one step, so that a map should have square cells."""
    if any(each not in predictions.dims for each in axes):
        return False
    steps = [float(np.diff(predictions[each].values[:2]).sum()) for each in axes]
    return math.isclose(*steps, rel_tol=1e-9)
