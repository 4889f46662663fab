"""Scaling as in the paper: inputs to [−1, 1], a standardised target; and models in raw or scaled units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apviz.hyperparameters import Hyperparameters
from apviz.kernels.algebra import multiplied
from apviz.rounding import lost, unit

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map to scaled inputs (x − centre)/half_width and scaled targets (y − mean)/std, and back.

    Args:
        centre, half_width: (d,) centre and half-width of each input's range. Half-width 0 maps all values to 0.
        mean, std: mean and standard deviation of the target, in its units; (p,) each for p targets.
    """

    centre: Array
    half_width: Array
    mean: Any
    std: Any

    @classmethod
    def of(cls, x: Array, y: Array) -> Scaling:
        """Compute the scaling of rows x: (n, d), y: (n,) or (n, p). A constant target is only centred.

        Inputs of a single row are not scaled.

        Raises:
            ValueError: one target value is so large that others lose their digits, or the standard deviation of the
                target is not a float64 number.
        """
        if y.ndim == 2:
            each = [cls.of(x, column) for column in y.T]
            return replace(each[0], mean=np.array([one.mean for one in each]), std=np.array([one.std for one in each]))
        if len(x) == 1:
            return replace(cls.none(x), mean=float(y[0]))
        high, low = x.max(axis=0), x.min(axis=0)
        # halve first: the difference of two finite numbers can overflow
        centre, half_width = high / 2 + low / 2, high / 2 - low / 2
        whole, exponent = unit(y)
        with np.errstate(over="ignore", under="ignore"):
            mean, std = (float(np.ldexp(value, exponent)) for value in (whole.mean(), whole.std(ddof=1)))
        # rounding may give equal numbers a positive deviation
        scaling = cls(centre, half_width, mean, std if y.min() < y.max() else 1.0)
        if not np.finfo(np.float64).tiny <= scaling.std < np.inf:
            raise ValueError(
                f"the standard deviation of y overflows or underflows float64 (max |y| = {np.abs(y).max():.1e}); scale "
                "y first"
            )
        worst = lost(("y",), y[:, None], scaling.targets(y)[:, None])
        if worst:
            raise ValueError(f"{worst[0]}. Correct or drop such rows, or take the logarithm of y")
        return scaling

    @classmethod
    def none(cls, x: Array) -> Scaling:
        """Return the identity scaling for inputs x: (n, d)."""
        return cls(np.zeros(x.shape[1]), np.ones(x.shape[1]), 0.0, 1.0)

    def with_common_units(self) -> Scaling:
        """Return the scaling with one standard deviation for all targets, the root of their mean variance."""
        if not np.ndim(self.std):
            return self
        largest = float(self.std.max())  # no square overflows
        common = largest * float(np.sqrt(np.mean((self.std / largest) ** 2)))
        return replace(self, std=np.full_like(self.std, common))

    def of_model(self) -> Scaling:
        """Return the scaling of the model, which several targets share: their units if these are common, else none.

        The prior mean of several targets is relative to the mean of each.
        """
        if not np.ndim(self.std):
            return self
        is_common = bool((self.std == self.std[0]).all())
        return replace(self, mean=0.0, std=float(self.std[0]) if is_common else 1.0)

    def with_inputs_as_given(self) -> Scaling:
        """Return the scaling of the target alone."""
        return replace(self, centre=np.zeros_like(self.centre), half_width=np.ones_like(self.half_width))

    def to_scaled(self, h: Hyperparameters) -> Hyperparameters:
        """Convert hyperparameters from raw to scaled units. The model stays the same.

        Several targets with different units have no common raw unit: their model stays in standardised units.

        A lengthscale shared by columns with different half-widths becomes one lengthscale for each column.

        Raises:
            ValueError: the kernel has no counterpart in scaled units. It depends on the origin of an input that is
                centred; it needs inputs in their own units, as `apviz.Groups` and user code do; or it uses an input
                that does not vary in the training rows, which scaling maps to 0. `scale=False` accepts every kernel.

        Examples:
            >>> import numpy as np, apviz
            >>> year = np.linspace(1960, 2020, 61)[:, None]
            >>> scaling = apviz.gp.Scaling.of(year, year[:, 0])  # to (year − 1990)/30
            >>> h = apviz.Hyperparameters.of(apviz.Periodic(period=15.0), noise=0.1)
            >>> scaling.to_scaled(h).kernel.period
            0.5
            >>> scaling.to_raw(scaling.to_scaled(h)).kernel.period
            15.0
        """
        if np.ndim(self.std):
            return self.of_model().to_scaled(h)
        constant = self.half_width == 0
        kernel = h.build_kernel()
        centre, units = self.centre.tolist(), [np.where(constant, u, self.half_width).tolist() for u in (1.0, 2.0)]
        in_any_units = [kernel.rescaled(centre, unit) for unit in units]
        if in_any_units[0] != in_any_units[1]:
            raise ValueError(
                f"{kernel!r} uses column {int(constant.argmax())}, which does not vary in the training rows, and "
                "scaling ignores such columns; drop it, or use scale=False"
            )
        std = self.std
        return replace(
            Hyperparameters.of(multiplied(in_any_units[0], std**-2), h.noise / std**2, provenance=h.provenance),
            mean=(h.mean - self.mean) / std,
        )

    def to_raw(self, h: Hyperparameters) -> Hyperparameters:
        """Convert hyperparameters from scaled units, as in `GaussianProcess.hyperparameters_`, to raw units.

        Raises:
            ValueError: as in `to_scaled`.
        """
        if np.ndim(self.std):
            return self.of_model().to_raw(h)
        varying = self.half_width > 0
        unit = 1.0 / np.where(varying, self.half_width, 1.0)
        back = Scaling(np.where(varying, -self.centre * unit, 0.0), np.where(varying, unit, 0.0), 0.0, 1.0 / self.std)
        raw = back.to_scaled(replace(h, mean=0.0))
        return replace(raw, mean=self.mean + self.std * h.mean)

    def inputs(self, x: Array) -> Array:
        """Scale inputs x: (m, d), to the same shape."""
        # halved, because the difference may overflow
        return np.divide(
            x / 2 - self.centre / 2, self.half_width / 2, out=np.zeros_like(x), where=self.half_width > 0
        )  # fmt: skip

    def targets(self, y: Array) -> Array:
        """Scale targets y: (m,) or (m, p), to the same shape."""
        scaled: Array = (y / 2 - self.mean / 2) / (self.std / 2)
        return scaled
