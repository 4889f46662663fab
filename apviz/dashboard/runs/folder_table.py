"""The table of everything in the runs folder: ticks choose runs, a click looks at one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import panel_material_ui as pmui

from apviz.dashboard.one_way import one_way
from apviz.dashboard.runs.run_entry import RunEntry
from apviz.dashboard.runs.table import Cell, Form, Table

_COLUMNS: dict[str, Form] = {
    "name": "text", "ended": "text", "residual": "scientific", "work": "2 decimals", "seconds": "2 decimals",
    "note": "text", "method": "text", "data": "text", "n": "integer", "epochs": "integer", "of": "text",
    "begun (UTC)": "text",
}  # fmt: skip
#: runs in one chart
MOST_RUNS = 12
#: rows of a page of the table
PAGE_ROWS = 12


class FolderTable:
    """One row a run.

    Args:
        choose: called with the names that are ticked, of those that the table shows.
        select: called with the name of a run that is clicked.
    """

    def __init__(self, choose: Callable[[list[str]], None], select: Callable[[str], None]) -> None:
        #: those in the table, in its order
        self.names: list[str] = []
        self._choose = choose
        self._filling = False
        self.table = Table(
            _COLUMNS, caption="Runs in the folder", can_tick=True, page_rows=PAGE_ROWS, sizing_mode="stretch_width"
        )
        self.table.on_click(select)
        self.table.param.watch(lambda event: self._ticked(event.new), "ticked")
        self._count = one_way(pmui.Typography("", variant="body2", margin=(0, 12)))
        self.view = pmui.Paper(
            pmui.Typography("Runs in the folder", variant="h6", margin=(8, 12, 0, 12)), self._count, self.table,
            sizing_mode="stretch_width", margin=8, elevation=1,
        )  # fmt: skip

    def show(self, entries: Sequence[RunEntry], chosen: Sequence[str], total: int) -> None:
        """The runs that the filter leaves, and which of them are ticked."""
        self.names = [entry.name for entry in entries]
        now = time.time()
        shown = f"{len(entries):,} of {total:,} runs" if len(entries) < total else f"{total:,} runs"
        tick = f"Tick up to {MOST_RUNS} to see them together; click a row to look at that run in detail."
        self._count.object = f"{shown}. {tick}"
        self._fill(rows={entry.name: _row(entry, now) for entry in entries}, chosen=chosen)

    def tick(self, chosen: Sequence[str]) -> None:
        """Ticks these and no others."""
        self._fill(chosen=chosen)

    def mark(self, name: str) -> None:
        """Marks the run that is looked at, and no other."""
        self.table.selected = name

    def _fill(self, *, chosen: Sequence[str], rows: dict[str, list[Cell]] | None = None) -> None:
        ticked = [name for name in self.names if name in chosen]
        filling, self._filling = self._filling, True
        try:
            if rows is None:
                self.table.ticked = ticked
            else:
                self.table.show(rows, ticked=ticked)
        finally:
            self._filling = filling

    def _ticked(self, names: list[str]) -> None:
        if not self._filling:
            self._choose([name for name in names if name in self.names])


def _row(entry: RunEntry, now: float) -> list[Cell]:
    return [
        entry.name, entry.ended(now), entry.residual, entry.work, entry.seconds, entry.problem or entry.note,
        entry.method or None, entry.dataset or None, entry.n, entry.epochs, entry.kind or None,
        entry.created[:16].replace("T", " ") or None,
    ]  # fmt: skip
