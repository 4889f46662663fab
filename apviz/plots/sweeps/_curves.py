"""Curves over a setting: a point per run, a curve per method; only converged runs are points of a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from apviz.analysis.sweeps import Over, method_of, series, sweep_table, swept
from apviz.method import distinct_names
from apviz.plots._axes import log_ticks, positive
from apviz.plots._labels import entry_saying, escaped, run_names, shared_method
from apviz.plots._style import (
    CONVERGED_SIZE,
    DASHES,
    NOT_CONVERGED,
    UNFINISHED,
    Look,
    Theme,
    ThemeName,
    looks,
    method_symbols,
    sequential_colors,
)
from apviz.tracing.trace import Trace

#: Columns that count only for converged runs; other runs are not points of these curves.
TO_TOLERANCE: Final = ("epochs", "work", "seconds", "residual")


def add_curves(
    figure: go.Figure, traces: Sequence[Trace], over: Over, x: str, panels: Mapping[str, str], theme: Theme
) -> None:
    """Add a curve per series to every panel, and a cross or an open circle for each run that did not converge.

    Where a series has several seeds, the curve goes through their medians, and each run is a point.
    The first number of a point's `customdata` is the index of its run in `traces`. `x` and the keys of `panels`, from
    top to bottom with the titles of their axes, are columns of `sweep_table`.
    """
    table = sweep_table(traces)
    places = {id(trace): place for place, trace in enumerate(traces)}
    curves = series(traces, over)
    methods = [method_of(runs[0].attrs, over) for runs in curves]
    names = run_names([runs[0] for runs in curves], distinct_names(methods), leave_out=[over])
    own = [look.color for look in looks_over_sizes(traces, theme.name)] if over == "block_size" else []
    for runs, name, look in zip(curves, names, looks(methods, theme.name), strict=True):
        rows = table.iloc[[places[id(trace)] for trace in runs]]
        entry = _entry(name, runs)
        # over b, a run has one colour here and in `batch_sizes`
        points = np.array([own[places[id(trace)]] if own else look.color for trace in runs])
        belonging: dict[str, Any] = {"name": entry, "legendgroup": entry}
        for row, panel in enumerate(panels, start=1):
            y = positive(rows[panel])
            needs = np.full(len(rows), panel in TO_TOLERANCE)
            on_curve = rows["converged"].to_numpy() | ~needs
            values = [swept(trace.attrs, over) for trace in runs]
            if over_seeds := len(set(values)) < len(values):
                _add_medians(figure, values, positive(rows[x]), np.where(on_curve, y, np.nan), row, line=look.line(),
                             **belonging)  # fmt: skip
            _add(figure, runs, rows, np.arange(len(rows)), x, np.where(on_curve, y, np.nan), row,
                 mode="markers" if over_seeds else "lines+markers", line=look.line(), showlegend=row == 1,
                 marker={"color": points.tolist(), "symbol": look.symbol, "size": 10}, **belonging)  # fmt: skip
            for is_end, sign in ((True, NOT_CONVERGED), (False, UNFINISHED)):
                at = np.flatnonzero(~on_curve & [trace.finished is is_end for trace in runs])
                if len(at):
                    shown = points[at].tolist()
                    marker = {"color": shown, "symbol": sign, "size": 12, "line": {"color": shown, "width": 2}}
                    _add(figure, runs, rows, at, x, y[at], row, mode="markers", marker=marker, showlegend=False,
                         **belonging)  # fmt: skip
    for row, (panel, title) in enumerate(panels.items(), start=1):
        log_axis(figure, table[panel], title, row)


def looks_over_sizes(traces: Sequence[Trace], theme: ThemeName) -> list[Look]:
    """Return the look of each run in figures over b: for one method the colour is that of b, else of the method."""
    methods = [trace.method for trace in traces]
    if len(traces) > 1 and not shared_method(traces):
        return looks(methods, theme)
    sizes = [trace.block_size or 0 for trace in traces]
    palette = dict(zip(sorted(set(sizes)), sequential_colors(len(set(sizes)), theme), strict=True))
    symbols = method_symbols(methods)
    return [Look(palette[size], DASHES[0], symbol) for size, symbol in zip(sizes, symbols, strict=True)]


def _add_medians(figure: go.Figure, values: Sequence[Any], x: Any, y: Any, row: int, **scatter: Any) -> None:
    """Add a line through the medians of the points at each value of the swept setting."""
    points = pd.DataFrame({"value": values, "x": x, "y": y}).groupby("value").median()
    figure.add_scatter(x=points["x"], y=points["y"], mode="lines", showlegend=False, hoverinfo="skip", row=row, col=1,
                       **scatter)  # fmt: skip


def mark_runs(figure: go.Figure, best: Sequence[Trace], x: str, panels: Mapping[str, str], theme: Theme) -> None:
    """Mark a run, or the median of several seeds, with a thin line through all panels and a ring around its points."""
    row_of = sweep_table(best).median(numeric_only=True)
    for row, panel in enumerate(panels, start=1):
        figure.add_vline(row_of[x], line={"color": theme.muted, "width": 1.5}, layer="below", row=row, col=1)
        if np.isfinite(positive([row_of[panel]])).all():
            figure.add_scatter(
                x=[row_of[x]], y=[row_of[panel]], mode="markers", hoverinfo="skip", showlegend=False, row=row, col=1,
                marker={"color": "rgba(0,0,0,0)", "size": CONVERGED_SIZE + 5, "line": {"color": theme.ink, "width": 2}},
            )  # fmt: skip


def log_axis(figure: go.Figure, values: Any, title: str, row: int) -> None:
    """Make the y axis of a row logarithmic, with labels by `log_ticks`."""
    figure.update_yaxes(type="log", title_text=title, row=row, col=1, **log_ticks(values))


def _add(
    figure: go.Figure, runs: Sequence[Trace], rows: pd.DataFrame, at: Any, x: str, y: Any, row: int, **scatter: Any
) -> None:
    shown = rows.iloc[at]
    figure.add_scatter(
        x=positive(shown[x]), y=y, row=row, col=1,
        customdata=np.column_stack([shown.index, shown["epochs"], shown["work"], shown["seconds"], shown["noise"]]),
        text=[_hover_line(run) for run in (runs[place] for place in at)],
        hovertemplate="%{text}<br>%{customdata[1]:d} epochs or iterations · work %{customdata[2]:.4g}"
        " · %{customdata[3]:.3g} s<br>σ² = %{customdata[4]:.3g}<extra></extra>",
        **scatter,
    )  # fmt: skip


def _hover_line(trace: Trace) -> str:
    spectrum = trace["spectrum"]
    known = " · ".join(trace.condition(name) for name in ("kappa", "kappa_prime") if math.isfinite(spectrum[name]))
    return f"<b>{escaped(trace.method_name)}</b><br>{trace.status()}<br>{known}"


def _entry(name: str, runs: Sequence[Trace]) -> str:
    """Return the name of a curve, and how many of its runs converged."""
    unfinished = sum(not trace.finished for trace in runs)
    failed = sum(trace.finished and not trace.converged for trace in runs)
    states = [f"{failed} of {len(runs)} not converged"] if failed else []
    states += [f"{unfinished} unfinished"] if unfinished else []
    return entry_saying(name, ", ".join(states) or "converged")
