"""Scaling: inputs to [−1, 1] and a standardised target, as in the paper's preprocessing, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apviz.rounding import lost, unit

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Maps to scaled inputs (x − centre)/half_width and scaled targets (y − mean)/std, and back.

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
        """Makes the scaling that the rows suggest: x (n, d), y (n,), n ≥ 2. A constant target is only centred.

        Raises:
            ValueError: a target of which one value leaves no room for the others, or whose deviation is no number of
                float64.
        """
        high, low = x.max(axis=0), x.min(axis=0)
        # halved first: the difference of two finite numbers can be infinite
        centre, half_width = high / 2 + low / 2, high / 2 - low / 2
        whole, exponent = unit(y)
        with np.errstate(over="ignore", under="ignore"):
            mean, std = (float(np.ldexp(value, exponent)) for value in (whole.mean(), whole.std(ddof=1)))
        # of equal numbers the mean, and so the deviation, may be off by rounding
        scaling = cls(centre, half_width, mean, std if y.min() < y.max() else 1.0)
        if not np.finfo(np.float64).tiny <= scaling.std < np.inf:
            raise ValueError(
                f"y goes up to {np.abs(y).max():.1e}: float64 has no room for its deviation; scale it first"
            )
        worst = lost(("y",), y[:, None], scaling.targets(y)[:, None])
        if worst:
            raise ValueError(f"{worst[0]}. Correct or drop such rows, or take the logarithm of y")
        return scaling

    @classmethod
    def none(cls, x: Array) -> Scaling:
        """Makes the scaling that leaves the units and centres x: (n, d), which no kernel sees but rounding does."""
        high, low = x.max(axis=0), x.min(axis=0)
        return cls(high / 2 + low / 2, np.ones(x.shape[1]), 0.0, 1.0)

    def inputs(self, x: Array) -> Array:
        """Scales inputs x: (m, d), to the same shape."""
        # halved, for the difference may overflow
        return np.divide(
            x / 2 - self.centre / 2, self.half_width / 2, out=np.zeros_like(x), where=self.half_width > 0
        )  # fmt: skip

    def targets(self, y: Array) -> Array:
        """Scales targets y: (m,), to the same shape."""
        return (y / 2 - self.mean / 2) / (self.std / 2)
