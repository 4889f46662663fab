"""A slider and a play button that step through the frames of a figure.

The recorded updates that can be drawn, and what is to be said about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from apviz.plots._style import CAPTION_SIZE, Theme

if TYPE_CHECKING:
    import xarray as xr

    from apviz.tracing.trace import Trace

#: milliseconds between two frames while playing
PAUSE: Final = 450
#: pixels of the slider with the line above it that says where it is
PLAYER: Final = 62
#: of two buttons with one sign each
BUTTONS_WIDTH: Final = 106


def slider(frames: Sequence[str], theme: Theme, labels: Sequence[str] | None = None, **place: Any) -> dict[str, Any]:
    """A slider with one step for each frame, and a line above it that says at which it is.

    Args:
        frames: their names.
        labels: of the steps; the names, where there are none.
        place: plotly's x, y, anchors, len and pad.
    """
    steps = [
        {"label": label, "method": "animate", "args": [[name], _showing(0)]}
        for name, label in zip(frames, labels or frames, strict=True)
    ]
    return {
        "steps": steps,
        "currentvalue": {"font": {"size": CAPTION_SIZE, "color": theme.ink}, "offset": 10},
        # the labels are for the line above; along the slider they would not fit
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},
        "bgcolor": theme.button,
        "activebgcolor": theme.muted,
        "bordercolor": theme.muted,
        "tickcolor": theme.muted,
        "ticklen": 4,
        "minorticklen": 4,
    } | place


def play_buttons(theme: Theme, labels: tuple[str, str] = ("►", "❚❚"), **place: Any) -> dict[str, Any]:
    """Play and pause.

    Args:
        labels: of the two.
        place: plotly's x, y, anchors and pad.
    """
    return {
        "type": "buttons",
        "direction": "right",
        "showactive": False,
        "bgcolor": theme.button,
        "bordercolor": theme.muted,
        "font": {"color": theme.button_text},
        "buttons": [
            {"label": labels[0], "method": "animate", "args": [None, _showing(PAUSE)]},
            {"label": labels[1], "method": "animate", "args": [[None], _showing(0)]},
        ],
    } | place


def _showing(duration: int) -> dict[str, Any]:
    # without a redraw plotly changes scatters only
    return {"mode": "immediate", "fromcurrent": True, "frame": {"duration": duration, "redraw": True}} | {
        "transition": {"duration": 0}
    }


def require_snapshots(trace: Trace, figure: str) -> None:
    """Refuses a trace that recorded no rows or no snapshots, with how to record them.

    Raises:
        ValueError: a group is missing.
    """
    missing = [group for group in ("rows", "snapshot") if group not in trace]
    if missing:
        raise ValueError(
            f"{figure} needs the groups rows and snapshot; this trace of {trace.label} has no "
            f"{' and no '.join(missing)}. Record them while solving: "
            "hooks=[apviz.Recorder(rows=True, snapshots=range(0, 60))]"
        )


def drawable(trace: Trace) -> tuple[xr.Dataset, list[str]]:
    """The snapshots to draw, and what is to be said about the others.

    Raises:
        ValueError: no residual is finite.
    """
    snapshots, notes = trace["snapshot"], list[str]()
    finite = np.isfinite(snapshots["residual"].values).all(axis=1)
    if not finite.any():
        raise ValueError("no recorded residual is finite; record earlier updates: Recorder(snapshots=range(0, 60))")
    if not finite.all():
        notes.append(f"{np.count_nonzero(~finite)} pictures that are not finite left out")
    # while a solve runs, the updates of its last epoch have snapshots, but no numbers yet
    numbered = [0, *trace["update"]["update"].values] if "update" in trace else [0]
    return snapshots.isel(update=finite & np.isin(snapshots["update"].values, numbered)), notes


def step(trace: Trace, number: int) -> tuple[int, str]:
    """The block of update `number` (−1: none) and a line that says where the solve stands after it."""
    if number == 0:
        block, at, name = -1, trace["epoch"].isel(epoch=0), "before any update"
        residual = at["residual_per_rhs"]
    else:
        at = trace["update"].sel(update=number)
        block, residual = int(at["block"]), at["residual"]
        name = f"update {number:,}" + (f": block {block}" if block >= 0 else "")
    return block, f"{name} · ‖r‖/‖b‖ = {float(residual[0]):.3g} · work {float(at['work']):.3g}"
