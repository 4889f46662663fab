"""One moment of a run: an update, and where every chart has it.

Moments on the page Compare: the one that a click on a chart means, and in words.

The moment that is marked, in words and as a number that the keyboard can change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.components.server_owned import one_way
from apviz.dashboard.components.text import plain
from apviz.plots._labels import legend_entry, run_names
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


def clicked(
    chart: str, point: Mapping[str, Any], drawn: Sequence[Trace], traces: Mapping[str, Trace]
) -> tuple[str, Moment] | None:
    """The run that a point of a chart belongs to, by its name, and the moment; None for a point of none.

    Args:
        drawn: the runs in the chart.
    """
    if chart in ("timeline", "blocks"):
        at = at_update if chart == "timeline" else at_epoch
        moment = at(drawn[0], round(point["x"])) if drawn else None
        hit = None if moment is None else (drawn[0], moment)
    else:
        hit = find(drawn, point)
    name = next((name for name, trace in traces.items() if hit is not None and trace is hit[0]), None)
    return None if hit is None or name is None else (name, hit[1])


def moment_of(trace: Trace | None, update: int | None) -> Moment | None:
    """The moment after an update of a run; 0: before the first. None where there is none."""
    if trace is None or update is None:
        return None
    return at_update(trace, update) or at_epoch(trace, update)


def words(trace: Trace, moment: Moment) -> str:
    """What is marked in every chart."""
    return (
        f"Moment marked in every chart: {trace.label}, update {moment.update:,}, epoch {moment.epoch:,}, "
        f"work {moment.work:.4g}, {moment.seconds:.3g} s"
    )


def missing(trace: Trace | None, update: int) -> str:
    """Why a moment cannot be marked."""
    if trace is None:
        return f"there is no run here that has an update {update:,}"
    last = trace["update"]["update"][-1] if "update" in trace else trace["epoch"]["epoch"][-1]
    return f"{trace.label} has no update {update:,}; its last is {int(last):,}"


class MomentBar:
    """A field for an update of the run that is looked at, and what is marked.

    Args:
        go: called with the update that is asked for; None: no moment.
    """

    def __init__(self, go: Callable[[int | None], None]) -> None:
        look = {"size": "small", "width": 320, "margin": (14, 12, 8, 12), "visible": False}
        self.field = one_way(pmui.IntInput(label="Update", value=None, start=0, **look), heard=["value"])
        self.field.param.watch(lambda event: go(event.new), "value")
        self.words = one_way(pmui.Typography("", variant="body2", margin=(4, 12), visible=False))
        self.view = pn.FlexBox(self.field, self.words, align_items="center", sizing_mode="stretch_width")

    def show(self, trace: Trace | None, moment: Moment | None) -> None:
        """The run that is looked at, and the moment of it that is marked."""
        self.field.visible = trace is not None
        if trace is not None:
            self.field.label = f"Update of {trace.label}"
        self.field.value = None if moment is None else moment.update
        self.words.visible = moment is not None
        if trace is not None and moment is not None:
            self.words.object = plain(words(trace, moment))
