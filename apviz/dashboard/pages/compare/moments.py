"""Moments on the page Compare: the one that a click on a chart means, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apviz.dashboard.charts.moment import Moment, at_epoch, at_update, find
from apviz.tracing import Trace


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
