"""Columns of the table of all runs, and the chosen ones among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from apviz.dashboard.components.tables import Cell, Form
from apviz.dashboard.store.run_entry import RunEntry


@dataclass(frozen=True)
class Column:
    """Column: its heading, the format of its cells, and the cell of a run at a time in seconds since 1970."""

    title: str
    form: Form
    cell: Callable[[RunEntry, float], Cell]


def _method(run: RunEntry) -> str:
    """Return the method without the block size, which has its own column."""
    return run.method.replace(f" b={run.block_size}", "")


#: Columns by their names in an address, in the order of the table, which always begins with the name of the run.
COLUMNS: Final[dict[str, Column]] = {
    "ended": Column("ended", "text", lambda run, now: run.ended(now)),
    "method": Column("method", "text", lambda run, now: _method(run) or None),
    "b": Column("b", "integer", lambda run, now: run.block_size),
    "noise": Column("σ²", "3 digits", lambda run, now: run.noise),
    "seed": Column("seed", "integer", lambda run, now: run.seed),
    "work": Column("work", "2 decimals", lambda run, now: run.work),
    "seconds": Column("seconds", "2 decimals", lambda run, now: run.seconds),
    "residual": Column(
        "residual", "scientific", lambda run, now: (run.residual, "" if run.residual_is_measured else "≈ ")
    ),
    "rmse": Column("RMSE", "4 decimals", lambda run, now: run.rmse),
    "tags": Column("tags", "text", lambda run, now: ", ".join(run.tags) or None),
    "note": Column("note", "text", lambda run, now: run.problem or run.note or None),
    "data": Column("data", "text", lambda run, now: run.dataset or None),
    "n": Column("n", "integer", lambda run, now: run.n),
    "d": Column("d", "integer", lambda run, now: run.d),
    "kernel": Column("kernel", "text", lambda run, now: run.kernel or None),
    "lengthscale": Column("ℓ", "3 digits", lambda run, now: run.lengthscale),
    "kappa": Column("κ", "3 digits", lambda run, now: (run.kappa, "≈" if run.kappa_is_estimate else "")),
    "tol": Column("tolerance", "3 digits", lambda run, now: run.tol),
    "dtype": Column("dtype", "text", lambda run, now: run.dtype or None),
    "epochs": Column("epochs", "integer", lambda run, now: run.epochs),
    "of": Column("of", "text", lambda run, now: run.kind or None),
    "begun": Column("started (UTC)", "text", lambda run, now: run.created[:16].replace("T", " ") or None),
}
#: Columns shown by default.
DEFAULT: Final = ["ended", "method", "b", "noise", "seed", "work", "seconds", "residual", "rmse", "tags", "note"]


def headings(chosen: Sequence[str]) -> dict[str, Form]:
    """Return the headings of the chosen columns, with the formats of the cells."""
    found: dict[str, Form] = {column.title: column.form for name, column in COLUMNS.items() if name in chosen}
    return {"name": "text", **found}


def cells(entry: RunEntry, chosen: Sequence[str], now: float) -> list[Cell]:
    """Return the cells of a run, below those headings."""
    return [entry.name, *(column.cell(entry, now) for name, column in COLUMNS.items() if name in chosen)]
