"""One run in detail: its name and a note on it, to be changed, how it ended, and what limited it."""

from __future__ import annotations

import time
from collections.abc import Callable

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.diagnosis.diagnosis_card import DiagnosisCard
from apviz.dashboard.one_way import one_way
from apviz.dashboard.pages.runs.button import button
from apviz.dashboard.plain_text import plain
from apviz.dashboard.runs.kinds import has_steps, is_solve
from apviz.dashboard.runs.notes import MOST_NOTE
from apviz.dashboard.runs.run_entry import RunEntry
from apviz.diagnosis import Diagnosis
from apviz.tracing import Trace


class OneRun:
    """The run that is looked at.

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
        self.note = pmui.TextAreaInput(label="Note", rows=2, max_length=MOST_NOTE, **wide)
        self._detail = one_way(pmui.Typography("", variant="body2", margin=(0, 12)))
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
        """Nothing for none.

        Args:
            trace: None while it is not open.
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
        self._detail.object = plain(f"{entry.name}: {entry.problem or entry.ended(time.time())}")
