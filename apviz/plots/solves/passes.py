"""Passes of runs: the residual by the recursion, and the true residual B − KW."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import VARIABLES, X, as_traces, positive
from apviz.plots._curves import RESIDUAL, Curves, Grid, with_looks
from apviz.plots._labels import legend_entry
from apviz.plots._style import NOT_CONVERGED, UNFINISHED, Look, Theme, ThemeName, theme_named
from apviz.tracing.trace import Trace

_NOTE: Final = "a jump is a pass that corrects the recursion"
_SIZE: Final = 12
# Symbol in the legend, which represents the symbols of all runs.
_KEY: Final = "diamond"
# Number of markers on the line of a run, which distinguish runs of one colour.
_MARKERS: Final = 15


def passes(traces: Trace | Sequence[Trace], *, x: X = "work", theme: ThemeName = "light") -> go.Figure:
    """Draw the residual by the recursion as a line, and at passes the residual B − KW, over all rows, as large marks.

    The recursion is cheaper than K (float32, skeletons) and drifts; a pass corrects it, where the line jumps. Runs of
    one colour have marks of different shapes. Filled marks are passes in float64, and only these may claim convergence;
    open marks are passes in float32. Hovering gives the drift. Runs without a pass are named. Buttons switch x.

    Args:
        x: Unit of the x axis at first: `work`, `epochs` or `seconds`.

    Raises:
        ValueError: No trace, or none with a pass; an unknown x or theme.

    Examples:
        >>> import apviz, torch
        >>> x = torch.linspace(0, 1, 200)[:, None]
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solver = apviz.solvers.overlapping(block_size=25, columns=apviz.solvers.Skeletons(rank=5), tol=1e-6)
        >>> _ = apviz.solve(system, solver, hooks=[recorder])
        >>> figure = apviz.plots.passes(recorder.trace)
        >>> figure.data[1].marker.symbol[-1].endswith("-open")  # the last word has float64
        False
    """
    several, colors = as_traces(traces), theme_named(theme)
    curves = Curves(Grid(), colors, x)
    kinds, without = set[int](), []
    for trace, name, look in with_looks(several, theme):
        if "pass" not in trace:
            without.append(name)
            continue
        kinds |= set(trace["pass"]["is_exact"].values.tolist())
        _draw(curves, trace, look, legend_entry(name, trace))
    if not kinds:
        raise ValueError(
            "no trace has a pass, an evaluation of B − KW during a solve; a run makes one when its recursion claims "
            "convergence, and every `check_every` epochs or iterations: lower that setting"
        )
    explained = {1: "filled: float64 pass, may claim convergence", 0: "open: float32 pass"}
    for is_exact, said in explained.items():
        if is_exact in kinds:
            marker = _marks(_KEY, [is_exact], colors.ink, colors)
            curves.add_key(said, mode="markers", marker=marker)
    curves.log_axis(RESIDUAL, tolerances_of=several)
    curves.buttons()
    notes = [_NOTE, *([f"no pass recorded for {', '.join(without)}"] if without else [])]
    return curves.finish(several, "Claimed and true residual", f"passes/{x}", notes)


def _marks(symbol: str, is_exact: Sequence[int], color: str, theme: Theme) -> dict[str, Any]:
    """Return the marks of passes, with an edge that separates overlapping filled marks."""
    return {
        "symbol": [symbol if exact else f"{symbol}-open" for exact in is_exact],
        "color": color,
        "size": _SIZE,
        "line": {
            "width": [1 if exact else 2 for exact in is_exact],
            "color": [theme.paper if exact else color for exact in is_exact],
        },
    }


def _draw(curves: Curves, trace: Trace, look: Look, name: str) -> None:
    color, symbol = look.color, look.symbol
    at, residuals = _path(trace)
    drawn = curves.thin(positive(residuals), np.arange(len(residuals)))
    belonging: dict[str, Any] = {"name": name, "legendgroup": name}
    curves.add(
        trace, positive(residuals)[drawn], "residual by the recursion", mode="lines+markers", line=look.line(2),
        at={unit: values[drawn] for unit, values in at.items()},
        marker={"color": color, "symbol": symbol, "size": 7, "maxdisplayed": _MARKERS}, **belonging,
    )  # fmt: skip
    found = trace["pass"]
    numbers = [found[each].values for each in ("pass", "claimed_residual", "drift")]
    curves.add(
        trace, positive(found["residual"].values), "B − KW:", mode="markers", showlegend=False,
        at={unit: found[variable].values for unit, variable in VARIABLES.items()},
        also=[_said(*each) for each in zip(*numbers, strict=True)],
        marker=_marks(symbol, found["is_exact"].values.tolist(), color, curves.theme), **belonging,
    )  # fmt: skip
    if not trace.converged:
        symbol = NOT_CONVERGED if trace.finished else UNFINISHED
        # the end may be at the same place as a pass
        edge = {"width": 1.5, "color": curves.theme.paper} if trace.finished else {"width": 2}
        curves.add(
            trace, positive(trace["epoch"]["residual"].values)[-1:], "residual at the end", [-1], mode="markers",
            marker={"color": color, "symbol": symbol, "size": _SIZE + 2, "line": edge}, showlegend=False, **belonging,
        )  # fmt: skip


def _said(number: int, claimed: float, drift: float) -> str:
    return f"pass {number}" + (f", claimed {claimed:.6g}<br>drift {drift:.3g}" if math.isfinite(claimed) else "")


def _path(trace: Trace) -> tuple[dict[str, Any], Any]:
    """Return x by unit, with epochs as fractions, and the mean residuals of the recursion, update by update.

    At a pass, the claimed residual before it and the residual B − KW after it are both included.
    """
    epochs, found = trace["epoch"], trace["pass"]
    start = [each[:1] for each in (epochs["epoch"].values, epochs["work"].values, epochs["seconds"].values)]
    parts = [(*start, epochs["residual"].values[:1])]
    stages = [np.column_stack([start[0], [3]])]
    if "update" in trace:
        updates = trace["update"]
        epoch = updates["epoch_of_update"].values
        # share of its epoch completed after each update
        first = np.searchsorted(epoch, epoch)
        done = (np.arange(len(epoch)) - first + 1) / (np.searchsorted(epoch, epoch, side="right") - first)
        residual = updates["residual"].values.mean(axis=1)
        known = np.isfinite(residual) | (updates["block"].values < 0)  # not after a colour of blocks
        of_update = (epoch - 1 + done, updates["work"].values, updates["seconds"].values, residual)
        parts.append(tuple(each[known] for each in of_update))
        stages.append(np.column_stack([epoch, np.zeros(len(epoch))])[known])
    of_pass = [found[each].values for each in ("epoch", "work", "seconds")]
    claims = found["claimed_residual"].values
    # a direct solve has no claimed residual
    for kept, residual, stage in (
        (np.isfinite(claims), claims, 1),
        (found["is_adopted"].values == 1, found["residual"].values, 2),
    ):
        parts.append(tuple(each[kept] for each in (*of_pass, residual)))
        stages.append(np.column_stack([of_pass[0], np.full(len(of_pass[0]), stage)])[kept])
    epoch_and_stage = np.concatenate(stages)
    order = np.lexsort((epoch_and_stage[:, 1], epoch_and_stage[:, 0]))  # stable: updates stay in order
    epoch, work, seconds, residual = (np.concatenate(each)[order] for each in zip(*parts, strict=True))
    return {"work": work, "epochs": epoch, "seconds": seconds}, residual
