"""Products of a function of short range with near neighbours: compiled (`cell_list.cpp`), or by SciPy's k-d tree."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from apviz.operators import native

SOURCE = Path(__file__).with_name("cell_list.cpp")
#: numbers beyond the last point that the compiled loops may read
PADDING = 16
#: neighbours in a range for which the columns of the grid are made as narrow as it takes
RANGE = 24
MOST_REACH = 6
#: columns of the grid, relative to the number of points
MOST_COLUMNS = 4.0
#: pairs that SciPy finds at a time, about 40 bytes each
PAIRS_AT_ONCE = 2e7

Array = NDArray[np.float64]
AnyArray = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Near:
    """A polynomial of r ÷ cutoff, 0 beyond the cut-off; chebyshev: its coefficients, in 2r/cutoff − 1."""

    cutoff: float
    chebyshev: Array

    def values(self, r: Array) -> Array:
        """Evaluate the polynomial at distances r."""
        return self._evaluated(r, self.chebyshev)

    def slopes(self, r: Array) -> Array:
        """Evaluate its derivative at distances r."""
        derivative = np.asarray(np.polynomial.chebyshev.chebder(self.chebyshev), dtype=np.float64)
        return self._evaluated(r, derivative) * (2.0 / self.cutoff)

    def _evaluated(self, r: Array, chebyshev: Array) -> Array:
        z = np.minimum(r * (2.0 / self.cutoff), 2.0) - 1.0
        return np.where(r < self.cutoff, np.polynomial.chebyshev.chebval(z, chebyshev), 0.0)

    def powers(self, *, slope: bool = False) -> Array:
        """Return the coefficients in powers of 2r/cutoff − 1; `slope`: of the derivative in r/cutoff."""
        given = 2.0 * np.polynomial.chebyshev.chebder(self.chebyshev) if slope else self.chebyshev
        found = np.polynomial.chebyshev.cheb2poly(given)
        return np.pad(found, (0, len(given) - len(found)))  # NumPy drops zeros at the end


@dataclass(frozen=True, eq=False)
class Grid:
    """Square columns, of a side, over the plane of all coordinates but the last.

    Args:
        low: (d − 1,) the corner.
        dims: numbers of columns along two coordinates, 1 where there are none.
        cutoff: the distance up to which points are neighbours.
    """

    low: Array
    dims: tuple[int, int]
    side: float
    cutoff: float

    @classmethod
    def of(cls, low: Array, high: Array, cutoff: float, n: int, neighbours: float) -> Grid:
        """Make the grid of a box for n points with this number of neighbours each."""
        d, sides = len(low), (high - low)[:-1]
        # the points in a column within the cut-off, for columns as wide as that
        in_range = {1: neighbours, 2: neighbours / 1.57, 3: neighbours / 2.1}[d]
        side = cutoff / np.clip(round((in_range / RANGE) ** (1.0 / max(1, d - 1))), 1, MOST_REACH)
        while math.prod(sides / side + 1.0) > MOST_COLUMNS * n + 64:
            side *= 1.25
        dims = [int(each / side) + 1 for each in sides] + [1, 1]
        return cls(low[:-1], (dims[0], dims[1]), float(side), cutoff)

    def columns_of(self, x: Array) -> NDArray[np.int64]:
        """Return the column of each point of x: (n, d)."""
        place = np.zeros(len(x), dtype=np.int64)
        for k, size in enumerate(self.dims[: x.shape[1] - 1]):
            along = ((x[:, k] - self.low[k]) / self.side).astype(np.int64)
            place = place * size + np.clip(along, 0, size - 1)
        return place


@dataclass(frozen=True, eq=False)
class Sorted:
    """Points in the order of a grid.

    Args:
        x: (n, d) the points, in their own order and float64.
        order: (n,) the number of each point of the sorted ones.
        starts: of the columns, and the end of the last.
        scaled: (d, n + PADDING) coordinates ÷ the grid's cut-off, sorted, in the dtype of products.
    """

    x: Array
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    scaled: AnyArray

    @classmethod
    def of(cls, x: Array, grid: Grid, dtype: np.dtype[np.floating]) -> Sorted:
        """Sort points x: (n, d), centred, by the columns of a grid."""
        column = grid.columns_of(x)
        order = np.lexsort((x[:, -1], column))
        starts = np.zeros(math.prod(grid.dims) + 1, dtype=np.int64)
        np.cumsum(np.bincount(column, minlength=len(starts) - 1), out=starts[1:])
        scaled = np.zeros((x.shape[1], len(x) + PADDING), dtype=dtype)
        scaled[:, : len(x)] = (x[order] / grid.cutoff).T
        return cls(x, order, starts, scaled)

    @cached_property
    def tree(self) -> cKDTree:
        """The k-d tree of x, for SciPy."""
        return cKDTree(self.x)

    def gathered(self, v: AnyArray) -> AnyArray:
        """Return v: (n, p) in the order of the points, as (p, n + PADDING)."""
        out = np.zeros((v.shape[1], self.scaled.shape[1]), dtype=self.scaled.dtype)
        out[:, : len(v)] = v[self.order].T
        return out

    def scattered(self, out: AnyArray) -> AnyArray:
        """Return (p, n + PADDING) of the sorted points as (n, p) of the given ones."""
        found = np.empty((len(self.order), len(out)), dtype=out.dtype)
        found[self.order] = out[:, : len(self.order)].T
        return found


def is_compiled() -> bool:
    """Test whether the compiled engine is available, after building it if necessary."""
    return native.library(SOURCE) is not None


def matmul(grid: Grid, near: Near, sources: Sorted, targets: Sorted, v: AnyArray, *, compiled: bool) -> AnyArray:
    """Compute near(targets, sources) v for v: (n, p), to (m, p)."""
    if not compiled:
        return _by_trees(near, sources, targets, v)
    u = sources.gathered(v)
    out = np.zeros((v.shape[1], targets.scaled.shape[1]), dtype=u.dtype)
    add_product_(out, grid, near, sources, targets, u, compiled=True)
    return targets.scattered(out)


def add_product_(
    out: AnyArray, grid: Grid, near: Near, sources: Sorted, targets: Sorted, u: AnyArray,
    wanted: NDArray[np.uint8] | None = None, *, compiled: bool,
) -> None:  # fmt: skip
    """Add near(targets, sources) u to `out`, both in the order of the grid; without targets where wanted: (m,) is 0."""
    if not compiled:
        where = np.arange(len(targets.order)) if wanted is None else wanted.nonzero()[0]
        some = replace(targets, x=targets.x[targets.order[where]])
        out[:, where] += _by_trees(near, sources, some, sources.scattered(u)).T
        return
    held, arguments = _arguments(grid, near, sources, targets)
    which = None if wanted is None else _pointer(wanted)
    _function("near_matmul", u.dtype)(
        *arguments, _pointer(u), _int(len(u)), which, _pointer(out), _threads(len(targets.x))
    )
    del held


def gradients(
    grid: Grid, near: Near, sources: Sorted, targets: Sorted, a: AnyArray, b: AnyArray, *, compiled: bool
) -> Array:
    """Compute, for a: (m, p), b: (n, p), Σⱼ cᵢⱼ near(r), and its gradient in target i, (m, 1 + d), c = abᵀ."""
    if not compiled:
        return _gradients_by_trees(near, sources, targets, a, b)
    at, bt = targets.gathered(a), sources.gathered(b)
    out = np.zeros((1 + targets.x.shape[1], targets.scaled.shape[1]))
    held, arguments = _arguments(grid, near, sources, targets)
    _function("near_gradients", at.dtype)(
        *arguments, _pointer(at), _pointer(bt), _int(len(at)), _pointer(out), _threads(len(targets.x))
    )
    del held
    out[1:] /= grid.cutoff
    return np.asarray(targets.scattered(out), dtype=np.float64)


def _arguments(grid: Grid, near: Near, sources: Sorted, targets: Sorted) -> tuple[object, list[object]]:
    """Return the arguments that all functions share, and what must stay alive until the call returns."""
    dtype, dims = sources.scaled.dtype, np.array(grid.dims, dtype=np.int64)
    value, slope = (near.powers(slope=each).astype(dtype) for each in (False, True))
    arguments: list[object] = [_int(sources.x.shape[1]), _pointer(dims), ctypes.c_double(grid.side / grid.cutoff)]
    for points in (sources, targets):
        arguments += [_int(points.scaled.shape[1]), _pointer(points.scaled), _pointer(points.starts)]
    return (dims, value, slope), [*arguments, _int(len(value) - 1), _pointer(value), _pointer(slope)]


def _function(name: str, dtype: np.dtype[np.floating]) -> ctypes._NamedFuncPointer:
    library = native.library(SOURCE)
    if library is None:
        raise RuntimeError("the compiled cell list is not available")
    function = library[f"{name}_{'f32' if dtype == np.float32 else 'f64'}"]
    function.restype = None
    return function


def _threads(points: int) -> ctypes.c_int64:
    return _int(max(1, min(torch.get_num_threads(), points // 1_000)))


def _int(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def _pointer(array: NDArray[np.generic]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


# --- without a compiler -----------------------------------------------------------------------------------------------


def _pieces(near: Near, sources: Sorted, targets: Sorted) -> list[slice]:
    """Cut the targets so that SciPy finds about PAIRS_AT_ONCE pairs at a time."""
    some = targets.x[:: max(1, len(targets.x) // 100)]
    pairs = sources.tree.query_ball_point(some, near.cutoff, return_length=True).mean() if len(some) else 0.0
    size = max(1, int(PAIRS_AT_ONCE / max(1.0, pairs)))
    return [slice(k, min(k + size, len(targets.x))) for k in range(0, len(targets.x), size)]


def _pairs(near: Near, sources: Sorted, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    found = cKDTree(x).sparse_distance_matrix(sources.tree, near.cutoff, output_type="ndarray")
    return found["i"], found["j"], found["v"]


def _by_trees(near: Near, sources: Sorted, targets: Sorted, v: AnyArray) -> AnyArray:
    out = np.zeros((len(targets.x), v.shape[1]), dtype=v.dtype)
    for piece in _pieces(near, sources, targets):
        i, j, r = _pairs(near, sources, targets.x[piece])
        shape = (piece.stop - piece.start, len(sources.x))
        out[piece] = csr_array((near.values(r), (i, j)), shape=shape) @ v.astype(np.float64)
    return out


def _gradients_by_trees(near: Near, sources: Sorted, targets: Sorted, a: AnyArray, b: AnyArray) -> Array:
    out = np.zeros((len(targets.x), 1 + targets.x.shape[1]))
    for piece in _pieces(near, sources, targets):
        x = targets.x[piece]
        i, j, r = _pairs(near, sources, x)
        c = np.einsum("kp,kp->k", a[piece][i].astype(np.float64), b[j].astype(np.float64))
        slope = np.divide(c * near.slopes(r), r, out=np.zeros_like(r), where=r > 0)
        columns = [c * near.values(r), *((slope[:, None] * (x[i] - sources.x[j])).T)]
        out[piece] = np.stack([np.bincount(i, each, minlength=len(x)) for each in columns], axis=1)
    return out
