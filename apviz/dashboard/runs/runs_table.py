"""The table of runs: sortable, and a click looks at a run in detail."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
from bokeh.models.widgets.tables import NumberFormatter, ScientificFormatter

from apviz.plots.parts.captions import outcome
from apviz.tracing import Trace

_FORMATS = {
    "block size": "0,0", "epochs or its": "0,0", "work": "0,0.00", "set-up work": "0,0.00", "seconds": "0,0.00",
    "test RMSE": "0.0000",
}  # fmt: skip
_SCIENTIFIC = ("σ²", "residual", "κ", "κ′")


#: what a browser takes at most to build a table
BUILDING_SECONDS = 5.0


class RunsTable:
    """One row a run.

    Args:
        select: called with the name of a run that is clicked.
    """

    def __init__(self, select: Callable[[str], None]) -> None:
        self._names: list[str] = []
        self._select = select
        self._waiting = False
        self._made = 0.0
        #: made with its first rows: other columns would build it anew while the browser still builds it
        self.table: pn.widgets.Tabulator | None = None
        self.view = pmui.Paper(
            pmui.Typography("Runs", variant="h6", margin=(8, 12, 0, 12)),
            pmui.Typography("Click a row to look at that run in detail; click a heading to sort.", variant="body2",
                            margin=(0, 12)),
            sizing_mode="stretch_width", margin=8, elevation=1,
        )  # fmt: skip

    def show(self, traces: Mapping[str, Trace], selected: str) -> None:
        """The runs by their names in the folder, and which is looked at."""
        self._names = list(traces)
        rows = pd.DataFrame([_row(trace) for trace in traces.values()])
        selection = [self._names.index(selected)] if selected in self._names else []
        if self.table is None:
            if len(rows):
                self._make(rows, selection)
        elif self._is_new() and pn.state.curdoc is not None:
            self._show_later(traces, selected)
        else:
            # of no runs the columns stay, with their types
            # one after another: a selection must be of rows that are there
            self.table.selection = []
            self.table.value = rows if len(rows) else self.table.value.iloc[:0]
            self.table.selection = selection

    def _make(self, rows: pd.DataFrame, selection: list[int]) -> None:
        self.table = pn.widgets.Tabulator(
            rows, selection=selection, show_index=False, disabled=True, selectable=1, sizing_mode="stretch_width",
            layout="fit_data_fill", theme="materialize",
            formatters={name: NumberFormatter(format=form, nan_format="–") for name, form in _FORMATS.items()}
            | {name: ScientificFormatter(precision=2, nan_format="–", power_limit_low=0) for name in _SCIENTIFIC},
        )  # fmt: skip
        self.table.on_click(self._clicked)
        self.view.append(self.table)
        self._made = time.monotonic()

    def _is_new(self) -> bool:
        return time.monotonic() - self._made < BUILDING_SECONDS

    def _show_later(self, traces: Mapping[str, Trace], selected: str) -> None:
        """When the browser has had the time to build the table: rows that come before are lost, with an error."""
        self._wanted = (traces, selected)
        if self._waiting:
            return
        self._waiting = True

        def show() -> None:
            self._waiting = False
            self.show(*self._wanted)

        pn.state.curdoc.add_timeout_callback(show, round(1000 * BUILDING_SECONDS))

    def _clicked(self, event: Any) -> None:
        self._select(self._names[event.row])


def _row(trace: Trace) -> dict[str, Any]:
    a, last = trace.attrs, trace["epoch"].isel(epoch=-1)
    block_size = a.get("block_size", np.nan)
    return {
        "method": trace.label.partition(" b=")[0],
        "block size": float(block_size) if isinstance(block_size, int | float) else np.nan,
        "σ²": float(a["noise"]),
        "epochs or its": int(last["epoch"]),
        "work": float(last["work"]),
        "set-up work": float(a["setup_work"]),
        "seconds": float(last["seconds"]),
        "residual": float(last["residual"]),
        "how it ended": outcome(trace),
        "test RMSE": float(last["test_rmse"]),
        "κ": float(trace["spectrum"]["kappa"]),
        "κ′": float(trace["spectrum"]["kappa_prime"]),
    }
