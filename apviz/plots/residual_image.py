"""The residual as a picture, update by update."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.colors import sample_colorscale

from apviz.plots.captions import outcome, safe
from apviz.plots.color_scale import horizontal_bar
from apviz.plots.layout import finish
from apviz.plots.style import CAPTION_SIZE, Theme, ThemeName, theme_named

if TYPE_CHECKING:
    import xarray as xr

    from apviz.tracing.trace import Trace

Floats = NDArray[np.float64]
Integers = NDArray[np.int16]

#: residuals sent to the browser, in all pictures together; each takes two bytes, and three to five in JSON
DRAWN_VALUES: Final = 1_000_000
#: inputs that fill less of a regular grid than this are drawn as points
GRID_SHARE: Final = 0.25
#: blocks are outlined if this share of the pixels side by side have one owner
COMPACT: Final = 0.6
#: milliseconds between two pictures while playing
PAUSE: Final = 450

#: blue, white, red of ColorBrewer's RdBu, without its darkest ends, on which an outline would vanish; the same in
#: both themes, since white is zero
_COLORS: Final = ("#2166AC", "#67A9CF", "#D1E5F0", "#F7F7F7", "#FDDBC7", "#EF8A62", "#B2182B")
_INK: Final = "#111111"
_SHADE: Final = "rgba(17,17,17,0.25)"
_NO_ROW: Final = "#D9DEE4"
#: pixels of the colour bar's distance to the picture, and of slider and buttons below it
_GAP: Final = 10
_CONTROLS: Final = 122


def residual_image(trace: Trace, *, theme: ThemeName = "light") -> go.Figure:
    """The residual of the first right-hand side after each recorded update, with a slider and a play button.

    Inputs on a regular grid are pixels, the first input downwards and the second to the right, as rows and columns
    of a photograph are; cells of the grid without a row stay empty. Other inputs are points, the first input to
    the right. The block of the update is outlined and its margin shaded; where blocks lie scattered, their rows
    are dotted. One colour scale, by the square root so that small residuals show, serves all updates.

    Residuals are sent as 16-bit multiples of a power of ten, which lies between 1/3,277 and 1/32,767 of the largest.
    Beyond `DRAWN_VALUES` of them fewer updates are drawn, the first and the last among them, and the figure says so.
    Frames do not play in a FigureWidget.

    Raises:
        ValueError: not two inputs; no rows or no snapshots recorded; an unknown theme.
    """
    colors = theme_named(theme)
    _check(trace)
    snapshots, notes = _drawn(trace)
    values = snapshots["residual"].values
    limit = _rounded_up(float(np.abs(values).max()))
    power = math.floor(math.log10(np.iinfo(np.int16).max / limit))
    codes = np.rint(values * 10.0**power).astype(np.int16)
    x, y, shape = _places(trace["rows"]["coordinates"].values)
    blocks = _Blocks(trace, x, y, shape)
    figure = go.Figure(_picture(x, y, codes[0], limit, power, blocks.owner, on_grid=shape is not None))
    frames: list[go.Frame] = []
    steps: list[dict[str, Any]] = []
    for number, coded in zip(snapshots["update"].values.tolist(), codes, strict=True):
        block, title = _step(trace, number)
        marks = blocks.marks(block)
        if not frames:
            figure.add_traces(marks)
        residual = go.Heatmap(z=coded) if shape else go.Scatter(marker={"color": coded})
        frames.append(go.Frame(name=str(number), data=[residual, *marks], traces=list(range(1 + len(marks)))))
        steps.append({"label": title, "method": "animate", "args": [[str(number)], _playing(0)]})
    figure.frames = frames
    notes = [f"{safe(trace.label)} — {outcome(trace)}", *filter(None, [blocks.key]), *notes]
    _add_color_bar(figure, limit, trace.attrs["right_hand_sides"])
    figure.update_layout(height=680, plot_bgcolor=_NO_ROW, showlegend=False)
    finish(figure, [trace], colors, "Where the residual is, update by update", "residual_image", notes)
    _add_axes(figure, shape)
    return _add_controls(figure, steps, colors)


def _check(trace: Trace) -> None:
    if trace.attrs["d"] != 2:
        raise ValueError(
            f"residual_image draws systems with d = 2 inputs, such as the photograph 'china'; this trace of "
            f"{trace.label} has d = {trace.attrs['d']}. Draw it with apviz.plots.block_norms"
        )
    missing = [group for group in ("rows", "snapshot") if group not in trace]
    if missing:
        raise ValueError(
            f"residual_image needs the groups rows and snapshot; this trace of {trace.label} has no "
            f"{' and no '.join(missing)}. Record them while solving: "
            "hooks=[apviz.Recorder(rows=True, snapshots=range(0, 60))]"
        )


def _drawn(trace: Trace) -> tuple[xr.Dataset, list[str]]:
    """The snapshots to draw, evenly over the run, and what is to be said about the others."""
    snapshots, notes = trace["snapshot"], []
    finite = np.isfinite(snapshots["residual"].values).all(axis=1)
    if not finite.any():
        raise ValueError("no recorded residual is finite; record earlier updates: Recorder(snapshots=range(0, 60))")
    if not finite.all():
        notes.append(f"{np.count_nonzero(~finite)} pictures that are not finite left out")
    # while a solve runs, the updates of its last epoch have snapshots, but no numbers yet
    numbered = [0, *trace["update"]["update"].values] if "update" in trace else [0]
    snapshots = snapshots.isel(update=finite & np.isin(snapshots["update"].values, numbered))
    total, rows = snapshots["residual"].shape
    most = max(2, DRAWN_VALUES // rows)
    if total > most:
        snapshots = snapshots.isel(update=np.linspace(0, total - 1, most).round().astype(int))
        notes.append(f"{most:,} of {total:,} pictures drawn, evenly over the run")
    return snapshots, notes


def _rounded_up(largest: float) -> float:
    """To two digits; 1 for 0."""
    if largest == 0:
        return 1.0
    unit = 10.0 ** (math.floor(math.log10(largest)) - 1)
    return math.ceil(largest / unit) * unit


def _places(coordinates: Floats) -> tuple[Any, Any, tuple[int, int] | None]:
    """x and y, (n,) each, of inputs (n, 2): columns and rows of a grid of that shape, or the inputs themselves."""
    row, column = (_steps(each) for each in coordinates.T)
    if row is not None and column is not None:
        shape = int(row.max()) + 1, int(column.max()) + 1
        cells = len(np.unique(row.astype(np.int64) * shape[1] + column))
        if cells == len(row) >= GRID_SHARE * shape[0] * shape[1]:
            return column, row, shape
    first, second = coordinates.astype(np.float32).T
    return first, second, None


def _steps(values: Floats) -> Integers | None:
    """The multiple of the smallest gap at which each of the values (n,) lies; None where they lie in between."""
    distinct = np.unique(values)
    span = float(distinct[-1] - distinct[0])
    # what differs by rounding alone is one value
    gaps = np.diff(distinct)[np.diff(distinct) > 1e-5 * span]
    if not len(gaps):
        return np.zeros(len(values), np.int16)
    count = round(span / float(gaps.min()))
    place = (values - distinct[0]) * (count / span)
    regular = count < np.iinfo(np.int16).max and np.abs(place - np.rint(place)).max() < 0.05
    return np.rint(place).astype(np.int16) if regular else None


class _Blocks:
    """How a block is shown: outline and shade where blocks are compact on a grid, else dots.

    Attributes:
        owner: (n,) the block of each row; None for a solver without blocks.
        key: what the marks mean, in a line.
    """

    def __init__(self, trace: Trace, x: Any, y: Any, shape: tuple[int, int] | None) -> None:
        rows = trace["rows"]
        self.owner = rows["owner"].values if "owner" in rows else None
        self._x, self._y = x, y
        words = [] if shape is None else ["pale grey: no row"]
        if self.owner is not None:
            pairs = rows["membership"].values
            self._margins = pairs[self.owner[pairs[:, 0]] != pairs[:, 1]]
            self._empty = None if shape is None else np.full(shape, -1)
            if self._empty is not None and not self._compact(self._empty):
                self._empty = None
            block, margin = ("dots", "faint dots") if self._empty is None else ("outline", "shade")
            words = [f"{block}: block", *([f"{margin}: margin"] if len(self._margins) else []), *words]
        self.key = " · ".join(words)

    def _compact(self, empty: NDArray[np.int64]) -> bool:
        """Whether most pixels side by side have one owner; else an outline would be as many squares as pixels."""
        owners = empty.copy()
        owners[self._y, self._x] = self.owner if self.owner is not None else -1
        pairs = [(owners[1:], owners[:-1]), (owners[:, 1:], owners[:, :-1])]
        same = np.concatenate([(a == b)[(a >= 0) & (b >= 0)] for a, b in pairs])
        return bool(same.sum() > COMPACT * same.size)

    def marks(self, block: int) -> list[go.Scatter]:
        """The marks of a block; empty ones for −1. Solvers without blocks have none."""
        if self.owner is None:
            return []
        owned = np.flatnonzero(self.owner == block)
        margin = self._margins[self._margins[:, 1] == block, 0]
        quiet = {"hoverinfo": "skip", "cliponaxis": False}
        if self._empty is None:
            return [
                go.Scatter(
                    x=self._x[rows],
                    y=self._y[rows],
                    mode="markers",
                    marker={"size": 3, "color": _INK, "opacity": opacity},
                    **quiet,
                )
                for rows, opacity in ((margin, 0.4), (owned, 1.0))
            ]
        cells = self._empty.copy()
        cells[self._y, self._x] = 0
        cells[self._y[margin], self._x[margin]] = 1
        cells[self._y[owned], self._x[owned]] = 2
        cells = _filled(cells)
        shade, outline = _rectangles(cells == 1), _outline(cells == 2)
        return [
            go.Scatter(
                x=shade[0], y=shade[1], mode="lines", line={"width": 0}, fill="toself", fillcolor=_SHADE, **quiet
            ),
            go.Scatter(x=outline[0], y=outline[1], mode="lines", line={"color": _INK, "width": 2.5}, **quiet),
        ]


def _filled(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cells without a row (−1) take the value of most, and at least three, of their eight neighbours."""
    height, width = cells.shape
    around = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    while True:
        padded = np.pad(cells, 1, constant_values=-1)
        near = np.stack([padded[i : i + height, j : j + width] for i, j in around])
        votes = np.stack([(near == value).sum(axis=0) for value in range(3)])
        claimed = (cells < 0) & (votes.max(axis=0) >= 3)
        if not claimed.any():
            return cells
        cells = np.where(claimed, votes.argmax(axis=0), cells)


def _outline(inside: NDArray[np.bool_]) -> tuple[Any, Any]:
    """x and y of the lines around the cells that are `inside` (rows, columns), NaN after each."""
    padded = np.pad(inside, 1)
    y, left, right = _runs((padded[1:] != padded[:-1])[:, 1:-1])
    x, top, bottom = _runs((padded[:, 1:] != padded[:, :-1])[1:-1].T)
    return _joined([(left, right), (x, x)]), _joined([(y, y), (top, bottom)])


def _rectangles(inside: NDArray[np.bool_]) -> tuple[Any, Any]:
    """x and y of rectangles that cover the cells that are `inside` (rows, columns), NaN after each."""
    y, left, right = _runs(inside)
    return _joined([(left, right, right, left)]), _joined([(y, y, y + 1, y + 1)])


def _runs(cells: NDArray[np.bool_]) -> tuple[Any, Any, Any]:
    """The edges of unbroken runs of cells along the rows: at which row, from where, to where."""
    change = np.diff(np.pad(cells.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, start = np.nonzero(change == 1)
    return row - 0.5, start - 0.5, np.nonzero(change == -1)[1] - 0.5


def _joined(lines: list[tuple[Floats, ...]]) -> NDArray[np.float32]:
    """Lines, given by their first points, their second points and so on, one after another with NaN between."""
    parts = [np.column_stack([*points, np.full(len(points[0]), np.nan)]).ravel() for points in lines]
    return np.concatenate(parts).astype(np.float32)


def _step(trace: Trace, number: int) -> tuple[int, str]:
    """The block of update `number` (−1: none) and a line that says where the solve stands after it."""
    if number == 0:
        block, at, name = -1, trace["epoch"].isel(epoch=0), "before any update"
        residual = at["residual_per_rhs"]
    else:
        at = trace["update"].sel(update=number)
        block, residual = int(at["block"]), at["residual"]
        name = f"update {number:,}" + (f": block {block}" if block >= 0 else "")
    return block, f"{name} · ‖r‖/‖b‖ = {float(residual[0]):.3g} · work {float(at['work']):.3g}"


def _colorscale(square_root: bool) -> list[tuple[float, str]]:
    """Blue, white, red over −limit to limit; evenly, or as the values whose square roots are even."""
    even = np.linspace(-1, 1, 65)
    places = even if square_root else np.sign(even) * even**2
    colors = sample_colorscale(list(_COLORS), (even + 1) / 2)
    return list(zip(((places + 1) / 2).tolist(), colors, strict=True))


def _picture(
    x: Any, y: Any, codes: Integers, limit: float, power: int, owner: Any, *, on_grid: bool
) -> go.Heatmap | go.Scatter:
    """Residuals, in units of 10^−power, as pixels or points."""
    unit = f" × 10<sup>{-power}</sup>".replace("-", "−") if power else ""
    block = "" if owner is None else "<br>block %{text}"
    place = "row %{y:d}, column %{x:d}" if on_grid else "inputs %{x:.4g}, %{y:.4g}"
    value = "%{z:+,d}" if on_grid else "%{marker.color:+,d}"
    top = limit * 10.0**power
    colors = {"colorscale": _colorscale(square_root=False), "showscale": False}
    shared = {
        "x": x,
        "y": y,
        "text": owner,
        "hovertemplate": f"{place}{block}<br>residual {value}{unit}<extra></extra>",
    }
    if on_grid:
        return go.Heatmap(z=codes, zmin=-top, zmax=top, hoverongaps=False, **colors, **shared)
    size = 9 if len(x) <= 500 else 6 if len(x) <= 4000 else 4
    marker = {"color": codes, "cmin": -top, "cmax": top, "size": size, **colors}
    return go.Scatter(mode="markers", marker=marker, **shared)


def _add_color_bar(figure: go.Figure, limit: float, right_hand_sides: int) -> None:
    """A bar above the picture on which the colours are even, labelled with the residuals they stand for."""
    figure.add_scatter(x=[None], y=[None], mode="markers", marker={"color": [0], "coloraxis": "coloraxis"})
    places = (-1, -0.5, 0, 0.5, 1)
    name = "residual r" if right_hand_sides == 1 else "residual r of the first right-hand side"
    labels = [f"{math.copysign(place * place, place) * limit:.2g}".replace("-", "−") for place in places]
    bar = horizontal_bar(f"{name}, colours by √|r|", places, labels, _GAP)
    figure.update_layout(
        coloraxis={"cmin": -1, "cmax": 1, "colorscale": _colorscale(square_root=True), "colorbar": bar}
    )


def _add_axes(figure: go.Figure, shape: tuple[int, int] | None) -> None:
    if shape is not None:
        shared = {"showgrid": False, "showticklabels": False, "ticks": "", "showline": False, "constrain": "domain"}
        figure.update_xaxes(**shared, range=(-0.5, shape[1] - 0.5))
        figure.update_yaxes(**shared, range=(shape[0] - 0.5, -0.5), scaleanchor="x")
    else:
        figure.update_xaxes(title_text="first input", showgrid=False)
        figure.update_yaxes(title_text="second input", showgrid=False)


def _playing(duration: int) -> dict[str, Any]:
    # without a redraw plotly changes scatters only
    return {"mode": "immediate", "fromcurrent": True, "frame": {"duration": duration, "redraw": True}} | {
        "transition": {"duration": 0}
    }


def _add_controls(figure: go.Figure, steps: list[dict[str, Any]], theme: Theme) -> go.Figure:
    """The slider below the picture, with the step it is at, and below it the buttons."""
    on_grid = figure.layout.xaxis.showticklabels is False
    axis = 0 if on_grid else 50
    slider = {
        "steps": steps,
        "x": 0,
        "y": 0,
        "len": 1,
        "pad": {"t": 8 + axis, "l": 8, "r": 8},
        "currentvalue": {"font": {"size": CAPTION_SIZE, "color": theme.ink}, "offset": 10},
        # the labels are whole sentences, for the line above; along the slider they would not fit
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},
        "bgcolor": theme.button,
        "activebgcolor": theme.muted,
        "bordercolor": theme.muted,
        "tickcolor": theme.muted,
        "ticklen": 4,
        "minorticklen": 4,
    }
    buttons = {
        "type": "buttons",
        "direction": "right",
        "showactive": False,
        "x": 0,
        "xanchor": "left",
        "y": 0,
        "yanchor": "top",
        "pad": {"t": _CONTROLS - 46 + axis, "l": 8, "r": 0, "b": 0},
        "bgcolor": theme.button,
        "bordercolor": theme.muted,
        "font": {"color": theme.button_text},
        "buttons": [
            {"label": "play", "method": "animate", "args": [None, _playing(PAUSE)]},
            {"label": "pause", "method": "animate", "args": [[None], _playing(0)]},
        ],
    }
    side = {"l": 16, "r": 16} if on_grid else {}
    margin = {"t": figure.layout.margin.t, "b": _CONTROLS + axis, **side}
    return figure.update_layout(sliders=[slider], updatemenus=[buttons], margin=margin)
