"""Functions Σᵢ wᵢ k(xᵢ, ·) over few points, and their geometry in the kernel's Hilbert space H."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from apviz.kernels import Kernel
from apviz.settings import require, require_number
from apviz.system import check_finite, tensor_of

Floats = NDArray[np.float64]
#: rows up to which a dense factor takes a few milliseconds
MAX_POINTS = 500


@dataclass(frozen=True, eq=False)
class Span:
    """Span of k(x₁, ·), …, k(xₙ, ·), whose functions Σᵢ wᵢ k(xᵢ, ·) are given by weights w: (n,); k includes σ²δ.

    ⟨k(xᵢ, ·), k(xⱼ, ·)⟩ = k(xᵢ, xⱼ), so the Gram matrix of the spanning functions is K, and with K = LLᵀ the rows of L
    are their coordinates in an orthonormal basis (Gram–Schmidt in the order of the points).

    Args:
        x: (n, d) or (n,) points, at most 500.
        kernel: without noise.
        noise: σ² > 0.

    Attributes:
        gram: (n, n) K.
        factor: (n, n) lower triangular L; row i holds the coordinates of k(xᵢ, ·).

    Raises:
        ValueError: points that are not finite, or too many; a noise that is not positive.

    Examples:
        The function of least norm that takes given values, and what a projection leaves of it:

        >>> span = apviz.rkhs.Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.5), noise=0.01)
        >>> g = span.interpolant(np.array([1.0, -0.3, 0.6]))
        >>> rest = g - span.project(g, [0, 1])
        >>> (span.gram @ rest).round(3) + 0.0
        array([0.   , 0.   , 1.276])
        >>> round(span.norm(g), 3), round(span.norm(rest), 3)
        (2.588, 1.748)
    """

    x: Any
    kernel: Kernel
    noise: float
    gram: Floats = field(init=False)
    factor: Floats = field(init=False)

    def __post_init__(self) -> None:
        x = tensor_of(self.x, "x").double()
        x = x[:, None] if x.ndim == 1 else x
        require(x.ndim == 2 and 0 < len(x) <= MAX_POINTS, "x", tuple(x.shape), f"(n, d) with n up to {MAX_POINTS}")
        require_number("noise", self.noise, 0.0, "a positive number", strictly=True)
        check_finite(x, "x")
        gram = self.kernel(x).numpy()
        gram = 0.5 * (gram + gram.T) + self.noise * np.eye(len(x))
        object.__setattr__(self, "x", x.numpy())
        object.__setattr__(self, "gram", gram)
        object.__setattr__(self, "factor", np.linalg.cholesky(gram))

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.gram)

    def coordinates(self, weights: Floats) -> Floats:
        """Coordinates Lᵀw of functions given by weights (n,) or (n, p), in an orthonormal basis of the span."""
        return np.asarray(self.factor.T @ weights)

    def weights_of(self, coordinates: Floats) -> Floats:
        """Weights (n,) or (n, p) of functions given by coordinates: the inverse of `coordinates`."""
        return np.asarray(np.linalg.solve(self.factor.T, coordinates))

    def interpolant(self, b: Floats) -> Floats:
        """Weights (n,) K⁻¹b of g, the function of least norm with g(xᵢ) = bᵢ."""
        return np.asarray(np.linalg.solve(self.gram, tensor_of(b, "b").double().numpy()))

    def inner(self, v: Floats, w: Floats) -> float:
        """Inner product ⟨·, ·⟩_H of two functions, vᵀKw."""
        return float(v @ self.gram @ w)

    def norm(self, weights: Floats) -> float:
        """Norm ‖·‖_H of a function, √(wᵀKw)."""
        return float(np.linalg.norm(self.coordinates(weights)))

    def rows(self, block: Sequence[int], name: str = "block") -> list[int]:
        """Points of a block as a list, checked.

        Raises:
            ValueError: no points, or some that are not there; the message shows them.
        """
        try:
            found = [operator.index(row) for row in block]
        except TypeError:
            found = []
        fits = bool(found) and min(found) >= 0 and max(found) < self.n
        require(fits, name, block, f"points by their numbers from 0 to {self.n - 1}, at least one")
        return found

    def project(self, weights: Floats, block: Sequence[int]) -> Floats:
        """Weights (n,) of the projection onto span{k(xᵢ, ·): i in block}: K[I, I]⁻¹(Kw)_I there, else zero."""
        rows = self.rows(block)
        found = np.zeros_like(weights)
        found[rows] = np.linalg.solve(self.gram[np.ix_(rows, rows)], (self.gram @ weights)[rows])
        return found

    def angle(self, v: Floats, w: Floats) -> float:
        """Angle between two functions in H, in radians.

        Raises:
            ValueError: one of them is zero.
        """
        lengths = self.norm(v) * self.norm(w)
        require(lengths > 0, "the functions", "one that is zero", "functions that are not, for an angle")
        return float(np.arccos(np.clip(self.inner(v, w) / lengths, -1.0, 1.0)))

    def values(self, weights: Floats, z: Any) -> Floats:
        """Values (m,) of a function at z: (m, d) or (m,), away from the points, where k(z, X)w has no noise."""
        z = tensor_of(z, "z").double()
        z = z[:, None] if z.ndim == 1 else z
        return np.asarray(self.kernel(z, torch.as_tensor(self.x)).numpy() @ weights)
