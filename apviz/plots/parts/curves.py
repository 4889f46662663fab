"""Curves of runs on a log axis: x switchable between work, epochs and seconds, zeros shown, ends marked."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apviz.plots.parts.captions import CAPTION_WIDTH, safe
from apviz.plots.parts.grid import Grid
from apviz.plots.parts.layout import frame
from apviz.plots.parts.log_ticks import log_ticks
from apviz.plots.parts.style import CAPTION_SIZE, CHECK, CONVERGED_SIZE, NOT_CONVERGED, UNFINISHED, ZERO, Theme
from apviz.plots.parts.thinning import THINNED, thinned
from apviz.plots.parts.x_switch import VARIABLES, X_TITLES, Choice, X, x_buttons

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

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
        shape = "hv" if trace.attrs.get("solver") == "Cholesky" else "linear"
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
