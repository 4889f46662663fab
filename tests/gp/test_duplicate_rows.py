"""Equal inputs and weights in the regressor: against dense float64 algebra and scikit-learn on all rows."""

from __future__ import annotations

import logging
import pickle
import warnings

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

import apviz
from apviz.gp.estimator.fitting import theta_of
from apviz.operators import CountingOperator
from tests.device import DEVICE

EXACT = {"solver": apviz.Cholesky(tol=1e-12), "dtype": "float64", "device": DEVICE, "scale": False}
GIVEN = apviz.Hyperparameters("matern52", (0.4, 0.9), 1.3, 0.05, 0.2)


def data(n=120, places=30, seed=0):
    """Return n rows at `places` distinct inputs, the places with different numbers of rows."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (places, 2))
    x = points[np.minimum(rng.geometric(3 / places, n) - 1, places - 1)]
    return x, np.sin(3 * x[:, 0]) + x[:, 1] + 0.3 * rng.standard_normal(n)


def points():
    return np.random.default_rng(9).uniform(-1, 1, (25, 2))


def oracle(x, y, noises, h=GIVEN):
    """Return scikit-learn's regressor on all rows."""
    kernel = ConstantKernel(h.outputscale) * Matern(h.lengthscale, nu=2.5)
    return GaussianProcessRegressor(kernel, alpha=noises, optimizer=None).fit(x, y - h.mean)


def density(x, y, weights, theta, names):
    """Return log p(y) of all rows at θ, from SciPy, the kernel's formula and the names of θ."""
    at = dict(zip(names, np.exp(theta), strict=True))
    lengthscale = np.array([at["lengthscale[0]"], at["lengthscale[1]"]])
    r = np.sqrt(5) * np.linalg.norm((x[:, None] - x[None]) / lengthscale, axis=2)
    k = at["outputscale"] * (1 + r + r**2 / 3) * np.exp(-r) + np.diag(at["noise"] / weights)
    return scipy.stats.multivariate_normal(np.full(len(x), GIVEN.mean), k).logpdf(y)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["counts", "weights"])
def test_predictions_and_likelihood_are_those_of_all_rows(is_weighted):
    x, y = data()
    weights = np.random.default_rng(3).lognormal(0, 1, len(x)) if is_weighted else np.ones(len(x))
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(x, y, weights if is_weighted else None)
    model = oracle(x, y, GIVEN.noise / weights)
    mean, deviation = model.predict(points(), return_std=True)
    found, std = gp.predict(points(), return_std=True)
    np.testing.assert_allclose(found, mean + GIVEN.mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(std**2, deviation**2, rtol=1e-10, atol=1e-10)
    _, covariance = gp.predict(points(), return_cov=True)
    np.testing.assert_allclose(covariance, model.predict(points(), return_cov=True)[1], rtol=1e-9, atol=1e-10)
    assert gp.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-10)
    held_out = np.sin(points()[:, 0])
    expected = -scipy.stats.norm.logpdf(held_out, mean + GIVEN.mean, np.sqrt(deviation**2 + GIVEN.noise)).mean()
    assert gp.negative_log_likelihood(points(), held_out) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["counts", "weights"])
def test_the_gradient_of_the_likelihood_is_that_of_all_rows(is_weighted):
    x, y = data()
    weights = np.random.default_rng(3).lognormal(0, 1, len(x)) if is_weighted else np.ones(len(x))
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(x, y, weights)
    names, theta = theta_of(gp)
    value, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(density(x, y, weights, theta, names), rel=1e-10)
    for place in range(len(theta)):
        # differences of fourth order
        at = [theta + step * 1e-3 * np.eye(len(theta))[place] for step in (-2, -1, 1, 2)]
        values = np.array([density(x, y, weights, each, names) for each in at])
        assert gradient[place] == pytest.approx(values @ [1, -8, 8, -1] / 12e-3, rel=1e-7, abs=1e-7)
    other = theta + np.array([0.3, -0.2, 0.1, 0.2])
    assert gp.log_marginal_likelihood(other) == pytest.approx(density(x, y, weights, other, names), rel=1e-10)


def test_the_gradient_in_the_noise_is_scikit_learns_to_ten_digits():
    from sklearn.gaussian_process.kernels import WhiteKernel

    x, y = data()
    theirs = ConstantKernel(1.3) * Matern([0.4, 0.9], nu=2.5) + WhiteKernel(0.05)
    model = GaussianProcessRegressor(theirs, alpha=0, optimizer=None).fit(x, y - GIVEN.mean)
    _, expected = model.log_marginal_likelihood(theirs.theta, eval_gradient=True)
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(x, y)
    _, gradient = gp.log_marginal_likelihood(eval_gradient=True)
    mine = dict(zip(gp.theta_names_, gradient, strict=True))
    found = [mine[name] for name in ("outputscale", "lengthscale[0]", "lengthscale[1]", "noise")]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_5050_rows_at_101_inputs_are_solved_as_101_which_is_said(caplog):
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 101).repeat(50)[:, None]
    y = np.sin(6 * x[:, 0]) + 0.5 * rng.standard_normal(5050)
    h = apviz.Hyperparameters("matern52", (0.3,), 1.0, 0.25)
    with caplog.at_level(logging.INFO, "apviz"):
        gp = apviz.GaussianProcess(hyperparameters=h, **EXACT).fit(x, y)
    assert gp.rows_.sentence == "5,050 rows at 101 distinct inputs: solved as 101 rows"
    assert gp.rows_.sentence in caplog.messages and gp.posterior_.system.n == 101
    k = apviz.Matern52(lengthscale=0.3)(torch.tensor(x)).numpy() + 0.25 * np.eye(5050)
    z = np.linspace(-0.1, 1.1, 7)[:, None]
    c = apviz.Matern52(lengthscale=0.3)(torch.tensor(x), torch.tensor(z)).numpy()
    factor = scipy.linalg.cho_factor(k, lower=True, overwrite_a=True)
    solved = scipy.linalg.cho_solve(factor, np.column_stack([y, c]))
    mean, std = gp.predict(z, return_std=True)
    np.testing.assert_allclose(mean, c.T @ solved[:, 0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(std**2, 1 - np.sum(c * solved[:, 1:], 0), rtol=1e-10, atol=1e-10)
    value = -0.5 * (y @ solved[:, 0]) - np.log(factor[0].diagonal()).sum() - 2525 * np.log(2 * np.pi)
    assert gp.log_marginal_likelihood() == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("scale", [False, True])
def test_training_ends_at_the_optimum_of_the_likelihood_of_all_rows(scale):
    x, y = data(200, 12)
    y = 50 + 7 * y
    gp = apviz.GaussianProcess(**{**EXACT, "scale": scale}).fit(x, y)
    assert gp.trace_.attrs["n"] == 200 and gp.trace_.attrs["distinct_rows"] == 12
    h = gp.scaling_.to_raw(gp.hyperparameters_)
    names = ("noise", "outputscale", "lengthscale[0]", "lengthscale[1]")
    best = np.log([h.noise, h.outputscale, *h.lengthscale])

    def value(theta, mean=h.mean):
        return density(x, y - mean + GIVEN.mean, np.ones(len(x)), theta, names)

    assert gp.log_marginal_likelihood() == pytest.approx(value(best), rel=1e-9)
    for place in range(4):
        for step in (-0.2, 0.2):
            assert value(best + step * np.eye(4)[place]) < value(best) + 0.02
    assert max(value(best, h.mean - 5), value(best, h.mean + 5)) < value(best) + 0.02


def test_adam_on_merged_rows_ends_near_l_bfgs_in_stages_too():
    x, y = data(400, 40)
    exact = apviz.GaussianProcess(**EXACT).fit(x, y)
    for stages in ((), ((0.5, 30),)):
        gp = apviz.GaussianProcess(**EXACT, optimiser="adam", probes=15, stages=stages).fit(x, y)
        assert gp.log_marginal_likelihood() > exact.log_marginal_likelihood() - 0.01 * 400
        assert gp.hyperparameters_.noise == pytest.approx(exact.hyperparameters_.noise, rel=0.15)


def test_the_stochastic_gradient_with_the_m_scaled_unit_vectors_is_that_of_all_rows():
    from apviz.duplicates import merged
    from apviz.gp.training.gradient import marginal_likelihood_gradient
    from apviz.gp.training.likelihood import exact_marginal_likelihood

    x, y = (torch.tensor(each, device=DEVICE) for each in data())
    rows, m = merged(x, y), len(np.unique(x.cpu(), axis=0))
    identity = m**0.5 * torch.eye(m, dtype=torch.float64, device=DEVICE)
    b = torch.cat([rows.y.to(DEVICE)[:, None] - GIVEN.mean, identity], 1)
    system = apviz.KernelSystem(rows.x, b, GIVEN.build_kernel(), noise=rows.noises(GIVEN.noise), device=DEVICE)
    weights = apviz.solve(system, apviz.Cholesky()).weights
    found = marginal_likelihood_gradient(CountingOperator(system.operator), weights, identity)
    found = found.of_all(rows, GIVEN.noise)
    of_all = exact_marginal_likelihood(x, y, GIVEN).gradient
    assert found.noise == pytest.approx(of_all.noise, rel=1e-9)
    assert found.mean == pytest.approx(of_all.mean, rel=1e-9)
    for name, each in of_all.kernel.items():
        torch.testing.assert_close(found.kernel[name], each, rtol=1e-8, atol=1e-8)


def test_without_equal_inputs_no_bit_of_a_gradient_changes():
    from apviz.duplicates import merged
    from apviz.gp.training.likelihood import exact_marginal_likelihood

    x = torch.rand(60, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = merged(x, torch.sin(6 * x[:, 0]))
    found = exact_marginal_likelihood(rows.x, rows.y, GIVEN, noises=rows.noises(GIVEN.noise))
    of_all = found.of_all(rows, GIVEN.noise)
    assert (of_all.value, of_all.gradient.noise, of_all.gradient.mean) == (
        found.value, found.gradient.noise, found.gradient.mean
    )  # fmt: skip


def test_an_estimated_likelihood_is_that_of_all_rows_within_its_error():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (2_300, 2))[rng.integers(0, 2_300, 6_000)]
    y = np.sin(3 * x[:, 0]) + 0.3 * rng.standard_normal(6_000)
    given = {"hyperparameters": GIVEN, "device": DEVICE, "scale": False}
    gp = apviz.GaussianProcess(solver=apviz.ConjugateGradient(tol=1e-4, max_epochs=2000), probes=5, **given)
    gp.fit(x, y)
    assert 2_000 < gp.posterior_.system.n <= 2_300
    exact = apviz.GaussianProcess(**{**EXACT, "hyperparameters": GIVEN}).fit(x, y).log_marginal_likelihood()
    with pytest.warns(UserWarning, match="is an estimate"):
        found = gp.log_marginal_likelihood()
    assert abs(found - exact) < 4 * gp.log_marginal_likelihood_error_ + 1e-3


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weight_zero_leaves_a_row_out_and_whole_weights_are_repetitions_of_the_row():
    x, y = data(60, 60)
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 4, 60)
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT)
    found = gp.fit(x, y, sample_weight=weights).predict(points(), return_std=True)
    repeated = gp.fit(x.repeat(weights, axis=0), y.repeat(weights)).predict(points(), return_std=True)
    np.testing.assert_allclose(found, repeated, rtol=1e-10, atol=1e-12)
    unscaled = apviz.GaussianProcess(hyperparameters=GIVEN, **{**EXACT, "scale": True})
    x[:3], y[:3] = 1e3, 1e6
    weights[:3] = 0
    found = unscaled.fit(x, y, sample_weight=weights).predict(points())
    kept = weights > 0
    np.testing.assert_array_equal(unscaled.fit(x[kept], y[kept], weights[kept]).predict(points()), found)


def test_one_weight_for_all_rows_divides_the_noise():
    x, y = data()
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(x, y, sample_weight=4)
    less = apviz.Hyperparameters("matern52", (0.4, 0.9), 1.3, 0.05 / 4, 0.2)
    same = apviz.GaussianProcess(hyperparameters=less, **EXACT).fit(x, y)
    np.testing.assert_allclose(gp.predict(points()), same.predict(points()), rtol=1e-11)
    assert gp.log_marginal_likelihood() == pytest.approx(same.log_marginal_likelihood(), rel=1e-12)
    _, std = gp.predict(points(), return_std=True, include_noise=True)
    np.testing.assert_allclose(std**2, gp.predict(points(), return_std=True)[1] ** 2 + 0.05, rtol=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.r_[-1.0, np.ones(119)], "sample_weight must be finite and at least 0, got -1 in row 0, of 1 such"),
        (np.r_[1.0, np.full(119, np.nan)], "sample_weight must be finite and at least 0, got nan in row 1, of 119"),
        (np.zeros(120), "at least 1 row needs a sample_weight above zero, got none"),
        (np.ones(5), r"sample_weight must be one number, or \(120,\): one for each row, got 'shape \(5,\)'"),
    ],
)
def test_wrong_weights_are_rejected(weights, message):
    with pytest.raises(ValueError, match=message):
        apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(*data(), sample_weight=weights)


# --- what else a model does -------------------------------------------------------------------------------------------


def test_saved_and_pickled_models_keep_weights_and_likelihood(tmp_path):
    x, y = data()
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(x, y, np.random.default_rng(3).lognormal(size=120))
    gp.save(tmp_path / "gp.npz")
    expected = gp.predict(points(), return_std=True)
    loaded = apviz.GaussianProcess.load(tmp_path / "gp.npz", device=DEVICE)
    for again in (loaded, pickle.loads(pickle.dumps(gp))):
        np.testing.assert_allclose(again.predict(points(), return_std=True), expected, rtol=1e-9)
        assert again.log_marginal_likelihood() == pytest.approx(gp.log_marginal_likelihood(), rel=1e-13)
        assert again.rows_.n == 120 and again.rows_.sentence == gp.rows_.sentence


def test_samples_have_the_mean_and_deviation_of_the_posterior_of_all_rows():
    x, y = data()
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(x, y)
    mean, std = oracle(x, y, GIVEN.noise).predict(points(), return_std=True)
    drawn = gp.sample_y(points(), 4_000)
    assert np.abs((drawn.mean(1) - mean - GIVEN.mean) / std).max() < 5 / np.sqrt(4_000)
    np.testing.assert_allclose(drawn.std(1), std, rtol=0.07)
    functions = gp.posterior_.samples(4_000)(torch.tensor(points())).cpu().numpy().T
    np.testing.assert_allclose(functions.std(1), std, rtol=0.2)


def test_lanczos_variances_of_full_rank_are_those_of_all_rows():
    x, y = data()
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT, variance="lanczos").fit(x, y)
    _, expected = oracle(x, y, GIVEN.noise).predict(points(), return_std=True)
    np.testing.assert_allclose(gp.predict(points(), return_std=True)[1], expected, rtol=1e-6)


def test_a_fit_that_was_killed_resumes_only_with_the_same_weights(tmp_path):
    x, y = data()
    settings = {**EXACT, "path": tmp_path / "fit.zarr", "max_steps": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = apviz.GaussianProcess(**settings).fit(x, y).hyperparameters_
        assert apviz.GaussianProcess(**settings).fit(x, y).hyperparameters_ == first
        with pytest.raises(ValueError, match="belongs to another training: .*rows was"):
            apviz.GaussianProcess(**settings).fit(x, y, sample_weight=np.linspace(1, 2, 120))


def test_nearly_equal_rows_are_reported_with_a_pair_and_warned_about_if_they_are_many(caplog):
    rng = np.random.default_rng(0)
    x, gp = rng.uniform(-1, 1, (300, 2)), apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT)
    x[250] = x[40] + 1e-9
    with caplog.at_level(logging.INFO, "apviz"), warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.fit(x, x[:, 0])
    assert "2 rows are within 1e-06 lengthscales of another, such as rows 40 and 250" in caplog.messages
    x[200:] = x[:100] * (1 + 1e-9)
    with pytest.warns(UserWarning, match="200 rows are within .* round their inputs, so that apviz merges them"):
        gp.fit(x, x[:, 0])
    # with a row of weight zero and a duplicate before them, rows keep the numbers they have in the table
    x = rng.uniform(-1, 1, (300, 2))
    x[1], x[250] = x[2], x[40] + 1e-9
    caplog.clear()
    with caplog.at_level(logging.INFO, "apviz"):
        gp.fit(x, x[:, 0], sample_weight=np.r_[0.0, np.ones(299)])
    assert "2 rows are within 1e-06 lengthscales of another, such as rows 40 and 250" in caplog.messages


def test_an_input_of_no_influence_does_not_make_all_rows_nearly_equal(caplog, recwarn):
    x = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    flat = apviz.Hyperparameters("matern52", (1e9, 1e9), outputscale=1.5, noise=0.1)
    with caplog.at_level(logging.INFO, "apviz"):
        apviz.GaussianProcess(hyperparameters=flat, **EXACT).fit(x, x[:, 0])
    said = [*caplog.messages, *(str(each.message) for each in recwarn)]
    assert not any("lengthscales of another" in each for each in said)


def test_if_all_inputs_are_equal_predictions_are_those_of_all_rows():
    x, y = np.ones((40, 2)), np.random.default_rng(0).standard_normal(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = apviz.GaussianProcess(hyperparameters=GIVEN, **EXACT).fit(x, y)
    mean, std = oracle(x, y, GIVEN.noise).predict(points(), return_std=True)
    found, found_std = gp.predict(points(), return_std=True)
    np.testing.assert_allclose(found, mean + GIVEN.mean, rtol=1e-10)
    np.testing.assert_allclose(found_std, std, rtol=1e-9)
    assert gp.rows_.sentence == "40 rows at 1 distinct input: solved as 2 rows"
