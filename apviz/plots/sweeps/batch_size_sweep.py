"""Costs of a block size: epochs, seconds, κ′ and memory against b."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from apviz.analysis.sweeps import factor_bytes, fastest_over_seeds, nearest, of_one_system, repeats
from apviz.analysis.verdict import what_next
from apviz.plots._axes import add_level, as_traces, finish, log_ticks
from apviz.plots._style import ThemeName, theme_named
from apviz.plots.sweeps._curves import add_curves, mark_runs
from apviz.plots.sweeps.batch_sizes import require_block_sizes
from apviz.settings import require_number
from apviz.tracing.trace import Trace

#: Top panel if some runs did not converge: the residual of each run at its end.
REACHED: Final = {"residual": "final residual"}
#: Columns of `sweep_table` from top to bottom, and the titles of their axes.
PANELS: Final = {
    "epochs": "epochs", "seconds": "time (s)", "kappa_prime": "κ′ ≈ λ′max/λmin", "factor_bytes": "factor memory",
}  # fmt: skip
#: Heights in pixels: of the figure, and of one more panel.
HEIGHT, PANEL = 1000, 200
#: Factor of free room above and below the data on the axis of memory.
_ROOM: Final = 2.5
#: Most labels on the axis of b, and smallest ratio of two labelled neighbours.
_LABELLED: Final = 10
_APART: Final = 1.2


def batch_size_sweep(
    traces: Trace | Sequence[Trace], *, memory_limit: float | None = None, theme: ThemeName = "light"
) -> go.Figure:
    """Draw epochs and seconds to the tolerance, κ′ of the blocks and the memory of their factors, against b.

    If a run did not converge, a panel at the top shows the final residual of each run, with the tolerance as a line. If
    none converged, the caption names the b with the smallest residual, and the next step.

    A ring and a thin line mark the b with the shortest time, set-up included, among converged runs; of several seeds,
    the median counts. With several systems, tolerances or machines, only runs on the most frequent one compete. A cross
    marks the end of a run that did not converge, an open circle the end of one that still runs or was interrupted.
    Neither is a point of the curve.

    Args:
        memory_limit: Limit in bytes, drawn with the memory.

    Raises:
        ValueError: No trace; a trace without a block size; an unknown theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 100)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> for size in (20, 50):
        ...     _ = apviz.solve(system, apviz.AlternatingProjection(block_size=size), hooks=[recorder])
        >>> figure = apviz.plots.batch_size_sweep(recorder.traces)
        >>> figure.data[0].x.tolist()
        [20.0, 50.0]
    """
    several, colors = as_traces(traces), theme_named(theme)
    require_block_sizes(several, "batch_size_sweep")
    panels = PANELS if all(trace.converged for trace in several) else REACHED | PANELS
    figure = make_subplots(rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=0.05)
    add_curves(figure, several, "block_size", "block_size", panels, colors)
    for tol in sorted({trace.attrs["tol"] for trace in several}) if len(panels) > len(PANELS) else ():
        add_level(figure, tol, f"tolerance {tol:g}", colors, row=1, col=1)
    if memory_limit is not None:
        require_number("memory_limit", memory_limit, 0, "a positive number of bytes", strictly=True)
    memory = [factor_bytes(trace) for trace in several] + ([] if memory_limit is None else [memory_limit])
    # a limit at the edge of its panel would look like the frame
    room = [math.log10(min(memory) / _ROOM), math.log10(max(memory) * _ROOM)]
    ticks = {**log_ticks(memory), "tickformat": "~s", "ticksuffix": "B", "range": room}
    figure.update_yaxes(**ticks, row=len(panels), col=1)
    compared = of_one_system(several, "block_size")
    if best := fastest_over_seeds(compared, "block_size"):
        mark_runs(figure, best, "block_size", panels, colors)
    if memory_limit is not None:
        text = f"limit {memory_limit / 1e9:g} GB"
        add_level(figure, memory_limit, text, colors, right=True, below=True, row=len(panels), col=1)
    sizes = sorted({trace.block_size or 0 for trace in several})
    # all panels have labels, because the lowest may be below the window
    figure.update_xaxes(type="log", minor={"ticks": ""}, tickvals=sizes, ticktext=_labels(sizes), showticklabels=True)
    figure.update_xaxes(title_text="block size b", row=len(panels), col=1)
    figure.update_layout(height=HEIGHT + PANEL * (len(panels) - len(PANELS)))
    return finish(
        figure, several, colors, "Cost of each block size", "batch_size_sweep", _notes(several, compared, best)
    )


def _labels(sizes: Sequence[int]) -> list[str]:
    """Return a label for every b that is far enough from the label before it; empty labels for the others."""
    apart = max(_APART, (sizes[-1] / sizes[0]) ** (1 / _LABELLED))
    labels, last = [], 0.0
    for size in sizes:
        shown = size >= apart * last
        labels.append(f"{size:,}" if shown else "")
        last = size if shown else last
    return labels


def _notes(traces: Sequence[Trace], compared: Sequence[Trace], best: Sequence[Trace]) -> list[str]:
    if not best:
        return reached(compared)
    seconds = float(np.median([float(trace["epoch"]["seconds"][-1]) for trace in best]))
    over = f" in the median of {len(best)} seeds" if len(best) > 1 else ""
    sizes = sum(all(trace.converged for trace in runs) for runs in repeats(compared, "block_size"))
    notes = [f"ring: b = {best[0].block_size:,}, {seconds:.3g} s{over}, the fastest of {sizes} converged"]
    if len(compared) < len(traces):
        notes.append(f"on one system and machine, to tolerance {best[0].attrs['tol']:g}")
    return notes


def reached(traces: Sequence[Trace]) -> list[str]:
    """Return notes on a sweep over b without a converged run: the b with the smallest residual, and the next step."""
    ended = [trace for trace in traces if trace.finished]
    if (best := nearest(ended)) is None:
        return ["no run has ended yet, so no b is marked"]
    last = best["epoch"].isel(epoch=-1)
    return [
        f"none of {len(ended)} converged; smallest residual: {float(last['residual']):.2g}, by b = {best.block_size:,} "
        f"after {int(last['epoch']):,} epochs, {float(last['seconds']):.2g} s (tolerance {best.attrs['tol']:g})",
        what_next(best),
    ]
