"""Functions Σᵢ wᵢ k(xᵢ, ·) over few points, and their geometry in the reproducing kernel Hilbert space H."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apviz.rkhs.kernels import Floats, StationaryKernel, array_of, evaluate, kernel_of
from apviz.settings import require, require_number

#: rows up to which a dense factor takes a few milliseconds
MAX_POINTS: Final = 500


@dataclass(frozen=True, eq=False)
class Span:
    """Span of k(x₁, ·), …, k(xₙ, ·), whose functions Σᵢ wᵢ k(xᵢ, ·) are given by weights w: (n,); k includes σ²δ.

    ⟨k(xᵢ, ·), k(xⱼ, ·)⟩ = k(xᵢ, xⱼ), so the Gram matrix of the spanning functions is K, and with K = LLᵀ the rows of L
    are their coordinates in an orthonormal basis (Gram–Schmidt in the order of the points).

    Args:
        x: (n, d) or (n,) points, at most 500.
        kernel: without noise: a stationary kernel, such as `apviz.Matern52` or `StationaryKernel`, which is evaluated
            in closed form, or a function k(x, z) of NumPy arrays (n, d) and (m, d) to (n, m).
        noise: σ² > 0.

    Attributes:
        gram: (n, n) K.
        factor: (n, n) lower triangular L; row i holds the coordinates of k(xᵢ, ·).

    Raises:
        ValueError: points that are not finite, or too many; a noise that is not positive; another kernel.

    Examples:
        The function of least norm that interpolates the data, and what a projection leaves of it:

        >>> span = apviz.rkhs.Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.5), noise=0.01)
        >>> g = span.interpolant(np.array([1.0, -0.3, 0.6]))
        >>> rest = g - span.project(g, [0, 1])
        >>> (span.gram @ rest).round(3) + 0.0
        array([0.   , 0.   , 1.276])
        >>> round(span.norm(g), 3), round(span.norm(rest), 3)
        (2.588, 1.748)
    """

    x: Any
    kernel: Any
    noise: float
    gram: Floats = field(init=False)
    factor: Floats = field(init=False)

    def __post_init__(self) -> None:
        x, kernel = _columns(self.x, "x"), kernel_of(self.kernel)
        require(0 < len(x) <= MAX_POINTS, "x", x.shape, f"(n, d) with n up to {MAX_POINTS}")
        require_number("noise", self.noise, 0.0, "a positive number", strictly=True)
        gram = evaluate(kernel, x, x)
        gram = 0.5 * (gram + gram.T) + self.noise * np.eye(len(x))
        for name, value in {"x": x, "kernel": kernel, "gram": gram, "factor": np.linalg.cholesky(gram)}.items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.gram)

    @property
    def scaled(self) -> Floats:
        """Points (n, d) in units of the lengthscale, where the kernel has one."""
        return self.kernel.scaled(self.x) if isinstance(self.kernel, StationaryKernel) else np.asarray(self.x)

    def coordinates(self, weights: Floats) -> Floats:
        """Compute the coordinates Lᵀw of functions given by weights (n,) or (n, p), in an orthonormal basis."""
        return np.asarray(self.factor.T @ weights)

    def weights_of(self, coordinates: Floats) -> Floats:
        """Compute the weights (n,) or (n, p) of functions given by coordinates: the inverse of `coordinates`."""
        return np.asarray(np.linalg.solve(self.factor.T, coordinates))

    def interpolant(self, b: Floats) -> Floats:
        """Compute the weights (n,) K⁻¹b of g, the function of least norm with g(xᵢ) = bᵢ."""
        return np.asarray(np.linalg.solve(self.gram, array_of(b, "b")))

    def inner(self, v: Floats, w: Floats) -> float:
        """Compute the inner product ⟨·, ·⟩_H of two functions, vᵀKw."""
        return float(v @ self.gram @ w)

    def norm(self, weights: Floats) -> float:
        """Compute the norm ‖·‖_H of a function, √(wᵀKw)."""
        return float(np.linalg.norm(self.coordinates(weights)))

    def rows(self, block: Sequence[int], name: str = "block") -> list[int]:
        """Return the points of a block as a list, and refuse an empty one or numbers out of range."""
        try:
            found = [operator.index(row) for row in block]
        except TypeError:
            found = []
        fits = bool(found) and min(found) >= 0 and max(found) < self.n
        require(fits, name, block, f"points by their numbers from 0 to {self.n - 1}, at least one")
        return found

    def project(self, weights: Floats, block: Sequence[int]) -> Floats:
        """Compute the weights (n,) of the projection onto span{k(xᵢ, ·): i in block}: K[I, I]⁻¹(Kw)_I there, else 0."""
        rows = self.rows(block)
        found = np.zeros_like(weights)
        found[rows] = np.linalg.solve(self.gram[np.ix_(rows, rows)], (self.gram @ weights)[rows])
        return found

    def angle(self, v: Floats, w: Floats) -> float:
        """Compute the angle between two functions in H that are not zero, in radians."""
        lengths = self.norm(v) * self.norm(w)
        require(lengths > 0, "the functions", "one that is zero", "nonzero, because zero has no angle")
        return float(np.arccos(np.clip(self.inner(v, w) / lengths, -1.0, 1.0)))

    def values(self, weights: Floats, z: Any) -> Floats:
        """Evaluate a function at z: (m, d) or (m,), away from the points, where k(z, X)w has no noise; to (m,)."""
        return np.asarray(evaluate(self.kernel, _columns(z, "z"), self.x) @ weights)


def _columns(values: Any, name: str) -> Floats:
    array = array_of(values, name)
    array = array[:, None] if array.ndim == 1 else array
    require(array.ndim == 2, name, array.shape, "(n, d) or (n,)")
    return array
