"""Curves of runs on a log axis: x switchable between work, epochs and seconds, zeros shown, ends marked.

Fewer points of a long curve, for drawing only: what is highest and lowest stays.

Curves over a setting: a point a run, a curve a method; a run that did not converge is never a point of the curve.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from apviz.analysis.sweeps import Over, method_of, series, sweep_table
from apviz.method import CHOLESKY
from apviz.plots._axes import VARIABLES, X_TITLES, Choice, Grid, X, frame, log_ticks, x_buttons
from apviz.plots._labels import CAPTION_WIDTH, outcome, run_names, safe
from apviz.plots._style import (
    CAPTION_SIZE,
    CHECK,
    CONVERGED_SIZE,
    NOT_CONVERGED,
    UNFINISHED,
    ZERO,
    Theme,
    method_color,
    method_symbols,
)

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace
if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

#: points of a curve that a browser pans without delay, twelve curves at once; twice what a screen has pixels
DRAWN_POINTS: Final = 3_000

#: what a figure says of curves with more
THINNED: Final = (
    f"of curves with more than {DRAWN_POINTS:,} points the highest and the lowest of each of {DRAWN_POINTS // 2:,} "
    "stretches are drawn"
)


def thinned(values: Any, most: int = DRAWN_POINTS) -> NDArray[np.int64]:
    """Which of the values to draw: all up to `most`; else the first, the last, and the extremes of each stretch.

    Stretches are equally long, half as many as `most`. What is not finite is neither high nor low.
    """
    values = np.asarray(values, dtype=float)
    if len(values) <= most:
        return np.arange(len(values))
    kept = [0, len(values) - 1]
    known = np.isfinite(values)
    low, high = np.where(known, values, np.inf), np.where(known, values, -np.inf)
    edges = np.linspace(0, len(values), max(1, most // 2) + 1).astype(int)
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        kept += [start + int(low[start:end].argmin()), start + int(high[start:end].argmax())]
    return np.unique(kept)


Floats = NDArray[np.float64]

#: the y axis title of a residual
RESIDUAL: Final = "mean residual ‖r‖/‖b‖"

#: markers drawn on a curve; hovering finds all its drawn points
_MARKERS: Final = 30


def positive(values: Any) -> Floats:
    """Values as a log axis can take them: NaN, a gap, where they are zero, negative or not finite."""
    values = np.asarray(values, dtype=float)
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


class Curves:
    """Curves on a grid, and the x values of each in all three units, which the buttons exchange.

    Attributes:
        grid: what is drawn so far.
        notes: what the figure has to say of its curves.
    """

    def __init__(self, grid: Grid, theme: Theme, x: str) -> None:
        if x not in get_args(X):
            raise ValueError(f"x must be one of {', '.join(get_args(X))}, got {x!r}")
        self.grid, self.theme, self.x = grid, theme, x
        self._choices: list[Choice] = []
        self._drawn: dict[int, list[Floats]] = {}
        self.notes: list[str] = []

    def thin(self, values: Any, rows: Any) -> Any:
        """Of the epochs `rows`, those to draw a long curve of `values` through; the figure says so."""
        rows = np.asarray(rows)
        kept = rows[thinned(np.asarray(values)[rows])]
        if len(kept) < len(rows) and THINNED not in self.notes:
            self.notes.append(THINNED)
        return kept

    def add(
        self,
        trace: Trace,
        values: Any,
        what: str,
        rows: Any = slice(None),
        *,
        row: int = 1,
        column: int = 1,
        x: str | None = None,
        **scatter: Any,
    ) -> None:
        """Draws `values` against the rows `rows` of the trace's epochs.

        Hovering names the method and gives `what`, epoch, work and seconds in full.
        """
        epochs = trace["epoch"]
        choices = {unit: np.asarray(epochs[name].values[rows], float) for unit, name in VARIABLES.items()}
        values = np.asarray(values, dtype=float)
        self._drawn.setdefault(row, []).append(values)
        exact = scatter.pop("exact", values)
        # the legend entry tells runs of one method apart; where it leaves the method out, the method comes instead
        method = safe(trace.label)
        head = "%{fullData.name}" if method in scatter["name"] else method
        hover = (
            f"<b>{head}</b><br>{what} %{{customdata[3]:.6g}}<br>epoch %{{customdata[0]:d}}"
            " · work %{customdata[1]:.6g} · %{customdata[2]:.4g} s<extra></extra>"
        )
        self.grid.add_scatter(
            row,
            column,
            x=choices[x or self.x],
            y=values,
            customdata=np.column_stack([choices["epochs"], choices["work"], choices["seconds"], exact]),
            **{"hovertemplate": hover, **scatter},
        )
        self._choices.append({unit: values.tolist() for unit, values in choices.items()})

    def add_line(
        self,
        trace: Trace,
        values: Any,
        what: str,
        color: str,
        symbol: str,
        name: str,
        *,
        rows: Any = None,
        log: bool = True,
        **place: Any,
    ) -> None:
        """A curve through the epochs `rows` (all if None), and what of it is exactly zero, at its foot."""
        raw = np.asarray(values, dtype=float)
        rows = np.arange(len(raw)) if rows is None else rows
        drawn = positive(raw) if log else raw
        zeros = self.thin(raw, rows[raw[rows] == 0]) if log else []
        rows = self.thin(drawn, rows)
        # a direct solver has nothing between start and end that a slanted line could stand for
        shape = "hv" if trace.method.family == CHOLESKY else "linear"
        self.add(
            trace,
            drawn[rows],
            what,
            rows,
            mode="lines+markers",
            name=name,
            legendgroup=name,
            line={"color": color, "width": 2.5, "shape": shape},
            marker={"color": color, "symbol": symbol, "size": 7, "maxdisplayed": _MARKERS},
            **place,
        )
        if len(zeros):
            foot = np.nanmin(drawn) / 3 if np.isfinite(drawn).any() else 1e-16
            self._add_markers(
                trace,
                np.full(len(zeros), foot),
                f"{what} exactly zero, below this axis:",
                zeros,
                name,
                {"color": color, "symbol": ZERO, "size": 12},
                exact=raw[zeros],
                **place,
            )

    def add_run(self, trace: Trace, values: Any, what: str, color: str, symbol: str, name: str, **place: Any) -> None:
        """The curve of one run, and a marker where it ended."""
        self.add_line(trace, values, what, color, symbol, name, **place)
        drawn = positive(values)
        # the last value there is; an exact zero has its own marker, and none before it is the end
        end = np.flatnonzero(np.isfinite(drawn) | (np.asarray(values) == 0))[-1:]
        if np.isfinite(drawn[end]).any():
            marker = self._end(trace, color, symbol)
            self._add_markers(trace, drawn[end], f"{_ending(trace)}<br>{what}", end, name, marker, **place)

    def add_checks(self, trace: Trace, color: str, name: str) -> bool:
        """The residuals recomputed from B − KW, apart from the recursive curve; whether there are any."""
        checked = positive(trace["epoch"]["checked_residual"].values)
        at = self.thin(checked, np.flatnonzero(np.isfinite(checked)))
        marker = {"color": color, "symbol": CHECK, "size": 13, "line": {"width": 2}}
        if len(at):
            self._add_markers(trace, checked[at], "residual recomputed from B − KW", at, name, marker)
        return bool(len(at))

    def _add_markers(
        self, trace: Trace, values: Any, what: str, rows: Any, name: str, marker: dict[str, Any], **place: Any
    ) -> None:
        """Markers that belong to the legend entry `name`."""
        belonging = {"name": name, "legendgroup": name, "showlegend": False, "mode": "markers"}
        self.add(trace, values, what, rows, marker=marker, **{**place, **belonging})

    def add_key(self, name: str, **style: Any) -> None:
        """A legend entry that explains a symbol and draws nothing."""
        self.grid.add_scatter(1, 1, x=[None], y=[None], name=name, hoverinfo="skip", **style)
        self._choices.append({unit: [None] for unit in VARIABLES})

    def log_axis(self, title: str, *, tolerances_of: Sequence[Trace] = (), row: int = 1) -> None:
        """A log y axis with a line at each tolerance, its labels as of `log_ticks`."""
        tolerances = sorted({trace.attrs["tol"] for trace in tolerances_of if trace.attrs.get("tol")})
        for tol in tolerances:
            self._tolerance_line(tol, row)
        ticks = log_ticks(np.concatenate([tolerances, *self._drawn.get(row, [])]), most=8)
        for column in range(1, self.grid.columns + 1):
            self.grid.axis("y", row, column).update(type="log", **ticks)
        self.grid.axis("y", row, 1)["title"] = {"text": title}

    def buttons(self) -> None:
        """Buttons that switch x, and the title of the x axis, which the lowest panel carries."""
        self.grid.layout |= x_buttons(self._choices, self.x, self.theme, self.grid.rows)
        for row in range(1, self.grid.rows + 1):
            self.grid.axis("x", row, 1)["rangemode"] = "tozero"
        self.grid.axis("x", self.grid.rows, 1)["title"] = {"text": X_TITLES[self.x]}

    def finish(self, traces: Sequence[Trace], title: str, uirevision: str, notes: Sequence[str] = ()) -> go.Figure:
        """The figure, with `notes` and those of the curves."""
        grid = self.grid
        entries = [each["name"] for each in grid.data if "name" in each and each.get("showlegend", True)]
        around = frame(
            traces, self.theme, title, uirevision, [*notes, *self.notes], buttons="updatemenus" in grid.layout,
            rows=grid.rows, entries=entries,
        )  # fmt: skip
        return go.Figure(grid.data, grid.layout | around)

    def _tolerance_line(self, tol: float, row: int) -> None:
        """A thin solid line at a tolerance, in every column of one row."""
        for column in range(1, self.grid.columns + 1):
            self.grid.add_line(row, column, tol, {"color": self.theme.muted, "width": 1.5})
        # on a log axis shapes take values, annotations their logarithm
        self.grid.add_words(
            row, 1, x=0.01, y=math.log10(tol), text=f"tolerance {tol:g}", xanchor="left", yanchor="bottom",
            font={"size": CAPTION_SIZE, "color": self.theme.muted},
        )  # fmt: skip

    def _end(self, trace: Trace, color: str, symbol: str) -> dict[str, Any]:
        reason = trace.attrs.get("stop_reason")
        if reason == "converged":
            return {
                "color": color,
                "symbol": symbol,
                "size": CONVERGED_SIZE,
                "line": {"color": self.theme.ink, "width": 1.5},
            }
        symbol = NOT_CONVERGED if reason else UNFINISHED
        return {"color": color, "symbol": symbol, "size": 12, "line": {"color": color, "width": 2}}


def _ending(trace: Trace) -> str:
    message = str(trace.attrs.get("stop_message") or trace.attrs.get("stop_reason") or "unfinished")
    return "<br>".join(safe(line) for line in textwrap.wrap(message, CAPTION_WIDTH))


#: what a run needs to have converged for
TO_TOLERANCE: Final = ("epochs", "work", "seconds")


def add_curves(
    figure: go.Figure, traces: Sequence[Trace], over: Over, x: str, panels: Mapping[str, str], theme: Theme
) -> None:
    """A curve a series in every panel, and a cross or an open circle for what did not converge.

    The first number of a point's `customdata` is the place of its run in `traces`.

    Args:
        over: the setting in which the runs of a curve differ.
        x: the column of `sweep_table` on the x axis.
        panels: columns of `sweep_table` from above, with the titles of their axes.
    """
    table = sweep_table(traces)
    places = {id(trace): place for place, trace in enumerate(traces)}
    curves = series(traces, over)
    labels = [method_of(runs[0].attrs, over).label for runs in curves]
    names = run_names([runs[0] for runs in curves], labels, leave_out=[over])
    symbols = method_symbols(labels)
    for runs, label, name, symbol in zip(curves, labels, names, symbols, strict=True):
        rows = table.iloc[[places[id(trace)] for trace in runs]]
        color, entry = method_color(label, theme.name), _entry(name, runs)
        belonging: dict[str, Any] = {"name": entry, "legendgroup": entry}
        for row, panel in enumerate(panels, start=1):
            y = positive(rows[panel])
            needs = np.full(len(rows), panel in TO_TOLERANCE)
            on_curve = rows["converged"].to_numpy() | ~needs
            _add(figure, runs, rows, np.arange(len(rows)), x, np.where(on_curve, y, np.nan), row,
                 mode="lines+markers", line={"color": color, "width": 2.5}, showlegend=row == 1,
                 marker={"color": color, "symbol": symbol, "size": 9}, **belonging)  # fmt: skip
            for is_end, sign in ((True, NOT_CONVERGED), (False, UNFINISHED)):
                at = np.flatnonzero(~on_curve & [trace.finished is is_end for trace in runs])
                if len(at):
                    marker = {"color": color, "symbol": sign, "size": 12, "line": {"color": color, "width": 2}}
                    _add(figure, runs, rows, at, x, y[at], row, mode="markers", marker=marker, showlegend=False,
                         **belonging)  # fmt: skip
    for row, (panel, title) in enumerate(panels.items(), start=1):
        log_axis(figure, table[panel], title, row)


def ring(figure: go.Figure, best: Trace, x: str, panels: Mapping[str, str], theme: Theme) -> None:
    """A thin line through all panels at a run, and a ring around its points."""
    row_of = sweep_table([best]).iloc[0]
    for row, panel in enumerate(panels, start=1):
        figure.add_vline(row_of[x], line={"color": theme.muted, "width": 1.5}, layer="below", row=row, col=1)
        if np.isfinite(positive([row_of[panel]])).all():
            figure.add_scatter(
                x=[row_of[x]], y=[row_of[panel]], mode="markers", hoverinfo="skip", showlegend=False, row=row, col=1,
                marker={"color": "rgba(0,0,0,0)", "size": CONVERGED_SIZE + 5, "line": {"color": theme.ink, "width": 2}},
            )  # fmt: skip


def log_axis(figure: go.Figure, values: Any, title: str, row: int) -> None:
    """A log y axis, its labels as of `log_ticks`."""
    figure.update_yaxes(type="log", title_text=title, row=row, col=1, **log_ticks(values))


def _add(
    figure: go.Figure, runs: Sequence[Trace], rows: pd.DataFrame, at: Any, x: str, y: Any, row: int, **scatter: Any
) -> None:
    shown = rows.iloc[at]
    figure.add_scatter(
        x=positive(shown[x]),
        y=y,
        customdata=np.column_stack([shown.index, shown["epochs"], shown["work"], shown["seconds"], shown["noise"]]),
        text=[_words(run) for run in (runs[place] for place in at)],
        hovertemplate="%{text}<br>%{customdata[1]:d} epochs or iterations · work %{customdata[2]:.4g}"
        " · %{customdata[3]:.3g} s<br>σ² = %{customdata[4]:.3g}<extra></extra>",
        row=row,
        col=1,
        **scatter,
    )


def _words(trace: Trace) -> str:
    spectrum = trace["spectrum"]
    known = " · ".join(trace.condition(name) for name in ("kappa", "kappa_prime") if math.isfinite(spectrum[name]))
    return f"<b>{safe(trace.label)}</b><br>{outcome(trace)}<br>{known}"


def _entry(name: str, runs: Sequence[Trace]) -> str:
    """The name of a curve, and how many of its runs converged."""
    unfinished = sum(not trace.finished for trace in runs)
    failed = sum(trace.finished and not trace.converged for trace in runs)
    states = [f"{failed} of {len(runs)} not converged"] if failed else []
    states += [f"{unfinished} unfinished"] if unfinished else []
    state = ", ".join(states) or "converged"
    separator = "<br>" if len(name) + len(state) > CAPTION_WIDTH - 12 else " — "
    return f"{name}{separator}{state}"
