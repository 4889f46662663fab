"""What users of scikit-learn's GaussianProcessRegressor expect; the oracle is that class."""

import math
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import apviz
from apviz.gp import marginal_likelihood_gradient
from apviz.gp.estimator.foreign_settings import INSTEAD
from apviz.gp.estimator.leave_one_out import leave_one_out
from apviz.operators import CountingOperator

GIVEN = apviz.Hyperparameters.of(apviz.RBF(lengthscale=0.5, outputscale=2.0), noise=0.1)


def data(n=40):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(n, 2))
    y = np.stack([np.sin(5 * x[:, 0]), np.cos(3 * x[:, 1]), x.sum(1)], 1) + 0.1 * rng.normal(size=(n, 3))
    return x, y, rng.uniform(size=(7, 2))


# --- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INSTEAD)
def test_settings_of_scikit_learn_say_what_to_use_instead(name):
    with pytest.raises(TypeError, match=f"GaussianProcess has no setting '{name}': "):
        apviz.GaussianProcess(**{name: 1.0})
    with pytest.raises(ValueError, match=f"GaussianProcess has no setting '{name}': "):
        apviz.GaussianProcess().set_params(**{name: 1.0})


def test_a_misspelt_setting_names_the_nearest_one():
    with pytest.raises(TypeError, match="did you mean noise_floor"):
        apviz.GaussianProcess(noise_flor=1e-6)


def test_settings_survive_clones_and_parameters_of_a_kernel_can_be_set():
    gp = apviz.GaussianProcess(RBF(0.5), n_restarts=2)
    assert clone(gp).set_params(kernel__length_scale=0.7).kernel.length_scale == 0.7
    with pytest.raises(ValueError, match="Invalid parameter"):
        gp.set_params(kernel__wrong=1)


# --- before a fit ------------------------------------------------------------------------------------------------


def test_before_a_fit_predictions_are_those_of_the_prior():
    kernel, z = 2.0 * RBF(0.5), data()[2]
    gp, other = apviz.GaussianProcess(kernel), GaussianProcessRegressor(kernel)
    for how in ({}, {"return_std": True}, {"return_cov": True}):
        found, expected = gp.predict(z, **how), other.predict(z, **how)
        for mine, its in zip(*((each if how else (each,)) for each in (found, expected)), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-15)
    noisy = apviz.GaussianProcess(kernel + WhiteKernel(0.3)).predict(z, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy, np.sqrt(2.3))


def test_samples_before_a_fit_have_the_covariance_of_the_prior():
    z = data()[2]
    samples = apviz.GaussianProcess(hyperparameters=GIVEN).sample_y(z, 20_000)
    np.testing.assert_allclose(np.cov(samples), (2.0 * RBF(0.5))(z), atol=0.1)


def test_a_prior_with_given_hyperparameters_has_their_mean():
    h = apviz.Hyperparameters("matern52", (1.0,), 4.0, 0.25, mean=3.0)
    mean, std = apviz.GaussianProcess(hyperparameters=h).predict([[0.0], [9.0]], return_std=True)
    assert mean.tolist() == [3.0, 3.0] and std.tolist() == [2.0, 2.0]


# --- one row -----------------------------------------------------------------------------------------------------


def test_one_row_gives_the_posterior_and_the_likelihood_of_scikit_learn():
    x, _, z = data()
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, scale=False).fit(x[:1], [3.0])
    other = GaussianProcessRegressor(2.0 * RBF(0.5), alpha=0.1, optimizer=None).fit(x[:1], [3.0])
    for mine, its in zip(gp.predict(z, return_std=True), other.predict(z, return_std=True), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-12)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-12)
    assert gp.rows_.n == 1 and gp.rows_.sentence == ""


def test_one_row_trains_nothing_and_says_so(tmp_path):
    x, _, z = data()
    with pytest.warns(UserWarning, match="a single row cannot train hyperparameters"):
        gp = apviz.GaussianProcess(2.0 * RBF(0.5)).fit(x[:1], [3.0], sample_weight=[4.0])
    np.testing.assert_allclose(gp.predict(z), 3.0)
    assert gp.kernel_ == 2.0 * RBF(0.5) and gp.trace_ is None
    gp.save(tmp_path / "one.npz")
    again = apviz.GaussianProcess.load(tmp_path / "one.npz")
    np.testing.assert_array_equal(again.predict(z, return_std=True), gp.predict(z, return_std=True))


# --- several outputs ---------------------------------------------------------------------------------------------


def trained_on_three(**settings):
    x, y, _ = data()
    gp = apviz.GaussianProcess(1.0 * RBF([1.0, 1.0]) + WhiteKernel(0.1), scale=False, **settings)
    return gp.fit(x, y - y.mean(0))


def test_several_outputs_share_a_kernel_as_in_scikit_learn():
    x, y, z = data()
    gp, centred = trained_on_three(), y - y.mean(0)
    shift = gp.hyperparameters_.mean
    other = GaussianProcessRegressor(gp.kernel_, optimizer=None).fit(x, centred - shift)
    mean, std = gp.predict(z, return_std=True, include_noise=True)
    expected, expected_std = other.predict(z, return_std=True)
    np.testing.assert_allclose(mean, expected + shift, atol=1e-7)
    np.testing.assert_allclose(std, expected_std, rtol=1e-6)
    np.testing.assert_allclose(gp.predict(z), mean, atol=1e-12)
    covariance = gp.predict(z, return_cov=True)[1]
    assert covariance.shape == other.predict(z, return_cov=True)[1].shape == (7, 7, 3)
    assert gp.sample_y(z, 5).shape == other.sample_y(z, 5).shape == (7, 3, 5)
    assert gp.score(x, centred) == pytest.approx(other.score(x, centred - shift), abs=1e-6)


def test_the_likelihood_of_several_outputs_and_its_gradient_are_sums():
    x, y, _ = data()
    gp = trained_on_three()
    other = GaussianProcessRegressor(gp.kernel_, optimizer=None).fit(x, y - y.mean(0) - gp.hyperparameters_.mean)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-8)
    theta = gp.theta_ + 0.1
    for mine, its in zip(*(each.log_marginal_likelihood(theta, True) for each in (gp, other)), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5)


def test_outputs_in_other_units_give_the_same_predictions_in_these_units():
    x, y, z = data()
    units, levels = np.array([1.0, 1e6, 1e-3]), np.array([0.0, -5e6, 7.0])
    plain, other = (apviz.GaussianProcess("rbf").fit(x, target) for target in (y, y * units + levels))
    for mine, its, shift in zip(
        other.predict(z, return_std=True), plain.predict(z, return_std=True), (levels, 0.0), strict=True
    ):
        np.testing.assert_allclose(mine, its * units + shift, rtol=1e-6)
    nats = other.negative_log_likelihood(x, y * units + levels) - plain.negative_log_likelihood(x, y)
    assert nats == pytest.approx(np.log(units).sum(), abs=1e-6)
    assert other.kernel_.outputscale == pytest.approx(plain.kernel_.outputscale, rel=1e-4)  # of standardised outputs


@pytest.mark.parametrize("solver", [apviz.ConjugateGradient(tol=1e-10, max_epochs=300), None])
def test_each_output_is_predicted_as_if_it_were_alone(solver):
    x, y, z = data()
    settings = {"hyperparameters": GIVEN, "scale": False, "dtype": "float64", "solver": solver}
    gp = apviz.GaussianProcess(**settings).fit(x, y)
    alone = [apviz.GaussianProcess(**settings).fit(x, column).predict(z) for column in y.T]
    np.testing.assert_allclose(gp.predict(z), np.stack(alone, 1), rtol=1e-7)
    assert gp.mean_error_ < 1e-5 and gp.solution_.converged


def test_adams_gradient_of_several_outputs_is_the_sum_of_theirs():
    x, y, _ = data()
    system = apviz.KernelSystem(x, y, apviz.RBF(lengthscale=0.5), noise=0.1, device="cpu")
    operator, probes = CountingOperator(system.operator), math.sqrt(len(x)) * torch.eye(len(x), dtype=torch.float64)
    k = operator.block(slice(0, len(x)))
    w, of_probes = torch.linalg.solve(k, torch.from_numpy(y)), torch.linalg.solve(k, probes)
    together = marginal_likelihood_gradient(operator, torch.cat([w, of_probes], 1), probes)
    each = [marginal_likelihood_gradient(operator, torch.cat([one[:, None], of_probes], 1), probes) for one in w.T]
    assert together.noise == pytest.approx(sum(one.noise for one in each))
    assert together.mean == pytest.approx(sum(one.mean for one in each))
    for name, found in together.kernel.items():
        torch.testing.assert_close(found, sum(one.kernel[name] for one in each))


def test_adam_trains_several_outputs():
    before, after = (
        trained_on_three(optimiser="adam", max_steps=steps, probes=5, solver=apviz.Cholesky()) for steps in (1, 12)
    )
    assert after.log_marginal_likelihood_value_ > before.log_marginal_likelihood_value_


def test_models_of_several_outputs_survive_files_and_pickles(tmp_path):
    gp, z = trained_on_three(), data()[2]
    gp.save(tmp_path / "model.npz")
    for again in (apviz.GaussianProcess.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(gp))):
        np.testing.assert_array_equal(again.predict(z, return_std=True), gp.predict(z, return_std=True))


def test_one_column_is_one_output():
    x, y, z = data()
    gp = apviz.GaussianProcess(hyperparameters=GIVEN).fit(x, y[:, :1])
    assert gp.predict(z).shape == (7,)
    with pytest.raises(ValueError, match="of one output"):
        leave_one_out(apviz.GaussianProcess(hyperparameters=GIVEN).fit(x, y), 3)


def test_every_fitted_kernel_is_available_in_raw_units():
    x, y, _ = data()
    gp = apviz.GaussianProcess("rbf", ard=False).fit(100 * x, 10 * y[:, 0])
    raw = gp.scaling_.to_raw(gp.hyperparameters_)
    assert gp.kernel_ == raw.build_kernel() and gp.kernel_.lengthscale[0] > 10
