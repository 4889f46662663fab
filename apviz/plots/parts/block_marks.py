"""How a picture shows a block: outline and shade where blocks are compact on a grid, else dots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apviz.plots.parts.pixels import filled, outline, rectangles

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

#: blocks are outlined if this share of the pixels side by side have one owner
COMPACT: Final = 0.6

#: of outline and shade; the same in both themes, since white is zero
INK: Final = "#111111"
SHADE: Final = "rgba(17,17,17,0.25)"


class BlockMarks:
    """How a block is shown: outline and shade where blocks are compact on a grid, else dots.

    Attributes:
        owner: (n,) the block of each row; None for a solver without blocks.
        key: what the marks mean, in a line.
    """

    def __init__(self, trace: Trace, x: Any, y: Any, shape: tuple[int, int] | None) -> None:
        rows = trace["rows"]
        self.owner = rows["owner"].values if "owner" in rows else None
        self._x, self._y = x, y
        words = [] if shape is None else ["pale grey: no row"]
        if self.owner is not None:
            pairs = rows["membership"].values
            self._margins = pairs[self.owner[pairs[:, 0]] != pairs[:, 1]]
            self._empty = None if shape is None else np.full(shape, -1)
            if self._empty is not None and not self._compact(self._empty):
                self._empty = None
            block, margin = ("dots", "faint dots") if self._empty is None else ("outline", "shade")
            words = [f"{block}: block", *([f"{margin}: margin"] if len(self._margins) else []), *words]
        self.key = " · ".join(words)

    def _compact(self, empty: NDArray[np.int64]) -> bool:
        """Whether most pixels side by side have one owner; else an outline would be as many squares as pixels."""
        owners = empty.copy()
        owners[self._y, self._x] = self.owner if self.owner is not None else -1
        pairs = [(owners[1:], owners[:-1]), (owners[:, 1:], owners[:, :-1])]
        same = np.concatenate([(a == b)[(a >= 0) & (b >= 0)] for a, b in pairs])
        return bool(same.sum() > COMPACT * same.size)

    def marks(self, block: int) -> list[go.Scatter]:
        """The marks of a block; empty ones for −1. Solvers without blocks have none."""
        if self.owner is None:
            return []
        owned = np.flatnonzero(self.owner == block)
        margin = self._margins[self._margins[:, 1] == block, 0]
        quiet = {"hoverinfo": "skip", "cliponaxis": False}
        if self._empty is None:
            return [
                go.Scatter(
                    x=self._x[rows],
                    y=self._y[rows],
                    mode="markers",
                    marker={"size": 3, "color": INK, "opacity": opacity},
                    **quiet,
                )
                for rows, opacity in ((margin, 0.4), (owned, 1.0))
            ]
        cells = self._empty.copy()
        cells[self._y, self._x] = 0
        cells[self._y[margin], self._x[margin]] = 1
        cells[self._y[owned], self._x[owned]] = 2
        cells = filled(cells)
        shade, line = rectangles(cells == 1), outline(cells == 2)
        return [
            go.Scatter(
                x=shade[0], y=shade[1], mode="lines", line={"width": 0}, fill="toself", fillcolor=SHADE, **quiet
            ),
            go.Scatter(x=line[0], y=line[1], mode="lines", line={"color": INK, "width": 2.5}, **quiet),
        ]
