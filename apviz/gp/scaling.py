"""Scaling: inputs to [−1, 1] and a standardised target, as in the paper's preprocessing, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Scaled inputs are (x − centre)/half_width, scaled targets (y − mean)/std.

    Args:
        centre, half_width: (d,) of each input's range; an input of half-width 0 is scaled to 0 wherever it is.
        mean, std: of the target, in its units.
    """

    centre: Array
    half_width: Array
    mean: float
    std: float

    @classmethod
    def of(cls, x: Array, y: Array) -> Scaling:
        """The scaling that the rows suggest: x (n, d), y (n,), n ≥ 2. A constant target is only centred.

        Raises:
            ValueError: targets so large that their variance overflows.
        """
        high, low = x.max(axis=0), x.min(axis=0)
        # halved first: the difference of two finite numbers can be infinite
        centre, half_width = high / 2 + low / 2, high / 2 - low / 2
        with np.errstate(over="ignore", invalid="ignore"):
            mean, std = float(y.mean()), float(y.std(ddof=1))
        if not np.isfinite(std):
            raise ValueError(f"y goes up to {np.abs(y).max():.1e}: its variance overflows float64; scale it first")
        # of equal numbers the mean, and so the deviation, may be off by rounding
        return cls(centre, half_width, mean, std if y.min() < y.max() else 1.0)

    @classmethod
    def none(cls, d: int) -> Scaling:
        """Leaves everything as it is."""
        return cls(np.zeros(d), np.ones(d), 0.0, 1.0)

    def inputs(self, x: Array) -> Array:
        """x: (m, d), to the same shape."""
        return np.divide(x - self.centre, self.half_width, out=np.zeros_like(x), where=self.half_width > 0)

    def targets(self, y: Array) -> Array:
        """y: (m,), to the same shape."""
        return (y - self.mean) / self.std
