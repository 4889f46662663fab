"""What is looked at on the page Runs: one run in detail, and some side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param

from apviz import plots
from apviz.analysis.diagnosis import Diagnosis
from apviz.analysis.sweeps import settings_table
from apviz.dashboard.components.chart_card import ChartCard, steps_table
from apviz.dashboard.components.cursor import clicked_epoch
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.components.tables import RunsTable, plain_table
from apviz.dashboard.components.text import escape
from apviz.dashboard.pages.base import HALF
from apviz.dashboard.store.run_entry import RunEntry, has_steps, is_solve, solves_of
from apviz.dashboard.store.runs_folder import MAX_NOTE_CHARACTERS
from apviz.plots._axes import without_buttons
from apviz.tracing import Trace


class RunsView(param.Parameterized):
    """Settings of what is looked at."""

    filter = param.String("", label="Filter: words of name, method, data set, ending, note")
    x = param.Selector(default="work", objects=["work", "epochs", "seconds"], label="x axis")
    runs = param.List([], item_type=str, label="runs that are shown together")
    selected = param.String("", label="the run that is looked at in detail")
    differences = param.Boolean(True, label="Show only differences")


class RunDetails:
    """Run in detail: its name and a note on it, to be changed, how it ended, and what limited it.

    Args:
        rename, keep_note: called with the name, or the note, in the field.
        rerun: called with the trace of a solve and its diagnosis when what that proposes is to be tried.
    """

    def __init__(
        self,
        rename: Callable[[str], None],
        keep_note: Callable[[str], None],
        rerun: Callable[[Trace, Diagnosis], None],
    ) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._in_fields = ""
        self.name = pmui.TextInput(label="Name", **wide)
        self.note = pmui.TextAreaInput(label="Note", rows=2, max_length=MAX_NOTE_CHARACTERS, **wide)
        self._detail = server_owned(pmui.Typography("", variant="body2", margin=(0, 12)))
        self._is_training = False
        # the page Training goes on with trainings
        self.diagnosis = DiagnosisCard(rerun, lambda diagnosis: not self._is_training)
        self._paper = pmui.Paper(
            pmui.Typography("The run looked at", variant="h6", margin=(8, 12, 0, 12)), self._detail,
            pn.Row(self.name, button("Rename", "edit", lambda: rename(self.name.value)), **wide),
            pn.Row(self.note, button("Keep note", "save", lambda: keep_note(self.note.value)), **wide),
            margin=8, elevation=1, visible=False, **wide,
        )  # fmt: skip
        self.view = pn.Column(self._paper, self.diagnosis.view, **wide)

    def show(self, entry: RunEntry | None, trace: Trace | None) -> None:
        """Shows a run; nothing for none.

        Args:
            trace: of the run; None while it is not open.
        """
        self._paper.visible = entry is not None
        self._is_training = trace is not None and has_steps(trace)
        # a sentence on what limited a solve needs to know what it was to reach
        is_told_of = self._is_training or (trace is not None and is_solve(trace) and "tol" in trace.attrs)
        words = "the whole training" if self._is_training else ""
        self.diagnosis.show(trace if entry is not None and is_told_of else None, words)
        if entry is None:
            return
        # a text that is being typed stays
        if self._in_fields != entry.name:
            self._in_fields = entry.name
            self.name.value, self.note.value = entry.name, entry.note
        self._detail.object = escape(f"{entry.name}: {entry.problem or entry.ended(time.time())}")


class RunComparison:
    """Chosen runs side by side: their curves, their numbers, and the settings in which they differ.

    Args:
        select: called with the name of a run that is clicked, in the table or at its curve.
    """

    def __init__(self, choice: RunsView, select: Callable[[str], None], *, lecture: bool) -> None:
        self._choice, self._select = choice, select
        self._traces: dict[str, Trace] = {}
        self.cards = {
            "residuals": ChartCard(
                "Residual", "Down is better. The thin line is the tolerance; a cross ends a run that did not converge, "
                "an open circle one that was interrupted or still runs.",
                lambda traces, theme: without_buttons(plots.residuals(traces, x=choice.x, theme=theme)),
                takes=is_solve, axes=380, lecture=lecture,
            ),
            "training": ChartCard(
                "Trainings", "The noise and what each step's solve took, by Adam step.",
                lambda traces, theme: plots.training(traces, theme=theme),
                takes=has_steps, table=steps_table, axes=520, lecture=lecture,
            ),
        }  # fmt: skip
        for card in self.cards.values():
            card.view.styles = HALF
        self.cards["residuals"].chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self.table = RunsTable(select)
        self.settings = pn.Column(sizing_mode="stretch_width")
        choice.param.watch(lambda event: self._show_settings(), ["differences"])
        x = pmui.RadioButtonGroup.from_param(choice.param.x, label="x axis of the curves", size="small", margin=(0, 12))
        self.view = pn.Column(
            x, pn.FlexBox(*(card.view for card in self.cards.values()), sizing_mode="stretch_width"), self.table.view,
            pmui.Paper(
                pmui.Typography("Settings", variant="h6", margin=(8, 12, 0, 12)),
                pmui.Switch.from_param(choice.param.differences, margin=(0, 12)), self.settings,
                sizing_mode="stretch_width", margin=8, elevation=1,
            ),
            sizing_mode="stretch_width", visible=False,
        )  # fmt: skip

    def show(self, traces: Mapping[str, Trace], selected: str) -> None:
        """Shows everything but the charts, which are drawn when it is their turn."""
        self._traces = dict(traces)
        for name, takes in {"residuals": is_solve, "training": has_steps}.items():
            self.cards[name].view.visible = any(takes(trace) for trace in traces.values())
        self.view.visible = bool(traces)
        solves = solves_of(traces)
        self.table.view.visible = bool(solves)
        self.table.show(solves, selected)
        self._show_settings()

    def mark(self, name: str) -> None:
        """Marks the run that is looked at, and no other."""
        self.table.table.selected = name

    def _clicked(self, point: dict[str, Any]) -> None:
        """Selects the run whose curve was clicked."""
        hit = clicked_epoch(self.cards["residuals"].drawn, point)
        name = next((name for name, trace in self._traces.items() if hit is not None and trace is hit[0]), None)
        if name is not None:
            self._select(name)

    def _show_settings(self) -> None:
        traces = self._traces
        rows = settings_table(list(traces.values()), only_differences=self._choice.differences and len(traces) > 1)
        if not rows:
            words = "These runs do not differ in any setting." if traces else "No run is chosen."
            self.settings[:] = [pmui.Typography(words, margin=(0, 12, 8, 12))]
            return
        table = pd.DataFrame.from_dict(rows, orient="index", columns=list(traces))
        self.settings[:] = [plain_table(table, max_height=480, margin=(0, 12, 8, 12))]
