"""Why a forecast goes flat: bands of f and of new data, among the data and beyond them."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from apviz.rkhs.kernels import Floats, StationaryKernel
from apviz.widgets.live_widget import LiveWidget, choice, kernel_choice, log_slider, slider

#: Places of observations, the last x, and noise that the data have, as a standard deviation.
PLACES: Final = 121
LAST: Final = 2.0
SD: Final = 0.25
#: Variance of the constant and of the slope of a straight line.
LINE: Final = 100.0


class Forecast(LiveWidget):
    """Prediction among the data and beyond their end, with bands of f and of new observations.

    Attributes:
        end: Last x of the data, which end at 2.
        lengthscale: Lengthscale of k, in units of x; the outputscale is 1.
        noise: Noise σ² of the model; the data have 0.0625.
        kernel: Name of k.
        drift: `none`, or `line` for a straight line of unknown height and slope.

    Examples:
        >>> widget = apviz.widgets.Forecast(end=1.0)
        >>> mean, sd = widget.predict([0.5, 2.0])
        >>> sd.round(2)
        array([0.15, 1.  ])
    """

    title = "Why does my forecast go flat?"
    text = (
        "The mean is a sum of bumps w<sub>i</sub>k(x<sub>i</sub>, ·), one at each of the data, and every bump ends "
        "after a few lengthscales. Beyond, the prior speaks: mean 0, standard deviation 1. The dark band is about f, "
        "the light one about a new observation y = f + noise."
    )
    sentence = (
        "With data up to x = {end} and lengthscale {lengthscale}, σ² = {noise}, the right edge is [far] lengthscales "
        "away: mean [mean], standard deviation of f [sd]. Of new observations among the data, [inY] are in the band "
        "of y, and [inF] in that of f."
    )

    end = slider(
        "end of data", "Data have xᵢ ≤ this number; everything to the right is a forecast.", 0.3, LAST, 0.05
    )  # fmt: skip
    lengthscale = log_slider(
        "lengthscale", "ℓ, in units of x: k(x, x′) = f(|x − x′| / ℓ), so it is how far the data reach.", 0.05, 2
    )
    noise = log_slider(
        "noise σ²", "sd(y)² = sd(f)² + σ², in the model; the data have σ² = 0.0625.", 1e-3, 1
    )  # fmt: skip
    drift = choice(
        "mean", "Of the prior: 0, or a straight line, m(x) = c + sx with wide priors on c and s.",
        {"none": "0", "line": "a straight line"},
    )  # fmt: skip
    kernel = kernel_choice()

    in_sight = ("end", "lengthscale")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "the forecast goes flat": {
            "end": 1.2, "lengthscale": 0.2, "noise": 0.06, "drift": "none", "kernel": "matern52",
        },
        "a longer lengthscale reaches farther": {"lengthscale": 0.8},
        "a line in the model": {"drift": "line"},
        "too little noise: the bands are too narrow": {"noise": 0.005},
        "all data": {"end": 2.0},
    }  # fmt: skip

    @classmethod
    def given(cls) -> dict[str, Any]:
        x, y = _observations()
        return {"x": x.tolist(), "y": y.tolist()}

    def predict(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of f at x (m,), by dense solves.

        Args:
            x: Places, (m,).
        """
        x = np.asarray(x, dtype=float)
        places, y = _observations()
        rows = (np.arange(PLACES) % 3 == 0) & (places <= self.end + 1e-9)
        seen = places[rows]
        cross = self._prior(x, seen)
        K = self._prior(seen, seen) + self.noise * np.eye(len(seen))
        variance = np.diag(self._prior(x, x)) - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
        return cross @ np.linalg.solve(K, y[rows]), np.sqrt(np.maximum(variance, 0))

    def _prior(self, x: Floats, z: Floats) -> Floats:
        k = StationaryKernel(self.kernel, self.lengthscale)(x[:, None], z[:, None])
        return k + LINE * (1 + np.outer(x, z)) if self.drift == "line" else k


def _observations() -> tuple[Floats, Floats]:
    """Return places (121,) and observations (121,), of which every third may be data."""
    x = np.linspace(0, LAST, PLACES).round(6)
    noise = SD * np.random.default_rng(1).standard_normal(PLACES)
    return x, (np.sin(5 * x) + 0.7 * x - 0.5 + noise).round(4)
