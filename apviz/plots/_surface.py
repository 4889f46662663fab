"""Predictions on a grid of one or two inputs: a curve with its band, or a map."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._labels import escaped
from apviz.plots._style import ThemeName, template, theme_named, translucent

if TYPE_CHECKING:
    import xarray as xr

#: Number of points drawn along one input; a screen has not many more pixels.
DRAWN: Final = 500
_LINE: Final = "#1F77D0"
_MARGIN: Final = {"t": 20, "l": 70, "r": 20, "b": 60}
#: colour bar above the map, so that a phone has its whole width for the map
_BAR: Final[dict[str, Any]] = {
    "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "thickness": 14, "lenmode": "pixels",
    "len": 240,
}  # fmt: skip


def thinned(predictions: xr.Dataset) -> xr.Dataset:
    """Return every k-th point along each input, for the smallest k that leaves at most `DRAWN`."""
    return predictions.isel({
        name: slice(None, None, math.ceil(size / DRAWN)) for name, size in predictions.sizes.items()
    })  # fmt: skip


def surface(predictions: xr.Dataset, name: str, *, theme: ThemeName = "light") -> go.Figure:
    """Draw one variable of predictions on a grid. The mean of one input has its interval behind it.

    Args:
        predictions: variables over one or two inputs, as `apviz predict --grid` writes them.
        name: of the variable.
    """
    style, drawn = theme_named(theme), thinned(predictions)
    dims = [str(each) for each in predictions[name].dims]
    figure = go.Figure(_curve(drawn, name) if len(dims) == 1 else _map(drawn, name))
    figure.update_layout(template=template(style), margin=_MARGIN, showlegend=False)
    titles = [escaped(_title(predictions[each])) for each in (*dims, name)]
    figure.update_xaxes(title_text=titles[0])
    figure.update_yaxes(title_text=titles[1])
    if len(dims) == 2 and _has_one_step(predictions, dims):
        x, y = ((float(drawn[each][0]), float(drawn[each][-1])) for each in dims)
        # whatever is left of a page is below and to the right, not between the text and the map
        figure.update_xaxes(range=x, constrain="domain", constraintoward="left")
        figure.update_yaxes(range=y, constrain="domain", constraintoward="top", scaleanchor="x")
    return figure


def _curve(drawn: xr.Dataset, name: str) -> list[go.Scatter]:
    x = drawn[drawn[name].dims[0]].values
    line = go.Scatter(x=x, y=drawn[name].values, mode="lines", line={"width": 2.5, "color": _LINE}, name=name)
    if name != "mean" or "lower" not in drawn:
        return [line]
    edge: dict[str, Any] = {"x": x, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    upper = go.Scatter(y=drawn["upper"].values, fill="tonexty", fillcolor=translucent(_LINE, 0.25), **edge)
    return [go.Scatter(y=drawn["lower"].values, **edge), upper, line]


def _map(drawn: xr.Dataset, name: str) -> list[go.Heatmap]:
    first, second = (str(each) for each in drawn[name].dims)
    # plotly's rows are y
    z = drawn[name].values.T
    return [go.Heatmap(x=drawn[first].values, y=drawn[second].values, z=z, colorscale="Viridis", colorbar=_BAR)]


def _title(variable: xr.DataArray) -> str:
    units = variable.attrs["units"]
    return f"{variable.attrs['long_name']}" + ("" if units == "unknown" else f" ({units})")


def _has_one_step(predictions: xr.Dataset, dims: list[str]) -> bool:
    """Return whether both inputs have one step, so that a map should have square cells."""
    steps = [float(np.diff(predictions[each].values[:2]).sum()) for each in dims]
    return math.isclose(*steps, rel_tol=1e-9)
