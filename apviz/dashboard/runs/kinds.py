"""What a trace is of: a solve, or a training; one that was just begun is of neither yet."""

from __future__ import annotations

from collections.abc import Mapping

from apviz.tracing import Trace


def is_solve(trace: Trace) -> bool:
    """Whether there are epochs, or iterations, of a solve."""
    return "epoch" in trace and trace["epoch"].sizes["epoch"] > 0


def has_steps(trace: Trace) -> bool:
    """Whether there are steps of a training."""
    return "step" in trace and trace["step"].sizes["step"] > 0


def solves_of(traces: Mapping[str, Trace]) -> dict[str, Trace]:
    """Without the trainings."""
    return {name: trace for name, trace in traces.items() if is_solve(trace)}
