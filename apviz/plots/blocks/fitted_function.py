"""Function of a solve after one update, over one input."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from apviz.analysis import geometry
from apviz.plots._axes import finish
from apviz.plots._labels import escaped
from apviz.plots._style import ThemeName, method_color, theme_named, translucent
from apviz.plots.blocks._snapshots import line_above, place_of, require_snapshots, step
from apviz.tracing.trace import Trace

#: Number of data points drawn; more would hide the function.
DRAWN_POINTS: Final = 3_000


class FittedFunction:
    """Function s⁽ʲ⁾(x) = k(x, X) W after update j, with the data to fit, and s⁽ʲ⁻¹⁾ as a thin line behind it.

    Rows of the update's block are filled, rows of its margin are shaded. The axes are the same for all updates.

    Attributes:
        updates: Numbers of the updates that can be drawn.

    Raises:
        ValueError: Not one input; no rows or no weights recorded; a kernel that is not part of apviz; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> b = torch.sin(9 * x[:, 0])
        >>> system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder(rows=True, snapshots=range(4), weights=True)
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=25), hooks=[recorder])
        >>> function = apviz.plots.FittedFunction(recorder.trace)
        >>> function.updates
        [0, 1, 2, 3]
        >>> function.figure(1).layout.yaxis.range == function.figure(3).layout.yaxis.range
        True
    """

    def __init__(self, trace: Trace, *, theme: ThemeName = "light") -> None:
        self._trace, self._theme = trace, theme_named(theme)
        require_snapshots(trace, "FittedFunction")
        found = geometry.functions(trace)
        values = found["value"].values
        finite = np.isfinite(values).all(axis=1)
        self._values, self._grid = values[finite].astype(np.float32), found["x"].values
        self.updates: list[int] = found["update"].values[finite].tolist()
        rows = trace["rows"]
        self._input, self._target = rows["coordinates"].values[:, 0], rows["target"].values
        every = np.arange(len(self._input))
        most = min(len(every), DRAWN_POINTS)
        self._drawn = every[np.linspace(0, len(every) - 1, most).round().astype(int)]

    def figure(self, update: int) -> go.Figure:
        """Return the figure after an update.

        Raises:
            ValueError: An update that was not recorded.
        """
        trace, theme = self._trace, self._theme
        now, before = self._curves(update)
        block, label = step(trace, update)
        color = method_color(trace.method, theme.name)
        margin, owned = self._marked(block)
        figure = go.Figure()
        figure.add_scatter(
            x=self._input[margin], y=self._target[margin], mode="markers", name="margin of the block",
            marker={"size": 13, "color": translucent(theme.ink, 0.25)},
            hoverinfo="skip",
        )  # fmt: skip
        figure.add_scatter(
            x=self._input[self._drawn], y=self._target[self._drawn], mode="markers", name="targets − mean",
            marker={"size": 5, "color": theme.muted, "symbol": "circle-open", "line": {"width": 1}},
            hovertemplate="x %{x:.4g}<br>target %{y:.4g}<extra></extra>",
        )  # fmt: skip
        figure.add_scatter(
            x=self._input[owned], y=self._target[owned], mode="markers", name="rows of the block",
            marker={"size": 7, "color": theme.ink}, hoverinfo="skip",
        )  # fmt: skip
        figure.add_scatter(
            x=self._grid, y=before, mode="lines", name="s before the update",
            line={"width": 1.5, "color": translucent(color, 0.55)}, hoverinfo="skip",
        )  # fmt: skip
        figure.add_scatter(
            x=self._grid, y=now, mode="lines", name="s after the update", line={"width": 3, "color": color},
            hovertemplate="x %{x:.4g}<br>s %{y:.4g}<extra></extra>",
        )  # fmt: skip
        figure.update_layout(annotations=[line_above(label, theme)])
        notes = [f"{escaped(trace.method_name)} — {trace.status()}"]
        if len(self._drawn) < len(self._input):
            notes.append(f"{len(self._drawn):,} of {len(self._input):,} rows drawn, evenly")
        figure.update_xaxes(title_text="input")
        figure.update_yaxes(title_text="target − mean, and s(x)", range=self._range())
        finish(figure, [trace], theme, "The function s(x) = k(x, X) W so far", "fitted_function", notes)
        return figure.update_layout(margin={"t": figure.layout.margin.t + 24})

    def frame(self, update: int) -> go.Frame:
        """Return a frame with the parts of the figure that change with the update.

        Raises:
            ValueError: An update that was not recorded.
        """
        now, before = self._curves(update)
        block, label = step(self._trace, update)
        margin, owned = self._marked(block)
        marks = [go.Scatter(x=self._input[rows], y=self._target[rows]) for rows in (margin, owned)]
        data = [*marks, go.Scatter(y=before), go.Scatter(y=now)]
        return go.Frame(data=data, traces=[0, 2, 3, 4], layout={"annotations": [{"text": label}]})

    def _curves(self, update: int) -> tuple[Any, Any]:
        """Return s after the update, and after the recorded update before it."""
        place = place_of(update, self.updates, f"the function after update {update}")
        return self._values[place], self._values[max(0, place - 1)]

    def _marked(self, block: int) -> tuple[Any, Any]:
        """Return the rows in the margin of a block, and the rows it owns."""
        rows = self._trace["rows"]
        if "owner" not in rows:
            return np.empty(0, int), np.empty(0, int)
        owner, pairs = rows["owner"].values, rows["membership"].values
        solved = pairs[pairs[:, 1] == block, 0]
        return solved[owner[solved] != block], np.flatnonzero(owner == block)

    def _range(self) -> tuple[float, float]:
        """Return the range of targets and functions, limited so that one extreme update does not flatten all others."""
        values = self._values
        low, high = float(self._target.min()), float(self._target.max())
        room = high - low or 1.0
        low, high = min(low, float(values.min())), max(high, float(values.max()))
        low, high = max(low, float(self._target.min()) - room), min(high, float(self._target.max()) + room)
        return low - 0.05 * room, high + 0.05 * room
