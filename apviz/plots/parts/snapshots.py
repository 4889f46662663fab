"""The recorded updates that can be drawn, and what is to be said about one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from apviz.tracing.trace import Trace


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
