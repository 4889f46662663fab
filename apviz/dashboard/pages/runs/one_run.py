"""One run in detail: its name and a note on it, to be changed, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.pages.runs.button import button
from apviz.dashboard.plain_text import plain
from apviz.dashboard.runs.notes import MOST_NOTE
from apviz.dashboard.runs.run_entry import RunEntry


class OneRun:
    """The run that is looked at.

    Args:
        rename, keep_note: what the buttons do; the fields are `name` and `note`.
    """

    def __init__(self, rename: Callable[[], None], keep_note: Callable[[], None]) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._in_fields = ""
        self.name = pmui.TextInput(label="Name", **wide)
        self.note = pmui.TextAreaInput(label="Note", rows=2, max_length=MOST_NOTE, **wide)
        self._detail = pmui.Typography("", variant="body2", margin=(0, 12))
        self.view = pmui.Paper(
            pmui.Typography("The run looked at", variant="h6", margin=(8, 12, 0, 12)), self._detail,
            pn.Row(self.name, button("Rename", "edit", rename), **wide),
            pn.Row(self.note, button("Keep note", "save", keep_note), **wide),
            margin=8, elevation=1, visible=False, **wide,
        )  # fmt: skip

    def show(self, entry: RunEntry | None) -> None:
        """Nothing for none."""
        self.view.visible = entry is not None
        if entry is None:
            return
        # a text that is being typed stays
        if self._in_fields != entry.name:
            self._in_fields = entry.name
            self.name.value, self.note.value = entry.name, entry.note
        self._detail.object = plain(f"{entry.name}: {entry.problem or entry.ended(time.time())}")
