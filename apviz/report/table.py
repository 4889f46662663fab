"""Table of runs: one row a trace, the same for the terminal and the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from apviz.method import abbreviations
from apviz.plots._labels import method_names
from apviz.tracing import Trace

HEADINGS = (
    "method", "block size", "epochs or iterations", "work", "set-up work", "seconds", "residual", "stop reason",
    "test RMSE",
)  # fmt: skip
TERMINAL_HEADINGS = (
    "method", "block\nsize", "epochs\nor its", "work", "set-up\nwork", "time\n[s]", "residual", "stop reason",
    "test\nRMSE",
)  # fmt: skip
METHOD, STOP_REASON = HEADINGS.index("method"), HEADINGS.index("stop reason")


@dataclass(frozen=True)
class Row:
    """Cells of a run, as text, in the order of `HEADINGS`, and whether it converged."""

    cells: tuple[str, ...]
    converged: bool


def table_rows(traces: Sequence[Trace]) -> list[Row]:
    """Rows of the table, one a trace; an interrupted run is shown as far as it got."""
    return [table_row(trace, method) for trace, method in zip(traces, method_names(traces), strict=True)]


def table_row(trace: Trace, method: str | None = None) -> Row:
    """Row of the table for one trace.

    Args:
        method: what it is called beside others.
    """
    a, last = trace.attrs, trace["epoch"].isel(epoch=-1)
    rmse = float(last["test_rmse"])
    reason = trace.outcome if trace.converged else f"{trace.outcome}, not converged"
    return Row(
        (
            method or trace.method_name,
            "–" if trace.block_size is None else f"{trace.block_size:,}",
            f"{int(last['epoch']):,}",
            f"{float(last['work']):.2f}",
            f"{a['setup_work']:.2f}",
            f"{float(last['seconds']):.2f}",
            trace.residual_in_words(),
            reason,
            "–" if math.isnan(rmse) else f"{rmse:.4f}",
        ),
        trace.converged,
    )


def terminal_table(traces: Sequence[Trace], title: str = "") -> Table:
    """Table for a terminal: runs that did not converge are marked in words and colour; short forms are explained."""
    table = Table(
        title=title or None, title_justify="left", box=box.SIMPLE, padding=0, show_edge=False,
        caption=abbreviations([trace.method for trace in traces]) or None, caption_justify="left",
    )  # fmt: skip
    lines = table_rows(traces)
    for index, heading in enumerate(TERMINAL_HEADINGS):
        is_text = index in (METHOD, STOP_REASON)
        # numbers are never cut; in a narrow terminal the words wrap
        width = 13 if is_text else max((len(line.cells[index]) for line in lines), default=0)
        table.add_column(heading, justify="left" if is_text else "right", min_width=width, overflow="fold")
    for line in lines:
        cells = list(line.cells)
        cells[STOP_REASON] = f"[{'green' if line.converged else 'red'}]{cells[STOP_REASON]}"
        table.add_row(*cells)
    return table
