"""The verdict of the page Compare with its one action, the table of its runs, and what sets pinned ones apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
import plotly.graph_objects as go

from apviz.analysis.diagnosis import Diagnosis
from apviz.analysis.seed_verdict import SeedStanding, groups_over_seeds, judge_over_seeds
from apviz.analysis.sweeps import settings_table
from apviz.analysis.verdict import Basis, Standing, Verdict, judge, standing, time_words
from apviz.dashboard.components.diagnosis_card import rerun_label
from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.components.solve_cards import names_over_seeds
from apviz.dashboard.components.tables import Cell, Form, SortedTable, details_of, plain_table
from apviz.dashboard.components.text import escape
from apviz.plots._labels import full_names
from apviz.tracing import Trace

_COLUMNS: dict[str, Form] = {
    "run": "text", "seconds": "2 decimals", "work": "2 decimals", "residual": "scientific",
    "test RMSE": "4 decimals", "epochs (CG: iterations)": "integer", "result": "text",
}  # fmt: skip
#: Columns on a projector.
_COLUMNS_LECTURE = {title: _COLUMNS[title] for title in ("run", "seconds", "work", "residual")}
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
    """Verdict on runs, its action, and their table.

    Args:
        select: Called with the name of a clicked run.
        rerun: Called with a run and its diagnosis when the action is pressed.
        lecture: Whether to show fewer columns, for a projector.
    """

    def __init__(
        self, select: Callable[[str], None], rerun: Callable[[Trace, Diagnosis], None], *, lecture: bool
    ) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._headline = server_owned(pmui.Typography(_NOTHING, variant="h6", margin=(12, 12, 0, 12), **wide))
        rest = pmui.Typography(_NOTHING, variant="body2", margin=(0, 12, 2, 12), sx={"color": "text.secondary"}, **wide)
        self._rest = server_owned(rest)
        self.verdict = pn.Column(self._headline, self._rest, **wide)
        #: Button of the action, which the page puts next to Run.
        self.action = button("", "tips_and_updates", self._act, size="medium", visible=False)
        self._rerun = rerun
        self._proposed: tuple[Trace, Diagnosis] | None = None
        self._columns = list(_COLUMNS_LECTURE if lecture else _COLUMNS)
        columns = {title: _COLUMNS[title] for title in self._columns}
        self.table = SortedTable(columns, caption="Runs, the best first", actions=["pinned", "hidden"], **wide)
        self.table.on_click(select)
        self.runs = pmui.Paper(self.table, margin=8, elevation=1, **wide)
        self._finished: dict[str, list[Cell]] = {}
        #: Names of the runs in the headline.
        self.named: list[str] = []
        #: Headline, and the text after it.
        self.said: tuple[str, str] = ("", "")
        #: Chosen data set without a run, and what is shown instead.
        self._missing = ("", "")

    @property
    def ordered(self) -> list[str]:
        """Return the names of the finished runs, the best first."""
        return list(self._finished)

    def show(
        self,
        traces: Mapping[str, Trace],
        selected: str,
        *,
        solving: bool,
        remark: str = "",
        not_judged: Collection[str] = (),
    ) -> None:
        """Judge the finished runs by their names in the folder, and list them.

        Runs that were repeated with several seeds are judged by medians, and have one row for each method.

        Args:
            solving: Whether more runs will follow.
            remark: Sentence after the verdict.
            not_judged: Names of runs that are listed without a part in the verdict: examples next to other runs.
        """
        judged = {key: trace for key, trace in traces.items() if key not in not_judged}
        if groups := groups_over_seeds(list(judged.values())):
            self._show_over_seeds(groups, traces, selected, solving, remark)
            return
        names = full_names(list(traces.values()))
        called = dict(zip(traces, names, strict=True))
        found = judge(judged.values(), [called[key] for key in judged], more_to_come=solving)
        has_verdict = bool(found.standings) or not solving
        self._say(found.headline if has_verdict else "", [found.others, found.change, remark], solving)
        self._propose(found, solving=solving)
        keys = {id(trace): key for key, trace in traces.items()}
        self.named = [keys[id(each.trace)] for each in found.named]
        ordered = {keys[id(each.trace)]: _row(each) for each in found.standings}
        # Runs of other systems come last.
        rest = [(key, name) for key, name in zip(traces, names, strict=True) if key not in ordered]
        self._finished = ordered | {key: _row(standing(traces[key], name)) for key, name in rest}
        self._list(self._finished, selected=selected, details=details_of(traces))

    def _show_over_seeds(
        self, groups: Sequence[Sequence[Trace]], traces: Mapping[str, Trace], selected: str, solving: bool, remark: str
    ) -> None:
        """Judge and list methods over seeds; the row of a method selects one of its runs."""
        found = judge_over_seeds(groups, names_over_seeds(groups))
        self._say(found.headline, [found.others, remark], solving)
        self._propose(None, solving=solving)
        keys = {id(trace): key for key, trace in traces.items()}
        rows = {keys[id(each.runs[0])]: _row_over_seeds(each) for each in found.standings}
        in_row = {keys[id(trace)]: keys[id(each.runs[0])] for each in found.standings for trace in each.runs}
        self._finished = rows
        self._list(rows, selected=in_row.get(selected, ""), details=details_of(traces))

    def show_live(self, live: Mapping[str, Trace]) -> None:
        """List the running solves below the finished runs."""
        names = full_names(list(live.values()))
        growing = {
            key: [name, *_numbers(trace), "running"]
            for (key, trace), name in zip(live.items(), names, strict=True)
        }  # fmt: skip
        self._list({key: row for key, row in self._finished.items() if key not in growing} | growing)

    def name_curves(self, styles: Mapping[str, list[str]]) -> None:
        """Draw the line and marker of its curve next to the name of each run."""
        self.table.swatches = dict(styles)

    def _list(self, rows: Mapping[str, Sequence[Cell]], **state: Any) -> None:
        places = [list(_COLUMNS).index(title) for title in self._columns]
        self.table.show({key: [row[place] for place in places] for key, row in rows.items()}, **state)

    def _say(self, verdict: str, parts: Sequence[str], solving: bool) -> None:
        """Show a verdict, which is empty before the first run ends, and sentences after it."""
        headline, rest = f"So far: {verdict}" if solving else verdict, " ".join(part for part in parts if part)
        if not verdict:
            headline, rest = "Solving: the verdict comes with the first run that ends.", parts[-1]
        self.said = (headline, rest)
        self._write()

    def name_data(self, missing: str, shown: str) -> None:
        """Say that the chosen data set has no result yet, and say whose result is shown.

        Args:
            missing: Chosen data set without a run that is shown; empty if there is one.
            shown: What is shown instead, such as `Stored example (china)`.
        """
        if (missing, shown) != self._missing:
            self._missing = missing, shown
            self._write()

    def _write(self) -> None:
        headline, rest = self.said
        missing, shown = self._missing
        if missing and headline:
            headline, rest = f"No result for {missing} yet.", f"{shown}: {headline}"
        self._headline.object, self._rest.object = escape(headline) or _NOTHING, escape(rest) or _NOTHING

    def _propose(self, found: Verdict | None, *, solving: bool) -> None:
        """Offer the change that the diagnosis of the judged run proposes, if there is one."""
        self._proposed = None
        if found is not None and found.diagnosis is not None and found.diagnosis.change and not solving:
            trace = found.best.trace if found.best else min((each.trace for each in found.standings), key=_residual)
            if trace.attrs.get("operator") != "gpytorch":
                self._proposed = trace, found.diagnosis
        self.action.visible = self._proposed is not None
        if self._proposed is not None:
            self.action.label = rerun_label(self._proposed[1])

    def _act(self) -> None:
        if self._proposed is not None:
            self._rerun(*self._proposed)


class Pinned:
    """Card with the settings in which pinned runs differ; empty for fewer than two."""

    def __init__(self) -> None:
        self.view = pn.Column(sizing_mode="stretch_width", margin=0)

    def show(self, traces: Mapping[str, Trace], pinned: Sequence[str]) -> None:
        """Compare the pinned ones among runs by their names in the folder."""
        runs = [traces[name] for name in pinned if name in traces]
        if len(runs) < 2:
            self.view[:] = []
            return
        settings = pd.DataFrame(settings_table(runs, only_differences=True), index=full_names(runs)).T
        wide = {"sizing_mode": "stretch_width"}
        heading = pmui.Typography("Pinned runs: settings that differ", variant="h6", margin=(8, 12, 0, 12))
        table = pn.Column(plain_table(settings), margin=(0, 12), styles={"overflow-x": "auto"}, **wide)
        self.view[:] = [pmui.Paper(heading, table, margin=8, elevation=1, **wide)]


def _residual(trace: Trace) -> float:
    return float(trace["epoch"]["residual"][-1])


def _row_over_seeds(group: SeedStanding) -> list[Cell]:
    """Return the cells of a method: medians, and how many of its runs converged."""
    count = len(group.runs)
    # the median of those that converged would flatter a method that did not always converge
    costs: list[Cell] = [group.seconds, group.work] if group.always_converged else [None, None]
    epochs = float(np.median([int(trace["epoch"]["epoch"][-1]) for trace in group.runs]))
    ended = f"{group.converged} of {count} run{'s' if count > 1 else ''} converged (medians)"
    return [group.name, *costs, group.residual, group.test_rmse, epochs, ended]


def _row(run: Standing) -> list[Cell]:
    return [run.name, *_numbers(run.trace), _ended(run)]


def _numbers(trace: Trace) -> Sequence[Cell]:
    """Return seconds, work, residual, test RMSE and epochs; more seconds and work are needed without convergence."""
    last, sign = trace["epoch"].isel(epoch=-1), "" if trace.converged else "> "
    about = "" if trace.residual_is_measured else "≈ "
    costs = [(float(last["seconds"]), sign), (float(last["work"]), sign)]
    return [*costs, (float(last["residual"]), about), float(last["test_rmse"]), int(last["epoch"])]


def _ended(run: Standing) -> str:
    """Return how a run ended, and for a run that did not converge its estimated cost."""
    if run.basis in _SIGNS:
        not_converged = "Stopped early" if run.trace.outcome == "stopped" else "Not converged"
        reason = not_converged if run.trace.finished else "Unfinished"
        time = time_words(run.seconds).replace(" ", "\N{NO-BREAK SPACE}")
        return f"{reason}: needs {_SIGNS[run.basis]}\N{NO-BREAK SPACE}{time}"
    return run.trace.status(with_residual=False)
