"""What is in the folder, as it was at the last look, and a note on what of it cannot be read."""

from __future__ import annotations

import time

import panel_material_ui as pmui

from apviz.dashboard.one_way import one_way
from apviz.dashboard.plain_text import plain
from apviz.dashboard.runs.run_entry import RunEntry
from apviz.dashboard.runs.runs_folder import RunsFolder


class Listing:
    """The runs of a folder.

    Attributes:
        entries: the newest first.
    """

    def __init__(self, runs: RunsFolder) -> None:
        self._runs = runs
        self.entries: list[RunEntry] = []
        self._seen: list[tuple[RunEntry, str]] = []
        wide = {"sizing_mode": "stretch_width"}
        self.broken = one_way(
            pmui.Alert(object="", severity="warning", variant="outlined", visible=False, margin=8, **wide)
        )

    def look(self) -> bool:
        """Looks into the folder; whether something is different there."""
        entries, now = self._runs.entries(), time.time()
        # how a run ended is known better when it was not written to for a while
        seen = [(entry, entry.ended(now)) for entry in entries]
        if seen == self._seen:
            return False
        self.entries, self._seen = entries, seen
        unreadable = [entry for entry in entries if entry.problem]
        words = "  \n".join(f"{plain(entry.name)}: {plain(entry.problem)}" for entry in unreadable)
        self.broken.param.update(object=f"Cannot be read.  \n{words}", visible=bool(unreadable))
        return True

    @property
    def changed(self) -> dict[str, float]:
        """When each run was last written to, in seconds since 1970."""
        return {entry.name: entry.changed for entry in self.entries}

    def can_be_read(self, name: str) -> bool:
        """Also of a run that is not there: opening it says so."""
        entry = self.entry(name)
        return entry is None or not entry.problem

    def entry(self, name: str) -> RunEntry | None:
        """Of one run; None for one that is not there."""
        return next((each for each in self.entries if each.name == name), None)
