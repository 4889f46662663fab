"""Axes that a run far beyond the others does not stretch: it leaves the axis, and the figure names it."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

#: A run is an outlier above this multiple of the median over the runs: on a linear axis, and on a logarithmic one.
_FAR, _FAR_LOG = 100.0, 1e6
#: Room above the largest value on an axis, as a multiple of it.
_ROOM, _ROOM_LOG = 1.05, 2.0
#: Number of outliers that a figure names.
_NAMED: Final = 3


class Reach:
    """Largest values of each run on each axis.

    Axes are named by the unit of an x axis, or by `y` and the row of a y axis.
    """

    def __init__(self) -> None:
        self._largest: dict[str, dict[str, float]] = {}

    def add(self, axis: str, run: str, values: Any) -> None:
        """Note the values of a run, given by its legend entry; those that are not finite do not count."""
        known = np.asarray(values, dtype=float)
        known = known[np.isfinite(known)]
        if len(known):
            runs = self._largest.setdefault(axis, {})
            runs[run] = max(runs.get(run, -np.inf), float(known.max()))

    def limit(self, axis: str, *, log: bool) -> float | None:
        """Return the value at which an axis ends so that outliers do not stretch it; None if there is no outlier."""
        beyond = self._beyond(axis, log)
        if not beyond:
            return None
        rest = [value for run, value in self._largest[axis].items() if run not in beyond]
        return max(rest) * (_ROOM_LOG if log else _ROOM)

    def _beyond(self, axis: str, log: bool) -> dict[str, float]:
        runs = self._largest.get(axis, {})
        # of two runs, the larger may be an outlier
        middle = statistics.median_low(runs.values()) if runs else 0.0
        far = (_FAR_LOG if log else _FAR) * middle
        return {run: value for run, value in runs.items() if value > far > 0}

    def note(self, axes: Mapping[str, tuple[str, bool]]) -> list[str]:
        """Return a sentence on the outliers, as a list, by the words of each axis, with `{}`, and whether it is log."""
        said = [
            f"{re.split(' — |<br>', run)[0]} ({words.format(f'{value:.3g}')})"
            for axis, (words, log) in axes.items()
            for run, value in self._beyond(axis, log).items()
        ]
        more = [f"{len(said) - _NAMED} more"] if len(said) > _NAMED else []
        return [f"beyond the axes: {'; '.join([*said[:_NAMED], *more])}"] if said else []
