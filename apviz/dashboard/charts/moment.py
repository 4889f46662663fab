"""One moment of a run: an update, and where every chart has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apviz.tracing import Trace


@dataclass(frozen=True)
class Moment:
    """The state after an update, or for a run without recorded updates after an epoch.

    Args:
        update: its number.
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
    place = int(np.searchsorted(updates["update"].values, number))
    if place >= updates.sizes["update"]:
        return None
    row = updates.isel(update=place)
    return Moment(int(row["update"]), int(row["epoch_of_update"]), float(row["work"]), float(row["seconds"]))


def at_epoch(trace: Trace, number: int) -> Moment | None:
    """The moment at the end of epoch `number`."""
    epochs = trace["epoch"]
    place = int(np.searchsorted(epochs["epoch"].values, number))
    if place >= epochs.sizes["epoch"]:
        return None
    last = np.searchsorted(trace["update"]["epoch_of_update"].values, number, side="right") if "update" in trace else 0
    row = epochs.isel(epoch=place)
    return Moment(int(last), int(row["epoch"]), float(row["work"]), float(row["seconds"]))


def find(traces: Sequence[Trace], work: float) -> tuple[Trace, Moment] | None:
    """The run and the epoch that have exactly this work; hovering gives it in full."""
    for trace in traces:
        epochs = trace["epoch"]
        place = np.flatnonzero(np.isclose(epochs["work"].values, work, rtol=1e-9, atol=0))
        if len(place):
            moment = at_epoch(trace, int(epochs["epoch"].values[place[0]]))
            if moment is not None:
                return trace, moment
    return None
