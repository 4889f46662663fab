"""What the context says about the accuracy of predictions holds, by dense algebra in float64."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import gpytorch
import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.spatial.distance import cdist
from test_gpytorch_examples import ExactGP, kernels, means

import apviz
from tests.device import DEVICE
from tests.textbook import CORRELATIONS

alternating_projection = apviz.gpytorch.alternating_projection
N, NOISE, LENGTHSCALE = 250, 0.01, 0.3
EARLY = {"block_size": 50, "tol": 0.05}


@dataclass
class Case:
    """A model, its test inputs, and the exact means and deviations of f there, (outputs, m) and (m,)."""

    model: ExactGP
    z: torch.Tensor
    mean: np.ndarray
    sd: np.ndarray


def case(outputs: int | None = None, dtype: torch.dtype = torch.float64) -> Case:
    rng = np.random.default_rng(0)
    x, z = rng.uniform(size=(N, 2)), rng.uniform(-0.2, 1.2, size=(60, 2))
    y = np.sin(6 * x @ rng.normal(size=(2, outputs or 1))).T + 0.1 * rng.standard_normal((outputs or 1, N))
    x, z, y = (each.astype(np.float32).astype(np.float64) for each in (x, z, y))  # what float32 models get too
    batch = torch.Size([] if outputs is None else [outputs])
    kernel = kernels.ScaleKernel(kernels.MaternKernel(2.5))
    kernel.base_kernel.lengthscale, kernel.outputscale = LENGTHSCALE, 1.0
    likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=batch)
    likelihood.noise = NOISE
    given = torch.tensor(x).expand(*batch, N, 2), torch.tensor(y if outputs else y[0])
    model = ExactGP(*(each.to(DEVICE, dtype) for each in given), likelihood, means.ZeroMean(batch), kernel)
    model.to(DEVICE, dtype).eval()
    k, c = (CORRELATIONS["matern52"](cdist(each, x) / LENGTHSCALE) for each in (x, z))
    factor = scipy.linalg.cho_factor(k + NOISE * np.eye(N))
    variance = 1 - np.sum(c.T * scipy.linalg.cho_solve(factor, c.T), 0)
    mean = scipy.linalg.cho_solve(factor, y.T).T @ c.T
    return Case(model, torch.tensor(z).to(DEVICE, dtype), mean, np.sqrt(variance))


def off(found, exact: Case) -> np.ndarray:
    """Return the errors of means in posterior standard deviations."""
    return np.abs(found.mean.double().cpu().numpy() - exact.mean) / exact.sd


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_stated_bounds_contain_the_errors_of_means_and_deviations(outputs, dtype):
    exact = case(outputs, dtype)
    with alternating_projection(**EARLY) as context, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = exact.model(exact.z)
        bound_of_all = context.prediction_accuracy
        sd = found.stddev.double().cpu().numpy()
        accuracy = context.prediction_accuracy
    errors = off(found, exact)
    assert errors.max() > 1e-3
    # results are rounded to the model's dtype
    rounding = torch.finfo(dtype).eps * 100
    assert errors.max() <= accuracy.proven + rounding
    assert np.quantile(errors, 0.95, method="inverted_cdf") <= accuracy.mean_error() + rounding
    assert (sd / exact.sd - 1).max() <= accuracy.sd_errors.max() + rounding
    assert (accuracy.sampled, accuracy.points) == (60 * (outputs or 1),) * 2
    # before a variance is solved for, only the bound of all means is known
    assert (bound_of_all.sampled, bound_of_all.mean_error()) == (0, accuracy.proven)


def test_accuracy_is_a_stopping_rule_in_addition_to_the_tolerance():
    exact = case()
    with alternating_projection(**EARLY, accuracy=1e-4) as context, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = exact.model(exact.z)
        assert context.prediction_accuracy.proven <= 1e-4
    assert off(found, exact).max() <= 1e-4
    with alternating_projection(**EARLY), torch.no_grad(), pytest.warns(UserWarning, match="to stay below 0.05"):
        exact.model(exact.z)


def test_a_sample_says_how_accurate_all_predictions_are():
    exact = case(2)
    with alternating_projection(**EARLY) as context, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = context.measure_accuracy(exact.model, exact.z, count=60)
        errors = off(exact.model(exact.z), exact)
    truth = np.quantile(errors, 0.95, method="inverted_cdf")
    assert truth - 1e-6 <= found.mean_error() <= 1.2 * truth
    assert "95% of means" in str(found)


def test_nothing_is_said_without_a_prediction():
    exact = case()
    with alternating_projection() as context:
        with pytest.raises(ValueError, match="no model has predicted"):
            context.prediction_accuracy  # noqa: B018
        with torch.no_grad():
            exact.model(exact.z)
        exact.model.train()
        with pytest.raises(ValueError, match="no model has predicted"):
            context.prediction_accuracy  # noqa: B018
        with pytest.raises(ValueError, match=r"model.eval\(\)"):
            context.measure_accuracy(exact.model, exact.z)
    with pytest.raises(ValueError, match="accuracy must be a positive"), alternating_projection(accuracy=0.0):
        pass
