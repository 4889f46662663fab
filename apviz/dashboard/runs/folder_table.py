"""The table of everything in the runs folder: ticks choose runs, a click looks at one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui
from bokeh.models.widgets.tables import NumberFormatter, ScientificFormatter

from apviz.dashboard.runs.run_entry import RunEntry

_FORMATS = {"n": "0,0", "epochs": "0,0", "work": "0,0.00", "seconds": "0,0.00"}
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
        self._choose, self._select = choose, select
        self._filling = False
        self.table = pn.widgets.Tabulator(
            pd.DataFrame(), show_index=False, disabled=True, selectable="checkbox", sizing_mode="stretch_width",
            layout="fit_data_fill", theme="materialize", pagination="local", page_size=PAGE_ROWS,
            formatters={name: NumberFormatter(format=form, nan_format="–") for name, form in _FORMATS.items()}
            | {"residual": ScientificFormatter(precision=2, power_limit_low=0, nan_format="–")},
            widths={"name": 300, "ended": 220, "note": 200, "method": 230},
        )  # fmt: skip
        self.table.on_click(lambda event: self._select(self.names[event.row]))
        self.table.param.watch(self._ticked, "selection")
        self._count = pmui.Typography("", variant="body2", margin=(0, 12))
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
        self._filling = True
        try:
            self.table.selection = []
            self.table.value = pd.DataFrame([_row(entry, now) for entry in entries])
            self.tick(chosen)
        finally:
            self._filling = False

    def tick(self, chosen: Sequence[str]) -> None:
        """Ticks these and no others."""
        filling, self._filling = self._filling, True
        try:
            self.table.selection = [place for place, name in enumerate(self.names) if name in chosen]
        finally:
            self._filling = filling

    def _ticked(self, event: Any) -> None:
        if not self._filling:
            self._choose([self.names[place] for place in event.new if place < len(self.names)])


def _row(entry: RunEntry, now: float) -> dict[str, Any]:
    return {
        "name": entry.name,
        "ended": entry.ended(now),
        "residual": entry.residual,
        "work": entry.work,
        "seconds": entry.seconds,
        "note": entry.problem or entry.note,
        "method": entry.method or "–",
        "data": entry.dataset or "–",
        "n": math.nan if entry.n is None else entry.n,
        "epochs": math.nan if entry.epochs is None else entry.epochs,
        "of": entry.kind or "–",
        "begun (UTC)": entry.created[:16].replace("T", " ") or "–",
    }
