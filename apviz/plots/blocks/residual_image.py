"""Residual as a picture, update by update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from numpy.typing import NDArray

from apviz.plots._axes import finish
from apviz.plots._labels import escaped
from apviz.plots._style import CAPTION_SIZE, Theme, ThemeName, theme_named
from apviz.plots.blocks._marks import BlockMarks, places
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

#: Residuals sent to the browser in all pictures together; each takes two bytes, and three to five in JSON.
DRAWN_VALUES: Final = 1_000_000

#: Pixels between colour bar and picture; height in pixels of slider and buttons below the picture.
_GAP: Final = 10
_CONTROLS: Final = 122
#: Milliseconds between two frames while playing.
_PAUSE: Final = 450


def residual_image(
    trace: Trace,
    *,
    compared_with: Trace | Sequence[Trace] = (),
    values: int = DRAWN_VALUES,
    theme: ThemeName = "light",
) -> go.Figure:
    """Draw the residual of the first right-hand side after each recorded update, with a slider and a play button.

    Inputs on a regular grid are pixels, with the first input downwards and the second to the right, like rows and
    columns of a photograph; cells of the grid without a row stay empty. Other inputs are points, with the first input
    to the right. The block of the update is outlined and its margin hatched; the rows of scattered blocks have dots.
    All updates share one colour scale, by the square root so that small residuals show.

    Residuals are sent as 16-bit multiples of a power of ten, which lies between 1/3,277 and 1/32,767 of the largest.
    Frames do not play in a FigureWidget.

    Args:
        compared_with: Traces whose pictures are compared with this one; the colour scale covers their residuals too.
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
    _require_pictures(trace)
    require_whole("values", values, 1)
    snapshots, notes = _drawn(trace, values)
    scale = quantized(snapshots["residual"].values, compared_with)
    x, y, shape = places(trace["rows"]["coordinates"].values)
    blocks = BlockMarks(trace, x, y, shape)
    # pixels line by line, because positions that follow a pattern compress in a page
    order = np.lexsort((x, y)) if shape else np.arange(len(x))
    codes, on_grid = scale.codes[:, order], shape is not None
    owner = None if blocks.owner is None else blocks.owner[order]
    figure = go.Figure(picture(x[order], y[order], codes[0], scale, owner, on_grid=on_grid))
    numbers: list[int] = snapshots["update"].values.tolist()
    steps = [step(trace, number) for number in numbers]
    marks = [blocks.marks(block) for block, _ in steps]
    figure.add_traces(marks[0])
    figure.frames = [_frame(*each, on_grid=on_grid) for each in zip(numbers, codes, marks, strict=True)]
    notes = [f"{escaped(trace.method_name)} — {trace.status()}", *filter(None, [blocks.key]), *notes]
    add_residual_color_bar(figure, scale.limit, trace.attrs["right_hand_sides"], _GAP)
    figure.update_layout(height=680, plot_bgcolor=NO_ROW, showlegend=False)
    finish(figure, [trace], colors, "Where the residual is, update by update", "residual_image", notes)
    add_input_axes(figure, shape)
    return _add_controls(figure, [str(number) for number in numbers], [title for _, title in steps], colors)


def _require_pictures(trace: Trace) -> None:
    """Raise ValueError for a trace without snapshots, or of other than two inputs."""
    require_trace(trace)
    if trace.attrs["d"] != 2:
        raise ValueError(
            f"residual_image draws systems with d = 2 inputs, such as the photograph 'china'; this trace of "
            f"{trace.method_name} has d = {trace.attrs['d']}. Draw it with apviz.plots.ResidualMap or block_norms"
        )
    require_snapshots(trace, "residual_image")


def _frame(number: int, codes: NDArray[Any], marks: list[go.Scatter], *, on_grid: bool) -> go.Frame:
    residual = go.Heatmap(z=codes) if on_grid else go.Scatter(marker={"color": codes})
    return go.Frame(name=str(number), data=[residual, *marks], traces=list(range(1 + len(marks))))


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
    buttons = {
        "type": "buttons", "direction": "right", "showactive": False, "bgcolor": theme.button,
        "bordercolor": theme.muted, "font": {"color": theme.button_text}, "x": 0, "xanchor": "left", "y": 0,
        "yanchor": "top", "pad": {"t": _CONTROLS - 46 + axis, "l": 8, "r": 0, "b": 0},
        "buttons": [
            {"label": "play", "method": "animate", "args": [None, _showing(_PAUSE)]},
            {"label": "pause", "method": "animate", "args": [[None], _showing(0)]},
        ],
    }  # fmt: skip
    side = {"l": 16, "r": 16} if on_grid else {}
    margin = {"t": figure.layout.margin.t, "b": _CONTROLS + axis, **side}
    return figure.update_layout(sliders=[bar], updatemenus=[buttons], margin=margin)


def slider(frames: Sequence[str], theme: Theme, labels: Sequence[str] | None = None, **place: Any) -> dict[str, Any]:
    """Return a slider with one step for each frame, and a line above it with its label, at a place."""
    steps = [
        {"label": label, "method": "animate", "args": [[name], _showing(0)]}
        for name, label in zip(frames, labels or frames, strict=True)
    ]
    return {
        "steps": steps, "currentvalue": {"font": {"size": CAPTION_SIZE, "color": theme.ink}, "offset": 10},
        # only the line above shows the labels; along the slider they would not fit
        "font": {"size": 1, "color": "rgba(0,0,0,0)"}, "bgcolor": theme.button, "activebgcolor": theme.muted,
        "bordercolor": theme.muted, "tickcolor": theme.muted, "ticklen": 4, "minorticklen": 4,
    } | place  # fmt: skip


def _showing(duration: int) -> dict[str, Any]:
    # without a redraw, plotly updates scatter traces only
    frame = {"duration": duration, "redraw": True}
    return {"mode": "immediate", "fromcurrent": True, "frame": frame, "transition": {"duration": 0}}
