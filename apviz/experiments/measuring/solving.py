"""One solve of an experiment: recorded, and what its trace says about reaching a residual."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apviz import plots
from apviz.experiments.base import Chart, Options, Row
from apviz.experiments.numbers import duration, spread
from apviz.solvers import Solver, solve
from apviz.system import KernelSystem
from apviz.tracing import Recorder, Trace, open_trace


def solved(system: KernelSystem, solver: Solver, path: Path, options: Options, levels: Sequence[float]) -> Row:
    """Solves, with a trace at `path`; the row says how it ended and when its residual was first below each level."""
    system.operator.prepare(system.b.shape[1])  # compiling is not part of a solve's time
    recorder = Recorder(path)
    solution = solve(system, solver, [recorder, *options.hooks])
    trace = recorder.trace
    seconds = _seconds(trace)
    return {
        "method": trace.label,
        "settings": json.loads(trace.attrs["solver_settings"]),
        "outcome": str(solution.stop_reason),
        "residual": solution.residual,
        "epochs": solution.epochs,
        "work": solution.work,
        "seconds": float(seconds[-1]),
        "setup_seconds": solution.setup_seconds,
        "epoch_seconds": float(seconds[-1] - seconds[0]) / max(1, len(seconds) - 1),
        "reached": {f"{level:g}": reached(trace, level) for level in levels},
    }


def reached(trace: Trace, level: float) -> dict[str, float] | None:
    """Epochs, work and seconds at the end of the first epoch with a residual below `level`; None: it never was."""
    epoch = trace["epoch"]
    # epoch 0, before any update, has residual 1 up to rounding
    below = 1 + np.flatnonzero(epoch["residual"].values[1:] < level)
    if not len(below):
        return None
    found = {"epochs": epoch["epoch"].values, "work": epoch["work"].values, "seconds": _seconds(trace)}
    return {name: float(values[below[0]]) for name, values in found.items()}


def _seconds(trace: Trace) -> NDArray[np.float64]:
    """Time at the end of every epoch, set-up included, but not what the recorder does before the first update."""
    seconds = trace["epoch"]["seconds"].values
    return np.asarray(seconds - seconds[0] + trace.attrs["setup_seconds"], dtype=np.float64)


def when(rows: Sequence[Row], level: float, what: str) -> str:
    """`what` (`epochs`, `work` or `seconds`) at which the rows' solves reached a residual, for a table.

    `> 500`: none did before it ended; `120 (1 of 2)`: some did.
    """
    found = [row["reached"][f"{level:g}"] for row in rows]
    there = [place[what] for place in found if place is not None]
    if not there:
        return f"> {_shown([max(row[what] for row in rows)], what)}"
    return _shown(there, what) + (f" ({len(there)} of {len(found)})" if len(there) < len(found) else "")


def _shown(values: Sequence[float], what: str) -> str:
    if what == "seconds":
        return duration(float(np.mean(values)))
    return spread(values, 0 if what == "epochs" else 1)


def ending(rows: Sequence[Row]) -> str:
    """How solves ended, in the words of `StopReason`; what did not converge says so."""
    reasons = dict.fromkeys(row["outcome"] for row in rows)
    return ", ".join(reason if reason == "converged" else f"{reason}, not converged" for reason in reasons)


def machines(rows: Iterable[Row]) -> str:
    """What the rows were measured on, in words."""
    return "; ".join(dict.fromkeys(row["machine"] for row in rows))


def traces_of(rows: Mapping[str, Row], folder: Path, **wanted: object) -> list[Trace]:
    """The traces of the cells whose rows have these values, and seed 0 unless one is asked for."""
    chosen = {"seed": 0} | wanted
    keys = [key for key, row in rows.items() if all(row.get(name) == value for name, value in chosen.items())]
    return [open_trace(folder / f"{key}.zarr") for key in keys if (folder / f"{key}.zarr").exists()]


def residual_charts(headings: Mapping[str, str], text: str, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
    """The residuals by epoch for each data set, by its name, under its heading; none where there is no trace."""
    found = {name: traces_of(rows, folder, dataset=name) for name in headings}
    return [residual_chart(headings[name], text, traces) for name, traces in found.items() if traces]


def residual_chart(heading: str, text: str, traces: Sequence[Trace]) -> Chart:
    """The residuals of some traces by epoch."""
    return Chart(heading, text, lambda theme: plots.residuals(traces, x="epochs", theme=theme))
