"""One moment of a run: an update, and where every chart has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apviz.plots.parts.captions import legend_entry, run_names
from apviz.tracing import Trace


@dataclass(frozen=True)
class Moment:
    """The state after an update, or for a run without recorded updates after an epoch.

    Args:
        update: its number; that of the epoch where no updates are recorded.
        epoch: the epoch it belongs to.
    """

    update: int
    epoch: int
    work: float
    seconds: float

    def x(self, unit: str) -> float:
        """Where an axis in `unit` has it: `work`, `epochs`, `seconds` or `update`."""
        return {"work": self.work, "epochs": float(self.epoch), "seconds": self.seconds, "update": float(self.update)}[
            unit
        ]


def at_update(trace: Trace, number: int) -> Moment | None:
    """The moment after update `number`; None if that was not recorded."""
    if "update" not in trace:
        return None
    updates = trace["update"]
    place = _place(updates["update"].values, number)
    if place is None:
        return None
    row = updates.isel(update=place)
    return Moment(int(row["update"]), int(row["epoch_of_update"]), float(row["work"]), float(row["seconds"]))


def at_epoch(trace: Trace, number: int) -> Moment | None:
    """The moment at the end of epoch `number`; None if that was not recorded."""
    epochs = trace["epoch"]
    place = _place(epochs["epoch"].values, number)
    if place is None:
        return None
    last = number
    if "update" in trace:
        last = int(np.searchsorted(trace["update"]["epoch_of_update"].values, number, side="right"))
    row = epochs.isel(epoch=place)
    return Moment(last, int(row["epoch"]), float(row["work"]), float(row["seconds"]))


def find(drawn: Sequence[Trace], point: Mapping[str, Any]) -> tuple[Trace, Moment] | None:
    """The run that a clicked point of curves belongs to, and the epoch of the point; None for a point of none.

    Not by its work: runs with equal blocks have equal work after every epoch.

    Args:
        drawn: the runs in the figure, which names them in its curves' groups.
        point: of `Chart.clicked`, with the group of its curve; the first of its numbers is its epoch.
    """
    entries = {legend_entry(name, trace): trace for name, trace in zip(run_names(drawn), drawn, strict=True)}
    trace, values = entries.get(point.get("group", "")), point.get("values", [])
    moment = at_epoch(trace, round(values[0])) if trace is not None and values else None
    return None if trace is None or moment is None else (trace, moment)


def _place(numbers: np.ndarray, number: int) -> int | None:
    """Where a number stands in a rising row, if it does."""
    place = int(np.searchsorted(numbers, number))
    return place if place < len(numbers) and numbers[place] == number else None
