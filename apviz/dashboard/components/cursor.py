"""The cursor of a run: the update marked in every chart, and its choice by clicks on charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apviz.plots._labels import legend_entry, run_names
from apviz.tracing import Trace


@dataclass(frozen=True)
class Cursor:
    """State after an update, or for a run without recorded updates after an epoch.

    Args:
        update: Number of the update, or of the epoch if no updates are recorded.
        epoch: Epoch of the update.
        work: Kernel entries so far, in units of n².
        seconds: Time so far in seconds, including set-up.
    """

    update: int
    epoch: int
    work: float
    seconds: float

    def x(self, unit: str) -> float:
        """Return the position on an axis in `unit`: `work`, `epochs`, `seconds` or `update`."""
        places = {"work": self.work, "epochs": self.epoch, "seconds": self.seconds, "update": self.update}
        return float(places[unit])


def at_update(trace: Trace, number: int) -> Cursor | None:
    """Return the cursor after update `number`; None if that was not recorded."""
    if "update" not in trace:
        return None
    updates = trace["update"]
    place = _place(updates["update"].values, number)
    if place is None:
        return None
    row = updates.isel(update=place)
    return Cursor(int(row["update"]), int(row["epoch_of_update"]), float(row["work"]), float(row["seconds"]))


def at_epoch(trace: Trace, number: int) -> Cursor | None:
    """Return the cursor at the end of epoch `number`; None if that was not recorded."""
    epochs = trace["epoch"]
    place = _place(epochs["epoch"].values, number)
    if place is None:
        return None
    last = number
    if "update" in trace:
        last = int(np.searchsorted(trace["update"]["epoch_of_update"].values, number, side="right"))
    row = epochs.isel(epoch=place)
    return Cursor(last, int(row["epoch"]), float(row["work"]), float(row["seconds"]))


def _place(numbers: np.ndarray, number: int) -> int | None:
    """Return the index of a number in an increasing array; None if it is missing."""
    place = int(np.searchsorted(numbers, number))
    return place if place < len(numbers) and numbers[place] == number else None


def cursor_at(trace: Trace | None, update: int | None) -> Cursor | None:
    """Return the cursor after an update of a run, 0 being before the first; None if it was not recorded."""
    if trace is None or update is None:
        return None
    return at_update(trace, update) or at_epoch(trace, update)


def clicked_epoch(drawn: Sequence[Trace], point: Mapping[str, Any]) -> tuple[Trace, Cursor] | None:
    """Return the run and the cursor of a clicked point of a curve; None if it belongs to no run.

    The work of the point does not identify the run: runs with equal blocks have equal work after every epoch.

    Args:
        drawn: Runs in the figure, which are named in the groups of its curves.
        point: Value of `Chart.clicked` with the group of the curve; the first of its numbers is the epoch.
    """
    entries = {legend_entry(name, trace): trace for name, trace in zip(run_names(drawn), drawn, strict=True)}
    trace, values = entries.get(point.get("group", "")), point.get("values", [])
    cursor = at_epoch(trace, round(values[0])) if trace is not None and values else None
    return None if trace is None or cursor is None else (trace, cursor)


def clicked_cursor(
    chart: str, point: Mapping[str, Any], drawn: Sequence[Trace], traces: Mapping[str, Trace]
) -> tuple[str, Cursor] | None:
    """Return the name of the run of a point in a chart, and the cursor there; None if it belongs to no run.

    Args:
        chart: Name of the chart. `timeline` and `blocks` show one run over updates or epochs; others show curves.
        drawn: Runs in the chart.
        traces: Runs by their names.
    """
    if chart in ("timeline", "blocks"):
        at = at_update if chart == "timeline" else at_epoch
        cursor = at(drawn[0], round(point["x"])) if drawn else None
        hit = None if cursor is None else (drawn[0], cursor)
    else:
        hit = clicked_epoch(drawn, point)
    name = next((name for name, trace in traces.items() if hit is not None and trace is hit[0]), None)
    return None if hit is None or name is None else (name, hit[1])
