"""Our numbers of a method, each beside the one the paper printed for the same data set."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from apviz.experiments.base import Row
from apviz.experiments.numbers import duration, spread
from apviz.experiments.published.paper import FOOTNOTES, Trained

#: columns by the field of `Trained` that goes beside them
COLUMNS: Final = {
    "rmse": "test RMSE",
    "nll": "test NLL",
    "solves": "CG iterations or AP epochs",
    "time": "time",
    "speed_up": "speed-up over CG",
}
#: the heading of the paper's column, after ours
PAPER: Final = "paper"
#: as in the paper's table 1
UNCONVERGED: Final = "*: by solves that did not reach their tolerance."


def headings(columns: Sequence[str]) -> list[str]:
    """Each column, and the paper's after it."""
    return [heading for name in columns for heading in (COLUMNS[name], PAPER)]


def beside(rows: Sequence[Row], cg: Sequence[Row], printed: Trained, columns: Sequence[str]) -> list[str]:
    """The cells of one method over its seeds: ours, the paper's, ours, ... .

    Args:
        rows: of one method and data set, with `rmse`, `nll`, `epochs` (None where nothing was solved), `seconds`,
            `mean_converged`, and `converged`: of the solves that were counted and timed.
        cg: the rows of CG.
        printed: the paper's numbers on this data set; an empty one where it has none.
    """
    counted = [row["epochs"] for row in rows if row["epochs"] is not None]
    star = "" if all(row["converged"] for row in rows) else "*"
    seconds = fmean(row["seconds"] for row in rows)
    compared = cg and counted and rows != cg
    ours = {
        "rmse": spread([row["rmse"] for row in rows]) + ("" if all(row["mean_converged"] for row in rows) else "*"),
        "nll": spread([row["nll"] for row in rows if "nll" in row]),
        "solves": spread(counted, 0) + star,
        "time": duration(seconds) + star,
        "speed_up": f"{fmean(row['seconds'] for row in cg) / seconds:.1f}×" if compared else "–",
    }
    return [cell for name in columns for cell in (ours[name], getattr(printed, name))]


def footnotes(cells: Sequence[Sequence[str]]) -> str:
    """What the marks in a table's cells mean, ours and the paper's."""
    used = "".join(cell for row in cells for cell in row)
    notes = [UNCONVERGED] if "*" in used else []
    notes += [f"{mark}: {text}." for mark, text in FOOTNOTES.items() if mark in used and mark != "*"]
    return " ".join(notes)
