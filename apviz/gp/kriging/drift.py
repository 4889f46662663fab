"""The drift of universal kriging: basis functions whose unknown coefficients are estimated with the predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.duplicates import DistinctRows
from apviz.settings import require, shown

if TYPE_CHECKING:
    from apviz.gp.prediction.posterior import Posterior

Array = NDArray[np.float64]
#: basis functions by the user: inputs (m, d), to (m, q)
DriftFunction = Callable[[Array], Array]
Drift = Literal["constant", "linear", "quadratic"] | DriftFunction
#: degrees of polynomial drifts by name
DEGREES: Final = {"constant": 0, "linear": 1, "quadratic": 2}


def functions_of(drift: str, d: int) -> int:
    """Return the number of basis functions of a polynomial drift of d inputs."""
    return math.comb(d + DEGREES[drift], d)


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis functions f(x) of a drift, the first of which is 1.

    Polynomials are those of inputs scaled to [−1, 1] over the training rows. This changes their coefficients, and
    neither the drift nor predictions.

    Args:
        drift: `constant`, `linear` or `quadratic`, with all products of two inputs; or a function of inputs (m, d) that
            returns further columns, (m, q).
        centre, half_width: (d,) of the training inputs.
    """

    drift: Drift
    centre: Array
    half_width: Array

    @classmethod
    def of(cls, drift: Drift, x: Array) -> Basis:
        """Return the basis for training inputs x: (n, d)."""
        require(
            callable(drift) or (isinstance(drift, str) and drift in DEGREES), "drift", drift,
            f"one of {', '.join(DEGREES)}, a function of the inputs, or None",
        )  # fmt: skip
        low, high = x.min(axis=0), x.max(axis=0)
        return cls(drift, low / 2 + high / 2, np.where(high > low, high / 2 - low / 2, 1.0))

    def __call__(self, x: Array) -> Tensor:
        """Evaluate all basis functions at x: (m, d), to (m, p) float64.

        Raises:
            ValueError: the user's function returns another shape, or NaN or infinite values.
        """
        return torch.from_numpy(np.column_stack([np.ones(len(x)), *self._columns(x)]))

    def _columns(self, x: Array) -> list[Array]:
        if callable(self.drift):
            found = np.asarray(self.drift(x), dtype=np.float64)
            if found.shape[:1] != (len(x),) or found.ndim > 2 or not np.isfinite(found).all():
                raise ValueError(
                    f"drift must return finite numbers of shape ({len(x)}, q), got shape {shown(found.shape)}"
                )
            return [found.reshape(len(x), -1)]
        u = (x - self.centre) / self.half_width
        powers = range(1, 1 + DEGREES[self.drift])
        chosen = [each for power in powers for each in combinations_with_replacement(range(u.shape[1]), power)]
        return [u[:, each].prod(axis=1) for each in chosen]


@dataclass(frozen=True, eq=False)
class FittedDrift:
    """A drift with its estimated coefficients; tensors are float64, on the CPU.

    Args:
        basis: the basis functions F.
        coefficients: (p,) β.
        solved: (n, p) K⁻¹F, for the training rows.
        root: (p, p) Q with QQᵀ = (FᵀK⁻¹F)⁻¹, the covariance of the coefficients.
        error: bound on the error of `deviations`, in standard deviations of simple kriging.
    """

    basis: Basis
    coefficients: Tensor
    solved: Tensor
    root: Tensor
    error: float

    def mean(self, x: Any) -> Tensor:
        """Return the drift f*ᵀβ at x: (m, d), to (m,)."""
        return self.basis(np.asarray(x, dtype=np.float64)) @ self.coefficients

    def deviations(self, posterior: Posterior, x: Any) -> Tensor:
        """Return (f* − FᵀK⁻¹c)ᵀQ at x: (m, d), to (m, p): its squares sum to the drift's part of the variance."""
        # times Q, products are in the units of the target, in which their error is compared with the noise
        weights = (self.solved @ self.root).to(posterior.system.device)
        parts = [
            self.basis(chunk.cpu().double().numpy()) @ self.root - data.cpu()
            for _, chunk, data in posterior.products(x, weights)
        ]
        return torch.cat([self.root[:0], *parts])


def without_drift(rows: DistinctRows, drift: Drift | None) -> DistinctRows:
    """Return rows with the targets that the least-squares fit of a drift leaves, weighted as the rows are."""
    if drift is None:
        return rows
    x = rows.x.double().numpy()
    functions, weights = Basis.of(drift, x)(x), rows.weights.sqrt()[:, None]
    fitted = torch.linalg.lstsq(weights * functions, weights * rows.y[:, None], driver="gelsd").solution
    return replace(rows, y=rows.y - (functions @ fitted)[:, 0])
