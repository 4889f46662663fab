"""A moment on the page Compare: the one that a click on a chart means, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apviz.dashboard.charts.moment import Moment, at_epoch, at_update, find
from apviz.tracing import Trace


def clicked(chart: str, point: dict[str, Any], traces: Mapping[str, Trace], selected: str) -> tuple[str, Moment] | None:
    """The run that a point of a chart belongs to, by its name, and the moment; None for a point of none.

    Args:
        selected: the run that the charts of one run show.
    """
    trace, values = traces.get(selected), point.get("values", [])
    moment = None
    if chart == "timeline" and trace is not None:
        moment = at_update(trace, round(point["x"]))
    elif chart == "blocks" and trace is not None:
        moment = at_epoch(trace, round(point["x"]))
    elif len(values) > 2:
        hit = find(list(traces.values()), values[1])
        if hit is not None:
            return next(name for name, each in traces.items() if each is hit[0]), hit[1]
    return None if moment is None else (selected, moment)


def words(trace: Trace, moment: Moment) -> str:
    """What is marked in every chart."""
    return (
        f"Moment marked in every chart: {trace.label}, update {moment.update:,}, epoch {moment.epoch:,}, "
        f"work {moment.work:.4g}, {moment.seconds:.3g} s"
    )
