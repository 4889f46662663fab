"""Products with k(X, X) or k(Z, X) for one function of a distance: near neighbours and a Fourier series.

Band and cut-off are those of least estimated cost: neighbours cost a fixed time a pair, the transforms one a point and
one a frequency (`NEAR_COST`, `POINT_COST`, `MODE_COST`, measured). The choice depends on the points and the allowed
error alone, so that the same system gives the same numbers; only where its frequencies would not fit the free memory
there are fewer, and more neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from apviz.kernels.radial import Radial
from apviz.memory import free_memory, require_memory
from apviz.operators.fourier import cell_list
from apviz.operators.fourier.cell_list import AnyArray, Array, Grid, Sorted
from apviz.operators.fourier.far_field import Box, FarField, Transforms, modes_of, series_shape, window_for
from apviz.operators.fourier.near_far import BAND_RATIO, Split, cheapest

#: nanoseconds: a pair of neighbours; both transforms of a point in d dimensions; a frequency; in float32, one column,
#: on one core of an AMD EPYC (Zen 3), in float64 `DOUBLE` times as many
NEAR_COST, POINT_COST, MODE_COST, DOUBLE = 8.0, {1: 55.0, 2: 220.0, 3: 450.0}, 130.0, 2.0
#: frequencies from which the transforms no longer fit into caches
MODES_IN_CACHE = 4e6
#: most frequencies; 1.25³ of them take 3 GB as complex numbers in float32
MOST_MODES = 2e8
#: share of the free memory for frequencies
MEMORY_SHARE = 0.6
#: share of the allowed error for the split; aliasing, the window and the transforms take up to the same
SPLIT_SHARE, TIGHTER, ATTEMPTS = 0.4, 0.6, 4
#: error that the series may have: the rest is that of the transforms, with their rounding
SERIES_SHARE, ROUNDING = 0.85, {"float32": 2.5e-6, "float64": 1e-13}
#: rows and points of which distances are sampled, to count neighbours
SAMPLED_ROWS, SAMPLED_POINTS = 200, 20_000
#: how many times the frequencies of the points' own box may be used for targets outside of it
WIDER = 8


class Unreachable(ValueError):
    """No split has the allowed error."""


@dataclass(frozen=True, eq=False)
class Place:
    """Points, sorted for near neighbours and with their transforms."""

    sorted: Sorted | None
    transforms: Transforms


class RadialProduct:
    """Products with a function of the distance between points x: (n, d) float64, centred.

    Args:
        radial: the function.
        x: the points, in features.
        error: allowed error of an entry, relative to `radial.size`.
        dtype: of products.
        compiled: whether near neighbours are found by the compiled cell list, or by SciPy.
        split: of another box; None: the one of least cost.
        box: that contains x; None: the smallest.
        transforms: how often the frequencies are transformed for every pass through points and neighbours.

    Raises:
        Unreachable: no split has this error; the message says why.
        MemoryError: the frequencies do not fit.
    """

    def __init__(
        self,
        radial: Radial,
        x: Array,
        error: float,
        dtype: np.dtype[np.floating],
        *,
        compiled: bool,
        split: Split | None = None,
        box: Box | None = None,
        transforms: float = 1.0,
    ) -> None:
        self._transforms = transforms
        self.radial, self.x, self.error, self.dtype, self.compiled = radial, x, error, dtype, compiled
        self.box = box or Box(x.min(axis=0), x.max(axis=0))
        self._allowed = SERIES_SHARE * error - ROUNDING[dtype.name]
        self._distances, self._share = _sampled_distances(x)
        fitting = MEMORY_SHARE * free_memory(torch.device("cpu")) / memory_of_mode(dtype)
        self._most_modes = min(MOST_MODES, fitting)
        self.far = self._far_of(split) if split is not None else self._chosen()
        self.split = self.far.split
        near = self.split.near
        self.grid: Grid | None = None
        if near is not None:
            self.grid = Grid.of(self.box.low, self.box.high, near.cutoff, len(x), self.neighbours(near.cutoff))
        self.home = self.place(x)

    def neighbours(self, cutoff: float) -> float:
        """Estimate the mean number of points within the cut-off, from a sample."""
        return float(np.searchsorted(self._distances, cutoff)) * self._share

    def cost(self, split: Split) -> float:
        """Estimate the nanoseconds of a product with one column; infinite if its frequencies do not fit."""
        reach = window_for(self.radial, split.band, self.box.diagonal, self.error).reach
        modes = float(modes_of(series_shape(split.band, self.box.sides, reach)[1]))
        if modes > self._most_modes:
            return math.inf
        double = 1.0 if self.dtype == np.float32 else DOUBLE
        transforms = self._transforms * MODE_COST * modes * (1.0 + modes / MODES_IN_CACHE) ** 0.3
        far = POINT_COST[self.radial.width] * len(self.x) + transforms
        if split.near is None:
            return float(double * far)
        degree = len(split.near.chebyshev) - 1
        pairs = len(self.x) * (5.0 + self.neighbours(split.near.cutoff))
        return float(double * (far + NEAR_COST * (0.5 + degree / 16) * pairs))

    def _chosen(self) -> FarField:
        """Choose the split of least cost whose measured error is as small as allowed."""
        target = min(SPLIT_SHARE * self.error, self._allowed) * self.radial.size
        # bands whose waves are longer than the box would be constant in it
        first = math.floor(math.log(2.0 / max(self.box.diagonal, 1e-6), BAND_RATIO))
        steps = range(min(first, -12), max(first, 0) + 56)
        measured = math.inf
        for _ in range(ATTEMPTS):
            split = cheapest(self.radial, target, self.cost, steps)
            if split is None and self._most_modes < MOST_MODES:
                self._most_modes = MOST_MODES  # raises MemoryError, with the number of frequencies
                continue
            if split is None:
                break
            far = self._far_of(split)
            measured = min(measured, far.error)
            if far.error <= self._allowed:
                return far
            target *= TIGHTER
        reached = f"the smallest measured is {measured:.1e}" if measured < math.inf else "no split has that"
        raise Unreachable(f"{reached}, for points that span {self.box.diagonal:.3g} lengthscales, up to a factor")

    def _far_of(self, split: Split) -> FarField:
        reach = window_for(self.radial, split.band, self.box.diagonal, self.error).reach
        modes = modes_of(series_shape(split.band, self.box.sides, reach)[1])
        needed, words = modes * memory_of_mode(self.dtype), f"{modes:,} frequencies of the Fourier operator need"
        require_memory(needed, torch.device("cpu"), words, "use operator='tiled', or a larger error")
        return FarField(split, self.box, self.error, self.dtype)

    def place(self, z: Array) -> Place:
        """Return points z: (m, d) of the box with all that products need of them."""
        ordered = Sorted.of(z, self.grid, self.dtype) if self.grid is not None else None
        return Place(ordered, self.far.at(z))

    def around(self, z: Array) -> RadialProduct | None:
        """Return the products for a box that also contains z; None if that has far more frequencies."""
        box = self.box.with_points(z)
        reach = window_for(self.radial, self.split.band, box.diagonal, self.error).reach
        modes = modes_of(series_shape(self.split.band, box.sides, reach)[1])
        if modes > min(MOST_MODES, WIDER * modes_of(self.far.halves)):
            return None
        found = RadialProduct(
            self.radial, self.x, self.error, self.dtype, compiled=self.compiled, split=self.split, box=box
        )
        return found if found.far.error <= self._allowed else None

    def matmul(self, v: AnyArray, targets: Place | None = None) -> AnyArray:
        """Compute k(targets, X) v for v: (n, p), to (m, p); targets None: X."""
        at = targets or self.home
        out: AnyArray = np.empty((at.transforms.n, v.shape[1]), dtype=self.dtype)
        for q in range(0, v.shape[1], 2):
            spectrum = self.home.transforms.spectrum(v[:, q : q + 2])
            spectrum *= self.far.coefficients
            out[:, q : q + 2] = at.transforms.values(spectrum, min(2, v.shape[1] - q))
        if self.grid is not None and self.split.near is not None:
            assert at.sorted is not None and self.home.sorted is not None
            out += cell_list.matmul(self.grid, self.split.near, self.home.sorted, at.sorted, v, compiled=self.compiled)
        return out

    def bilinear(self, a: AnyArray, b: AnyArray, *, stretched: bool = True) -> Array:
        """Compute Σᵢⱼ (aᵢᵀbⱼ) k(rᵢⱼ), and the same of δ ∂k/∂δ, δ = xᵢ − xⱼ along each axis: a, b (n, p), to (1 + d,).

        By Parseval's identity, the far part is a sum over frequencies: one transform for each column of a and b.

        Args:
            stretched: compute those along the axes too; else they are 0.
        """
        d, modes = self.x.shape[1], math.prod(self.far.modes)
        words = f"derivatives of a series of {modes:,} frequencies need"
        require_memory((5.0 + d) * 8.0 * modes, torch.device("cpu"), words, "use operator='tiled'")
        power = np.zeros(self.far.modes)
        for q in range(a.shape[1]):
            z = self.home.transforms.spectrum(np.stack([a[:, q], b[:, q]], axis=1))
            # z is â + i b̂, and Re(â conj b̂)(ω) = ½ Im z(ω) z(−ω)
            power += 0.5 * (z * z[(slice(None, None, -1),) * d]).imag
        coefficients = [self.far.coefficients, *(self.far.stretched if stretched else ())]
        out: Array = np.zeros(1 + d)
        out[: len(coefficients)] = [np.sum(each * power, dtype=np.float64) for each in coefficients]
        if self.grid is not None and self.split.near is not None:
            assert self.home.sorted is not None
            # both ways, so that Σᵢ xᵢ ∂/∂xᵢ is half of Σᵢⱼ δ ∂/∂δ of each
            both = [np.ascontiguousarray(np.concatenate(pair, axis=1)) for pair in ((a, b), (b, a))]
            found = cell_list.gradients(
                self.grid, self.split.near, self.home.sorted, self.home.sorted, both[0], both[1],
                compiled=self.compiled,
            )  # fmt: skip
            out[0] += 0.5 * found[:, 0].sum()
            out[1:] += (found[:, 1:] * self.x).sum(axis=0) if stretched else 0.0
        return out

    def gradients(self, a: AnyArray, b: AnyArray, targets: Place | None = None, *, transposed: bool = False) -> Array:
        """Compute Σⱼ (aᵢᵀbⱼ) k(rᵢⱼ), and its gradient in target i, (m, 1 + d): a (m, p), b (n, p).

        Args:
            targets: m points; None: X.
            transposed: differentiate in X, with a: (n, p) and b: (m, p), to (n, 1 + d).
        """
        here, there = (self.home, targets or self.home) if transposed else (targets or self.home, self.home)
        out: Array = np.zeros((here.transforms.n, 1 + self.x.shape[1]))
        for q in range(0, a.shape[1], 2):
            of_a = a[:, q : q + 2].astype(np.float64)
            spectrum = there.transforms.spectrum(b[:, q : q + 2])
            spectrum *= self.far.coefficients
            out[:, 0] += (of_a * here.transforms.values(spectrum, of_a.shape[1])).sum(axis=1)
            for k, w in enumerate(self.far.frequencies):
                turned = spectrum * (1j * w.astype(self.dtype)).astype(spectrum.dtype).reshape(
                    _along(k, self.x.shape[1])
                )
                out[:, 1 + k] += (of_a * here.transforms.values(turned, of_a.shape[1])).sum(axis=1)
        if self.grid is not None and self.split.near is not None:
            assert here.sorted is not None and there.sorted is not None
            out += cell_list.gradients(
                self.grid, self.split.near, there.sorted, here.sorted, a, b, compiled=self.compiled
            )
        return out


def _along(axis: int, d: int) -> list[int]:
    return [-1 if k == axis else 1 for k in range(d)]


def memory_of_mode(dtype: np.dtype[np.floating]) -> float:
    """Return the bytes of a frequency: coefficient, spectrum, both transforms' grids, and the cosine transform."""
    item = dtype.itemsize
    return item * (1.0 + 2.0 + 2.0 * 2.0 * 2.0) + 2.0 * 8.0


def _sampled_distances(x: Array) -> tuple[Array, float]:
    """Return sorted distances of some rows to some points, and the neighbours that each of them stands for."""
    rng = np.random.default_rng(0)
    rows = x[rng.integers(0, len(x), SAMPLED_ROWS)]
    points = x if len(x) <= SAMPLED_POINTS else x[rng.choice(len(x), SAMPLED_POINTS, replace=False)]
    squares = np.zeros((len(rows), len(points)))
    for k in range(x.shape[1]):
        squares += np.subtract.outer(rows[:, k], points[:, k]) ** 2
    return np.sort(np.sqrt(squares.ravel())), len(x) / squares.size
