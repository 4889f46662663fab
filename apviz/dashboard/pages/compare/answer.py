"""The top of the page Compare: a one-line verdict and its runs, the best first."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import panel_material_ui as pmui
import plotly.graph_objects as go

from apviz.analysis.verdict import Basis, Standing, Verdict, judge, standing, time_words
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.tables import Cell, Form, SortedTable, details_of
from apviz.dashboard.components.text import escape
from apviz.plots._labels import full_names
from apviz.tracing import Trace

_COLUMNS: dict[str, Form] = {
    "run": "text", "seconds": "2 decimals", "work": "2 decimals", "residual": "scientific", "how it ended": "text",
}  # fmt: skip
#: Columns on a projector, because the chart shows the rest.
_COLUMNS_LECTURE = {title: _COLUMNS[title] for title in ("run", "seconds", "work")}
#: Height of everything above the table, so that a long table scrolls inside.
_ABOVE = "max(300px, calc(100vh - 280px))"
#: An empty line keeps the page below in place when a message appears.
_NOTHING = "&nbsp;"
#: Signs before numbers that were not measured.
_SIGNS = {Basis.EXTRAPOLATED: "≈", Basis.BOUND: "up to about"}


def curve_styles(figure: go.Figure) -> list[list[str]]:
    """Return colour, dash and symbol of the curve of every run in a figure, in their order."""
    found: dict[str, list[str]] = {}
    for curve in figure.data:
        if curve.legendgroup and "lines" in (curve.mode or ""):
            style = [curve.line.color, curve.line.dash or "solid", curve.marker.symbol or ""]
            found.setdefault(curve.legendgroup, style)
    return list(found.values())


class Answer:
    """Verdict on runs, and their table, which is the legend of the chart next to it.

    Args:
        select: Called with the name of a clicked run.
        lecture: Whether to show fewer columns, for a projector.
    """

    def __init__(self, select: Callable[[str], None], *, lecture: bool) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._headline = server_owned(pmui.Typography(_NOTHING, variant="h6", margin=(2, 12, 0, 12), **wide))
        self._rest = server_owned(pmui.Typography(_NOTHING, variant="body2", margin=(0, 12, 2, 12), **wide))
        self.verdict = pmui.Column(self._headline, self._rest, **wide)
        self._columns = len(_COLUMNS_LECTURE if lecture else _COLUMNS)
        self.table = SortedTable(
            _COLUMNS_LECTURE if lecture else _COLUMNS, caption="Runs, the best first", height=_ABOVE, **wide
        )
        self.table.on_click(select)
        self.runs = pmui.Paper(self.table, margin=8, elevation=1, **wide)
        self._finished: dict[str, list[Cell]] = {}
        #: Headline, and the text after it.
        self._said: tuple[str, str] = ("", "")

    def show(self, traces: Mapping[str, Trace], selected: str, *, solving: bool) -> Verdict:
        """Judge the finished runs by their names in the folder, and list them.

        Args:
            solving: Whether more runs will follow.
        """
        names = full_names(list(traces.values()))
        found = judge(traces.values(), names, more_to_come=solving)
        self._say(found, solving)
        keys = {id(trace): key for key, trace in traces.items()}
        ordered = {keys[id(each.trace)]: _row(each) for each in found.standings}
        # Runs of other systems come last.
        rest = [(key, name) for key, name in zip(traces, names, strict=True) if key not in ordered]
        self._finished = ordered | {key: _row(standing(traces[key], name)) for key, name in rest}
        self._list(self._finished, selected=selected, details=details_of(traces))
        return found

    def show_live(self, live: Mapping[str, Trace]) -> None:
        """List the running solves below the finished runs."""
        names = full_names(list(live.values()))
        growing = {
            key: [name, *_numbers(trace), "running"]
            for (key, trace), name in zip(live.items(), names, strict=True)
        }  # fmt: skip
        self._list({key: row for key, row in self._finished.items() if key not in growing} | growing)

    def still(self, chart: str) -> str:
        """Return static HTML of the verdict and table, with that of the chart next to the table."""
        headline, *rest = (html.escape(each) for each in self._said)
        return (
            f"<h2>{headline}</h2><p>{' '.join(rest)}</p><div class=row><div class='card chart'>{chart}</div>"
            f"<div class='card scroll'>{self.table.still()}</div></div>"
        )

    def name_curves(self, styles: Mapping[str, list[str]]) -> None:
        """Draw the line and marker of its curve next to the name of each run."""
        self.table.swatches = dict(styles)

    def _list(self, rows: Mapping[str, Sequence[Cell]], **state: Any) -> None:
        self.table.show({key: row[: self._columns] for key, row in rows.items()}, **state)

    def _say(self, found: Verdict, solving: bool) -> None:
        if not found.standings and solving:
            headline, rest = "Solving: the verdict comes with the first run that ends.", ""
        else:
            headline = f"So far: {found.headline}" if solving else found.headline
            rest = f"{found.others} {found.change}".strip()
        self._said = (headline, rest)
        self._headline.object, self._rest.object = escape(headline) or _NOTHING, escape(rest) or _NOTHING


def _row(run: Standing) -> list[Cell]:
    return [run.name, *_numbers(run.trace), _ended(run)]


def _numbers(trace: Trace) -> Sequence[Cell]:
    """Return seconds, work and residual; for a run that did not converge, the estimates to the tolerance."""
    last, sign = trace["epoch"].isel(epoch=-1), "" if trace.converged else "> "
    about = "" if trace.residual_is_measured else "≈ "
    return [(float(last["seconds"]), sign), (float(last["work"]), sign), (float(last["residual"]), about)]


def _ended(run: Standing) -> str:
    """Return how a run ended, and for a run that did not converge its estimated cost."""
    if run.basis in _SIGNS:
        reason = "Not converged" if run.trace.finished else "Unfinished"
        time = time_words(run.seconds).replace(" ", "\N{NO-BREAK SPACE}")
        return f"{reason}: needs {_SIGNS[run.basis]}\N{NO-BREAK SPACE}{time}"
    return run.trace.status(with_residual=False)
