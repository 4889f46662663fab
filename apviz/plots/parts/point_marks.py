"""How points show a block: outline and shade where its rows lie together, else rings and halos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apviz.plots.parts.block_marks import COMPACT, INK, SHADE
from apviz.plots.parts.hulls import Floats, hull, within

if TYPE_CHECKING:
    from apviz.tracing.trace import Trace

_HALO: Final = "rgba(17,17,17,0.28)"
_QUIET: Final[dict[str, Any]] = {"hoverinfo": "skip", "cliponaxis": False}


class PointMarks:
    """Marks of one block after another, over and under the points.

    Where the hulls of the blocks hold mostly rows of their own, the hull of what a block owns is outlined, and shaded
    is what the hull of what it solves has beside. Elsewhere, as often in a plane of two out of many inputs, an outline
    would enclose rows of all blocks: there the rows that it owns are ringed, and those of its margin have a halo.

    Args:
        position: (n, 2) in the plane, or (n, 1): then a hull is an interval, as high as the chart.
        drawn: which of the rows are drawn, as points of `size` pixels.
        height: where the chart ends above and below zero, for one input.

    Attributes:
        key: what the marks mean, in a line; empty for a solver without blocks.
    """

    def __init__(self, trace: Trace, position: Floats, drawn: Any, size: int, height: float | None) -> None:
        rows = trace["rows"]
        self._owner = rows["owner"].values if "owner" in rows else None
        self._position = position if height is None else np.column_stack([position, np.zeros(len(position))])
        self._drawn, self._size, self._height = drawn, size, height
        self._outlined, self.key = False, ""
        if self._owner is not None:
            self._pairs = rows["membership"].values
            self._outlined = self._lie_together()
            block, margin = ("outline", "shade") if self._outlined else ("rings", "grey halo")
            has_margin = bool((self._owner[self._pairs[:, 0]] != self._pairs[:, 1]).any())
            self.key = f"{block}: block" + (f" · {margin}: margin" if has_margin else "")

    def under(self, block: int, x: Any, y: Any) -> go.Scatter:
        """What lies under the drawn points x, y: (n drawn,): the margin of a block; of −1, nothing."""
        owned, solved = self._of(block)
        if not self._outlined:
            margin = (solved & ~owned)[self._drawn]
            marker = {"size": self._size + 6, "color": _HALO}
            return go.Scatter(x=x[margin], y=y[margin], mode="markers", marker=marker, **_QUIET)
        inner, outer = self._ring(owned), self._ring(solved)
        if np.array_equal(inner, outer):
            inner = outer = np.empty((0, 2))
        # the other way round, the inner ring is a hole
        line = np.concatenate([outer, np.full((1, 2), np.nan), inner[::-1]])
        return _along(line, line={"width": 0}, fill="toself", fillcolor=SHADE)

    def over(self, block: int, x: Any, y: Any) -> go.Scatter:
        """What lies over them: the block."""
        owned, _ = self._of(block)
        if not self._outlined:
            # thin where there are many, or a block would be one black spot
            ring = {"symbol": "circle-open", "color": INK, "line": {"width": 1.5 if self._size > 6 else 1}}
            at = owned[self._drawn]
            return go.Scatter(x=x[at], y=y[at], mode="markers", marker={"size": self._size + 3, **ring}, **_QUIET)
        return _along(self._ring(owned), line={"color": INK, "width": 2.5})

    def _of(self, block: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows a block owns, and which it solves on."""
        solved = np.zeros(len(self._position), bool)
        if self._owner is None:
            return solved, solved
        solved[self._pairs[self._pairs[:, 1] == block, 0]] = True
        return self._owner == block, solved

    def _ring(self, rows: NDArray[np.bool_]) -> Floats:
        ring = hull(self._position[rows])
        if self._height is None or not len(ring):
            return ring
        (low, high), top = (ring[:, 0].min(), ring[:, 0].max()), self._height
        return np.array([(low, -top), (high, -top), (high, top), (low, top), (low, -top)])

    def _lie_together(self) -> bool:
        """Whether of the rows that the hulls of the blocks hold, most are their own."""
        assert self._owner is not None
        owner, position = self._owner[self._drawn], self._position[self._drawn]
        rings = [self._ring(self._owner == block) for block in np.unique(self._owner)]
        held = sum(int(within(position, ring).sum()) for ring in rings)
        return held > 0 and len(owner) > COMPACT * held


def _along(points: Floats, **line: Any) -> go.Scatter:
    x, y = points.astype(np.float32).T
    return go.Scatter(x=x, y=y, mode="lines", **line, **_QUIET)
