"""Curves of runs on a log axis: x switchable between work, epochs and seconds, zeros shown, ends marked."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apviz.plots.captions import CAPTION_WIDTH, safe
from apviz.plots.style import CHECK, CONVERGED_SIZE, NOT_CONVERGED, UNFINISHED, ZERO, Theme

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

X = Literal["work", "epochs", "seconds"]
Floats = NDArray[np.float64]

X_TITLES: Final[dict[str, str]] = {
    "work": "work (kernel entries ÷ n²)",
    "epochs": "epochs (of CG: iterations)",
    "seconds": "time since the start (s)",
}
_VARIABLES: Final = {"work": "work", "epochs": "epoch", "seconds": "seconds"}

#: markers drawn on a curve; hovering finds all its points
_MARKERS: Final = 30


def positive(values: Any) -> Floats:
    """Values as a log axis can take them: NaN where they are zero, negative or not finite, so that a gap is drawn."""
    values = np.asarray(values, dtype=float)
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def log_axis(title: str) -> dict[str, Any]:
    """A log y axis."""
    return {"type": "log", "title": {"text": title}, "exponentformat": "power"}


class Curves:
    """A figure, and the x values of each of its traces in all three units, which the buttons exchange."""

    def __init__(self, figure: go.Figure, theme: Theme, x: str) -> None:
        if x not in get_args(X):
            raise ValueError(f"x must be one of {', '.join(get_args(X))}, got {x!r}")
        self.figure, self.theme, self.x = figure, theme, x
        self._choices: list[dict[str, list[float | None]]] = []

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
        choices = {unit: np.asarray(epochs[name].values[rows], dtype=float) for unit, name in _VARIABLES.items()}
        values = np.asarray(values, dtype=float)
        exact = scatter.pop("exact", values)
        hover = (
            f"<b>{safe(trace.label)}</b><br>{what} %{{customdata[3]:.6g}}<br>epoch %{{customdata[0]:d}}"
            " · work %{customdata[1]:.6g} · %{customdata[2]:.4g} s<extra></extra>"
        )
        self.figure.add_scatter(
            x=choices[x or self.x],
            y=values,
            customdata=np.column_stack([choices["epochs"], choices["work"], choices["seconds"], exact]),
            **{"hovertemplate": hover, **scatter},
            row=row,
            col=column,
        )
        self._choices.append({unit: [float(v) if np.isfinite(v) else None for v in c] for unit, c in choices.items()})

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
        zeros = rows[raw[rows] == 0] if log else []
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

    def add_run(
        self, trace: Trace, values: Any, what: str, color: str, symbol: str, name: str, **place: Any
    ) -> None:
        """The curve of one run, and a marker where it ended."""
        self.add_line(trace, values, what, color, symbol, name, **place)
        drawn = positive(values)
        end = np.flatnonzero(np.isfinite(drawn))[-1:]
        if len(end):
            marker = self._end(trace, color, symbol)
            self._add_markers(trace, drawn[end], f"{_ending(trace)}<br>{what}", end, name, marker, **place)

    def add_checks(self, trace: Trace, color: str, name: str) -> bool:
        """The residuals recomputed from B − KW, apart from the recursive curve; whether there are any."""
        checked = positive(trace["epoch"]["checked_residual"].values)
        at = np.flatnonzero(np.isfinite(checked))
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
        self.figure.add_scatter(x=[None], y=[None], name=name, hoverinfo="skip", row=1, col=1, **style)
        self._choices.append({unit: [None] for unit in _VARIABLES})

    def buttons(self) -> None:
        """Buttons that switch x; they work in exported HTML, without Python."""
        last = self._last_x_axis()
        self.figure.update_xaxes(title_text=X_TITLES[self.x], selector=lambda axis: axis.plotly_name == last)
        self.figure.update_xaxes(rangemode="tozero")
        axes = [name for name in self.figure.layout if name.startswith("xaxis")]
        units = get_args(X)
        self.figure.update_layout(
            updatemenus=[
                {
                    "type": "buttons",
                    "direction": "right",
                    "active": units.index(self.x),
                    "x": 0,
                    "xanchor": "left",
                    "y": 1,
                    "yanchor": "bottom",
                    "pad": {"b": 8, "t": 0, "l": 0, "r": 0},
                    "bgcolor": self.theme.button,
                    "bordercolor": self.theme.muted,
                    "font": {"color": self.theme.button_text},
                    "buttons": [
                        {
                            "label": unit,
                            "method": "update",
                            "args": [
                                {"x": [choice[unit] for choice in self._choices]},
                                {f"{last}.title.text": X_TITLES[unit]} | {f"{axis}.autorange": True for axis in axes},
                            ],
                        }
                        for unit in units
                    ],
                }
            ]
        )

    def _last_x_axis(self) -> str:
        """The lowest panel carries the title."""
        return sorted((name for name in self.figure.layout if name.startswith("xaxis")), key=lambda s: (len(s), s))[-1]

    def _end(self, trace: Trace, color: str, symbol: str) -> dict[str, Any]:
        reason = trace.attrs.get("stop_reason")
        if reason == "converged":
            return {
                "color": color,
                "symbol": symbol,
                "size": CONVERGED_SIZE,
                "line": {"color": self.theme.ink, "width": 1.5},
            }
        return {"color": color, "symbol": NOT_CONVERGED if reason else UNFINISHED, "size": 12, "line": {"width": 2}}


def _ending(trace: Trace) -> str:
    message = str(trace.attrs.get("stop_message") or trace.attrs.get("stop_reason") or "unfinished")
    return "<br>".join(safe(line) for line in textwrap.wrap(message, CAPTION_WIDTH))
