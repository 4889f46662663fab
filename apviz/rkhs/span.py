"""The span of k(x₁, ·), …, k(xₙ, ·) in the kernel's Hilbert space H, in orthonormal coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from apviz.kernels import Kernel
from apviz.settings import require
from apviz.system import check_finite

Floats = NDArray[np.float64]
#: rows up to which everything here takes no time
MOST_POINTS = 500


@dataclass(frozen=True, eq=False)
class Span:
    """Functions Σᵢ wᵢ k(xᵢ, ·), each given by its weights w: (n,), where k includes the noise σ²δ.

    ⟨k(xᵢ, ·), k(xⱼ, ·)⟩ = k(xᵢ, xⱼ), so the Gram matrix of the spanning functions is K, and with K = LLᵀ the rows of L
    are their coordinates in an orthonormal basis (Gram–Schmidt in the order of the points).

    Args:
        x: (n, d) points, at most 500.
        kernel: without noise.
        noise: σ² > 0.

    Raises:
        ValueError: points that are not finite, or too many; a noise that is not positive.
    """

    x: Any
    kernel: Kernel
    noise: float
    #: (n, n)
    gram: Floats = field(init=False)
    #: (n, n) lower; row i holds the coordinates of k(xᵢ, ·)
    factor: Floats = field(init=False)

    def __post_init__(self) -> None:
        x = torch.as_tensor(np.asarray(self.x, dtype=np.float64))
        x = x[:, None] if x.ndim == 1 else x
        require(x.ndim == 2 and 0 < len(x) <= MOST_POINTS, "x", tuple(x.shape), f"(n, d) with n up to {MOST_POINTS}")
        require(self.noise > 0, "noise", self.noise, "a positive number")
        check_finite(x, "x")
        gram = self.kernel(x).numpy()
        gram = 0.5 * (gram + gram.T) + self.noise * np.eye(len(x))
        object.__setattr__(self, "x", x.numpy())
        object.__setattr__(self, "gram", gram)
        object.__setattr__(self, "factor", np.linalg.cholesky(gram))

    @property
    def n(self) -> int:
        return len(self.gram)

    def coordinates(self, weights: Floats) -> Floats:
        """(n,) or (n, p) weights to the coordinates Lᵀw of the function; ordinary geometry holds among them."""
        return np.asarray(self.factor.T @ weights)

    def weights_of(self, coordinates: Floats) -> Floats:
        """The inverse of `coordinates`."""
        return np.asarray(np.linalg.solve(self.factor.T, coordinates))

    def interpolant(self, b: Floats) -> Floats:
        """Weights K⁻¹b of g, the function of least norm with g(xᵢ) = bᵢ."""
        return np.asarray(np.linalg.solve(self.gram, b), dtype=np.float64)

    def inner(self, v: Floats, w: Floats) -> float:
        """⟨·, ·⟩_H of two functions: vᵀKw."""
        return float(v @ self.gram @ w)

    def norm(self, weights: Floats) -> float:
        """‖·‖_H: √(wᵀKw)."""
        return float(np.linalg.norm(self.coordinates(weights)))

    def project(self, weights: Floats, block: Sequence[int]) -> Floats:
        """Weights of the projection onto span{k(xᵢ, ·): i in block}: U = K[I, I]⁻¹(Kw)_I there, else zero."""
        rows = list(block)
        found = np.zeros_like(weights)
        found[rows] = np.linalg.solve(self.gram[np.ix_(rows, rows)], (self.gram @ weights)[rows])
        return found

    def angle(self, v: Floats, w: Floats) -> float:
        """The angle between two functions in H, in radians.

        Raises:
            ValueError: one of them is zero.
        """
        lengths = self.norm(v) * self.norm(w)
        require(lengths > 0, "the functions", "one that is zero", "functions that are not, for an angle")
        return float(np.arccos(np.clip(self.inner(v, w) / lengths, -1.0, 1.0)))

    def values(self, weights: Floats, z: Any) -> Floats:
        """The function at z: (m, d) or (m,), away from the points: k(z, X)w without the noise, which is zero there."""
        z = torch.as_tensor(np.asarray(z, dtype=np.float64))
        z = z[:, None] if z.ndim == 1 else z
        return np.asarray(self.kernel(z, torch.as_tensor(self.x)).numpy() @ weights)
