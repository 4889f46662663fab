"""Complaints about GPyTorch, each reproduced small: the symptom, the cause that `diagnose` names, the one change, and
after it the distance to Cholesky in float64."""

from __future__ import annotations

import copy
import doctest
import re
import warnings

import gpytorch
import linear_operator
import numpy as np
import pytest
import torch
from gpytorch import settings
from scipy.spatial.distance import cdist
from sklearn.preprocessing import PolynomialFeatures
from test_gpytorch_examples import ExactGP, exactly, kernels, means
from test_gpytorch_no_false_alarm import Multitask

import apviz
from apviz.analysis import Limit
from apviz.gpytorch import copying

diagnose = apviz.gpytorch.diagnose
pytestmark = pytest.mark.filterwarnings("ignore:the value of the marginal")


def gaussian(noise, floor=1e-9, kind=gpytorch.likelihoods.GaussianLikelihood, **given):
    made = kind(noise_constraint=gpytorch.constraints.GreaterThan(floor), **given)
    made.noise = noise
    return made


def rbf(lengthscale, outputscale=1.0):
    made = kernels.ScaleKernel(kernels.RBFKernel())
    made.base_kernel.lengthscale, made.outputscale = lengthscale, outputscale
    return made


def model_of(x, y, noise, kernel, dtype=torch.float64, mean=None):
    x, y = (torch.as_tensor(v).to(dtype) for v in (x, y))
    return ExactGP(x, y, gaussian(noise), mean, kernel).to(dtype)


def uniform(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


def step(model):
    """One step of a training: its loss, its gradients, and what was said."""
    model.train()
    model.likelihood.train()
    model.zero_grad()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        loss = -gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(
            model(*model.train_inputs), model.train_targets
        )
        loss.backward()
    gradient = torch.cat([p.grad.double().reshape(-1) for p in model.parameters()])
    return float(loss.detach()), gradient, [str(w.message) for w in caught]


def predict(model, z):
    """Mean, variance with the noise, that of f before it is clamped, and what was said."""
    model.eval()
    model.likelihood.eval()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        f = model(z)
        found = model.likelihood(f)
        return found.mean, found.variance, f.lazy_covariance_matrix.diagonal(), [str(w.message) for w in caught]


def dense(model, z):
    """Mean and variance with the noise by NumPy, from GPyTorch's kernel in float64."""
    with torch.no_grad(), exactly():
        double = copy.deepcopy(model.train()).double()
        x, y = model.train_inputs[0].double(), model.train_targets.double()
        k = double.covar_module(x).to_dense().numpy()
        c = double.covar_module(x, z.double()).to_dense().numpy()
        own = double.covar_module(z.double()).diagonal(dim1=-1, dim2=-2).numpy()
        mean_x, mean_z = double.mean_module(x).numpy(), double.mean_module(z.double()).numpy()
        noise = float(double.likelihood.noise)
    k += noise * np.eye(len(k))
    solved = np.linalg.solve(k, np.c_[(y.numpy() - mean_x)[:, None], c])
    return mean_z + c.T @ solved[:, 0], own - (c * solved[:, 1:]).sum(0) + noise


def exact_gradient(model):
    double = copy.deepcopy(model.train()).double()
    double.set_train_data(model.train_inputs[0].double(), model.train_targets.double(), strict=False)
    with exactly():
        return step(double)[1]


def far(found, truth):
    """Largest error of a mean in predictive deviations, and largest ratio of variances less 1."""
    mean, variance = (v.double().numpy() for v in found[:2])
    ratio = variance / truth[1]
    return (np.abs(mean - truth[0]) / np.sqrt(truth[1])).max(), np.maximum(ratio, 1 / ratio).max() - 1


def in_float64(model):
    made = copy.deepcopy(model.train()).double()
    made.set_train_data(model.train_inputs[0].double(), model.train_targets.double(), strict=False)
    return made


def terminated(said):
    return [m for m in said if re.match(r"CG terminated in \d+ iterations", m)]


def joint_likelihood_of(model, rows, targets):
    """What `mll` computes of validation rows in eval mode, and what was said."""
    model.eval()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        value = model.likelihood(model(rows)).log_prob(targets)
    return float(value), [str(w.message) for w in caught]


def test_1129_cg_terminates_in_training_where_rows_come_again():
    """gpytorch#1129: residuals far above 1 after 1,000 iterations, a jumping loss; rows are copies of others."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.uniform(0, 1, (425, 1)), 2, axis=0)
    y = np.sin(3 * x[:, 0]) + 1e-2 * rng.standard_normal(len(x))
    matern = kernels.ScaleKernel(kernels.MaternKernel(0.5))
    matern.base_kernel.lengthscale = 0.3
    model, z = model_of(x, y, 1e-7, matern), torch.linspace(0, 1, 30, dtype=torch.float64)
    (said,) = terminated(step(model)[2])
    assert float(re.search(r"residual norm ([\d.e+]+)", said)[1]) > 1
    found = diagnose(model)
    assert found.limit is Limit.COPIES and found.change == {"rows": "distinct"}
    assert "425 of the 850 rows are copies" in found.evidence
    # c copies tell what one row does with the mean of their targets and σ²/c
    fewer = ExactGP(
        torch.tensor(x[::2]), torch.tensor(y.reshape(-1, 2).mean(1)), gaussian(5e-8), kernel=matern
    ).double()
    assert not terminated(step(fewer)[2])
    mean, variance, _, said = predict(fewer, z)
    off = far((mean, variance + 5e-8), dense(model, z))
    assert not terminated(said) and off[0] < 1e-3 and off[1] < 1e-3


def test_1220_cg_terminates_on_normalised_data_in_float64():
    """gpytorch#1220: towards the end of a training, at test rows; its lengthscale and outputscale."""
    x = np.random.default_rng(0).standard_normal((2, 500, 6))
    y = np.sin(x @ np.random.default_rng(1).standard_normal(6) / 6**0.5)
    y = (y - y[0].mean()) / y[0].std()
    model, z = model_of(x[0], y[0], 1e-3, rbf(1.97, 8.84)), torch.tensor(x[1])
    with settings.max_cholesky_size(100):
        assert terminated(joint_likelihood_of(model, z, torch.tensor(y[1]))[1])
        found = diagnose(model)
        assert found.limit is Limit.NOISE and found.change == {"solver": "auto"}
        assert "σ² = 0.001 is 0.0001 of k(x, x)" in found.evidence
        truth, gradient = dense(model, z[:50]), exact_gradient(model)
        assert max(far(predict(model, z[:50]), truth)) > 0.1
        with apviz.gpytorch.alternating_projection():
            assert (step(model)[1] - gradient).norm() < 1e-6 * gradient.norm()
            off = far(predict(model, z[:50]), truth)
    assert off[0] < 1e-3 and off[1] < 1e-3


def test_2045_cg_terminates_in_validation_with_polynomial_features_in_float32():
    """gpytorch#2045: where `mll` is asked for validation rows; interactions of inputs were added as inputs."""
    made = PolynomialFeatures(3, include_bias=False)
    raw = np.random.default_rng(0).uniform(0, 1, (2, 400, 4))
    x, y = np.stack([made.fit_transform(z) for z in raw]), np.sin(3 * raw.sum(2))
    model = model_of(x[0], y[0], 1e-4, rbf(1.5), torch.float32)
    z = torch.tensor(x[1], dtype=torch.float32)
    with settings.max_cholesky_size(100):
        assert terminated(joint_likelihood_of(model, z, torch.tensor(y[1], dtype=torch.float32))[1])
        found = diagnose(model)
        assert found.limit is Limit.NOISE and found.change["solver"] == "auto"
        truth = dense(model, z[:50])
        assert max(far(predict(model, z[:50]), truth)) > 1
        tol = found.change.get("tol", 1e-2)
        with apviz.gpytorch.alternating_projection(solver=apviz.Automatic(tol=tol)):
            off = far(predict(model, z[:50]), truth)
    assert off[0] < 0.15 and off[1] < 0.05


def test_1551_cg_in_float32_runs_on_to_its_cap_and_in_float64_it_converges():
    """gpytorch#1551: CG does not converge for rounding in float32, and runs all of its iterations."""
    x = uniform(400, 2)
    model, z = model_of(x, np.sin(3 * x.sum(1)), 3e-4, rbf(0.3), torch.float32), torch.tensor(uniform(30, 2, 1))
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
    double, z = model_of(x, y, 1e-6, rbf(0.3, 10.0)), torch.linspace(0, 1, 40, dtype=torch.float64)
    assert diagnose(double).limit is Limit.SOUND
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
    z = torch.linspace(0, 1, 50)
    with settings.max_cholesky_size(0):
        assert terminated(predict(model, z)[3])
        found = diagnose(model)
    assert found.limit is Limit.NOISE and found.change == {"dtype": "float64", "solver": "auto"}
    truth, double = dense(model, z), in_float64(model)
    with apviz.gpytorch.alternating_projection():
        off = far(predict(double, z.double()), truth)
    assert off[0] < 1e-3 and off[1] < 1e-3


def test_1304_at_the_default_tolerance_of_one_little_is_solved():
    """gpytorch#1304: a relative residual of 1 is that of W = 0, and the default tolerance in training."""
    x = uniform(850, 2)
    y = np.sin(5 * x[:, 0]) + 0.3 * np.random.default_rng(1).standard_normal(850)
    model, z = model_of(x, y, 1e-2, rbf(0.1)), torch.tensor(uniform(30, 2, 1))
    gradient, truth = exact_gradient(model), dense(model, z)
    assert settings.cg_tolerance.value() == 1 and (step(model)[1] - gradient).norm() > 0.4 * gradient.norm()
    found = diagnose(model)
    assert found.limit is Limit.LOOSE and found.change["cg_tolerance"] == 0.01
    assert "met its tolerance of 1" in found.evidence and found.before.all_residuals > 0.9
    with settings.cg_tolerance(0.01), settings.eval_cg_tolerance(found.change["eval_cg_tolerance"]):
        assert (step(model)[1] - gradient).norm() < 0.05 * gradient.norm()
        off = far(predict(model, z), truth)
    assert off[0] < 0.02 and off[1] < 0.02


def test_1960_predictions_are_noisy_where_products_are_rounded_more_than_the_noise_is_large():
    """gpytorch#1960: on a GPU that rounds products the predictions jump about, more so the smaller the noise."""
    x = np.sort(np.random.default_rng(0).uniform(0, 1, 300))
    z, jumps = torch.linspace(0.2, 0.8, 61), {}
    for noise in (1e-2, 1e-6):
        model = model_of(x, np.sin(6 * x), noise, rbf(0.3, 10.0), torch.float32)
        truth = dense(model, z)
        jumps[noise] = far(predict(model, z), truth)
        found = diagnose(model)
    assert max(jumps[1e-2]) < 0.05 and max(jumps[1e-6]) > 0.5
    assert found.limit is Limit.PRECISION and "ε·λmax" in found.evidence
    off = far(predict(in_float64(model), z.double()), truth)
    assert off[0] < 1e-3 and off[1] < 1e-3


def test_2407_the_loss_is_nan_though_data_and_hyperparameters_are_not():
    """gpytorch#2407: after some steps, as the noise falls, the loss is NaN; here by preconditioned CG in float32."""
    x = np.linspace(0, 1, 600)
    model, z = model_of(x, np.sin(6 * x), 1e-5, rbf(1.0), torch.float32), torch.linspace(0, 1, 20)
    with settings.max_cholesky_size(0), settings.min_preconditioning_size(1):
        assert np.isnan(step(model)[0])
        found = diagnose(model, losses=[1.2, 0.4, float("nan")])
    assert found.limit in (Limit.NOISE, Limit.PRECISION) and found.change["dtype"] == "float64"
    assert "the log likelihood per row is nan" in found.evidence
    double = in_float64(model)
    with apviz.gpytorch.alternating_projection():
        loss, gradient, _ = step(double)
        off = far(predict(double, z.double()), dense(model, z))
    expected = exact_gradient(model)
    assert np.isfinite(loss) and (gradient - expected).norm() < 1e-6 * expected.norm()
    assert off[0] < 1e-3 and off[1] < 1e-3


def test_nan_error_after_a_step_that_was_too_large():
    """linear_operator's NanError, "… elements of the tensor are NaN", where data and raw hyperparameters are finite."""
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
    assert diagnose(model, losses=losses).limit is Limit.SOUND
    z = torch.linspace(0, 1, 20)
    assert max(far(predict(model, z), dense(model, z))) < 0.01


# --- told apart -------------------------------------------------------------------------------------------------------


def waves(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    return x, np.sin(6 * x) + 0.1 * rng.standard_normal(n)


def nan_targets():
    x, y = waves()
    y[[3, 7]] = np.nan
    return model_of(x, y, 0.01, rbf(0.3))


def nan_inputs():
    x, y = waves()
    # a constant column, standardised
    return model_of(np.c_[x, np.full_like(x, np.nan)], y, 0.01, rbf(0.3))


def too_large_a_step():
    model = model_of(*waves(), 0.01, rbf(0.3))
    model.likelihood.noise_covar.raw_noise.data.fill_(float("nan"))
    return model


def timestamps():
    x, y = waves()
    return model_of(1.7e9 + 3600 * x, y, 0.01, rbf(600.0), torch.float32)


def timestamps_in_float64():
    x, y = waves()
    return model_of(1.7e9 + 86400 * 365 * x, y, 0.01, rbf(0.7))


def tolerance_one():
    x = uniform(850, 2)
    return model_of(x, np.sin(5 * x[:, 0]), 1e-2, rbf(0.1))


def duplicates():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.uniform(0, 1, (425, 1)), 2, axis=0)
    matern = kernels.ScaleKernel(kernels.MaternKernel(0.5))
    matern.base_kernel.lengthscale = 0.3
    return model_of(x, np.sin(3 * x[:, 0]) + 1e-2 * rng.standard_normal(850), 1e-7, matern)


def little_noise():
    x = uniform(850, 3)
    return model_of(x, np.sin(5 * x[:, 0]), 1e-5, rbf(1.0))


def targets_in_thousands():
    x, y = waves()
    return model_of(x, 5000 + 1000 * y, 0.01, rbf(0.3))


TOLD = [
    (nan_targets, Limit.TARGETS, "2 of the 200 targets are NaN, the first in row 3"),
    (nan_inputs, Limit.INPUTS, "column 1: 200"),
    (too_large_a_step, Limit.STEP, "likelihood.noise_covar.raw_noise is not finite"),
    (timestamps, Limit.SCALE, "like seconds since 1970"),
    (timestamps_in_float64, Limit.SCALE, "like seconds since 1970"),
    (tolerance_one, Limit.LOOSE, "tolerance of 1"),
    (duplicates, Limit.COPIES, "425 of the 850 rows are copies"),
    (little_noise, Limit.NOISE, "σ² = 1e-05"),
    (targets_in_thousands, Limit.SCALE, "root mean square 4.96e+03"),
]


@pytest.mark.parametrize(("make", "limit", "words"), TOLD, ids=[make.__name__ for make, _, _ in TOLD])
def test_causes_are_told_apart(make, limit, words):
    model = make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    found = diagnose(model)
    assert found.limit is limit and words in found.evidence and found.advice and found.change
    # and nothing of the model, or of the process, is another afterwards
    assert all(torch.equal(value.nan_to_num(), before[name].nan_to_num()) for name, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state) and model.training and model.prediction_strategy is None


def test_nan_inputs_are_named_where_gpytorch_says_that_one_must_train_on_the_training_inputs():
    model = nan_inputs()
    with pytest.raises(RuntimeError, match="You must train on the training inputs"):
        step(model)
    assert "must train on the training inputs" in diagnose(model).evidence


def test_timestamps_are_mended_by_scaling_them_in_float64():
    x, y = waves()
    raw = 1.7e9 + 3600 * x
    assert (
        "different values are left in 200 rows" in diagnose(model_of(raw, y, 0.01, rbf(600.0), torch.float32)).evidence
    )
    scaled = (raw - raw.mean()) / raw.std()
    model = model_of(scaled, y, 0.01, rbf(600.0 / raw.std()), torch.float32)
    assert diagnose(model).limit is Limit.SOUND
    z = torch.tensor(scaled[::5])
    assert (
        max(far(predict(model, z.float()), dense(in_float64(model_of(scaled, y, 0.01, rbf(600.0 / raw.std()))), z)))
        < 0.01
    )


def test_fast_predictive_variances_of_too_low_a_rank_are_named():
    x = uniform(300, 2)
    model, z = model_of(x, np.sin(5 * x[:, 0]), 1e-2, rbf(0.3)), torch.tensor(uniform(30, 2, 1))
    tight = settings.cg_tolerance(1e-2), settings.eval_cg_tolerance(1e-4)
    with settings.max_cholesky_size(100), settings.max_root_decomposition_size(10), tight[0], tight[1]:
        with settings.fast_pred_var():
            assert far(predict(model, z), dense(model, z))[1] > 1
            found = diagnose(model.train(), test_inputs=z)
        assert found.limit is Limit.RANK and found.change == {"fast_pred_var": False}
        assert far(predict(model.train(), z), dense(model, z))[1] < 0.02


def test_losses_that_rose_are_a_step_where_nothing_else_is_off():
    x, y = waves()
    model = model_of(x, y, 0.01, rbf(0.3))
    assert diagnose(model, losses=[1.0, 0.5, 0.4]).limit is Limit.SOUND
    found = diagnose(model, losses=[1.0, 0.4, 9.0])
    assert found.limit is Limit.STEP and "0.4 in step 2, and is 9 in step 3" in found.evidence


def test_inside_the_context_it_is_gpytorch_that_is_measured():
    model = tolerance_one()
    with apviz.gpytorch.alternating_projection():
        assert diagnose(model).limit is Limit.LOOSE


def test_with_more_rows_than_are_measured_it_says_so_and_kappa_is_that_of_all(monkeypatch):
    monkeypatch.setattr(copying, "MEASURED_ROWS", 1200)
    x = uniform(1500, 2)
    found = diagnose(model_of(x, np.sin(5 * x[:, 0]), 1e-3, rbf(0.2)))
    assert (found.rows, found.all_rows) == (1200, 1500) and found.limit is Limit.LOOSE
    assert "Measured on 1,200 of the 1,500 rows" in found.evidence and "σ² = 0.001" in found.evidence
    kappa = np.linalg.eigvalsh(np.exp(-(cdist(x, x) ** 2) / (2 * 0.2**2)) + 1e-3 * np.eye(1500))[-1] / 1e-3
    assert float(re.search(r"κ ≈ λmax/σ² = ([\d.e+]+)", found.evidence)[1]) == pytest.approx(kappa, rel=0.1)


@pytest.mark.parametrize("kind", ["fixed", "several outputs", "batch"])
def test_of_every_kind_of_noise_and_targets_some_rows_can_be_measured(kind, monkeypatch):
    monkeypatch.setattr(copying, "MEASURED_ROWS", 200)
    x, y = torch.tensor(uniform(250, 1)), torch.tensor(uniform(250, 2))
    if kind == "fixed":
        noise = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(torch.full((250,), 0.1, dtype=torch.float64))
        model = ExactGP(x, y[:, 0], noise, kernel=rbf(0.5)).double()
    elif kind == "batch":
        base = kernels.RBFKernel(batch_shape=torch.Size([2]))
        likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=torch.Size([2]))
        model = ExactGP(x, y.T.contiguous(), likelihood, means.ConstantMean(batch_shape=torch.Size([2])), base).double()
    else:
        model = Multitask(x, y, gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = diagnose(model)
    assert (
        found.rows == (100 if kind == "several outputs" else 200)
        and "Not measured" not in str(found)
        and np.isfinite(found.before.mean)
    )
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_that_apviz_does_not_take_is_measured_by_gpytorch_alone():
    class Odd(kernels.RBFKernel):
        """Entries that depend on other rows."""

        def forward(self, x1, x2, **settings):
            return super().forward(x1 / x1.std(), x2 / x1.std(), **settings)

    x, y = waves(300)
    with settings.max_cholesky_size(0), settings.max_cg_iterations(15):
        found = diagnose(model_of(x, y, 1e-6, kernels.ScaleKernel(Odd())))
    assert found.limit is Limit.NOISE and found.change == {"dtype": "float64", "max_cholesky_size": 300}
    assert any("apviz's own solvers could not be tried: TypeError" in remark for remark in found.remarks)


def test_a_kernel_that_is_no_covariance_is_told_by_its_eigenvalue():
    x = uniform(300, 2)
    found = diagnose(model_of(x, np.sin(5 * x[:, 0]), 1e-3, kernels.CosineKernel()))
    assert found.limit is Limit.INDEFINITE and found.before is None
    period = 2 * np.log(2)  # GPyTorch's is half of it, and its first value log 2
    k = np.cos(2 * np.pi * cdist(x, x) / period) + 1e-3 * np.eye(300)
    assert f"between {np.linalg.eigvalsh(k)[0]:.3g} and" in found.evidence


def test_the_figures_are_told_as_text_and_as_html():
    found = diagnose(tolerance_one())
    text, page = str(found), found._repr_html_()
    assert text == repr(found) and "GPyTorch as it is" in text and "with the change" in text
    assert "<table>" in page and found.table()[0]["residual"] in page


def test_what_cannot_be_diagnosed_is_said():
    with pytest.raises(TypeError, match=r"gpytorch.models.ExactGP, got a GaussianLikelihood"):
        diagnose(gaussian(0.1))
    with pytest.raises(ValueError, match="no training data"):
        diagnose(ExactGP(None, None, gaussian(0.1)))


def test_the_trace_tells_the_cause_wherever_it_is_opened(tmp_path):
    found = diagnose(duplicates())
    found.trace.save(tmp_path / "rescue.zarr")
    told = apviz.diagnose(apviz.open_trace(tmp_path / "rescue.zarr"))
    assert (told.limit, told.evidence, told.advice, told.change) == (
        found.limit, found.evidence, found.advice, dict(found.change),
    )  # fmt: skip


def test_the_example_in_its_docstring_holds():
    (example,) = [e for e in doctest.DocTestFinder().find(diagnose, "diagnose") if e.examples]
    assert not doctest.DocTestRunner().run(example).failed
