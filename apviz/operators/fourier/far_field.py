"""The far part of a product: a Fourier series on a box, by nonuniform fast transforms (FINUFFT).

The series repeats with a period, which leaves room between a box and its image for k to decay. A function that decays
slowly, or less than the box is wide, is multiplied by a window: 1 for all distances in the box, then smoothly 0. The
coefficients are the discrete cosine transform of k − near on a grid. The error of entries is measured with them, along
lines through the box, and so contains what the band, aliasing and the window leave out.

References: Barnett, Greengard & Hogg, arXiv:2305.11065, 2023 (Fourier features on a grid of frequencies); Barnett,
Magland & af Klinteberg, SIAM J. Sci. Comput. 41, 2019 (FINUFFT).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import dctn, next_fast_len
from scipy.special import erfc, erfcinv

from apviz.kernels.radial import Radial
from apviz.operators.fourier.near_far import Split

Array = NDArray[np.float64]
AnyArray = NDArray[np.floating]
Rows = NDArray[np.int64]

#: shares of the allowed error that the images of the box, the window, and a transform may take
IMAGE_SHARE, WINDOW_SHARE, TRANSFORM_SHARE = 0.03, 0.03, 0.3
#: smallest tolerance at which FINUFFT's grid may be 1.25 times as fine as the frequencies, rather than twice
FINER_GRID_BELOW = 1e-9
#: tolerances below which FINUFFT's own rounding prevails; entries are then 10 times as precise as these
FINEST = {"float32": 1.5e-5, "float64": 1e-14}
#: distances, in features, at which a function is looked at for its decay
DISTANCES = np.geomspace(1e-3, 1e7, 4001)
#: points of a line and offsets of lines along each axis, at which the error is measured
LINE_POINTS, LINES = 400, 5


@dataclass(frozen=True, eq=False)
class Box:
    """The box of all points, from its corner low to high, (d,) each, with the distances in it."""

    low: Array
    high: Array

    @property
    def sides(self) -> Array:
        return self.high - self.low

    @property
    def diagonal(self) -> float:
        return float(np.linalg.norm(self.sides))

    def contains(self, x: Array) -> NDArray[np.bool_]:
        """Test which rows of x: (m, d) are in the box."""
        return np.asarray(((x >= self.low) & (x <= self.high)).all(axis=1))

    def with_points(self, x: Array) -> Box:
        """Return the smallest box that also contains x: (m, d)."""
        return Box(np.minimum(self.low, x.min(axis=0)), np.maximum(self.high, x.max(axis=0)))


@dataclass(frozen=True)
class Window:
    """½ erfc((r − centre) ÷ width), 1 up to `reach` − 2(reach − centre) and 0 from `reach` on.

    Args:
        reach: the distance from which the function is left out.
        centre, width: infinite and 1 if the function needs no window.
    """

    reach: float
    centre: float = math.inf
    width: float = 1.0

    def times(self, values: Array, r: Array) -> Array:
        """Multiply values at distances r by the window."""
        inside = values * (r < self.reach)
        return inside if self.centre == math.inf else inside * (0.5 * erfc((r - self.centre) / self.width))


def window_for(radial: Radial, band: float, diagonal: float, error: float) -> Window:
    """Choose the shorter reach: that of the function's own decay, or that of a window beyond the diagonal."""
    size, whole = np.abs(radial.values(DISTANCES)), decayed(radial, IMAGE_SHARE * error)
    # what the window cuts is at most the function at the diagonal
    at_edge = float(size[diagonal <= DISTANCES].max(initial=0.0)) / radial.size
    share = WINDOW_SHARE * error / max(at_edge, WINDOW_SHARE * error)
    if share >= 0.5:
        return Window(min(whole.reach, diagonal))
    half = float(erfcinv(2.0 * share))
    width = 2.0 * half / band
    windowed = Window(diagonal + 2.0 * half * width, diagonal + half * width, width)
    return whole if whole.reach <= windowed.reach else windowed


def decayed(radial: Radial, share: float) -> Window:
    """Return the window that ends where a function has decayed to a share of its largest value."""
    above = np.flatnonzero(np.abs(radial.values(DISTANCES)) > share * radial.size)
    return Window(float(DISTANCES[min(above[-1] + 1, len(DISTANCES) - 1)]) if len(above) else float(DISTANCES[0]))


def series_shape(split_band: float, sides: Array, reach: float) -> tuple[Array, tuple[int, ...]]:
    """Return the periods (d,) and, along each axis, half the number of points of the grid of a period."""
    periods = sides + reach
    halves = np.ceil(split_band * periods / (2.0 * math.pi)).astype(np.int64) + 1
    return periods, tuple(int(next_fast_len(int(half), real=True)) for half in halves)


def modes_of(halves: Sequence[int]) -> int:
    """Return the number of frequencies of a series."""
    return math.prod(2 * half - 1 for half in halves)


class FarField:
    """The Fourier series of the far part, for points in a box.

    Args:
        split: near and far.
        box: of all points.
        error: allowed error of an entry, relative to `split.radial.size`.
        dtype: of products.
        tolerance: of transforms; None: from the error.
        window: of k; None: that of the shorter reach.

    Attributes:
        error: the measured error of an entry, relative, without that of transforms.
    """

    def __init__(
        self, split: Split, box: Box, error: float, dtype: np.dtype[np.floating], tolerance: float | None = None,
        window: Window | None = None,
    ) -> None:  # fmt: skip
        self.split, self.box, self.dtype = split, box, dtype
        self.window = window or window_for(split.radial, split.band, box.diagonal, error)
        self.periods, self.halves = series_shape(split.band, box.sides, self.window.reach)
        self.tolerance = tolerance or max(TRANSFORM_SHARE * error, FINEST[np.dtype(dtype).name])
        octant = self._coefficients()
        self.error = self._measured(octant) / split.radial.size
        self.coefficients = self._everywhere(octant)

    @cached_property
    def stretched(self) -> list[AnyArray]:
        """The coefficients of δ ∂(k − near)/∂δ, δ the difference of two points along an axis, for each axis."""
        return [self._everywhere(self._coefficients(axis)) for axis in range(len(self.halves))]

    def _everywhere(self, octant: Array) -> AnyArray:
        """Return coefficients of all frequencies from those along each axis from 0."""
        places = np.ix_(*(np.abs(np.arange(1 - half, half)) for half in self.halves))
        found: AnyArray = octant[places].astype(self.dtype)
        return found

    @property
    def modes(self) -> tuple[int, ...]:
        """Numbers of frequencies along each axis."""
        return tuple(2 * half - 1 for half in self.halves)

    @cached_property
    def frequencies(self) -> list[Array]:
        """The angular frequencies along each axis."""
        steps = 2.0 * math.pi / self.periods
        return [step * np.arange(1 - half, half) for step, half in zip(steps, self.halves, strict=True)]

    def _coefficients(self, stretched: int | None = None) -> Array:
        """Compute coefficients along each axis: cosine transforms of k − near, or of δ ∂(k − near)/∂δ."""
        axes = [
            period / (2 * half) * np.arange(half + 1) for period, half in zip(self.periods, self.halves, strict=True)
        ]
        sampled = np.zeros(tuple(half + 1 for half in self.halves))
        # images of the origin that are near enough; they are on the axes' far ends
        for far_ends in itertools.product((False, True), repeat=len(axes)):
            gaps = [
                period - axis if far else axis for far, axis, period in zip(far_ends, axes, self.periods, strict=True)
            ]
            near = tuple(np.flatnonzero(gap < self.window.reach) for gap in gaps)
            if min(map(len, near)):
                self._add_image(sampled, gaps, tuple(slice(each[0], each[-1] + 1) for each in near), stretched)
        found = dctn(sampled, type=1, overwrite_x=True)
        found /= math.prod(2 * half for half in self.halves)
        return np.asarray(found[tuple(slice(0, half) for half in self.halves)])

    def _add_image(self, sampled: Array, gaps: list[Array], where: tuple[slice, ...], stretched: int | None) -> None:
        squares = [gap[each] ** 2 for gap, each in zip(gaps, where, strict=True)]
        target, rest = sampled[where], squares[1:]
        in_plane = [square.reshape([-1 if k == j else 1 for k in range(len(rest))]) for j, square in enumerate(rest)]
        plane, function = sum(in_plane, np.zeros(())), self.split.remaining
        if stretched is not None:
            function = self.split.remaining_slopes
        for k, square in enumerate(squares[0]):  # plane by plane, so that little memory is needed
            r = np.sqrt(square + plane)
            values = self.window.times(function(np.atleast_1d(r)).reshape(r.shape), r)
            if stretched is not None:
                values = values * (square if stretched == 0 else in_plane[stretched - 1])
            target[k] += values

    def _measured(self, octant: Array) -> float:
        """Measure the largest error of an entry along lines through the box."""
        rng, sides, worst = np.random.default_rng(0), self.box.sides, 0.0
        steps = 2.0 * math.pi / self.periods
        doubled = [np.where(np.arange(half) > 0, 2.0, 1.0) for half in self.halves]
        short = min(6.0 / self.split.band, self.box.diagonal)
        for axis, line in itertools.product(range(len(sides)), range(LINES)):
            offset = sides * rng.random(len(sides)) if line > 2 else np.minimum(sides, short * rng.random(len(sides)))
            offset = offset * (line > 0)
            inside = octant
            for other in reversed(range(len(sides))):
                if other != axis:
                    waves = doubled[other] * np.cos(steps[other] * offset[other] * np.arange(self.halves[other]))
                    inside = np.tensordot(inside, waves, axes=(other, 0))
            along = np.concatenate(
                [np.linspace(0.0, min(4.0 * short, sides[axis]), LINE_POINTS), sides[axis] * rng.random(LINE_POINTS)]
            )
            far = np.cos(np.outer(along, steps[axis] * np.arange(self.halves[axis]))) @ (doubled[axis] * inside)
            offset[axis] = 0.0
            r = np.sqrt(along**2 + offset @ offset)
            worst = max(worst, float(np.abs(self.split.remaining(r) - far).max()))
        return worst

    def at(self, x: Array) -> Transforms:
        """Return the transforms of points x: (n, d) in the box."""
        return Transforms(self, x)


class DensityField(FarField):
    """The series of a function itself and its images, whose coefficients are its spectral density: never negative."""

    def _coefficients(self, stretched: int | None = None) -> Array:
        steps = 2.0 * math.pi / self.periods
        axes = np.ix_(*((step * np.arange(half)) ** 2 for step, half in zip(steps, self.halves, strict=True)))
        length = np.sqrt(np.maximum(sum(axes, np.zeros(())), (1e-6 * steps.min()) ** 2))
        found = self.split.radial.density(length.ravel()).reshape(length.shape)
        return np.asarray(found * np.prod(steps / (2.0 * math.pi)))


class Transforms:
    """Both transforms between points and frequencies: two real columns at a time, as real and imaginary part."""

    def __init__(self, far: FarField, x: Array) -> None:
        middle = (far.box.low + far.box.high) / 2.0
        self._far, self.n = far, len(x)
        self._plans: dict[tuple[int, int, bool], Any] = {}
        angles = (x - middle) * (2.0 * math.pi / far.periods)
        self._angles = [np.ascontiguousarray(angles[:, k].astype(far.dtype)) for k in range(x.shape[1])]
        self.complex_dtype = np.dtype(np.complex64 if far.dtype == np.float32 else np.complex128)

    def _plan(self, kind: int, rows: Rows | None) -> Any:
        """Return the plan of all points, or one whose points are set to those of some rows."""
        threads = torch.get_num_threads()
        key = (kind, threads, rows is None)
        is_new = key not in self._plans
        if is_new:
            far = self._far
            finer = {"upsampfac": 1.25} if far.tolerance >= FINER_GRID_BELOW else {}
            # in float32 FINUFFT narrows its window by one, to 1e-7 or so, and would print that for every plan
            self._plans[key] = _finufft().Plan(
                kind, far.modes, eps=far.tolerance, isign=-1 if kind == 1 else 1, dtype=self.complex_dtype.name,
                nthreads=threads, showwarn=0, **finer,
            )  # fmt: skip
        plan = self._plans[key]
        if rows is not None:
            plan.setpts(*(angle[rows] for angle in self._angles))
        elif is_new:
            plan.setpts(*self._angles)
        return plan

    def prepare(self) -> None:
        """Plan the transforms of all points."""
        for kind in (1, 2):
            self._plan(kind, None)

    def spectrum(self, v: AnyArray, rows: Rows | None = None) -> NDArray[np.complexfloating]:
        """Return Σⱼ exp(−iω·xⱼ) (v[j, 0] + i v[j, 1]) for v: (n, 1 or 2), or of some rows only, v: (|rows|, 1 or 2)."""
        z = np.empty(len(v), dtype=self.complex_dtype)
        z.real, z.imag = v[:, 0], v[:, 1] if v.shape[1] > 1 else 0.0
        return np.asarray(self._plan(1, rows).execute(z))

    def values(self, spectrum: NDArray[Any], columns: int, rows: Rows | None = None) -> AnyArray:
        """Return Σ_ω exp(iω·xⱼ) spectrum(ω), real and imaginary part as (n, columns), or of some rows only."""
        z = self._plan(2, rows).execute(spectrum)
        return np.stack([z.real, z.imag][:columns], axis=1)


def _finufft() -> Any:
    try:
        import finufft
    except ImportError as error:
        raise ImportError(
            f"operator 'fourier' needs the package finufft ({error}): pip install finufft; or use operator='tiled'"
        ) from error
    return finufft
