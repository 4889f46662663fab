"""A function of a distance as near + far: near a polynomial up to a cut-off, far of frequencies up to a band.

The polynomial is fitted so that least is left of the spectrum of k − near beyond the band. This needs neither a window
nor a formula for each kernel: only the spectral density. In units of the cut-off, all transforms are those of a few
Chebyshev polynomials, which are computed once a process; a fit is then a small least-squares problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import j0

from apviz.kernels.radial import Radial
from apviz.operators.fourier.cell_list import Near

Array = NDArray[np.float64]

#: products of band and cut-off that are tried, each with the degree that it takes
PRODUCTS = tuple(
    (0.5 * k, next(degree for most, degree in ((6, 8), (8, 10), (11, 12), (16, 15), (24, 20)) if 0.5 * k <= most))
    for k in range(4, 49)
)
#: largest frequency, in units of one over the cut-off, at which the spectrum is fitted
HIGHEST = 1024.0
#: fits that reweight towards the least integral of the absolute spectrum, which bounds the error of an entry
REWEIGHTINGS = 5
#: share of the largest weighted misfit below which weights no longer grow
WEIGHT_FLOOR = 0.02
#: ratio of neighbouring bands that are tried
BAND_RATIO = 2.0**0.25
#: bands of which one is tried first; then those around the best
COARSE = 4

#: area of the unit sphere, by dimension
AREA = {1: 2.0, 2: 2.0 * math.pi, 3: 4.0 * math.pi}


@dataclass(frozen=True, eq=False)
class Split:
    """A split of a function of a distance.

    Args:
        radial: the function.
        band: the largest frequency of far.
        near: None if far is all.
        error: the largest error of an entry that a quadrature over the frequencies beyond the band finds.
    """

    radial: Radial
    band: float
    near: Near | None
    error: float

    def remaining(self, r: Array) -> Array:
        """Evaluate k − near at distances r, which far represents."""
        values = self.radial.values(r)
        return values if self.near is None else values - self.near.values(r)

    def remaining_slopes(self, r: Array) -> Array:
        """Evaluate the derivative of k − near in r, divided by r, at distances r; 0 at r = 0."""
        slopes = self.radial.slopes(r)
        if self.near is None:
            return slopes
        return slopes - np.divide(self.near.slopes(r), r, out=np.zeros_like(r), where=r > 0)

    def spectrum(self, w: Array) -> Array:
        """Evaluate the spectral density of the function at frequencies of length w > 0."""
        return self.radial.density(w)

    def near_spectrum(self, w: Array) -> Array:
        """Evaluate the spectral density of near at frequencies of length w, by a quadrature over distances."""
        if self.near is None:
            return np.zeros_like(w)
        width = self.radial.width
        panels = 4 + int(self.near.cutoff * float(w.max(initial=0.0)) / 8.0)
        r, weights = _panels(np.linspace(0.0, self.near.cutoff, panels + 1), 16)
        values = self.near.values(r) * weights * r ** (width - 1) * AREA[width]
        return np.asarray(directional_mean(width, np.outer(w, r)) @ values)


def directional_mean(width: int, z: Array) -> Array:
    """Evaluate the mean of exp(i z·e) over directions e."""
    return np.asarray(np.cos(z) if width == 1 else j0(z) if width == 2 else np.sinc(z / math.pi))


@dataclass(frozen=True, eq=False)
class _Basis:
    """Transforms of Chebyshev polynomials on [0, 1].

    Args:
        frequencies, weights: nodes of a quadrature over frequencies in d dimensions.
        transforms: (nodes, degree + 1).
        waves: (distances, nodes), which turn a spectrum into values at some distances.
    """

    frequencies: Array
    weights: Array
    transforms: Array
    waves: Array


def _panels(edges: Array, size: int) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(size)
    half = np.diff(edges)[:, None] / 2
    return (half * x + (edges[:-1, None] + half)).ravel(), (half * w).ravel()


@cache
def _quadrature(width: int) -> tuple[Array, Array, Array]:
    # dense panels where the fit matters, then few: what remains there is small
    fine, coarse = _panels(np.arange(0.0, 64.5, 0.5), 3), _panels(np.geomspace(64.0, HIGHEST, 41), 8)
    frequencies, weights = (np.concatenate(each) for each in zip(fine, coarse, strict=True))
    weights = weights * frequencies ** (width - 1) * AREA[width] / (2.0 * math.pi) ** width
    return frequencies, weights, directional_mean(width, np.outer(np.linspace(0.0, 2.5, 300), frequencies))


@cache
def _basis(width: int, degree: int) -> _Basis:
    frequencies, weights, waves = _quadrature(width)
    t, wt = _panels(np.array([0.0, 1.0]), 640)
    chebyshev = np.polynomial.chebyshev.chebvander(2.0 * t - 1.0, degree)
    waves_at_t = directional_mean(width, np.outer(frequencies, t))
    transforms = (waves_at_t * (wt * t ** (width - 1) * AREA[width])) @ chebyshev
    return _Basis(frequencies, weights, transforms, waves)


def fitted(radial: Radial, band: float, product: float, degree: int, error: float = 0.0) -> Split:
    """Fit near with the cut-off product ÷ band; stop once the error of an entry is below `error`."""
    basis, cutoff = _basis(radial.width, degree), product / band
    beyond = basis.frequencies > product
    transforms, waves = basis.transforms[beyond], basis.waves[:, beyond]
    frequencies, weights = basis.frequencies[beyond], basis.weights[beyond]
    density = radial.density(frequencies / cutoff) / cutoff**radial.width
    shell, reweights = frequencies ** (radial.width - 1), np.ones_like(frequencies)
    best: tuple[float, Array] | None = None
    for _ in range(REWEIGHTINGS):
        scale = np.sqrt(reweights * weights * shell)
        found = np.asarray(np.linalg.lstsq(transforms * scale[:, None], density * scale, rcond=1e-14)[0], np.float64)
        misfit = density - transforms @ found
        reached = float(np.abs(waves @ (misfit * weights)).max())
        if best is None or reached < best[0]:
            best = reached, found
        if best[0] <= error:
            break
        size = np.abs(misfit) * shell
        reweights = 1.0 / np.maximum(size, WEIGHT_FLOOR * size.max())
    assert best is not None
    return Split(radial, band, Near(cutoff, best[1]), best[0])


def without_near(radial: Radial, band: float) -> Split:
    """Return the split whose far part is all."""
    frequencies, weights = _panels(np.geomspace(band, 100.0 * band, 60), 12)
    shell = weights * frequencies ** (radial.width - 1) * AREA[radial.width] / (2.0 * math.pi) ** radial.width
    return Split(radial, band, None, float(np.abs(radial.density(frequencies)) @ shell))


@lru_cache(maxsize=1024)
def shortest(radial: Radial, step: int, error: float) -> Split | None:
    """Return the split with the shortest cut-off at the band BAND_RATIO^step; None if none has this error."""
    band = BAND_RATIO**step
    everything = without_near(radial, band)
    if everything.error <= error:
        return everything
    low, high, best = -1, len(PRODUCTS), None
    while high - low > 1:
        middle = (low + high) // 2
        split = fitted(radial, band, *PRODUCTS[middle], error)
        if split.error <= error:
            high, best = middle, split
        else:
            # beyond the product at which a degree is enough, larger ones are worse: the search is that of the first
            low = middle
    return best


def cheapest(radial: Radial, error: float, cost: Callable[[Split], float], steps: range) -> Split | None:
    """Return the split of least cost with at most this error of an entry; None if there is none.

    Args:
        cost: of a split; infinite if it does not fit.
        steps: of bands, BAND_RATIO^step.
    """

    @cache
    def cost_at(step: int) -> float:
        split = shortest(radial, step, error)
        return math.inf if split is None else cost(split)

    # cost falls and then rises with the band, but a low band may have all rows as neighbours: there it is flat
    coarse = min(steps[::COARSE], key=cost_at)
    around = range(max(steps.start, coarse - COARSE + 1), min(steps.stop, coarse + COARSE))
    best = min(around if cost_at(coarse) < math.inf else steps, key=cost_at)
    return shortest(radial, best, error) if cost_at(best) < math.inf else None
