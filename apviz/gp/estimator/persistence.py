"""Fitted estimators in files and in pickles: the weights and the rows, without the posterior's n × n numbers."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from apviz.duplicates import DistinctRows
from apviz.gp.estimator import saved
from apviz.gp.estimator.fitting import check_settings, fitted_kernel
from apviz.gp.estimator.outputs import Outputs
from apviz.gp.kriging.kriging import Kriging
from apviz.gp.prediction.posterior import Posterior
from apviz.hyperparameters import Hyperparameters

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

Estimator = TypeVar("Estimator", bound="GaussianProcess")

# These settings belong to a machine and a run, not to the model. They are not saved.
LOCAL = ("path", "device")


def posterior_of(
    gp: GaussianProcess, rows: DistinctRows, h: Hyperparameters, dtype: torch.dtype | Literal["auto"], **how: Any
) -> Posterior:
    """Return the posterior of the first output, by the estimator's settings. `how` is passed on."""
    targets = rows.y if rows.y.ndim == 1 else rows.y[:, 0]
    return Posterior(rows.x, targets, h, **_settings(gp, rows, h, dtype), **how)


def kriging_of(
    gp: GaussianProcess, rows: DistinctRows, h: Hyperparameters, dtype: torch.dtype | Literal["auto"], **how: Any
) -> Kriging:
    """Return the posterior with the estimator's drift, as `posterior_of` does without one."""
    drift: Any = gp.drift
    return Kriging(rows.x, rows.y, h, drift=drift, **_settings(gp, rows, h, dtype), **how)


def _settings(
    gp: GaussianProcess, rows: DistinctRows, h: Hyperparameters, dtype: torch.dtype | Literal["auto"]
) -> dict[str, Any]:
    return {
        "solver": gp.solver, "accuracy": gp.accuracy, "noises": rows.noises(h.noise), "dtype": dtype,
        "device": gp.device, "operator": gp.operator,
    }  # fmt: skip


def restore(gp: GaussianProcess, weights: Tensor, dtype: torch.dtype) -> None:
    """Set the posterior of an estimator from its rows and weights, (n,) or (n, p), without a solve."""
    first = weights if weights.ndim == 1 else weights[:, 0]
    rows, h = gp.rows_, gp.hyperparameters_
    if gp.drift_ is not None:
        rows, h = replace(rows, y=rows.y - gp.drift_.mean(rows.x)), replace(h, mean=0.0)
    gp.posterior_ = posterior_of(gp, rows, h, dtype, weights=first)
    gp.posterior_.system.operator.fix_engine(0.0, 1)  # without a solve nothing else fixes the engine
    gp._outputs = gp._likelihood = None
    if weights.ndim == 2:
        on_device = weights.to(gp.posterior_.weights)
        gp._outputs = Outputs(gp.posterior_, on_device, gp.solution_, gp.mean_error_)


def weights_of(gp: GaussianProcess) -> Tensor:
    """Return K⁻¹(y − μ) of a fitted estimator, (n,) or (n, p), on the CPU."""
    return (gp.posterior_.weights if gp._outputs is None else gp._outputs.weights).cpu()


def save(gp: GaussianProcess, path: str | Path) -> None:
    """Write a fitted estimator to a file."""
    settings = {name: value for name, value in gp.get_params(deep=False).items() if name not in LOCAL}
    del settings["hyperparameters"]
    if isinstance(gp.random_state, np.random.RandomState):
        settings["random_state"] = None
    names = getattr(gp, "feature_names_in_", None)
    saved.write(
        path,
        saved.Saved(
            settings, gp.rows_, gp.hyperparameters_, gp.hyperparameters is not None,
            replace(gp.solution_, weights=weights_of(gp)), gp.mean_error_, gp.scaling_,
            None if names is None else tuple(names), gp.posterior_.system.dtype, gp.target_name_, gp.columns_,
            gp.drift_,
        ),
    )  # fmt: skip


def load(kind: type[Estimator], path: str | Path, device: str) -> Estimator:
    """Read an estimator of this class from a file."""
    found = saved.read(path)
    known = set(kind().get_params(deep=False)) - {*LOCAL, "hyperparameters"}
    if set(found.settings) != known:
        raise ValueError(f"{path}: the settings must be {', '.join(sorted(known))}")
    gp = kind(**found.settings, hyperparameters=found.hyperparameters if found.given else None, device=device)
    try:
        check_settings(gp)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    gp.rows_, gp.n_features_in_ = found.rows, found.rows.x.shape[1]
    if found.feature_names is not None:
        gp.feature_names_in_ = np.array(found.feature_names, dtype=object)
    gp.hyperparameters_, gp.trace_ = found.hyperparameters, None
    gp.target_name_, gp.columns_ = found.target_name, found.columns
    gp.scaling_, gp.solution_, gp.mean_error_ = found.scaling, found.solution, found.mean_error
    gp.drift_ = found.drift
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `fit` has warned about values at their bounds
        gp.kernel_ = fitted_kernel(gp, found.hyperparameters, found.scaling, gp.n_features_in_)
    restore(gp, found.solution.weights, found.dtype)
    return gp
