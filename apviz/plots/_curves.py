"""Curves of runs, epoch by epoch: long ones thinned, zeros shown, ends marked, x switchable.

A figure that grows during a solve is drawn several times a second. So panels are plain plotly JSON, converted to a
figure once.
"""

from __future__ import annotations

import copy
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final, get_args

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from apviz.methods import CHOLESKY
from apviz.plots._axes import VARIABLES, X_TITLES, Choice, Floats, X, frame, log_ticks, on_paper, positive, x_buttons
from apviz.plots._labels import CAPTION_WIDTH, escaped, run_names
from apviz.plots._outliers import Reach
from apviz.plots._style import (
    CHECK,
    CONVERGED_SIZE,
    NOT_CONVERGED,
    UNFINISHED,
    ZERO,
    Look,
    Theme,
    ThemeName,
    looks,
)
from apviz.tracing.trace import Trace

#: Title of the y axis of a residual.
RESIDUAL: Final = "mean residual ‖r‖/‖b‖"

#: Markers drawn on a curve; hovering works on all its drawn points.
_MARKERS: Final = 30

#: Points of a curve: a browser pans twelve such curves without delay, and a screen has half as many pixels.
DRAWN_POINTS: Final = 3_000
#: Most points of all curves of a figure, and least points of each curve.
ALL_POINTS, LEAST_POINTS = 36_000, 100

#: Number of runs above which the legend lists methods instead of runs, and curves have few markers.
MANY_RUNS: Final = 24
_FEW_MARKERS: Final = 4

#: Note of a figure whose curves have more points.
THINNED: Final = "curves above {:,} points: minimum and maximum of {:,} stretches drawn"


def thinned(values: Any, most: int = DRAWN_POINTS) -> NDArray[np.int64]:
    """Return indices of the values to draw: all up to `most`; otherwise first, last, and the extremes of each stretch.

    There are `most`/2 stretches of equal length. Values that are not finite are no extremes.
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


_checked: ContextVar[bool] = ContextVar("checked", default=True)


@contextmanager
def unchecked() -> Iterator[None]:
    """Skip plotly's checks for figures of curves made inside: growing figures are made many times a second."""
    token = _checked.set(False)
    try:
        yield
    finally:
        _checked.reset(token)


class Grid:
    """Layout and data of a figure of rows and columns of panels, as plotly's JSON.

    `go.Figure` takes the complete JSON in a tenth of the time needed to add the pieces one by one. `spacing` is that of
    `plotly.subplots.make_subplots`.
    """

    def __init__(self, rows: int = 1, columns: int = 1, **spacing: Any) -> None:
        self.rows, self.columns = rows, columns
        self.layout: dict[str, Any] = copy.deepcopy(_empty(rows, columns, tuple(spacing.items())))
        self.data: list[dict[str, Any]] = []

    def add_scatter(self, row: int, column: int, **scatter: Any) -> None:
        """Add a curve, or markers, to a panel."""
        number = self._number(row, column)
        self.data.append({"type": "scatter", **scatter, "xaxis": f"x{number}", "yaxis": f"y{number}"})

    def axis(self, letter: str, row: int, column: int) -> dict[str, Any]:
        """Return the layout of the axis x or y of a panel."""
        found: dict[str, Any] = self.layout[f"{letter}axis{self._number(row, column)}"]
        return found

    def add_line(self, row: int, column: int, y: float, line: dict[str, Any]) -> None:
        """Add a horizontal line through a panel, below its curves."""
        number = self._number(row, column)
        shape = {"type": "line", "xref": f"x{number} domain", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line,
                 "yref": f"y{number}", "layer": "below"}  # fmt: skip
        self.layout.setdefault("shapes", []).append(shape)

    def add_text(self, row: int, column: int, **annotation: Any) -> None:
        """Add text to a panel, with x as a fraction of the panel's width."""
        number = self._number(row, column)
        place = {"xref": f"x{number} domain", "yref": f"y{number}", "showarrow": False}
        self.layout.setdefault("annotations", []).append({**place, **annotation})

    def _number(self, row: int, column: int) -> str:
        number = (row - 1) * self.columns + column
        return "" if number == 1 else str(number)


@lru_cache
def _empty(rows: int, columns: int, spacing: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    layout: dict[str, Any] = make_subplots(rows=rows, cols=columns, **dict(spacing)).to_plotly_json()["layout"]
    layout.pop("template", None)
    return layout


#: note on runs with `Trace.work_converts_seconds`
CONVERTED: Final = "seconds of Fourier products count as work at the measured rate of entries"


def with_looks(traces: Sequence[Trace], theme: ThemeName) -> Iterator[tuple[Trace, str, Look]]:
    """Yield each run with its name and the look that distinguishes its curve from the others."""
    return zip(traces, run_names(traces), looks([trace.method for trace in traces], theme), strict=True)


class Curves:
    """Curves on a grid, and the x values of each in all three units, which the buttons exchange.

    Each of many runs is drawn with fewer points and markers. `notes` of the figure on its curves add up.
    """

    def __init__(self, grid: Grid, theme: Theme, x: str, runs: int = 1) -> None:
        if not isinstance(x, str) or x not in get_args(X):
            raise ValueError(f"x must be one of {', '.join(get_args(X))}, got {x!r}")
        self.grid, self.theme, self.x = grid, theme, x
        self._choices: list[Choice] = []
        self._drawn: dict[int, list[Floats]] = {}
        self._reach = Reach()
        self._most = min(DRAWN_POINTS, max(LEAST_POINTS, ALL_POINTS // runs))
        self._markers = _MARKERS if runs <= MANY_RUNS else _FEW_MARKERS
        #: Functions that draw the ends of runs. They are called last, so that ends lie above everything else.
        self._ends: list[Callable[[], None]] = []
        self.notes: list[str] = []

    def thin(self, values: Any, rows: Any) -> Any:
        """Return the epochs among `rows` to draw a long curve of `values` through; the figure says if it is thinned."""
        rows = np.asarray(rows)
        kept = rows[thinned(np.asarray(values)[rows], self._most)]
        said = THINNED.format(self._most, self._most // 2)
        if len(kept) < len(rows) and said not in self.notes:
            self.notes.append(said)
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
        at: Mapping[str, Any] | None = None,
        also: Sequence[str] = (),
        **scatter: Any,
    ) -> None:
        """Draw `values` against the rows `rows` of the trace's epochs.

        Hovering gives the method with its details, `what`, epoch, work and seconds.

        Args:
            at: x values by unit, instead of those of the epochs. Epochs may be fractions; hovering then names the epoch
                that contains them.
            also: Further lines at the top of the hover text, one for each value.
        """
        epochs = trace["epoch"]
        found = at or {unit: epochs[name].values[rows] for unit, name in VARIABLES.items()}
        choices = {unit: np.asarray(found[unit], float) for unit in VARIABLES}
        values = np.asarray(values, dtype=float)
        self._draws(row, values, scatter.get("legendgroup"), choices)
        exact = scatter.pop("exact", values)
        # if all runs share a method, the legend omits it
        method = escaped(trace.method_name)
        is_named = method.removesuffix(")") in scatter["name"]
        head = "%{fullData.name}" if is_named else f"{method}<br>%{{fullData.name}}"
        details = "".join(f"{escaped(line)}<br>" for line in textwrap.wrap(trace.method_details, CAPTION_WIDTH))
        first = f"<b>{head}</b><br>{details}{'%{text}<br>' if also else ''}"
        hover = (
            f"{first}{what} %{{customdata[3]:.6g}}<br>epoch %{{customdata[0]:d}}"
            " · work %{customdata[1]:.6g} · %{customdata[2]:.4g} s<extra></extra>"
        )
        numbers = np.column_stack([np.ceil(choices["epochs"]), choices["work"], choices["seconds"], exact])
        self.grid.add_scatter(
            row, column, x=choices[x or self.x], y=values, customdata=numbers,
            **{"hovertemplate": hover, **({"text": list(also)} if also else {}), **scatter},
        )  # fmt: skip
        self._choices.append({unit: values.tolist() for unit, values in choices.items()})

    def draw(self, y: Any, *, row: int = 1, column: int = 1, called: str | None = None, **scatter: Any) -> None:
        """Draw a curve that belongs to no single run, `called` so as an outlier. `buttons` cannot switch x then."""
        x = {self.x: scatter.get("x", [])} if self.grid.columns == 1 else {}
        self._draws(row, np.asarray(y, dtype=float), called or scatter.get("legendgroup"), x)
        self.grid.add_scatter(row, column, y=y, **scatter)

    def _draws(self, row: int, values: Floats, run: str | None, x: Mapping[str, Any]) -> None:
        """Note what is drawn on the y axis of a row, and the reach of a run, given by its legend entry."""
        self._drawn.setdefault(row, []).append(values)
        if run is not None:
            for axis, reached in {f"y{row}": values, **x}.items():
                self._reach.add(axis, run, reached)

    def add_line(
        self,
        trace: Trace,
        values: Any,
        what: str,
        look: Look,
        name: str,
        *,
        rows: Any = None,
        log: bool = True,
        width: float = 2.5,
        **place: Any,
    ) -> None:
        """Draw a curve through the epochs `rows` (all if None), and its exact zeros as markers at the foot."""
        raw = np.asarray(values, dtype=float)
        rows = np.arange(len(raw)) if rows is None else rows
        drawn = positive(raw) if log else raw
        zeros = self.thin(raw, rows[raw[rows] == 0]) if log else []
        rows = self.thin(drawn, rows)
        # a direct solver has no states between start and end, so a slanted line would be wrong
        shape = "hv" if trace.method.family == CHOLESKY else "linear"
        marker = {"color": look.color, "symbol": look.symbol, "size": 7, "maxdisplayed": self._markers}
        line = {**look.line(width), "shape": shape}
        self.add(
            trace, drawn[rows], what, rows, mode="lines+markers", name=name, legendgroup=name, line=line,
            marker=marker, **place,
        )  # fmt: skip
        if len(zeros):
            foot = np.nanmin(drawn) / 3 if np.isfinite(drawn).any() else 1e-16
            said, marker = f"{what} exactly zero, below this axis:", {"color": look.color, "symbol": ZERO, "size": 12}
            feet = np.full(len(zeros), foot)
            self._add_markers(trace, feet, said, zeros, name, marker, exact=raw[zeros], **place)

    def add_run(self, trace: Trace, values: Any, what: str, look: Look, name: str, **place: Any) -> None:
        """Draw the curve of one run, and a marker at its end, above all curves and checks of the figure."""
        self.add_line(trace, values, what, look, name, **place)
        place = {key: value for key, value in place.items() if key != "width"}
        drawn = positive(values)
        # the last finite value; an exact zero has its own marker, so a value before it is not the end
        end = np.flatnonzero(np.isfinite(drawn) | (np.asarray(values) == 0))[-1:]
        if np.isfinite(drawn[end]).any():
            marker, said = self._end(trace, look), f"{_ending(trace)}<br>{what}"
            self._ends.append(lambda: self._add_markers(trace, drawn[end], said, end, name, marker, **place))

    def add_ends(self) -> None:
        """Draw the ends of all runs added so far."""
        while self._ends:
            self._ends.pop(0)()

    def add_checks(self, trace: Trace, color: str, name: str) -> bool:
        """Draw the residuals recomputed from B − KW as separate markers; return whether there are any.

        The marker at the end of a converged run stands for the last one, because only a pass can say *converged*.
        """
        checked, residual = (trace["epoch"][name].values for name in ("checked_residual", "residual"))
        checked = positive(checked)
        if trace.converged and math.isclose(checked[-1], residual[-1], rel_tol=1e-2):
            checked[-1] = np.nan
        at = self.thin(checked, np.flatnonzero(np.isfinite(checked)))
        marker = {"color": color, "symbol": CHECK, "size": 13, "line": {"width": 2}}
        if len(at):
            self._add_markers(trace, checked[at], "residual checked on all rows", at, name, marker)
        return bool(len(at))

    def _add_markers(
        self, trace: Trace, values: Any, what: str, rows: Any, name: str, marker: dict[str, Any], **place: Any
    ) -> None:
        """Add markers that belong to the legend entry `name`."""
        belonging = {"name": name, "legendgroup": name, "showlegend": False, "mode": "markers"}
        self.add(trace, values, what, rows, marker=marker, **{**place, **belonging})

    def add_key(self, name: str, **style: Any) -> None:
        """Add a legend entry that explains a symbol, without drawing data."""
        self.grid.add_scatter(1, 1, x=[None], y=[None], name=name, hoverinfo="skip", **style)
        self._choices.append({unit: [None] for unit in VARIABLES})

    def log_axis(self, title: str, *, tolerances_of: Sequence[Trace] = (), row: int = 1) -> None:
        """Make the y axes of a row logarithmic, with a line at each tolerance and labels by `log_ticks`."""
        tolerances = sorted({trace.attrs["tol"] for trace in tolerances_of if trace.attrs.get("tol")})
        for tol in tolerances:
            self.level(tol, f"tolerance {tol:g}", row)
        drawn = np.concatenate([tolerances, *self._drawn.get(row, [])])
        limit = self._reach.limit(f"y{row}", log=True)
        ticks = log_ticks(drawn if limit is None else drawn[drawn <= limit], most=8)
        for column in range(1, self.grid.columns + 1):
            self.grid.axis("y", row, column).update(type="log", **ticks)
        self.grid.axis("y", row, 1)["title"] = {"text": title}

    def buttons(self) -> None:
        """Add the buttons that switch x, and the title of the lowest x axis."""
        self.add_ends()
        limits = {unit: self._reach.limit(unit, log=False) for unit in VARIABLES}
        self.grid.layout |= x_buttons(self._choices, self.x, self.theme, self.grid.rows, limits)
        for row in range(1, self.grid.rows + 1):
            self.grid.axis("x", row, 1)["rangemode"] = "tozero"
        self.grid.axis("x", self.grid.rows, 1)["title"] = {"text": X_TITLES[self.x]}

    def finish(self, traces: Sequence[Trace], title: str, uirevision: str, notes: Sequence[str] = ()) -> go.Figure:
        """Return the figure of everything added, with `notes` and the notes on its curves."""
        self.add_ends()
        grid, said = self.grid, [*notes, *self.notes, *self._clip()]
        if any(trace.work_converts_seconds for trace in traces):
            said.append(CONVERTED)
        entries = [each["name"] for each in grid.data if "name" in each and each.get("showlegend", True)]
        around = frame(
            traces, self.theme, title, uirevision, said, buttons="updatemenus" in grid.layout,
            rows=grid.rows, entries=entries,
        )  # fmt: skip
        # plotly's checks would take two thirds of the time needed for a figure
        return go.Figure(grid.data, grid.layout | around, **({} if _checked.get() else {"_validate": False}))

    def _clip(self) -> list[str]:
        """End axes below outliers, and return a note that names these."""
        axes = {"work": ("work {}", False), "epochs": ("{} epochs", False), "seconds": ("{} s", False)}
        for row in range(1, self.grid.rows + 1):
            is_log = self.grid.axis("y", row, 1).get("type") == "log"
            axes[f"y{row}"] = ("up to {}", is_log)
            limits = {"x": self._reach.limit(self.x, log=False), "y": self._reach.limit(f"y{row}", log=is_log)}
            for column in range(1, self.grid.columns + 1):
                for letter, limit in limits.items():
                    if limit is not None:
                        self.grid.axis(letter, row, column)["autorangeoptions"] = {"clipmax": limit}
        return self._reach.note(axes)

    def level(self, value: float, text: str, row: int = 1) -> None:
        """Draw a thin solid line at a value of a logarithmic axis, in every column of one row, with a text."""
        for column in range(1, self.grid.columns + 1):
            self.grid.add_line(row, column, value, {"color": self.theme.muted, "width": 1.5})
        # on a log axis, shapes take values, annotations take their logarithm
        self.grid.add_text(
            row, 1, x=0.01, y=math.log10(value), text=text, xanchor="left", yanchor="bottom", **on_paper(self.theme),
        )  # fmt: skip

    def _end(self, trace: Trace, look: Look) -> dict[str, Any]:
        reason, ink = trace.attrs.get("stop_reason"), {"color": self.theme.ink, "width": 1.5}
        if reason == "converged":
            return {"color": look.color, "symbol": look.symbol, "size": CONVERGED_SIZE, "line": ink}
        if reason:
            # larger than a check, which may be at the same place
            return {"color": look.color, "symbol": NOT_CONVERGED, "size": CONVERGED_SIZE + 2, "line": ink}
        return {"color": look.color, "symbol": UNFINISHED, "size": 12, "line": {"color": look.color, "width": 2}}


def _ending(trace: Trace) -> str:
    words = f"{trace.status(with_residual=False)}. {trace.advice}".rstrip()
    return "<br>".join(escaped(line) for line in textwrap.wrap(words, CAPTION_WIDTH))
