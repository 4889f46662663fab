"""Table of runs: one row per trace, the same for the terminal and the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.markup import escape
from rich.table import Table

from apviz.plots._labels import method_names
from apviz.tracing import Trace

HEADINGS = (
    "method", "epochs or iterations", "work", "set-up work", "seconds", "residual", "how it ended", "test RMSE",
)  # fmt: skip
TERMINAL_HEADINGS = (
    "method", "epochs\nor its", "work", "set-up\nwork", "time\n[s]", "residual", "how it\nended", "test\nRMSE",
)  # fmt: skip
METHOD, ENDING = HEADINGS.index("method"), HEADINGS.index("how it ended")
#: Columns that a phone does not show.
MINOR = tuple(map(HEADINGS.index, ("epochs or iterations", "work", "set-up work", "residual")))


@dataclass(frozen=True)
class Row:
    """Row of a run: cells as text in the order of `HEADINGS`, whether it converged, details and kind of its method."""

    cells: tuple[str, ...]
    converged: bool
    details: str = ""
    kind: str = ""


def table_rows(traces: Sequence[Trace]) -> list[Row]:
    """Return the rows of the table, one per trace; an interrupted run is shown up to its last epoch."""
    return [table_row(trace, method) for trace, method in zip(traces, method_names(traces), strict=True)]


def table_row(trace: Trace, method: str | None = None) -> Row:
    """Return the row of the table for one trace.

    Args:
        method: Name of the method that distinguishes it from the others.
    """
    a, last = trace.attrs, trace["epoch"].isel(epoch=-1)
    rmse = float(last["test_rmse"])
    return Row(
        (
            trace.method_name if method is None else method,
            f"{int(last['epoch']):,}",
            f"{float(last['work']):.2f}",
            f"{a['setup_work']:.2f}",
            f"{float(last['seconds']):.2f}",
            trace.residual_in_words(),
            trace.status(with_residual=False),
            "–" if math.isnan(rmse) else f"{rmse:.4f}",
        ),
        trace.converged,
        trace.details,
        trace.method.kind,
    )


def _details(rows: Sequence[Row]) -> list[str]:
    """Return the details of methods, one line each; details shared by all methods of a kind appear once."""
    found: dict[str, dict[str, str]] = {}
    for row in filter(lambda row: row.details, rows):
        found.setdefault(row.kind, {}).setdefault(row.details, row.cells[METHOD])
    return [
        f"{kind if len(of_kind) == 1 else name}: {details}"
        for kind, of_kind in found.items() for details, name in of_kind.items()
    ]  # fmt: skip


def terminal_table(traces: Sequence[Trace]) -> Table:
    """Return the table for a terminal: words and colour mark runs that did not converge; details are below it."""
    lines = table_rows(traces)
    table = Table(
        box=box.SIMPLE, padding=0, show_edge=False,
        caption="\n".join(map(escape, _details(lines))) or None, caption_justify="left",
    )  # fmt: skip
    for index, heading in enumerate(TERMINAL_HEADINGS):
        is_text = index in (METHOD, ENDING)
        # numbers are never truncated; in a narrow terminal the words wrap
        width = 13 if is_text else max((len(line.cells[index]) for line in lines), default=0)
        table.add_column(heading, justify="left" if is_text else "right", min_width=width, overflow="fold")
    for line in lines:
        cells = list(line.cells)
        cells[ENDING] = f"[{'green' if line.converged else 'red'}]{cells[ENDING]}"
        table.add_row(*cells)
    return table
