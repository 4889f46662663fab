"""Rows in a plane after one update, coloured by their residual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apviz.analysis import geometry
from apviz.plots._axes import finish
from apviz.plots._labels import escaped
from apviz.plots._style import ThemeName, theme_named
from apviz.plots.blocks._marks import BlockMarks, PointMarks, places
from apviz.plots.blocks._snapshots import (
    NO_ROW,
    add_input_axes,
    add_residual_color_bar,
    drawable,
    line_above,
    marker_size,
    picture,
    place_of,
    quantized,
    require_snapshots,
    step,
)
from apviz.tracing.trace import Trace

Floats = NDArray[np.float64]

#: Number of rows drawn as points: a browser takes 0.1 ms per point and draws several updates a second. All pixels are
#: drawn.
DRAWN_ROWS: Final = 2_000

#: Pixels between the picture and its colour bar, with room for a line that names the update.
_GAP: Final = 34


class ResidualMap:
    """Residual of the first right-hand side, one update at a time, with one colour scale for all updates.

    Pixels and blocks are drawn as in `apviz.plots.residual_image`. One input is drawn against the residual, two inputs
    as x and y, more inputs by their first two principal axes in lengthscales. There the block is outlined and its
    margin hatched; if blocks overlap in the plane, their rows have rings and halos. At most `DRAWN_ROWS` rows are
    drawn, the same share of every block, and the figure says so.

    Args:
        compared_with: Traces whose maps are compared with this one; the colour scale covers their residuals too.

    Attributes:
        updates: Numbers of the updates that can be drawn.

    Raises:
        ValueError: No rows or no snapshots recorded; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> side = torch.linspace(-1, 1, 8)
        >>> x = torch.cartesian_prod(side, side)
        >>> b = torch.sin(4 * x.sum(1))
        >>> system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.3), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder(rows=True, snapshots=range(4))
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=16), hooks=[recorder])
        >>> residuals = apviz.plots.ResidualMap(recorder.trace)
        >>> residuals.updates
        [0, 1, 2, 3]
        >>> first, third = residuals.figure(1), residuals.frame(3)
        >>> len(third.to_json()) < len(first.to_json())
        True
    """

    def __init__(
        self, trace: Trace, *, compared_with: Trace | Sequence[Trace] = (), theme: ThemeName = "light"
    ) -> None:
        self._trace, self._theme = trace, theme_named(theme)
        require_snapshots(trace, "ResidualMap")
        snapshots, self._notes = drawable(trace)
        self.updates: list[int] = snapshots["update"].values.tolist()
        self._scale = quantized(snapshots["residual"].values, compared_with)
        self._rows: Any = slice(None)
        coordinates = trace["rows"]["coordinates"].values
        self._shape: tuple[int, int] | None = None
        if coordinates.shape[1] == 2:
            self._x, self._y, self._shape = places(coordinates)
        if self._shape is None:
            self._place(coordinates)
        else:
            self._pixels = BlockMarks(trace, self._x, self._y, self._shape)

    def figure(self, update: int) -> go.Figure:
        """Return the figure after an update.

        Raises:
            ValueError: An update that was not recorded.
        """
        trace, place = self._trace, self._place_of(update)
        block, label = step(trace, update)
        if self._shape is not None:
            first = picture(self._x, self._y, self._scale.codes[place], self._scale, self._owner(), on_grid=True)
            data, key = [first, *self._pixels.marks(block)], self._pixels.key
        else:
            data, key = self._scatter(place, block), self._points.key
        figure = go.Figure(data)
        add_residual_color_bar(figure, self._scale.limit, trace.attrs["right_hand_sides"], _GAP)
        figure.update_layout(plot_bgcolor=NO_ROW, showlegend=False, annotations=[line_above(label, self._theme)])
        notes = [f"{escaped(trace.method_name)} — {trace.status()}", *filter(None, [key]), *self._notes]
        finish(figure, [trace], self._theme, "Where the residual is", "residual_map", notes)
        self._add_axes(figure)
        return figure

    def frame(self, update: int) -> go.Frame:
        """Return a frame with the parts of the figure that change with the update; it is much smaller than the figure.

        Raises:
            ValueError: An update that was not recorded.
        """
        place = self._place_of(update)
        block, label = step(self._trace, update)
        layout = {"annotations": [{"text": label}]}
        if self._shape is not None:
            marks = [go.Scatter(x=mark.x, y=mark.y) for mark in self._pixels.marks(block)]
            data = [go.Heatmap(z=self._scale.codes[place]), *marks]
            return go.Frame(data=data, traces=list(range(len(data))), layout=layout)
        height = self._heights(place)
        y = self._y if height is None else height
        points = go.Scatter(marker={"color": self._scale.codes[place][self._rows]})
        if height is not None:
            points.y = height
        under, over = (mark(block, self._x, y) for mark in (self._points.under, self._points.over))
        data = [go.Scatter(x=under.x, y=under.y), points, go.Scatter(x=over.x, y=over.y)]
        return go.Frame(data=data, traces=[0, 1, 2], layout=layout)

    # --- rows as points -------------------------------------------------------------------------------------------

    def _place(self, coordinates: Floats) -> None:
        """Choose the rows to draw, and their positions."""
        n, d = coordinates.shape
        owner = self._owner()
        if n > DRAWN_ROWS:
            # ordered by block, so that blocks keep their proportions
            order = np.arange(n) if owner is None else np.argsort(owner, kind="stable")
            self._rows = np.sort(order[np.linspace(0, n - 1, DRAWN_ROWS).round().astype(int)])
            self._notes.append(f"{DRAWN_ROWS:,} of {n:,} rows drawn, evenly from all blocks")
        self._axes: tuple[str, str]
        plane, height = coordinates, None
        if d == 1:
            self._axes, height = ("input", "residual r"), self._top()
        elif d == 2:
            self._axes = "first input", "second input"
        else:
            found = geometry.principal_plane(self._trace)
            plane = found["position"].values
            first, second = (f"{share:.0%}" for share in found["share"].values)
            self._axes = f"first principal axis of x/ℓ ({first} of variance)", f"second principal axis ({second})"
        self._x, *rest = plane[self._rows].astype(np.float32).T
        self._y = rest[0] if rest else None
        self._points = PointMarks(self._trace, plane, self._rows, marker_size(len(self._x)), height)

    def _scatter(self, place: int, block: int) -> list[go.Scatter]:
        """Return the margin, the rows and the block, from bottom to top."""
        height = self._heights(place)
        y = self._y if height is None else height
        owner = self._owner()
        hover = f"{self._axes[0].partition(' (')[0]} %{{x:.4g}}" + ("" if height is not None else ", %{y:.4g}")
        codes = self._scale.codes[place][self._rows]
        drawn = None if owner is None else owner[self._rows]
        rows = picture(self._x, y, codes, self._scale, drawn, on_grid=False, place=hover)
        return [self._points.under(block, self._x, y), rows, self._points.over(block, self._x, y)]

    def _heights(self, place: int) -> Floats | None:
        """Return the residual as y for one input; None for more inputs."""
        if self._y is not None:
            return None
        return self._scale.codes[place][self._rows] * np.float32(10.0**-self._scale.power)  # type: ignore[no-any-return]

    # --- pixels and points ----------------------------------------------------------------------------------------

    def _owner(self) -> Any:
        rows = self._trace["rows"]
        return rows["owner"].values if "owner" in rows else None

    def _place_of(self, update: int) -> int:
        return place_of(update, self.updates, f"update {update} of this run")

    def _top(self) -> float:
        """Return the upper end of the y axis, for one input."""
        return 1.05 * self._scale.limit

    def _add_axes(self, figure: go.Figure) -> None:
        if self._shape is not None:
            add_input_axes(figure, self._shape)
            figure.update_yaxes(constraintoward="top")
            # without a height, the page makes the figure as high as it is wide
            figure.update_layout(margin={"l": 16, "r": 16, "b": 16}, height=None)
            return
        figure.update_xaxes(title_text=self._axes[0], showgrid=False)
        figure.update_yaxes(title_text=self._axes[1], showgrid=False)
        if self._y is None:
            figure.update_yaxes(range=(-self._top(), self._top()), zeroline=True, zerolinecolor=self._theme.muted)
