"""Residual as a picture, update by update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import escaped
from apviz.plots._style import Theme, ThemeName, theme_named
from apviz.plots.blocks._marks import BlockMarks, places
from apviz.plots.blocks._player import play_buttons, slider
from apviz.plots.blocks._snapshots import (
    NO_ROW,
    add_input_axes,
    add_residual_color_bar,
    drawable,
    picture,
    quantized,
    require_snapshots,
    step,
)
from apviz.settings import require_whole
from apviz.tracing.trace import Trace, require_trace

if TYPE_CHECKING:
    import xarray as xr


#: Residuals sent to the browser in all pictures together; each takes two bytes, and three to five in JSON.
DRAWN_VALUES: Final = 1_000_000

#: Pixels between colour bar and picture; height in pixels of slider and buttons below the picture.
_GAP: Final = 10
_CONTROLS: Final = 122


def residual_image(trace: Trace, *, values: int = DRAWN_VALUES, theme: ThemeName = "light") -> go.Figure:
    """Draw the residual of the first right-hand side after each recorded update, with a slider and a play button.

    Inputs on a regular grid are pixels, with the first input downwards and the second to the right, like rows and
    columns of a photograph; cells of the grid without a row stay empty. Other inputs are points, with the first input
    to the right. The block of the update is outlined and its margin shaded; the rows of scattered blocks have dots. All
    updates share one colour scale, by the square root so that small residuals show.

    Residuals are sent as 16-bit multiples of a power of ten, which lies between 1/3,277 and 1/32,767 of the largest.
    Frames do not play in a FigureWidget.

    Args:
        values: Largest number of residuals in all pictures together. Beyond it fewer updates are drawn, including the
            first and the last, and the figure says so.

    Raises:
        ValueError: Not two inputs; no rows or no snapshots recorded; fewer values than 1; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> side = torch.linspace(-1, 1, 8)
        >>> x = torch.cartesian_prod(side, side)
        >>> b = torch.sin(4 * x.sum(1))
        >>> system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.3), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder(rows=True, snapshots=range(4))
        >>> _ = apviz.solve(system, apviz.AlternatingProjection(block_size=16), hooks=[recorder])
        >>> figure = apviz.plots.residual_image(recorder.trace)
        >>> [frame.name for frame in figure.frames]
        ['0', '1', '2', '3']
    """
    colors = theme_named(theme)
    require_trace(trace)
    if trace.attrs["d"] != 2:
        raise ValueError(
            f"residual_image draws systems with d = 2 inputs, such as the photograph 'china'; this trace of "
            f"{trace.method_name} has d = {trace.attrs['d']}. Draw it with apviz.plots.residual_map or block_norms"
        )
    require_snapshots(trace, "residual_image")
    require_whole("values", values, 1)
    snapshots, notes = _drawn(trace, values)
    scale = quantized(snapshots["residual"].values)
    x, y, shape = places(trace["rows"]["coordinates"].values)
    blocks = BlockMarks(trace, x, y, shape)
    figure = go.Figure(picture(x, y, scale.codes[0], scale, blocks.owner, on_grid=shape is not None))
    frames: list[go.Frame] = []
    titles: list[str] = []
    for number, codes in zip(snapshots["update"].values.tolist(), scale.codes, strict=True):
        block, title = step(trace, number)
        marks = blocks.marks(block)
        if not frames:
            figure.add_traces(marks)
        residual = go.Heatmap(z=codes) if shape else go.Scatter(marker={"color": codes})
        frames.append(go.Frame(name=str(number), data=[residual, *marks], traces=list(range(1 + len(marks)))))
        titles.append(title)
    figure.frames = frames
    notes = [f"{escaped(trace.method_name)} — {trace.status()}", *filter(None, [blocks.key]), *notes]
    add_residual_color_bar(figure, scale.limit, trace.attrs["right_hand_sides"], _GAP)
    figure.update_layout(height=680, plot_bgcolor=NO_ROW, showlegend=False)
    finish(figure, [trace], colors, "Where the residual is, update by update", "residual_image", notes)
    add_input_axes(figure, shape)
    return _add_controls(figure, [frame.name for frame in frames], titles, colors)


def _drawn(trace: Trace, values: int) -> tuple[xr.Dataset, list[str]]:
    """Return the snapshots to draw, evenly over the run, and notes on the others."""
    snapshots, notes = drawable(trace)
    total, rows = snapshots["residual"].shape
    most = max(2, values // rows)
    if total > most:
        snapshots = snapshots.isel(update=np.linspace(0, total - 1, most).round().astype(int))
        notes.append(f"{most:,} of {total:,} pictures drawn, evenly over the run")
    return snapshots, notes


def _add_controls(figure: go.Figure, names: list[str], titles: list[str], theme: Theme) -> go.Figure:
    """Add the slider below the picture, with the name of its step, and the buttons below the slider."""
    on_grid = figure.layout.xaxis.showticklabels is False
    axis = 0 if on_grid else 50
    bar = slider(names, theme, titles, x=0, y=0, len=1, pad={"t": 8 + axis, "l": 8, "r": 8})
    below = {"t": _CONTROLS - 46 + axis, "l": 8, "r": 0, "b": 0}
    buttons = play_buttons(theme, ("play", "pause"), x=0, xanchor="left", y=0, yanchor="top", pad=below)
    side = {"l": 16, "r": 16} if on_grid else {}
    margin = {"t": figure.layout.margin.t, "b": _CONTROLS + axis, **side}
    return figure.update_layout(sliders=[bar], updatemenus=[buttons], margin=margin)
