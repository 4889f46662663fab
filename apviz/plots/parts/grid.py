"""Panels of curves on a grid as plain data: a figure that grows while a solve runs is made several times a second."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

from plotly.subplots import make_subplots


class Grid:
    """Layout and data of a figure of panels, as plotly's JSON has them.

    `go.Figure` takes all of it at once in a tenth of the time that adding piece by piece takes.

    Args:
        rows, columns: of panels.
        spacing: of `plotly.subplots.make_subplots`.

    Attributes:
        layout, data: of the figure.
    """

    def __init__(self, rows: int = 1, columns: int = 1, **spacing: Any) -> None:
        self.rows, self.columns = rows, columns
        self.layout: dict[str, Any] = copy.deepcopy(_empty(rows, columns, tuple(spacing.items())))
        self.data: list[dict[str, Any]] = []

    def add_scatter(self, row: int, column: int, **scatter: Any) -> None:
        """A curve, or markers, in a panel."""
        number = self._number(row, column)
        self.data.append({"type": "scatter", **scatter, "xaxis": f"x{number}", "yaxis": f"y{number}"})

    def axis(self, letter: str, row: int, column: int) -> dict[str, Any]:
        """The layout of the axis x or y of a panel."""
        found: dict[str, Any] = self.layout[f"{letter}axis{self._number(row, column)}"]
        return found

    def add_line(self, row: int, column: int, y: float, line: dict[str, Any]) -> None:
        """A horizontal line through a panel, below its curves."""
        number = self._number(row, column)
        shape = {"type": "line", "xref": f"x{number} domain", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line,
                 "yref": f"y{number}", "layer": "below"}  # fmt: skip
        self.layout.setdefault("shapes", []).append(shape)

    def add_words(self, row: int, column: int, **annotation: Any) -> None:
        """Words in a panel, x as a part of its width."""
        number = self._number(row, column)
        place = {"xref": f"x{number} domain", "yref": f"y{number}", "showarrow": False}
        self.layout.setdefault("annotations", []).append({**place, **annotation})

    def _number(self, row: int, column: int) -> str:
        number = (row - 1) * self.columns + column
        return "" if number == 1 else str(number)


@lru_cache
def _empty(rows: int, columns: int, spacing: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    layout: dict[str, Any] = make_subplots(rows=rows, cols=columns, **dict(spacing)).to_plotly_json()["layout"]
    layout.pop("template", None)
    return layout
