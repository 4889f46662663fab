"""Samples of the posterior as functions: they have its moments, and each is one consistent function."""

import re
import warnings

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz import RBF, Constant, Linear, Matern12, Matern52, Periodic, White
from apviz.gp.prediction.posterior import Posterior
from apviz.hyperparameters import Hyperparameters
from tests.device import DEVICE
from tests.kernels.test_algebra import equal, periodic, rbf
from tests.textbook import matern52

#: kernels of two inputs, and their formulas
KERNELS = {
    "matern52": (Matern52(lengthscale=(0.4, 0.8), outputscale=1.5),
                 lambda x, z: 1.5 * matern52(cdist(x / [0.4, 0.8], z / [0.4, 0.8]))),
    "matern12": (Matern12(lengthscale=0.7), lambda x, z: np.exp(-cdist(x, z) / 0.7)),
    "sum": (RBF(lengthscale=0.4) + Linear(lengthscale=0.8) + Constant(),
            lambda x, z: rbf(x, z, 0.4) + x @ z.T / 0.64 + 1.0),
    "product": (RBF(lengthscale=0.8) * Periodic(period=0.7).on(1),
                lambda x, z: rbf(x, z, 0.8) * periodic(x[:, 1:], z[:, 1:], 1.0, 0.7)),
    "white": (RBF(lengthscale=0.4) + White(outputscale=0.2), lambda x, z: rbf(x, z, 0.4) + 0.2 * equal(x, z)),
}  # fmt: skip
NOISE, MEAN, COUNT, FEATURES = 0.05, 0.6, 1000, 4000


def data(n=60, m=12, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1.5, 1.5, (m, 2))
    z[0], z[1] = x[5], [4.0, 4.0]  # a training input, and a distant point
    return x, np.sin(3 * x[:, 0]) + MEAN + 0.2 * rng.standard_normal(n), z


def posterior(kernel=KERNELS["matern52"][0], noise=NOISE, **settings):
    x, y, _ = data()
    given = {"solver": apviz.ConjugateGradient(tol=1e-8), "dtype": torch.float64, "device": DEVICE} | settings
    return Posterior(x, y, Hyperparameters.of(kernel, noise, MEAN), **given)


@pytest.mark.parametrize("name", KERNELS)
def test_the_moments_of_many_samples_agree_with_the_posterior_by_dense_algebra(name):
    kernel, formula = KERNELS[name]
    x, y, z = data()
    c, k = formula(x, z), formula(x, x) + NOISE * np.eye(len(x))
    mean = MEAN + c.T @ np.linalg.solve(k, y - MEAN)
    prior = formula(z, z)
    covariance = prior - c.T @ np.linalg.solve(k, c)
    values = posterior(kernel).samples(COUNT, features=FEATURES)(z).numpy()
    assert values.shape == (COUNT, len(z))
    deviation = np.sqrt(np.diag(covariance))
    assert (np.abs(values.mean(0) - mean) < 5 * deviation / np.sqrt(COUNT)).all()
    # the error of sampling, and that of the random features
    scale = np.outer(deviation, deviation)
    bound = 6 * scale / np.sqrt(COUNT) + 3 * np.sqrt(np.outer(np.diag(prior), np.diag(prior)) * scale) / np.sqrt(
        FEATURES
    )
    assert (np.abs(np.cov(values.T) - covariance) < bound).all()


@pytest.mark.slow
@pytest.mark.parametrize(("features", "error"), [(2000, 0.25), (8000, 0.125)])
def test_random_features_change_small_variances_by_the_documented_error(features, error):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0, 1, (150, 2)), rng.uniform(0, 1, (12, 2))
    prior = matern52(cdist(np.r_[x, z] / 0.3, np.r_[x, z] / 0.3))
    solved = np.linalg.solve(prior[:150, :150] + 0.01 * np.eye(150), prior[:150, 150:])
    variances = np.diag(prior[150:, 150:] - prior[150:, :150] @ solved)
    assert np.median(variances) < 0.01
    both, left, ratios = torch.tensor(np.r_[x, z]), np.r_[-solved, np.eye(12)], []
    for seed in range(4):
        drawn = Matern52(lengthscale=0.3).random_features(both, features, seed)
        values = drawn.combined(both, torch.eye(drawn.size, dtype=torch.float64)).numpy()
        ratios.append((np.square(left.T @ values).sum(1) + 0.01 * np.square(solved).sum(0)) / variances)
    assert 0.6 * error < np.std(ratios, 0).mean() < 1.6 * error
    assert np.mean(ratios) == pytest.approx(1.0, abs=error)


def test_the_moments_agree_with_noise_per_row():
    kernel, formula = KERNELS["matern52"]
    x, y, z = data()
    noises = np.where(np.arange(len(x)) % 2, 1.0, 0.01)
    c, k = formula(x, z), formula(x, x) + np.diag(noises)
    covariance = formula(z, z) - c.T @ np.linalg.solve(k, c)
    samples = posterior(kernel, noises=noises).samples(COUNT, features=FEATURES)
    mean = MEAN + c.T @ np.linalg.solve(k, y - MEAN)
    values, deviation = samples(z).numpy(), np.sqrt(np.diag(covariance))
    assert (np.abs(values.mean(0) - mean) < 5 * deviation / np.sqrt(COUNT)).all()
    np.testing.assert_allclose(values.std(0), deviation, rtol=0.08)


def test_a_sample_is_one_function_however_its_points_are_split_or_ordered():
    _, _, z = data(m=40)
    samples = posterior(KERNELS["white"][0], batch_size=7).samples(3, seed=4)
    values = samples(z)
    torch.testing.assert_close(samples(z), values, atol=0, rtol=0)
    torch.testing.assert_close(torch.cat([samples(z[:11]), samples(z[11:])], 1), values, atol=1e-12, rtol=0)
    torch.testing.assert_close(samples(z[::-1].copy()).flip(1), values, atol=1e-12, rtol=0)
    again = posterior(KERNELS["white"][0]).samples(3, seed=4)(z)
    torch.testing.assert_close(again, values, atol=1e-10, rtol=0)
    assert (posterior(KERNELS["white"][0]).samples(3, seed=5)(z) - values).abs().max() > 0.1


def test_with_little_noise_samples_interpolate_the_targets():
    x, y, _ = data()
    values = posterior(noise=1e-8, solver=apviz.Cholesky()).samples(5)(x).numpy()
    np.testing.assert_allclose(values, np.tile(y, (5, 1)), atol=2e-3)


def test_a_test_point_costs_n_entries_and_no_solve():
    _, _, z = data(m=50)
    found = posterior()
    samples, before = found.samples(16), found.work
    samples(z)
    assert found.work - before == pytest.approx(50 / 60)
    assert before > samples.solution.work > 0


def test_float32_samples_agree_with_float64_up_to_the_error_of_the_solve():
    _, _, z = data(m=100)
    double = posterior().samples(8)
    single = posterior(dtype=torch.float32, solver=apviz.Automatic()).samples(8)
    values = single(z)
    assert values.dtype == torch.float64 and single.solution.converged
    assert ((values - double(z)).abs() <= 0.1 * posterior().variance(z).sqrt()).all()


def test_the_reported_error_bounds_that_of_the_solve_in_posterior_standard_deviations():
    x, _, _ = data()
    exact = posterior().samples(6)(x)
    with pytest.warns(UserWarning):
        crude = posterior(variance_solver=apviz.ConjugateGradient(tol=1e-12, max_epochs=3)).samples(6)
    error = ((crude(x) - exact).abs() / posterior().variance(x).sqrt()).amax(1)
    assert (error <= crude.error + 1e-6).all() and error.max() > 0.1


def test_without_a_variance_solver_the_tolerance_follows_the_noise():
    kernel = Matern52(lengthscale=(0.4, 0.8), outputscale=100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples = posterior(kernel, noise=1e-6, solver=apviz.ConjugateGradient(tol=1e-9, max_epochs=10_000)).samples(6)
    assert samples.error.max() <= 0.1
    loose = apviz.ConjugateGradient(tol=1e-3)
    with pytest.warns(UserWarning, match=r"off by up to \S+ posterior standard deviations; use a variance_solver"):
        posterior(kernel, noise=1e-6, solver=apviz.Cholesky(), variance_solver=loose).samples(6)


def test_an_unconverged_solve_warns_with_the_error():
    stopped = apviz.ConjugateGradient(tol=1e-9, max_epochs=2)
    with pytest.warns(apviz.NotConverged, match="the solve for samples did not converge .residual .* off by up to"):
        samples = posterior(variance_solver=stopped).samples(2)
    assert not samples.solution.converged


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 0}, "count must be a whole number, at least 1, at most 9007199254740992, got 0"),
        ({"count": 2.5}, "count must be a whole number, at least 1, at most 9007199254740992, got 2.5"),
        ({"count": 2, "seed": -1}, "seed must be a whole number, at least 0, at most 4611686018427387904, got -1"),
        ({"count": 2, "features": 0}, "features must be a whole number, at least 1, at most 9007199254740992, got 0"),
    ],
)
def test_bad_settings_of_samples_are_refused_before_any_work(settings, message):
    found = posterior()
    before = found.work
    with pytest.raises(ValueError, match=re.escape(message)):
        found.samples(**settings)
    assert found.work == before


def test_bad_test_inputs_are_refused():
    samples = posterior().samples(2)
    with pytest.raises(ValueError, match=re.escape("x_star must have shape (m, 2) as x has 2 columns, got (4, 3)")):
        samples(np.ones((4, 3)))
    with pytest.raises(ValueError, match="x_star has 4 NaN or infinite values in column 0"):
        samples(np.full((4, 2), np.nan))


def test_the_deviations_of_samples_are_those_of_their_random_features_by_dense_algebra():
    x, _, z = data()
    k = lambda a, b: 1.5 * matern52(cdist(a / [0.4, 0.8], b / [0.4, 0.8]))  # noqa: E731
    solved = np.linalg.solve(k(x, x) + NOISE * np.eye(len(x)), k(x, z))
    exact = np.diag(k(z, z) - k(z, x) @ solved)
    drawn = posterior().samples(3, features=200)
    features = drawn.prior.features
    values = features.combined(torch.tensor(np.r_[x, z]), torch.eye(features.size, dtype=torch.float64)).numpy()
    of_samples = np.square(np.r_[-solved, np.eye(len(z))].T @ values).sum(1) + NOISE * np.square(solved).sum(0)
    np.testing.assert_allclose(drawn.deviation_ratios(z).numpy(), np.sqrt(of_samples / exact), rtol=1e-5)


def test_samples_at_many_points_warn_if_random_features_change_their_deviations(monkeypatch):
    from apviz.gp.estimator import predictive

    monkeypatch.setattr(predictive, "COVARIANCE_POINTS", 30)
    x, y, _ = data()
    for noise, is_off in ((1e-6, True), (10.0, False)):
        h = Hyperparameters("matern52", (0.7,), 1.0, noise, MEAN)
        gp = apviz.GaussianProcess(hyperparameters=h, scale=False, device=DEVICE).fit(x, y)
        points = np.random.default_rng(3).uniform(-1, 1, (31, 2))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            gp.sample_y(points[:30])
            assert not said
            gp.sample_y(points)
        about = [each for each in said if "samples is off by a factor of up to" in str(each.message)]
        assert bool(about) == is_off and all(each.filename == __file__ for each in about)
