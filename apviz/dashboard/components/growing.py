"""A growing figure, of which only the new points are sent to the browser."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.utils import PlotlyJSONEncoder

#: Attributes of a curve that hold one number or row per point.
NUMBERS = ("x", "y", "customdata")

_serials = count(1)


class Growing:
    """Figure as last sent, whole or by its changes.

    A whole figure has a serial number, and its changes are numbered. A browser that misses a change notices and
    requests the whole figure.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the sent figure, so that the whole figure is sent next."""
        self._form, self._curves = "", list[dict[str, Any]]()
        self._serial = self._number = 0

    def whole(self, figure: go.Figure) -> str:
        """Return the JSON of the whole figure."""
        self._form, self._curves, rest = _parts(figure)
        self._serial, self._number = next(_serials), 0
        data = [each | _listed(numbers, 0) for each, numbers in zip(rest["data"], self._curves, strict=True)]
        return json.dumps({**rest, "data": data, "serial": self._serial}, cls=PlotlyJSONEncoder)

    def changes(self, figure: go.Figure) -> str | None:
        """Return the JSON of the points changed since the last call; None if anything else has changed."""
        form, curves, _ = _parts(figure)
        if form != self._form or not self._serial:
            return None
        pairs = list(zip(self._curves, curves, strict=True))
        keeps = [_same_points(old, new) for old, new in pairs]
        changed = [
            {"at": at, "keep": keep, **_listed(new, keep)}
            for at, ((old, new), keep) in enumerate(zip(pairs, keeps, strict=True))
            if not keep == len(old["y"]) == len(new["y"])
        ]
        self._curves, self._number = curves, self._number + 1
        return json.dumps({"serial": self._serial, "number": self._number, "curves": changed})


def _parts(figure: go.Figure) -> tuple[str, list[dict[str, Any]], dict[str, Any]]:
    """Return the figure without its numbers as text, the numbers of each curve, and the figure without its numbers."""
    plain = figure.to_plotly_json()
    curves = [
        {name: _array(curve[name]) for name in NUMBERS if each.pop(name, None) is not None}
        for curve, each in zip(figure.data, plain["data"], strict=True)
    ]
    return json.dumps(plain, cls=PlotlyJSONEncoder), curves, plain


def _array(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=float)


def _same_points(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> int:
    """Return the number of leading points that are the same."""
    if old.keys() != new.keys():
        return 0
    count = min(len(old["y"]), len(new["y"]))
    same = np.ones(count, dtype=bool)
    for name, values in new.items():
        before, now = old[name][:count], values[:count]
        equal = (before == now) | (np.isnan(before) & np.isnan(now))
        same &= equal if equal.ndim == 1 else equal.all(axis=1)
    return count if same.all() else int(np.argmin(same))


def _listed(numbers: dict[str, np.ndarray], first: int) -> dict[str, Any]:
    """Return the points from index `first` on, in JSON's types."""
    return {name: _finite(values[first:]) for name, values in numbers.items()}


def _finite(values: np.ndarray) -> list[Any]:
    listed = values.astype(object)
    listed[~np.isfinite(values)] = None
    return list(listed.tolist())
