"""Leave-one-out predictions of a fitted model, from K⁻¹ instead of n fits (Rasmussen & Williams, section 5.4.2).

With w = K⁻¹(y − μ) and sᵢ the i-th diagonal entry of K⁻¹, yᵢ given all other rows has the mean yᵢ − wᵢ/sᵢ and the
variance 1/sᵢ. One solve K v = eᵢ gives sᵢ; an unfinished v gives 2vᵢ − vᵀKv, which is below sᵢ by an error of second
order. With many rows 1/sᵢ is the variance given the rows near i where that has settled (`neighbour_variances.py`): it
is above that given all. Either way predictions look too inaccurate and too uncertain, never too good.

With a drift Fβ, whose β is estimated again without the row, K⁻¹ becomes K⁻¹ − WA⁻¹Wᵀ with W = K⁻¹F and A = FᵀK⁻¹F; w
stays K⁻¹(y − Fβ).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from apviz.gp import metrics
from apviz.gp.prediction.points import FEWER_AT_ONCE
from apviz.memory import explained
from apviz.settings import in_full_precision, require, require_whole
from apviz.solvers import Hook

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of training rows, each from all other rows, in the target's units.

    Args:
        rows: (m,) training rows.
        target: (m,) observations y.
        mean, std: (m,) mean and standard deviation of these observations.
    """

    rows: NDArray[np.int64]
    target: Array
    mean: Array
    std: Array

    @property
    def rmse(self) -> float:
        """Root mean squared error."""
        return metrics.rmse(self.mean, self.target)

    @property
    def negative_log_likelihood(self) -> float:
        """Average −log p(y) over rows, in nats."""
        unit = float(self.std.max())  # no square overflows
        return metrics.negative_log_likelihood(
            self.mean / unit, (self.std / unit) ** 2, self.target / unit
        ) + float(np.log(unit))  # fmt: skip

    def coverage(self, level: float) -> float:
        """Return the share of observations within their interval of this level."""
        return float((np.abs(self.target - self.mean) <= norm.ppf(0.5 + level / 2) * self.std).mean())


def leave_one_out(gp: GaussianProcess, count: int, seed: int = 0, hooks: Iterable[Hook] = ()) -> LeftOut:
    """Predict at most `count` random training rows from all other rows, at the hyperparameters of all rows."""
    require_whole("count", count, 1)
    posterior, scaling = gp.posterior_, gp.scaling_
    outputs = 1 if gp.rows_.y.ndim == 1 else gp.rows_.y.shape[1]
    require(outputs == 1, "the model", f"{outputs} outputs", "of one output: fit one model for each")
    n = posterior.system.n
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:count].sort().values
    rows = order.to(posterior.system.device)
    with in_full_precision(), explained("leave-one-out", FEWER_AT_ONCE):
        s = posterior.inverse_diagonal(rows, hooks)
    y, s = gp.rows_.y[order], s.cpu()
    if gp.drift_ is not None:
        s = s - (gp.drift_.solved[order] @ gp.drift_.root).square().sum(1)
    target, mean, std = (each.numpy() for each in (y, y - posterior.weights[rows].cpu() / s, s.rsqrt()))
    return LeftOut(
        order.numpy(), scaling.mean + scaling.std * target, scaling.mean + scaling.std * mean, scaling.std * std
    )  # fmt: skip
