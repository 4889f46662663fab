"""Selection of the page Runs, and one run in detail."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param

from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.components.text import escape
from apviz.dashboard.pages.runs.columns import COLUMNS, DEFAULT
from apviz.dashboard.pages.runs.thresholds import threshold
from apviz.dashboard.store.notes import MAX_NOTE_CHARACTERS
from apviz.dashboard.store.run_entry import RunEntry, has_steps, is_solve
from apviz.tracing import Trace
from apviz.tracing.schema import TRAINING


class RunsView(param.Parameterized):
    """Settings of the selection."""

    filter = param.String("", label="Filter: words of name, method, data set, ending, note")
    x = param.Selector(default="work", objects=["work", "epochs", "seconds"], label="x axis")
    runs = param.List([], item_type=str, label="runs that are shown together")
    selected = param.String("", label="the run that is looked at in detail")
    differences = param.Boolean(True, label="Show only differences")
    group = param.Boolean(True, label="Group runs that differ only in the seed")
    thresholds = param.List([], item_type=str, label="Mark numbers, such as seconds > 10")
    hidden = param.List([], item_type=str, label="runs without a row and without a curve of their own")
    show_hidden = param.Boolean(False, label="Show hidden runs")
    columns = param.ListSelector(
        default=list(DEFAULT), objects=list(COLUMNS), check_on_set=True, label="columns of the table"
    )

    def check_setting(self, name: str, value: Any) -> None:
        """Check a value from the address or from a field.

        Raises:
            ValueError: Not a threshold.
        """
        for each in value if name == "thresholds" else ():
            threshold(each)


class RunDetails:
    """Details of a run: its editable name and note, its stop reason, and what limited it.

    Args:
        rename: Called with the name in the field.
        keep_note: Called with the note in the field.
        open_training: Called to show the run on the page Training.
        rerun: Called with the trace of a solve and its diagnosis, to try the diagnosis's proposal.
    """

    def __init__(
        self,
        rename: Callable[[str], None],
        keep_note: Callable[[str], None],
        open_training: Callable[[], None],
        rerun: Callable[[Trace, Diagnosis], None],
    ) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._in_fields = ""
        self.name = pmui.TextInput(label="Name", **wide)
        self.note = pmui.TextAreaInput(label="Note", rows=2, max_length=MAX_NOTE_CHARACTERS, **wide)
        self._training = button("Open in Training", "open_in_new", open_training, visible=False, margin=(0, 12, 8, 12))
        self._detail = server_owned(pmui.Typography("", variant="body2", margin=(0, 12)))
        self._is_training = False
        # the page Training resumes trainings
        self.diagnosis = DiagnosisCard(rerun, lambda diagnosis: not self._is_training)
        self._paper = pmui.Paper(
            pmui.Typography("Selected run", variant="h6", margin=(8, 12, 0, 12)), self._detail,
            pn.Row(self.name, button("Rename", "edit", lambda: rename(self.name.value)), **wide),
            pn.Row(self.note, button("Keep note", "save", lambda: keep_note(self.note.value)), **wide),
            self._training,
            margin=8, elevation=1, visible=False, **wide,
        )  # fmt: skip
        self.view = pn.Column(self._paper, self.diagnosis.view, **wide)

    def show(self, entry: RunEntry | None, trace: Trace | None) -> None:
        """Show a run; hide the details for None.

        Args:
            trace: Trace of the run; None while it is not open.
        """
        self._paper.visible = entry is not None
        self._is_training = trace is not None and has_steps(trace)
        # a diagnosis of a solve requires its tolerance
        is_told_of = self._is_training or (trace is not None and is_solve(trace) and "tol" in trace.attrs)
        words = "the whole training" if self._is_training else ""
        self.diagnosis.show(trace if entry is not None and is_told_of else None, words)
        if entry is None:
            return
        # keep a text while it is being typed
        if self._in_fields != entry.name:
            self._in_fields = entry.name
            self.name.value, self.note.value = entry.name, entry.note
        self._training.visible = entry.kind == TRAINING
        self._detail.object = escape(f"{entry.name}: {entry.problem or entry.ended(time.time())}")
