"""The posterior of an estimator: of one output, with a drift, or of several outputs; solved, or from its weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from apviz.duplicates import DistinctRows
from apviz.gp.estimator.choices import DTYPES
from apviz.gp.kriging.drift import FittedDrift
from apviz.gp.kriging.kriging import Kriging
from apviz.gp.prediction.posterior import Posterior
from apviz.hyperparameters import Hyperparameters
from apviz.solvers import Hook, Solution, StopReason

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess


@dataclass(frozen=True, eq=False)
class Outputs:
    """Means of p outputs; `first` is the posterior of the first and has the variances of all, in scaled units.

    Args:
        first: posterior of the first output.
        weights: (n, p) float64, K⁻¹ times the targets minus the mean.
        solution: result of the solve for the output with the largest error.
        mean_error: largest bound on the error of a predicted mean, in posterior standard deviations.
    """

    first: Posterior
    weights: Tensor
    solution: Solution
    mean_error: float

    @classmethod
    def of(cls, first: Posterior, targets: Tensor, hooks: Iterable[Hook] = ()) -> Outputs:
        """Solve for the outputs after the first, all at once, then each to the tolerance that its means need."""
        hooks, others = list(hooks), targets[:, 1:].to(first.system.device)
        # with a factor of K, a solve for each output takes no longer
        start: list[Tensor | None] = [None] * others.shape[1]
        if not first.has_factor:
            start = list(first.attempt(others - first.hyperparameters.mean, first.solver, hooks).weights.T)
        each = [first]
        for y, guess in zip(others.T, start, strict=True):
            is_finite = guess is not None and bool(torch.isfinite(guess).all())
            each.append(first.with_targets(y, hooks, guess if is_finite else None))
        worst = max(each, key=lambda one: one.mean_error)
        assert worst.solution is not None  # just solved
        return cls(first, torch.stack([one.weights for one in each], 1), worst.solution, worst.mean_error)

    def mean(self, x_star: object) -> Tensor:
        """Predict the means at x_star: (m, d), to (m, p)."""
        parts = [data for _, _, data in self.first.products(x_star, self.weights)]
        return torch.cat([self.weights[:0], *parts]) + self.first.hyperparameters.mean


class Solved(NamedTuple):
    """What `fit` solved for; with several outputs, solution and error are those of the one with the largest error."""

    posterior: Posterior
    drift: FittedDrift | None
    outputs: Outputs | None
    solution: Solution
    mean_error: float


def solved(gp: GaussianProcess, rows: DistinctRows, h: Hyperparameters, hooks: list[Hook]) -> Solved:
    """Solve for the mean of all outputs, and for the drift if the estimator has one.

    Raises:
        RuntimeError: the solve diverged.
    """
    settings = _settings(gp, rows, h, DTYPES.get(gp.dtype, "auto")) | {"hooks": hooks}
    if gp.drift is None:
        drift, posterior = None, Posterior(rows.x, _first(rows.y), h, **settings)
        solution, error = posterior.solution, posterior.mean_error
    else:
        degree: Any = gp.drift
        kriging = Kriging(rows.x, rows.y, h, drift=degree, **settings)
        drift, posterior, error = kriging.fitted_drift, kriging.posterior, kriging.mean_error
        solution = posterior.solution
    outputs = None if rows.y.ndim == 1 else Outputs.of(posterior, rows.y, hooks)
    if outputs is not None:
        solution, error = outputs.solution, outputs.mean_error
    assert solution is not None  # without given weights there was a solve
    if solution.stop_reason is StopReason.DIVERGED:
        raise RuntimeError(f"the solve for the mean {solution.stop_message}")
    return Solved(posterior, drift, outputs, solution, error)


def _settings(gp: GaussianProcess, rows: DistinctRows, h: Hyperparameters, dtype: Any) -> dict[str, Any]:
    return {
        "solver": gp.solver, "accuracy": gp.accuracy, "noises": rows.noises(h.noise), "dtype": dtype,
        "device": gp.device, "operator": gp.operator,
    }  # fmt: skip


def _first(values: Tensor) -> Tensor:
    return values if values.ndim == 1 else values[:, 0]


def restore(gp: GaussianProcess, weights: Tensor, dtype: torch.dtype) -> None:
    """Set the posterior of an estimator from its rows and weights, (n,) or (n, p), without a solve."""
    rows, h = gp.rows_, gp.hyperparameters_
    if gp.drift_ is not None:
        rows, h = replace(rows, y=rows.y - gp.drift_.mean(rows.x)), replace(h, mean=0.0)
    gp.posterior_ = Posterior(rows.x, _first(rows.y), h, weights=_first(weights), **_settings(gp, rows, h, dtype))
    gp.posterior_.system.operator.fix_engine(0.0, 1)  # without a solve nothing else fixes the engine
    gp._outputs = gp._likelihood = None
    if weights.ndim == 2:
        on_device = weights.to(gp.posterior_.weights)
        gp._outputs = Outputs(gp.posterior_, on_device, gp.solution_, gp.mean_error_)


def solved_weights(gp: GaussianProcess) -> Tensor:
    """Return K⁻¹(y − μ) of a fitted estimator, (n,) or (n, p), on the CPU."""
    return (gp.posterior_.weights if gp._outputs is None else gp._outputs.weights).cpu()
