"""Small Gaussian processes by textbook formulas: in float64 if a Cholesky factor is accurate enough, else in mpmath.

Derivatives of the kernel are complex steps in float64, and central differences of 60 digits in mpmath; none shares a
line with apviz.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import scipy.linalg

from tests.textbook import CORRELATIONS

#: digits of mpmath
DIGITS = 60
#: largest n·κ·2⁻⁵² for which a factor in float64 is accurate enough
VOUCHED = 1e-9
_EPS = float(np.finfo(np.float64).eps)
_STEP = 1e-100


@dataclass(frozen=True)
class Expression:
    """A kernel s·(Σ or Π of leaves), each leaf a·c(‖(x − z)/ℓ‖); numbers in the order s, then a, ℓ, α of each.

    Args:
        leaves: (form, number of lengthscales).
        combined: `+` or `×`.
        scaled: whether there is an s.
    """

    leaves: tuple[tuple[str, int], ...]
    combined: str
    scaled: bool

    def matrix(self, numbers: Sequence[Any], x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return k(x, z) in float64, or complex if a number is."""
        left = iter(numbers)
        outer = next(left) if self.scaled else 1.0
        found: Any = None
        for form, count in self.leaves:
            scale, lengthscale = next(left), np.array([next(left) for _ in range(count)])
            alpha = {"alpha": next(left)} if form == "rational-quadratic" else {}
            r = np.sqrt((((x[:, None] - z[None]) / lengthscale) ** 2).sum(-1))
            value = scale * CORRELATIONS[form](r, **alpha)
            found = value if found is None else found + value if self.combined == "+" else found * value
        return np.asarray(outer * found)

    def entry(self, numbers: Sequence[Any], x: Sequence[Any], z: Sequence[Any]) -> Any:
        """Return k of two points, in mpmath."""
        left = iter(numbers)
        outer = next(left) if self.scaled else mpmath.mpf(1)
        found: Any = None
        for form, count in self.leaves:
            scale, lengthscale = next(left), [next(left) for _ in range(count)]
            alpha = next(left) if form == "rational-quadratic" else None
            by = lengthscale * len(x) if count == 1 else lengthscale
            r = mpmath.sqrt(sum(((a - b) / one) ** 2 for a, b, one in zip(x, z, by, strict=True)))
            value = scale * _MP[form](r, alpha)
            found = value if found is None else found + value if self.combined == "+" else found * value
        return outer * found


_MP: dict[str, Callable[[Any, Any], Any]] = {
    "matern12": lambda r, _: mpmath.exp(-r),
    "matern32": lambda r, _: (1 + mpmath.sqrt(3) * r) * mpmath.exp(-mpmath.sqrt(3) * r),
    "matern52": lambda r, _: (1 + mpmath.sqrt(5) * r + 5 * r**2 / 3) * mpmath.exp(-mpmath.sqrt(5) * r),
    "rbf": lambda r, _: mpmath.exp(-(r**2) / 2),
    "rational-quadratic": lambda r, alpha: (1 + r**2 / (2 * alpha)) ** (-alpha),
}


@dataclass(frozen=True)
class Exact:
    """The exact numbers of a Gaussian process, in float64.

    Attributes:
        k, c: (n, n) with the noise, and (n, m).
        inverse, w, explained: K⁻¹, K⁻¹(y − μ), K⁻¹C.
        mean, covariance: of f at the test points, (m,) and (m, m).
        log_determinant, log_likelihood: in nats.
        slopes: ∂K of noise and every number of the kernel, (1 + p, n, n).
        gradient: of the log likelihood in them, (1 + p,).
        digits: of all, by which they may be off: relative to what is summed.
    """

    k: np.ndarray
    c: np.ndarray
    inverse: np.ndarray
    w: np.ndarray
    explained: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    log_determinant: float
    log_likelihood: float
    slopes: np.ndarray
    gradient: np.ndarray
    digits: float


def exact(
    expression: Expression,
    numbers: Sequence[float],
    noise: float,
    mu: float,
    x: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
) -> Exact:
    """Return the process at inputs x: (n, d) with targets y: (n,), and at test points z: (m, d)."""
    k = expression.matrix(numbers, x, x) + noise * np.eye(len(x))
    condition = np.linalg.cond(k)
    if len(x) * condition * _EPS < VOUCHED:
        return _in_float64(expression, numbers, k, noise, mu, x, y, z, float(condition))
    with mpmath.workdps(DIGITS):
        return _in_mpmath(expression, numbers, noise, mu, x, y, z)


def _in_float64(
    expression: Expression,
    numbers: Sequence[float],
    k: np.ndarray,
    noise: float,
    mu: float,
    x: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    condition: float,
) -> Exact:
    n = len(x)
    factor = scipy.linalg.cho_factor(k, lower=True)
    c = expression.matrix(numbers, x, z)
    w, explained = scipy.linalg.cho_solve(factor, y - mu), scipy.linalg.cho_solve(factor, c)
    inverse = scipy.linalg.cho_solve(factor, np.eye(n))
    slopes = [np.eye(n)]
    for place in range(len(numbers)):
        moved = [number + (1j * _STEP if place == other else 0) for other, number in enumerate(numbers)]
        slopes.append(expression.matrix(moved, x, x).imag / _STEP)
    m = np.outer(w, w) - inverse
    log_determinant = 2 * float(np.log(np.diag(factor[0])).sum())
    return Exact(
        k,
        c,
        inverse,
        w,
        explained,
        mu + c.T @ w,
        expression.matrix(numbers, z, z) - c.T @ explained,
        log_determinant,
        -0.5 * (float((y - mu) @ w) + log_determinant + n * float(np.log(2 * np.pi))),
        np.array(slopes),
        np.array([0.5 * float((m * slope).sum()) for slope in slopes]),
        10 * n * condition * _EPS,
    )


def _in_mpmath(
    expression: Expression,
    numbers: Sequence[float],
    noise: float,
    mu: float,
    x: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
) -> Exact:
    n, m, theta = len(x), len(z), [mpmath.mpf(number) for number in numbers]
    rows, points = ([[mpmath.mpf(float(each)) for each in row] for row in one] for one in (x, z))

    def matrix(values: Sequence[Any], left: list[Any], right: list[Any]) -> Any:
        return mpmath.matrix([[expression.entry(values, a, b) for b in right] for a in left])

    k = matrix(theta, rows, rows) + mpmath.mpf(noise) * mpmath.eye(n)
    c = matrix(theta, rows, points)
    factor = mpmath.cholesky(k)
    inverse = mpmath.inverse(k)
    b = mpmath.matrix([mpmath.mpf(float(each)) - mpmath.mpf(mu) for each in y])
    w, explained = inverse * b, inverse * c
    log_determinant = 2 * mpmath.fsum(mpmath.log(factor[i, i]) for i in range(n))
    value = -(mpmath.fdot(b, w) + log_determinant + n * mpmath.log(2 * mpmath.pi)) / 2
    h = mpmath.mpf(10) ** (-DIGITS // 3)
    slopes = [mpmath.eye(n)]
    for place, number in enumerate(theta):
        up, down = (
            matrix([*theta[:place], number * (1 + sign * h), *theta[place + 1 :]], rows, rows) for sign in (1, -1)
        )
        slopes.append((up - down) / (2 * h * number))
    gradient = [
        mpmath.fsum((w[i] * w[j] - inverse[i, j]) * slope[i, j] for i in range(n) for j in range(n)) / 2
        for slope in slopes
    ]
    covariance = matrix(theta, points, points) - c.T * explained

    def plain(found: Any) -> np.ndarray:
        return np.array([[float(found[i, j]) for j in range(found.cols)] for i in range(found.rows)])

    return Exact(
        plain(k),
        plain(c),
        plain(inverse),
        plain(w)[:, 0],
        plain(explained),
        plain(c.T * w)[:, 0] + mu,
        plain(covariance).reshape(m, m),
        float(log_determinant),
        float(value),
        np.array([plain(slope) for slope in slopes]),
        np.array([float(each) for each in gradient]),
        1e-15,
    )
