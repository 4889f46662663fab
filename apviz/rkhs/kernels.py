"""Stationary kernels in closed form, evaluated in NumPy: a second implementation, independent of `apviz.kernels`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apviz.settings import require, shown

Floats = NDArray[np.float64]
#: k(x, z) of points (n, d) and (m, d), to (n, m), without noise
Kernel = Callable[[Floats, Floats], Floats]

#: correlations f(r) of the distance r in lengthscales, by the names that `apviz.kernels` gives them
CORRELATIONS: Final[dict[str, Callable[..., Floats]]] = {
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + sqrt(3) * r) * np.exp(-sqrt(3) * r),
    "matern52": lambda r: (1 + sqrt(5) * r + 5 / 3 * r**2) * np.exp(-sqrt(5) * r),
    "rbf": lambda r: np.exp(-0.5 * r**2),
    "rational-quadratic": lambda r, alpha=1.0: (1 + 0.5 * r**2 / alpha) ** -alpha,
}
_ACCEPTED: Final = "a stationary kernel such as apviz.Matern52(), or a function k(x, z) of NumPy arrays"


@dataclass(frozen=True)
class StationaryKernel:
    """Kernel k(x, z) = outputscale · f(‖(x − z)/ℓ‖).

    Args:
        name: name of the correlation f: matern12, matern32, matern52, rbf or rational-quadratic.
        lengthscale: ℓ, one positive number or one per column of x.
        outputscale: the variance k(x, x).
        parameters: shape parameters of f, by name.

    Examples:
        >>> kernel = apviz.rkhs.StationaryKernel("rbf", lengthscale=0.5)
        >>> kernel(np.zeros((1, 2)), np.array([[0.0, 0.0], [0.3, 0.4]])).round(4)
        array([[1.    , 0.6065]])
    """

    name: str
    lengthscale: float | tuple[float, ...] = 1.0
    outputscale: float = 1.0
    parameters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_one_of(self.name, "name", CORRELATIONS)
        require(
            bool((array_of(self.lengthscale, "lengthscale") > 0).all()), "lengthscale", self.lengthscale, "positive"
        )

    def __call__(self, x: Floats, z: Floats) -> Floats:
        """Evaluate k at points x: (n, d) and z: (m, d), to (n, m)."""
        r = np.sqrt(((self.scaled(x)[:, None] - self.scaled(z)) ** 2).sum(axis=2))
        return self.outputscale * CORRELATIONS[self.name](r, **self.parameters)

    def scaled(self, x: Floats) -> Floats:
        """Divide points x: (n, d) by the lengthscale of each column."""
        fits = np.size(self.lengthscale) in (1, x.shape[1])
        require(fits, "lengthscale", self.lengthscale, f"one number or {x.shape[1]}, one per column of x")
        return np.asarray(x / np.asarray(self.lengthscale))


def kernel_of(kernel: Any) -> Kernel:
    """Return the closed form of a kernel such as `apviz.Matern52(lengthscale=0.2)`; functions stay unchanged."""
    if not isinstance(kernel, StationaryKernel) and getattr(kernel, "name", None) in tuple(CORRELATIONS):
        return StationaryKernel(kernel.name, kernel.lengthscale, kernel.outputscale, kernel.parameters)
    require(callable(kernel), "kernel", kernel, _ACCEPTED)
    given: Kernel = kernel
    return given


def evaluate(kernel: Kernel, x: Floats, z: Floats) -> Floats:
    """Evaluate a kernel at points x: (n, d) and z: (m, d), to (n, m), and check what it returns."""
    try:
        found = np.asarray(kernel(x, z), dtype=np.float64)
    except (AttributeError, TypeError) as error:  # a sum or product of `apviz.kernels` takes tensors
        raise ValueError(f"kernel must be {_ACCEPTED}, got {shown(kernel)}") from error
    require(found.shape == (len(x), len(z)), "kernel", kernel, f"{_ACCEPTED} that returns ({len(x)}, {len(z)})")
    return found


def require_one_of(value: object, setting: str, known: Collection[str]) -> None:
    """Check that a value is one of the known names."""
    require(isinstance(value, str) and value in known, setting, value, f"one of {', '.join(known)}")


def array_of(values: Any, name: str) -> Floats:
    """Return values as a float64 array. Masked values, and all but finite real numbers, raise."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of several lengths, tensors that require gradients
        raise ValueError(f"{name} must be an array of numbers: {error}") from error
    real = array.dtype.kind in "biuf" and not np.ma.is_masked(values)
    require(real and bool(np.isfinite(array).all()), name, values, "an array of finite numbers")
    return array.astype(np.float64)
