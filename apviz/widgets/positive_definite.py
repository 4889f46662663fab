"""Positive definite, yet Cholesky fails: eigenvalues and pivots of K, and the rounding of its entries."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from apviz.rkhs.kernels import Floats, StationaryKernel
from apviz.widgets.live_widget import LiveWidget, choice, kernel_choice, log_slider, places, slider

MAX_POINTS: Final = 100
JITTERS: Final = [0.0, *(float(f"1e{power}") for power in range(-18, 0))]


class PositiveDefinite(LiveWidget):
    """Cholesky of a kernel matrix over n even points, in float32 or float64, with jitter.

    Attributes:
        points: n, the number of points on [0, 1].
        lengthscale: Lengthscale of k, in units of x; the outputscale is 1.
        dtype: Type in which K is stored and factorised.
        jitter: τ, added to the diagonal of K.
        kernel: Name of k.

    Examples:
        >>> widget = apviz.widgets.PositiveDefinite(points=10)
        >>> widget.works
        True
        >>> widget.points = 30
        >>> widget.works
        False
        >>> widget.jitter = 1e-10
        >>> widget.works
        True
    """

    title = "Positive definite, yet Cholesky fails"
    text = (
        "The kernel matrix of distinct points is positive definite: that is a theorem about numbers without rounding. "
        "A computer rounds every entry of K. Where an eigenvalue is smaller than that rounding, its sign is luck, and "
        "Cholesky meets a pivot that is not positive."
    )
    sentence = (
        "With {points} points at lengthscale {lengthscale}, in {dtype} and with jitter {jitter}, the smallest "
        "eigenvalue is [least], and rounding is [floor]: Cholesky [outcome][change]."
    )

    points = slider(
        "points n", "Even places, xᵢ = i/(n − 1): the closer neighbours are, the more alike are rows of K.",
        2, MAX_POINTS, 1,
    )  # fmt: skip
    lengthscale = log_slider(
        "lengthscale", "ℓ, in units of x: k = f(|x − x′| / ℓ), and a longer ℓ makes rows of K more alike.", 0.01, 1
    )
    dtype = choice(
        "type", "Every number and every operation is rounded to ε = 2⁻²³ (float32) or 2⁻⁵² (float64) of its size.",
        {"float64": "float64", "float32": "float32"},
    )  # fmt: skip
    jitter = places(
        "jitter τ", "K + τI has the eigenvalues λ + τ ≥ τ, and its mean misses the data by τw, as if they had noise.",
        JITTERS, {"0": "none"},
    )  # fmt: skip
    kernel = kernel_choice()

    in_sight = ("points", "jitter")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "30 points: it fails": {
            "points": 30, "lengthscale": 0.3, "dtype": "float64", "jitter": 0.0, "kernel": "rbf",
        },
        "10 points: it works": {"points": 10},
        "15 points, in float32": {"points": 15, "dtype": "float32"},
        "a shorter lengthscale": {"lengthscale": 0.05},
        "a rough kernel": {"kernel": "matern12", "points": 100},
        "jitter": {"jitter": 1e-10},
    }  # fmt: skip

    @property
    def gram(self) -> Floats:
        """Return K + τI (n, n) in the chosen type."""
        x = np.linspace(0, 1, self.points)[:, None]
        entries = StationaryKernel(self.kernel, self.lengthscale)(x, x).astype(self.dtype)
        return np.asarray(entries + (self.jitter * np.eye(self.points)).astype(self.dtype))

    @property
    def works(self) -> bool:
        """Return whether NumPy can factorise K."""
        try:
            np.linalg.cholesky(self.gram)
        except np.linalg.LinAlgError:
            return False
        return True
