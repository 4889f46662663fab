"""Issues of GPyTorch, each reproduced on a small model: the symptom, the cause that `diagnose` names, the change, and
the distance to Cholesky in float64 after it."""

from __future__ import annotations

import re
import warnings

import linear_operator
import numpy as np
import pytest
import torch
from gpytorch import settings
from sklearn.preprocessing import PolynomialFeatures

import apviz
from apviz.analysis import Limit
from tests.gpytorch.rescue.models import (
    dense,
    exact_gradient,
    far,
    in_float64,
    model_of,
    on,
    predict,
    rbf,
    step,
    uniform,
)
from tests.gpytorch.test_gpytorch_examples import kernels, means

diagnose = apviz.gpytorch.diagnose
pytestmark = pytest.mark.filterwarnings("ignore:the value of the marginal")


def terminated(said):
    return [m for m in said if re.match(r"CG terminated in \d+ iterations", m)]


def joint_likelihood_of(model, rows, targets):
    """Return the value of `mll` for validation rows in eval mode, and the warnings."""
    model.eval()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        value = model.likelihood(model(rows)).log_prob(targets)
    return float(value), [str(w.message) for w in caught]


@pytest.mark.slow
def test_1129_cg_terminates_in_training_on_duplicate_rows():
    """gpytorch#1129: residuals far above 1 after 1,000 iterations, a jumping loss; rows are duplicates."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.uniform(0, 1, (425, 1)), 2, axis=0)
    y = np.sin(3 * x[:, 0]) + 1e-2 * rng.standard_normal(len(x))
    matern = kernels.ScaleKernel(kernels.MaternKernel(0.5))
    matern.base_kernel.lengthscale = 0.3
    model, z = model_of(x, y, 1e-7, matern), on(torch.linspace(0, 1, 30, dtype=torch.float64))
    (said,) = terminated(step(model)[2])
    assert float(re.search(r"residual norm ([\d.e+]+)", said)[1]) > 1
    found = diagnose(model)
    assert found.limit is Limit.DUPLICATES and found.change == {"rows": "distinct"}
    assert "425 of the 850 rows are duplicates" in found.evidence
    # c duplicates act like one row with the mean of their targets and noise σ²/c
    fewer = model_of(x[::2], y.reshape(-1, 2).mean(1), 5e-8, matern)
    assert not terminated(step(fewer)[2])
    mean, variance, _, said = predict(fewer, z)
    off = far((mean, variance + 5e-8), dense(model, z))
    assert not terminated(said) and off[0] < 1e-3 and off[1] < 1e-3


@pytest.mark.slow
def test_1220_cg_terminates_on_normalised_data_in_float64():
    """gpytorch#1220: towards the end of a training, at test rows; its lengthscale and outputscale."""
    x = np.random.default_rng(0).standard_normal((2, 500, 6))
    y = np.sin(x @ np.random.default_rng(1).standard_normal(6) / 6**0.5)
    y = (y - y[0].mean()) / y[0].std()
    model, z = model_of(x[0], y[0], 1e-3, rbf(1.97, 8.84)), on(torch.tensor(x[1]))
    with settings.max_cholesky_size(100):
        assert terminated(joint_likelihood_of(model, z, on(torch.tensor(y[1])))[1])
        found = diagnose(model)
        assert found.limit is Limit.NOISE and found.change == {"solver": "auto"}
        assert "σ² = 0.001 is 0.0001 of k(x, x)" in found.evidence
        truth, gradient = dense(model, z[:50]), exact_gradient(model)
        assert max(far(predict(model, z[:50]), truth)) > 0.1
        with apviz.gpytorch.alternating_projection():
            assert (step(model)[1] - gradient).norm() < 1e-6 * gradient.norm()
            off = far(predict(model, z[:50]), truth)
    assert off[0] < 1e-3 and off[1] < 1e-3


@pytest.mark.slow
def test_2045_cg_terminates_in_validation_with_polynomial_features_in_float32():
    """gpytorch#2045: `mll` is evaluated on validation rows; interactions of inputs were added as inputs."""
    made = PolynomialFeatures(3, include_bias=False)
    raw = np.random.default_rng(0).uniform(0, 1, (2, 400, 4))
    x, y = np.stack([made.fit_transform(z) for z in raw]), np.sin(3 * raw.sum(2))
    model = model_of(x[0], y[0], 1e-4, rbf(1.5), torch.float32)
    z = on(torch.tensor(x[1], dtype=torch.float32))
    with settings.max_cholesky_size(100):
        assert terminated(joint_likelihood_of(model, z, on(torch.tensor(y[1], dtype=torch.float32)))[1])
        found = diagnose(model)
        assert found.limit is Limit.NOISE and found.change["solver"] == "auto"
        truth = dense(model, z[:50])
        assert max(far(predict(model, z[:50]), truth)) > 1
        tol = found.change.get("tol", 1e-2)
        with apviz.gpytorch.alternating_projection(solver=apviz.Automatic(tol=tol)):
            off = far(predict(model, z[:50]), truth)
    assert off[0] < 0.15 and off[1] < 0.05


@pytest.mark.slow
def test_1551_cg_in_float32_runs_on_to_its_cap_and_in_float64_it_converges():
    """gpytorch#1551: rounding in float32 keeps CG from converging, and it runs all its iterations."""
    x = uniform(400, 2)
    model, z = model_of(x, np.sin(3 * x.sum(1)), 3e-4, rbf(0.3), torch.float32), on(torch.tensor(uniform(30, 2, 1)))
    with settings.max_cholesky_size(100), settings.cg_tolerance(1e-5), settings.eval_cg_tolerance(1e-5):
        assert terminated(step(model)[2])
        found = diagnose(model)
        assert found.limit is Limit.PRECISION and found.change == {"dtype": "float64"}
        assert "float32 missed its tolerance of 1e-05 in training, after 1,000 iterations" in found.evidence
        double = in_float64(model)
        assert not terminated(step(double)[2])
        off = far(predict(double, z), dense(model, z))
    assert off[0] < 1e-3 and off[1] < 0.03


def test_534_a_posterior_in_float32_is_another_than_in_float64():
    """gpytorch#534: a model fitted in float64 predicts badly once it is converted to float32."""
    x = np.sort(np.random.default_rng(0).uniform(0, 1, 100))
    y = np.sin(6 * x) + 1e-3 * np.random.default_rng(1).standard_normal(100)
    double, z = model_of(x, y, 1e-6, rbf(0.3, 10.0)), on(torch.linspace(0, 1, 40, dtype=torch.float64))
    assert diagnose(double).limit is Limit.NOTHING
    single = model_of(x, y, 1e-6, rbf(0.3, 10.0), torch.float32)
    truth = dense(single, z)
    assert max(far(predict(single, z.float()), truth)) > 0.5
    found = diagnose(single)
    assert found.limit is Limit.PRECISION and found.change == {"dtype": "float64"}
    off = far(predict(in_float64(single), z), truth)
    assert off[0] < 1e-3 and off[1] < 1e-3


def test_727_without_noise_cg_terminates_in_a_prediction():
    """gpytorch#727: sin(60x⁴) at 200 points, no noise, in float32 by CG."""
    x = np.linspace(0, 1, 200)
    model = model_of(x, np.sin(60 * x**4), 1e-5, rbf(0.05), torch.float32, means.ZeroMean())
    z = on(torch.linspace(0, 1, 50))
    with settings.max_cholesky_size(0):
        assert terminated(predict(model, z)[3])
        found = diagnose(model)
    # means and variances are in float64 whatever the dtype of the model, so float32 may stay
    assert found.limit is Limit.NOISE and found.change["solver"] == "auto" and "dtype" not in found.change
    truth, tol = dense(model, z), found.change.get("tol")
    with apviz.gpytorch.alternating_projection(solver=apviz.Automatic(tol=tol) if tol else None):
        off = far(predict(model, z), truth)
    assert off[0] < 0.1 and off[1] < 0.1


def test_1304_the_default_tolerance_of_one_solves_little():
    """gpytorch#1304: the default tolerance in training is 1, the relative residual of W = 0."""
    x = uniform(850, 2)
    y = np.sin(5 * x[:, 0]) + 0.3 * np.random.default_rng(1).standard_normal(850)
    model, z = model_of(x, y, 1e-2, rbf(0.1)), on(torch.tensor(uniform(30, 2, 1)))
    gradient, truth = exact_gradient(model), dense(model, z)
    assert settings.cg_tolerance.value() == 1 and (step(model)[1] - gradient).norm() > 0.4 * gradient.norm()
    found = diagnose(model)
    assert found.limit is Limit.LOOSE and found.change["cg_tolerance"] == 0.01
    assert "met its tolerance of 1" in found.evidence and found.before.all_residuals > 0.9
    with settings.cg_tolerance(0.01), settings.eval_cg_tolerance(found.change["eval_cg_tolerance"]):
        assert (step(model)[1] - gradient).norm() < 0.05 * gradient.norm()
        off = far(predict(model, z), truth)
    assert off[0] < 0.02 and off[1] < 0.02


def test_1960_predictions_are_noisy_if_the_rounding_of_products_exceeds_the_noise():
    """gpytorch#1960: on a GPU that rounds products, predictions scatter, the more the smaller the noise."""
    x = np.sort(np.random.default_rng(0).uniform(0, 1, 300))
    z, jumps = on(torch.linspace(0.2, 0.8, 61)), {}
    for noise in (1e-2, 1e-6):
        model = model_of(x, np.sin(6 * x), noise, rbf(0.3, 10.0), torch.float32)
        truth = dense(model, z)
        jumps[noise] = far(predict(model, z), truth)
        found = diagnose(model)
    assert max(jumps[1e-2]) < 0.05 and max(jumps[1e-6]) > 0.5
    assert found.limit is Limit.PRECISION and "ε·λmax" in found.evidence
    off = far(predict(in_float64(model), z.double()), truth)
    assert off[0] < 1e-3 and off[1] < 1e-3


@pytest.mark.slow
def test_2407_the_loss_is_nan_though_data_and_hyperparameters_are_not():
    """gpytorch#2407: after some steps, as the noise falls, the loss is NaN; here by preconditioned CG in float32."""
    x = np.linspace(0, 1, 600)
    model, z = model_of(x, np.sin(6 * x), 1e-5, rbf(1.0), torch.float32), on(torch.linspace(0, 1, 20))
    with settings.max_cholesky_size(0), settings.min_preconditioning_size(1):
        assert np.isnan(step(model)[0])
        found = diagnose(model, losses=[1.2, 0.4, float("nan")])
    assert found.limit in (Limit.NOISE, Limit.PRECISION) and found.change["dtype"] == "float64"
    assert "The log likelihood per row is nan" in found.evidence
    double = in_float64(model)
    with apviz.gpytorch.alternating_projection():
        loss, gradient, _ = step(double)
        off = far(predict(double, z.double()), dense(model, z))
    expected = exact_gradient(model)
    assert np.isfinite(loss) and (gradient - expected).norm() < 1e-6 * expected.norm()
    assert off[0] < 1e-3 and off[1] < 1e-3


def test_nan_error_after_a_step_that_was_too_large():
    """linear_operator raises NanError, "… elements of the tensor are NaN", for finite data and raw hyperparameters."""
    x = np.linspace(0, 1, 60)
    y = np.sin(30 * x) + 0.3 * np.random.default_rng(0).standard_normal(60)

    def trained(lr, steps=30):
        model, losses, raised = model_of(x, y, 0.1, rbf(0.2), torch.float32), [], None
        optimiser = torch.optim.Adam(model.parameters(), lr=lr)
        for _ in range(steps):
            try:
                losses.append(step(model)[0])
            except linear_operator.utils.errors.NanError as error:
                raised = error
                break
            optimiser.step()
        return model, losses, raised

    model, losses, raised = trained(1000.0)
    assert "are NaN" in str(raised) and all(bool(p.isfinite().all()) for p in model.parameters())
    found = diagnose(model, losses=losses)
    assert found.limit is Limit.STEP and "covar_module.base_kernel.lengthscale is 0" in found.evidence
    model, losses, raised = trained(0.1)
    assert raised is None and losses[-1] < losses[0]
    assert diagnose(model, losses=losses).limit is Limit.NOTHING
    z = on(torch.linspace(0, 1, 20))
    assert max(far(predict(model, z), dense(model, z))) < 0.01
