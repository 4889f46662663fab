"""Sample paths and the RKHS norm: that of a sample grows with the number of points, that of a sine settles."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from apviz.kernels import KERNELS
from apviz.rkhs.kernels import Floats, StationaryKernel
from apviz.widgets.live_widget import LiveWidget, choice, log_slider, slider, steps
from apviz.widgets.packing import packed

#: Times that the number of points doubles, from 3 to 129; samples to choose from.
DOUBLINGS: Final = 6
SAMPLES: Final = 5
#: Kernels of which K over 129 points is not singular up to rounding.
ROUGH: Final = ("matern12", "matern32", "matern52")


class SamplePaths(LiveWidget):
    """Squared norm of the shortest function through n values of a sample, and of a sine, as n doubles.

    Attributes:
        doublings: Times that the number of points has doubled: n = 2^(doublings + 1) + 1.
        lengthscale: Lengthscale of k, in units of x; the outputscale is 1.
        kernel: Name of k.
        waves: Periods of the sine on [0, 1].
        sample: Number of the sample, 1 to 5.

    Examples:
        >>> widget = apviz.widgets.SamplePaths(doublings=6)
        >>> sample, sine = widget.norms
        >>> round(float(sample)), round(float(sine), 1)
        (117, 4.6)
    """

    title = "Is a sample in the space?"
    text = (
        "Through n values of a function f runs a shortest function of H, of squared norm fᵀK⁻¹f. If f lies in H, this "
        "number stays below its squared norm, however many points there are. If it grows without end, f does not "
        "lie in H."
    )
    sentence = (
        "After {doublings:doubling} there are [count] points: fᵀK⁻¹f is [sample] for the sample, and [sine] for a "
        "sine of {waves:period}, with {kernel} at lengthscale {lengthscale}."
    )

    doublings = steps(
        "doublings", "Points between the others are added: n = 2ᵏ⁺¹ + 1 after k doublings.", DOUBLINGS, 900
    )
    waves = slider("periods", "The smooth function is f(x) = sin 2πqx with q periods.", 1, 4, 1)
    lengthscale = log_slider(
        "lengthscale", "ℓ, in units of x: k(x, x′) = f(|x − x′| / ℓ); the sample is drawn with it too.", 0.05, 0.5
    )
    kernel = choice(
        "kernel", "Matérn-1/2 has the roughest samples: k(x, x′) = exp(−|x − x′| / ℓ).",
        {name: KERNELS[name].title for name in ROUGH},
    )  # fmt: skip
    sample = slider("sample", "Number of the sample f = Lz, with K = LLᵀ and z ~ N(0, I).", 1, SAMPLES, 1)

    in_sight = ("doublings", "lengthscale")
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "a sample and a sine": {
            "doublings": 2, "waves": 1, "lengthscale": 0.3, "kernel": "matern32", "sample": 1,
        },
        "129 points": {"doublings": 6},
        "a fast sine is long, and in H": {"waves": 4, "doublings": 6},
        "rougher samples": {"kernel": "matern12", "doublings": 6},
    }  # fmt: skip

    @classmethod
    def given(cls) -> dict[str, Any]:
        return {"draws": packed(_draws())}

    @property
    def x(self) -> Floats:
        """Return the points (n,), in increasing order."""
        return np.linspace(0, 1, 2 ** (self.doublings + 1) + 1)

    def gram_between(self, x: Floats, z: Floats) -> Floats:
        """Return k(x, z) of points (n,) and (m,), to (n, m)."""
        return StationaryKernel(self.kernel, self.lengthscale)(x[:, None], z[:, None])

    @property
    def norms(self) -> tuple[float, float]:
        """Return fᵀK⁻¹f of the sample and of the sine, by dense solves."""
        fine, x = _places(), self.x
        path = np.linalg.cholesky(self.gram_between(fine, fine)) @ _draws()[self.sample - 1]
        order, K = np.argsort(fine), self.gram_between(x, x)
        sampled = path[order][np.searchsorted(fine[order], x)]
        first, second = (f @ np.linalg.solve(K, f) for f in (sampled, np.sin(2 * np.pi * self.waves * x)))
        return float(first), float(second)


def _draws() -> Floats:
    """Return normal numbers (samples, places), as float32 has them."""
    numbers = np.random.default_rng(0).standard_normal((SAMPLES, 2 ** (DOUBLINGS + 1) + 1))
    return numbers.astype(np.float32).astype(np.float64)


def _places() -> Floats:
    """Return all places, those of fewer doublings first."""
    found = [0.0, 1.0, 0.5]
    for doubling in range(1, DOUBLINGS + 1):
        found.extend(np.arange(1, 2 ** (doubling + 1), 2) / 2 ** (doubling + 1))
    return np.array(found)
