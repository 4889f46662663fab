"""Marks of the block of an update: outline and hatching if its rows lie together, otherwise dots, rings and halos.

Rows are pixels of a regular grid or points of a plane, as `places` decides. On a grid, edges of cells are outlined; in
a plane, the convex hull.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from apviz.plots._axes import Floats
from apviz.tracing.trace import Trace

Integers = NDArray[np.int16]

#: Share of a regular grid that inputs must fill to be drawn as pixels; otherwise they are drawn as points.
GRID_SHARE: Final = 0.25
#: Share of neighbouring pixel pairs that must have one owner for blocks to be outlined.
COMPACT: Final = 0.6

#: Colours of the marks, the same in both themes, because white means zero.
INK: Final = "#111111"
#: Yellow, which is no residual: a grey halo would be lost on the grey behind the points.
_HALO: Final = "#FFC93C"
#: Fill of a margin. A plain grey would hide the residuals, and look like the colour of cells without a row.
_HATCHED: Final[dict[str, Any]] = {
    "mode": "lines", "line": {"width": 0}, "fill": "toself", "fillcolor": "rgba(0,0,0,0)",
    "fillpattern": {
        "shape": "/", "size": 6, "solidity": 0.25, "fgcolor": "rgba(17,17,17,0.7)", "bgcolor": "rgba(0,0,0,0)",
    },
}  # fmt: skip
_QUIET: Final[dict[str, Any]] = {"hoverinfo": "skip", "cliponaxis": False}


def places(coordinates: Floats) -> tuple[Any, Any, tuple[int, int] | None]:
    """Return positions x and y, (n,) each, of inputs (n, 2): column, row and shape of a grid; or the inputs, None."""
    row, column = (_steps(each) for each in coordinates.T)
    if row is not None and column is not None:
        shape = int(row.max()) + 1, int(column.max()) + 1
        cells = len(np.unique(row.astype(np.int64) * shape[1] + column))
        if cells == len(row) >= GRID_SHARE * shape[0] * shape[1]:
            return column, row, shape
    first, second = coordinates.astype(np.float32).T
    return first, second, None


def _steps(values: Floats) -> Integers | None:
    """Return the values (n,) as multiples of their smallest gap; None if they are not multiples of it."""
    distinct = np.unique(values)
    span = float(distinct[-1] - distinct[0])
    # values that differ only by rounding count as one
    gaps = np.diff(distinct)[np.diff(distinct) > 1e-5 * span]
    if not len(gaps):
        return np.zeros(len(values), np.int16)
    count = round(span / float(gaps.min()))
    place = (values - distinct[0]) * (count / span)
    regular = count < np.iinfo(np.int16).max and np.abs(place - np.rint(place)).max() < 0.05
    return np.rint(place).astype(np.int16) if regular else None


def filled(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give cells without a row (−1) the most frequent value of their eight neighbours, if at least three share it."""
    height, width = cells.shape
    around = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    while True:
        padded = np.pad(cells, 1, constant_values=-1)
        near = np.stack([padded[i : i + height, j : j + width] for i, j in around])
        votes = np.stack([(near == value).sum(axis=0) for value in range(3)])
        claimed = (cells < 0) & (votes.max(axis=0) >= 3)
        if not claimed.any():
            return cells
        cells = np.where(claimed, votes.argmax(axis=0), cells)


def outline(inside: NDArray[np.bool_]) -> tuple[Any, Any]:
    """Return x and y of the lines around the cells that are `inside` (rows, columns), with NaN after each line."""
    padded = np.pad(inside, 1)
    y, left, right = _runs((padded[1:] != padded[:-1])[:, 1:-1])
    x, top, bottom = _runs((padded[:, 1:] != padded[:, :-1])[1:-1].T)
    return _joined([(left, right), (x, x)]), _joined([(y, y), (top, bottom)])


def rectangles(inside: NDArray[np.bool_]) -> tuple[Any, Any]:
    """Return x and y of rectangles that cover the cells that are `inside` (rows, columns), with NaN after each one."""
    y, left, right = _runs(inside)
    return _joined([(left, right, right, left)]), _joined([(y, y, y + 1, y + 1)])


def _runs(cells: NDArray[np.bool_]) -> tuple[Any, Any, Any]:
    """Return row, start and end of all unbroken runs of cells along the rows, at the edges of the cells."""
    change = np.diff(np.pad(cells.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, start = np.nonzero(change == 1)
    return row - 0.5, start - 0.5, np.nonzero(change == -1)[1] - 0.5


def _joined(lines: list[tuple[Floats, ...]]) -> NDArray[np.float32]:
    """Join lines, given by their first points, their second points and so on, with NaN between them."""
    parts = [np.column_stack([*points, np.full(len(points[0]), np.nan)]).ravel() for points in lines]
    return np.concatenate(parts).astype(np.float32)


class BlockMarks:
    """Marks of a block on pixels: outline and hatching if blocks are compact on the grid, otherwise dots.

    Attributes:
        owner: (n,) block of each row; None for a solver without blocks.
        key: Meaning of the marks, in one line.
    """

    def __init__(self, trace: Trace, x: Any, y: Any, shape: tuple[int, int] | None) -> None:
        rows = trace["rows"]
        self.owner = rows["owner"].values if "owner" in rows else None
        self._x, self._y = x, y
        words = [] if shape is None else ["grey: no row"]
        if self.owner is not None:
            pairs = rows["membership"].values
            self._margins = pairs[self.owner[pairs[:, 0]] != pairs[:, 1]]
            self._empty = None if shape is None else np.full(shape, -1)
            if self._empty is not None and not self._compact(self._empty):
                self._empty = None
            block, margin = ("dots", "faint dots") if self._empty is None else ("outline", "hatched")
            words = [f"{block}: block", *([f"{margin}: margin"] if len(self._margins) else []), *words]
        self.key = " · ".join(words)

    def _compact(self, empty: NDArray[np.int64]) -> bool:
        """Test whether most neighbouring pixels have one owner; otherwise outlines would be single squares."""
        owners = empty.copy()
        owners[self._y, self._x] = self.owner if self.owner is not None else -1
        pairs = [(owners[1:], owners[:-1]), (owners[:, 1:], owners[:, :-1])]
        same = np.concatenate([(a == b)[(a >= 0) & (b >= 0)] for a, b in pairs])
        return bool(same.sum() > COMPACT * same.size)

    def marks(self, block: int) -> list[go.Scatter]:
        """Return the marks of a block, empty ones for −1; an empty list for solvers without blocks."""
        if self.owner is None:
            return []
        owned = np.flatnonzero(self.owner == block)
        margin = self._margins[self._margins[:, 1] == block, 0]
        if self._empty is None:
            parts = ((margin, {"opacity": 0.4}), (owned, {"opacity": 1.0}))
            dots = {"size": 3, "color": INK}
            return [
                go.Scatter(x=self._x[rows], y=self._y[rows], mode="markers", marker=dots | shown, **_QUIET)
                for rows, shown in parts
            ]
        cells = self._empty.copy()
        cells[self._y, self._x] = 0
        cells[self._y[margin], self._x[margin]] = 1
        cells[self._y[owned], self._x[owned]] = 2
        cells = filled(cells)
        area, line = rectangles(cells == 1), outline(cells == 2)
        return [
            go.Scatter(x=area[0], y=area[1], **_HATCHED, **_QUIET),
            go.Scatter(x=line[0], y=line[1], mode="lines", line={"color": INK, "width": 2.5}, **_QUIET),
        ]


def hull(points: Floats) -> Floats:
    """Return the corners (k, 2) of the convex hull of points (n, 2), counterclockwise, with the first again at the end.

    For points on one line these are its two ends; for no points, none.
    """
    if len(points) > 2:
        try:
            corners = points[ConvexHull(points).vertices]
            return np.concatenate([corners, corners[:1]])
        except QhullError:
            pass  # the points lie on one line
    if not len(points):
        return points
    order = np.lexsort(points.T[::-1])
    return points[order[[0, -1, 0]]]


def within(points: Floats, ring: Floats) -> NDArray[np.bool_]:
    """Return the mask (n,) of the points (n, 2) inside a hull or on its edge; all False if the hull is a line."""
    if len(ring) < 4:
        return np.zeros(len(points), bool)
    start, edge = ring[:-1], np.diff(ring, axis=0)
    # sign of twice the area of a triangle gives the side of every edge; rounding may make a zero slightly negative
    away = points[:, None, :] - start
    side = edge[:, 0] * away[:, :, 1] - edge[:, 1] * away[:, :, 0]
    return np.asarray((side >= -1e-9 * np.abs(edge).max() * np.ptp(ring, axis=0).max()).all(axis=1))


class PointMarks:
    """Marks of a block on points, above and below them.

    If the hulls of blocks contain mostly their own rows, the hull of the owned rows is outlined, the margin hatched.
    Otherwise an outline would enclose rows of all blocks, as is common in a plane of two out of many inputs. Then owned
    rows have rings and rows of the margin have halos.

    Args:
        position: (n, 2) positions in the plane; or (n, 1), where a hull is an interval as high as the chart.
        drawn: Indices of the rows that are drawn, as points of `size` pixels.
        height: Distance of the chart's upper and lower edge from zero, for one input.

    Attributes:
        key: Meaning of the marks, in one line; empty for a solver without blocks.
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
            block, margin = ("outline", "hatched") if self._outlined else ("rings", "yellow halo")
            has_margin = bool((self._owner[self._pairs[:, 0]] != self._pairs[:, 1]).any())
            self.key = f"{block}: block" + (f" · {margin}: margin" if has_margin else "")

    def under(self, block: int, x: Any, y: Any) -> go.Scatter:
        """Return the margin of a block, drawn below the points x, y, each (n drawn,); empty for −1."""
        owned, solved = self._of(block)
        if not self._outlined:
            margin = (solved & ~owned)[self._drawn]
            marker = {"size": self._size + 6, "color": _HALO}
            return go.Scatter(x=x[margin], y=y[margin], mode="markers", marker=marker, **_QUIET)
        inner, outer = self._ring(owned), self._ring(solved)
        if np.array_equal(inner, outer):
            inner = outer = np.empty((0, 2))
        # the inner ring in the opposite direction makes it a hole
        line = np.concatenate([outer, np.full((1, 2), np.nan), inner[::-1]])
        return _along(line, **_HATCHED)

    def over(self, block: int, x: Any, y: Any) -> go.Scatter:
        """Return the block itself, drawn above the points."""
        owned, _ = self._of(block)
        if not self._outlined:
            # thin rings for many points, or the block would be one black spot
            ring = {"symbol": "circle-open", "color": INK, "line": {"width": 1.5 if self._size > 6 else 1}}
            at = owned[self._drawn]
            return go.Scatter(x=x[at], y=y[at], mode="markers", marker={"size": self._size + 3, **ring}, **_QUIET)
        return _along(self._ring(owned), mode="lines", line={"color": INK, "width": 2.5})

    def _of(self, block: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the masks of the rows that a block owns, and of those that it solves on."""
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
        """Test whether most rows inside the hulls of the blocks belong to the hull's own block."""
        assert self._owner is not None
        owner, position = self._owner[self._drawn], self._position[self._drawn]
        rings = [self._ring(self._owner == block) for block in np.unique(self._owner)]
        held = sum(int(within(position, ring).sum()) for ring in rings)
        return held > 0 and len(owner) > COMPACT * held


def _along(points: Floats, **line: Any) -> go.Scatter:
    x, y = points.astype(np.float32).T
    return go.Scatter(x=x, y=y, **line, **_QUIET)
