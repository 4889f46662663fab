"""Write the referee's table into the project's README, from the files of results alone."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from apviz.files import file_made_whole
from benchmarks.leaderboard.tables import number
from benchmarks.referee.entrants import ENTRANTS
from benchmarks.referee.results import cells
from benchmarks.referee.tables import EXACT, complete, finished, medians, tabulate

README = Path(__file__).parents[2] / "README.md"
MARKS = "<!-- the best models of benchmarks.referee -->", "<!-- their end -->"


def current(folder: Path) -> str:
    """Return the table of the tasks for which all entrants were measured."""
    return table(complete(medians(tabulate(cells(folder))), ENTRANTS))


def write(folder: Path, readme: Path = README) -> None:
    """Write the table into the README, between its two marks."""
    before, rest = readme.read_text("utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    with file_made_whole(readme) as file:
        file.write(f"{before}{MARKS[0]}\n{current(folder)}\n{MARKS[1]}{after}".encode())


def table(of: pd.DataFrame) -> str:
    """Return the best model and the exact one of every data set, as Markdown, the most gap first.

    Every set is shown with the most rows for which all entrants were measured, and the largest budget there.
    """
    rows = []
    for data, every in of[of["track"] == "own"].groupby("data", sort=False):
        task = every[every["n"] == every["n"].max()]
        task = task[task["budget"] == task["budget"].max()]
        done = finished(task)
        if done.empty:
            continue
        best, exact = done.loc[done["nll"].idxmin()], task[task["entrant"] == EXACT]
        mine = exact.iloc[0] if len(exact) else None
        gap = math.inf if mine is None else float(mine["nll"] - best["nll"])
        words = "not finished" if mine is None or math.isinf(gap) else f"{_nll(mine['nll'])} ({_seconds(mine)})"
        first = f"{best['entrant']} {_nll(best['nll'])} ({_seconds(best)})"
        size = f"{int(best['rows']):,} | {int(best['inputs'])} | {best['budget']:g} s"
        rows.append((gap, f"| {data} | {size} | {first} | {words} |"))
    head = ["| data | rows | inputs | budget | best NLL (seconds) | exact, apviz |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *(row for _, row in sorted(rows, key=lambda row: -row[0]))])


def _nll(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _seconds(row: pd.Series) -> str:
    return f"{number(float(row['seconds']))} s"
