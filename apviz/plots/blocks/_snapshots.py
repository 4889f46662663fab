"""Recorded updates as pictures: selection, labels, and residuals in colours.

Residuals run from blue to red by the square root, so that small ones show. All updates share one scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from numpy.typing import NDArray
from plotly.colors import sample_colorscale

from apviz.plots._axes import Floats, horizontal_bar
from apviz.plots._style import CAPTION_SIZE, Theme
from apviz.tracing.trace import Trace, require_trace, traces_in

Integers = NDArray[np.int16]

#: Blue, white and red of ColorBrewer's RdBu, without its darkest ends, where an outline would be invisible. Both themes
#: share them, because white means zero.
_COLORS: Final = ("#2166AC", "#67A9CF", "#D1E5F0", "#F7F7F7", "#FDDBC7", "#EF8A62", "#B2182B")
#: Colour behind the pixels or points, dark enough to differ from white and from the palest colours.
NO_ROW: Final = "#B4BBC5"


def require_snapshots(trace: Trace, figure: str) -> None:
    """Check that a trace has rows and snapshots; the message says how to record them."""
    require_trace(trace)
    missing = [group for group in ("rows", "snapshot") if group not in trace]
    if missing:
        raise ValueError(
            f"{figure} needs the groups rows and snapshot; this trace of {trace.method_name} has no "
            f"{' and no '.join(missing)}. Record them while solving: "
            "hooks=[apviz.Recorder(rows=True, snapshots=range(0, 60))]"
        )


def place_of(update: int, updates: list[int], what: str) -> int:
    """Return the place of an update among those that can be drawn; else `what` is the subject of the ValueError."""
    if isinstance(update, bool) or update not in updates:
        raise ValueError(
            f"{what} was not recorded, or is not finite; there are {len(updates)} updates from {updates[0]} to "
            f"{updates[-1]}"
        )
    return updates.index(update)


def line_above(label: str, theme: Theme) -> dict[str, Any]:
    """Return the annotation above a chart that names its update."""
    return {
        "text": label, "showarrow": False, "x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper",
        "yanchor": "bottom", "yshift": 6, "font": {"size": CAPTION_SIZE, "color": theme.ink},
    }  # fmt: skip


def drawable(trace: Trace) -> tuple[xr.Dataset, list[str]]:
    """Return the snapshots to draw, and notes on the others; ValueError if no residual is finite."""
    snapshots, notes = trace["snapshot"], list[str]()
    finite = np.isfinite(snapshots["residual"].values).all(axis=1)
    if not finite.any():
        raise ValueError("no recorded residual is finite; record earlier updates: Recorder(snapshots=range(0, 60))")
    if not finite.all():
        notes.append(f"{np.count_nonzero(~finite)} non-finite pictures left out")
    # during a solve, the updates of the last epoch have snapshots but no numbers yet
    numbered = [0, *trace["update"]["update"].values] if "update" in trace else [0]
    return snapshots.isel(update=finite & np.isin(snapshots["update"].values, numbered)), notes


def step(trace: Trace, number: int) -> tuple[int, str]:
    """Return the block of update `number` (−1: none) and a line on the state of the solve after it."""
    if number == 0:
        block, at, name = -1, trace["epoch"].isel(epoch=0), "before any update"
        residual = at["residual_per_rhs"]
    else:
        at = trace["update"].sel(update=number)
        block, residual = int(at["block"]), at["residual"]
        part = "colour" if "colour" in trace else "block"
        name = f"update {number:,}" + (f": {part} {block}" if block >= 0 else "")
    # inside a sweep over colours, the recursion knows the residual on few rows
    # of the first right-hand side alone; the residual of a run is a mean over all of them
    of = "‖r‖/‖b‖" if trace.attrs["right_hand_sides"] == 1 else "‖r₁‖/‖b₁‖"
    known = f" · {of} = {float(residual[0]):.3g}" if math.isfinite(float(residual[0])) else ""
    return block, f"{name}{known} · work {float(at['work']):.3g}{_with_final_check(trace, number)}"


def _with_final_check(trace: Trace, number: int) -> str:
    """Return the work of a solve if its last update is shown, which the pass that certifies it follows."""
    if "update" not in trace or number != int(trace["update"]["update"][-1]):
        return ""
    done, total = (float(trace[group]["work"][-1]) for group in ("update", "epoch"))
    return f" ({total:.3g} with the final check)" if f"{total:.3g}" != f"{done:.3g}" and total > done else ""


@dataclass(frozen=True)
class Quantized:
    """Residuals as 16-bit multiples of a power of ten, between 1/3,277 and 1/32,767 of the limit.

    Args:
        limit: Largest residual, rounded up.
        power: Exponent; a code times 10^−power is the residual.
    """

    codes: Integers
    limit: float
    power: int

    @property
    def top(self) -> float:
        """Return the limit as a code."""
        return float(self.limit * 10.0**self.power)

    @property
    def unit(self) -> str:
        """Return the unit of the codes as written in hover texts; empty for 1."""
        return f" × 10<sup>{-self.power}</sup>".replace("-", "−") if self.power else ""


def quantized(values: Floats, compared_with: Trace | Sequence[Trace] = ()) -> Quantized:
    """Quantize the residuals of all updates on one scale, which covers those of other traces too."""
    largest = [largest_residual(trace) for trace in traces_in(compared_with)]
    limit = rounded_up(max([float(np.abs(values).max()), *largest]))
    power = math.floor(math.log10(np.iinfo(np.int16).max / limit))
    return Quantized(np.rint(values * 10.0**power).astype(np.int16), limit, power)


def largest_residual(trace: Trace) -> float:
    """Return the largest absolute residual of all recorded updates that are finite; 0 if there are none."""
    if "snapshot" not in trace:
        return 0.0
    values = trace["snapshot"]["residual"].values
    return float(np.abs(values[np.isfinite(values).all(axis=1)]).max(initial=0.0))


def rounded_up(largest: float) -> float:
    """Round a number up to two digits; return 1 for 0."""
    if largest == 0:
        return 1.0
    unit = 10.0 ** (math.floor(math.log10(largest)) - 1)
    return math.ceil(largest / unit) * unit


def colorscale(square_root: bool) -> list[tuple[float, str]]:
    """Return colours from blue over white to red for −limit to limit, linear in the values or in their square roots."""
    even = np.linspace(-1, 1, 65)
    places = even if square_root else np.sign(even) * even**2
    colors = sample_colorscale(list(_COLORS), (even + 1) / 2)
    return list(zip(((places + 1) / 2).tolist(), colors, strict=True))


def picture(
    x: Any, y: Any, codes: Integers, scale: Quantized, owner: Any, *, on_grid: bool, place: str = ""
) -> go.Heatmap | go.Scatter:
    """Return the residuals of one update as pixels or points; `place` labels x and y in the hover text."""
    block = "" if owner is None else "<br>block %{text}"
    place = place or ("row %{y:d}, column %{x:d}" if on_grid else "inputs %{x:.4g}, %{y:.4g}")
    value = "%{z:+,d}" if on_grid else "%{marker.color:+,d}"
    colors = {"colorscale": colorscale(square_root=False), "showscale": False}
    shared = {
        "x": x,
        "y": y,
        "text": owner,
        "hovertemplate": f"{place}{block}<br>residual {value}{scale.unit}<extra></extra>",
    }
    if on_grid:
        return go.Heatmap(z=codes, zmin=-scale.top, zmax=scale.top, hoverongaps=False, **colors, **shared)
    marker = {"color": codes, "cmin": -scale.top, "cmax": scale.top, "size": marker_size(len(x)), **colors}
    return go.Scatter(mode="markers", marker=marker, **shared)


def marker_size(points: int) -> int:
    """Return the size in pixels of a point, by the number of points."""
    return 9 if points <= 500 else 6 if points <= 4000 else 4


def add_input_axes(figure: go.Figure, shape: tuple[int, int] | None) -> None:
    """Set the axes of a picture: square pixels for a grid of the given shape, input units for points."""
    if shape is not None:
        shared = {"showgrid": False, "showticklabels": False, "ticks": "", "showline": False, "constrain": "domain"}
        figure.update_xaxes(**shared, range=(-0.5, shape[1] - 0.5))
        figure.update_yaxes(**shared, range=(shape[0] - 0.5, -0.5), scaleanchor="x")
    else:
        figure.update_xaxes(title_text="first input", showgrid=False)
        figure.update_yaxes(title_text="second input", showgrid=False)


def add_residual_color_bar(figure: go.Figure, limit: float, right_hand_sides: int, gap: int) -> None:
    """Add a bar `gap` pixels above the picture, with evenly spaced colours labelled by their residuals."""
    figure.add_scatter(x=[None], y=[None], mode="markers", marker={"color": [0], "coloraxis": "coloraxis"})
    places = (-1, -0.5, 0, 0.5, 1)
    name = "residual r" if right_hand_sides == 1 else "residual r₁"
    labels = [f"{math.copysign(place * place, place) * limit:.2g}".replace("-", "−") for place in places]
    bar = horizontal_bar(f"{name} at each point, stretched near zero", places, labels, gap)
    figure.update_layout(coloraxis={"cmin": -1, "cmax": 1, "colorscale": colorscale(square_root=True), "colorbar": bar})
