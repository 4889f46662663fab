"""Correlations by their textbook formulas, in NumPy and in the precision of the distances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def matern12(r: np.ndarray) -> np.ndarray:
    return np.exp(-r)


def matern32(r: np.ndarray) -> np.ndarray:
    s = np.sqrt(r.dtype.type(3)) * r
    return (1 + s) * np.exp(-s)


def matern52(r: np.ndarray) -> np.ndarray:
    s = np.sqrt(r.dtype.type(5)) * r
    return (1 + s + s**2 / 3) * np.exp(-s)


def rbf(r: np.ndarray) -> np.ndarray:
    return np.exp(-(r**2) / 2)


def rational_quadratic(r: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    # (1 + r²/(2α))^(−α); a power would lose digits for large α
    return np.exp(-alpha * np.log1p(r**2 / (2 * alpha)))


#: functions of r = ‖(x − z)/ℓ‖, by the name of the kernel in apviz
CORRELATIONS: dict[str, Callable[..., np.ndarray]] = {
    "matern12": matern12,
    "matern32": matern32,
    "matern52": matern52,
    "rbf": rbf,
    "rational-quadratic": rational_quadratic,
}
