"""Rows that are pixels: where they lie, and the lines and rectangles around some of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int16]

#: inputs that fill less of a regular grid than this are drawn as points
GRID_SHARE: Final = 0.25


def places(coordinates: Floats) -> tuple[Any, Any, tuple[int, int] | None]:
    """x and y, (n,) each, of inputs (n, 2): columns and rows of a grid of that shape, or the inputs themselves."""
    row, column = (_steps(each) for each in coordinates.T)
    if row is not None and column is not None:
        shape = int(row.max()) + 1, int(column.max()) + 1
        cells = len(np.unique(row.astype(np.int64) * shape[1] + column))
        if cells == len(row) >= GRID_SHARE * shape[0] * shape[1]:
            return column, row, shape
    first, second = coordinates.astype(np.float32).T
    return first, second, None


def _steps(values: Floats) -> Integers | None:
    """The multiple of the smallest gap at which each of the values (n,) lies; None where they lie in between."""
    distinct = np.unique(values)
    span = float(distinct[-1] - distinct[0])
    # what differs by rounding alone is one value
    gaps = np.diff(distinct)[np.diff(distinct) > 1e-5 * span]
    if not len(gaps):
        return np.zeros(len(values), np.int16)
    count = round(span / float(gaps.min()))
    place = (values - distinct[0]) * (count / span)
    regular = count < np.iinfo(np.int16).max and np.abs(place - np.rint(place)).max() < 0.05
    return np.rint(place).astype(np.int16) if regular else None


def filled(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cells without a row (−1) take the value of most, and at least three, of their eight neighbours."""
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
    """x and y of the lines around the cells that are `inside` (rows, columns), NaN after each."""
    padded = np.pad(inside, 1)
    y, left, right = _runs((padded[1:] != padded[:-1])[:, 1:-1])
    x, top, bottom = _runs((padded[:, 1:] != padded[:, :-1])[1:-1].T)
    return _joined([(left, right), (x, x)]), _joined([(y, y), (top, bottom)])


def rectangles(inside: NDArray[np.bool_]) -> tuple[Any, Any]:
    """x and y of rectangles that cover the cells that are `inside` (rows, columns), NaN after each."""
    y, left, right = _runs(inside)
    return _joined([(left, right, right, left)]), _joined([(y, y, y + 1, y + 1)])


def _runs(cells: NDArray[np.bool_]) -> tuple[Any, Any, Any]:
    """The edges of unbroken runs of cells along the rows: at which row, from where, to where."""
    change = np.diff(np.pad(cells.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, start = np.nonzero(change == 1)
    return row - 0.5, start - 0.5, np.nonzero(change == -1)[1] - 0.5


def _joined(lines: list[tuple[Floats, ...]]) -> NDArray[np.float32]:
    """Lines, given by their first points, their second points and so on, one after another with NaN between."""
    parts = [np.column_stack([*points, np.full(len(points[0]), np.nan)]).ravel() for points in lines]
    return np.concatenate(parts).astype(np.float32)
