"""Thresholds of the visitor: cells of the table of runs that cross one are marked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apviz.dashboard.address import shown
from apviz.dashboard.pages.runs.columns import COLUMNS
from apviz.dashboard.store.run_entry import RunEntry

#: Columns of numbers by what a threshold may call them: their names, and their headings.
_NUMBERS: Final = {word: name for name, each in COLUMNS.items() if each.form != "text" for word in (name, each.title)}
_FORM: Final = re.compile(r"([^<>]+)([<>])([^<>]+)")


@dataclass(frozen=True)
class Threshold:
    """Bound on a column, by its name in `COLUMNS`: numbers above it (`>`) or below it (`<`) are marked."""

    column: str
    sign: str
    bound: float

    @property
    def words(self) -> str:
        """Return the threshold as it is typed."""
        return f"{COLUMNS[self.column].title} {self.sign} {self.bound:g}"

    def is_crossed(self, run: RunEntry, now: float) -> bool:
        """Test whether the number of a run is beyond the bound; a missing one is not."""
        cell = COLUMNS[self.column].cell(run, now)
        number = cell[0] if isinstance(cell, tuple) else cell
        if not isinstance(number, int | float):
            return False
        return number > self.bound if self.sign == ">" else number < self.bound


def threshold(text: str) -> Threshold:
    """Return the threshold in a text such as `seconds > 10`.

    Raises:
        ValueError: Not a column of numbers, a sign and a finite number.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"“{shown(text)}” has no form like seconds > 10; separate several by commas")
    column, sign, number = (each.strip() for each in found.groups())
    if column not in _NUMBERS:
        raise ValueError(f"“{shown(column)}” is not a column of numbers; use one of {', '.join(_NUMBERS.values())}")
    try:
        bound = float(number)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ValueError(f"“{shown(number)}” is not a finite number")
    return Threshold(_NUMBERS[column], sign, bound)


def marks(thresholds: Iterable[Threshold]) -> dict[str, list[list[str | float]]]:
    """Return signs and bounds by the heading of their column, as a `SortedTable` takes them."""
    found: dict[str, list[list[str | float]]] = {}
    for each in thresholds:
        found.setdefault(COLUMNS[each.column].title, []).append([each.sign, each.bound])
    return found


def counted(thresholds: Sequence[Threshold], runs: Sequence[RunEntry], now: float) -> str:
    """Return a sentence on how many runs cross each threshold; empty without any."""
    if not thresholds:
        return ""
    counts: Mapping[Threshold, int] = {each: sum(each.is_crossed(run, now) for run in runs) for each in thresholds}
    return f"Marked: {', '.join(f'{each.words} ({count:,})' for each, count in counts.items())}."
