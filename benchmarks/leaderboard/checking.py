"""Compute residuals by SciPy alone, on all rows or on random rows, without any of the measured code."""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.leaderboard.systems import Given

#: entries of K that a check evaluates at most, 50,000² of them: about 20 s of a core
ENTRIES = 2_500_000_000
# rows up to which K is kept, for the other tolerances and entrants
KEPT_ROWS = 5_000
# of a tile of K that stays in the processor's cache
TILE_ROWS, TILE_COLUMNS = 100, 1_000
# what rounding may leave of a residual above its tolerance, and standard errors that an estimate must be below that by
ROUNDING, ERRORS = 1.05, 2.0


@dataclass(frozen=True)
class Checked:
    """A mean over right-hand sides of ‖b − Kw‖/‖b‖, exact or estimated.

    Attributes:
        residual: the mean; NaN for weights of another shape or that are not finite.
        error: its standard error, 0 if it is exact.
        of, errors: the same of every right-hand side, (l+1,); empty if it is exact.
        rows: number of drawn rows, 0 for all.
        entropy: of the generator that drew them, as a hexadecimal number.
    """

    residual: float
    error: float = 0.0
    of: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    rows: int = 0
    entropy: str = ""

    def reaches(self, tol: float) -> bool:
        """Test whether it is below `tol`, two standard errors included, up to rounding."""
        return self.residual + ERRORS * self.error <= ROUNDING * tol

    def record(self) -> dict[str, Any]:
        """Return the record for the results: the residual, and the details of an estimate."""
        if not self.rows:
            return {"residual": self.residual}
        estimated = {"rows": self.rows, "error": self.error, "entropy": self.entropy}
        return {"residual": self.residual, "estimated": estimated | {"of": self.of, "errors": self.errors}}

    def __str__(self) -> str:
        return f"{self.residual:.2g}" + (f" ± {self.error:.1g} from {self.rows:,} rows" if self.rows else "")


def check(given: Given, w: np.ndarray, entries: int = ENTRIES) -> Checked:
    """Return the residual on all rows if that takes at most `entries` entries of K, else an estimate from that number.

    Rows are drawn from the system's entropy after the weights are computed: no method can know them.
    """
    rows = entries // len(given.x)
    return Checked(residual(given, w)) if rows >= len(given.x) else estimate(given, w, max(2, rows))


def residual(given: Given, w: np.ndarray) -> float:
    """Return the mean over right-hand sides of ‖b − Kw‖/‖b‖; NaN for weights of a wrong shape or not finite."""
    if not _are_weights(given, w):
        return math.nan
    if len(given.x) <= KEPT_ROWS:
        left = given.b - given.noise * w - _matrix(given) @ w
    else:
        left = _left(given, w, np.arange(len(given.x)))
    return float((np.linalg.norm(left, axis=0) / np.linalg.norm(given.b, axis=0)).mean())


def estimate(given: Given, w: np.ndarray, count: int, entropy: int | None = None) -> Checked:
    """Estimate the residual from rows drawn without replacement, each with the same probability.

    The mean of n/m Σ r² over m drawn rows is ‖r‖² (Horvitz & Thompson, 1952). The result is its root ÷ ‖b‖, low by a
    relative ε²/2 for a relative standard error ε. The standard error of the mean over right-hand sides is that of its
    linearisation, because all share the rows; with the factor 1 − m/n of a finite population.

    Args:
        count: m, from 2 to n − 1.
        entropy: seed of the drawn rows; by default new from the system.
    """
    if not _are_weights(given, w):
        return Checked(math.nan)
    entropy, n = secrets.randbits(128) if entropy is None else entropy, len(given.x)
    rows = np.sort(np.random.default_rng(entropy).choice(n, size=count, replace=False))
    squares = _left(given, w, rows) ** 2 * n
    norms = np.linalg.norm(given.b, axis=0)
    lengths = np.sqrt(squares.mean(axis=0))
    slopes = squares / np.where(lengths > 0, 2 * lengths * norms, 1.0)  # d‖r‖/‖b‖ by the weight of a row
    scale = math.sqrt((1 - count / n) / count)
    of, errors = lengths / norms, scale * slopes.std(axis=0, ddof=1)
    error = float(scale * slopes.mean(axis=1).std(ddof=1))
    return Checked(float(of.mean()), error, tuple(of.tolist()), tuple(errors.tolist()), count, f"{entropy:x}")


def _are_weights(given: Given, w: np.ndarray) -> bool:
    return np.shape(w) == given.b.shape and bool(np.isfinite(w).all())


def _left(given: Given, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (b − Kw)[rows], float64, tile by tile."""
    x, correlation = given.x / given.lengthscale, CORRELATIONS[given.kernel]
    scaled, left = given.outputscale * w, given.b[rows] - given.noise * w[rows]
    for top in range(0, len(rows), TILE_ROWS):
        here = slice(top, top + TILE_ROWS)
        of = x[rows[here]]
        for start in range(0, len(x), TILE_COLUMNS):
            there = slice(start, start + TILE_COLUMNS)
            left[here] -= correlation(cdist(of, x[there])) @ scaled[there]
    return left


@functools.lru_cache(maxsize=1)
def _matrix(given: Given) -> np.ndarray:
    x = given.x / given.lengthscale
    return given.outputscale * CORRELATIONS[given.kernel](cdist(x, x))


def _rbf(r: np.ndarray) -> np.ndarray:
    r *= r
    r *= -0.5
    return np.exp(r, out=r)


def _matern(nu: float, *coefficients: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return exp(−s) Σ cᵢ sⁱ of s = √(2ν) r, by Horner's rule."""

    def correlation(r: np.ndarray) -> np.ndarray:
        r *= -math.sqrt(2 * nu)
        factor = np.full_like(r, coefficients[-1])
        for each in reversed(coefficients[:-1]):
            factor *= r
            np.subtract(each, factor, out=factor)
        np.exp(r, out=r)
        r *= factor
        return r

    return correlation


#: correlation functions of the distance in lengthscales, which they overwrite to save memory traffic
CORRELATIONS = {
    "rbf": _rbf,
    "matern12": _matern(0.5, 1.0),
    "matern32": _matern(1.5, 1.0, 1.0),
    "matern52": _matern(2.5, 1.0, 1.0, 1 / 3),
}
