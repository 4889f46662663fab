"""Samples by Fourier series: their covariance is the kernel's to the stated error, and the posterior's moments."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz import RBF, Matern12, Matern32, Matern52
from apviz.gp.estimator.prior import Prior
from apviz.gp.prediction import pathwise
from apviz.operators import make_operator
from apviz.operators.fourier.prior_series import PriorSeries
from tests.device import only_on_the_cpu
from tests.textbook import CORRELATIONS

pytestmark = only_on_the_cpu("the Fourier operator runs there")
CASES = [
    (Matern12(lengthscale=0.3), 1), (Matern32(lengthscale=2.0), 2),
    (Matern52(lengthscale=(0.4, 0.8, 1.5), outputscale=2.0), 3), (RBF(lengthscale=2.0), 2),
]  # fmt: skip


def points(n, d, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, (n, d))


def formula(kernel, x, z):
    scale = np.array(kernel.lengthscale)
    return kernel.outputscale * CORRELATIONS[kernel.name](cdist(x / scale, z / scale))


def series(kernel, x, count=2, seed=0, **settings):
    return PriorSeries(make_operator("tiled", torch.from_numpy(x), kernel, 0.1), count, seed, **settings)


@pytest.mark.parametrize(("kernel", "d"), CASES)
def test_the_covariance_is_the_kernels_to_the_stated_error(kernel, d):
    x = points(5, d)
    found = series(kernel, x)
    (term,) = found._terms
    power = term.far.coefficients.astype(float)
    assert power.min() >= 0
    features = found._features(torch.from_numpy(x))[0]
    gaps = features[:1] - features
    for k, frequencies in enumerate(term.far.frequencies):  # Σ c cos(ω·δ), an axis at a time
        waves = np.exp(1j * np.outer(gaps[:, k], frequencies))
        power = np.einsum("nk,k...->n...", waves, power) if k == 0 else np.einsum("nk,nk...->n...", waves, power)
    error = np.abs(power.real - formula(kernel, x[:1], x)[0]).max()
    assert error <= found.error * kernel.outputscale * 1.01 + 1e-6
    assert found.error <= 1e-3


def test_functions_have_the_covariance_and_are_independent():
    x, count = points(12, 2), 4001
    found = series(Matern52(lengthscale=0.4, outputscale=1.5), x, count)
    values = found(torch.from_numpy(x)).numpy()
    k = formula(Matern52(lengthscale=0.4, outputscale=1.5), x, x)
    spread = np.sqrt((np.outer(np.diag(k), np.diag(k)) + k**2) / count)
    assert (np.abs(values @ values.T / count - k) < 5 * spread).all()
    pairs = values[:, 0:4000:2] @ values[:, 1:4000:2].T / 2000  # real and imaginary part of one series
    assert (np.abs(pairs) < 5 * np.sqrt(np.outer(np.diag(k), np.diag(k)) / 2000)).all()


def test_a_function_is_the_same_however_its_points_are_split():
    x = points(50, 2)
    found = series(Matern52(lengthscale=0.6), x, 3, seed=4)
    together = found(torch.from_numpy(x))
    apart = torch.cat([found(torch.from_numpy(part)) for part in (x[:7], x[7:])])
    assert together.shape == (50, 3)
    torch.testing.assert_close(apart, together, atol=1e-5, rtol=0)
    again = series(Matern52(lengthscale=0.6), x, 3, seed=4)(torch.from_numpy(x))
    torch.testing.assert_close(again, together, atol=0, rtol=0)
    other = series(Matern52(lengthscale=0.6), x, 3, seed=5)(torch.from_numpy(x))
    assert float((other - together).abs().max()) > 0.1


def test_sums_of_kernels_add_their_functions():
    x, kernel = points(10, 1), Matern52(lengthscale=0.3) + 0.5 * RBF(lengthscale=1.0).on([0])
    values = series(kernel, x, 4000)(torch.from_numpy(x)).numpy()
    k = kernel(torch.from_numpy(x)).numpy()
    assert np.abs(values @ values.T / 4000 - k).max() < 0.15


def test_points_outside_of_the_box_are_refused_and_can_be_asked_for():
    x, beyond = points(50, 2), np.array([[0.5, 0.5], [2.0, -1.0]])
    found = series(Matern52(lengthscale=0.4), x)
    with pytest.raises(ValueError, match="1 of 2 points are outside of the box .* pass all points as around"):
        found(torch.from_numpy(beyond))
    assert (
        series(Matern52(lengthscale=0.4), x, around=torch.from_numpy(beyond))(torch.from_numpy(beyond)).isfinite().all()
    )


def test_kernels_without_a_series_and_rough_ones_in_large_boxes_are_refused():
    with pytest.raises(ValueError, match="not a function of the distance"):
        series(apviz.Periodic(), points(50, 2))
    with pytest.raises(ValueError, match="frequencies; use prior='features'"):
        series(Matern12(lengthscale=0.02), points(50, 3))


NOISE, MEAN, COUNT = 0.05, 0.6, 2000


def posterior(x, y, kernel, **settings):
    h = apviz.Hyperparameters.of(kernel, NOISE, MEAN)
    return apviz.Posterior(x, y, h, apviz.ConjugateGradient(tol=1e-8), dtype=torch.float64, device="cpu", **settings)


def test_posterior_samples_have_the_moments_of_the_posterior_by_dense_algebra():
    x, z = points(60, 2), points(12, 2, seed=1)
    kernel, y = Matern52(lengthscale=0.4, outputscale=1.5), np.sin(3 * points(60, 2)[:, 0]) + MEAN
    c, k = formula(kernel, x, z), formula(kernel, x, x) + NOISE * np.eye(60)
    mean, prior = MEAN + c.T @ np.linalg.solve(k, y - MEAN), formula(kernel, z, z)
    covariance = prior - c.T @ np.linalg.solve(k, c)
    samples = posterior(x, y, kernel).samples(COUNT, prior="series")
    values, deviation = samples(z).numpy(), np.sqrt(np.diag(covariance))
    assert (np.abs(values.mean(0) - mean) < 5 * deviation / np.sqrt(COUNT)).all()
    # that of sampling, and of a covariance to 1e-3 of 1.5, which conditioning may add to
    bound = 6 * np.outer(deviation, deviation) / np.sqrt(COUNT) + 3e-3
    assert (np.abs(np.cov(values.T) - covariance) < bound).all()
    np.testing.assert_allclose(samples.variance(z), np.diag(covariance), rtol=5 * np.sqrt(2 / COUNT), atol=3e-3)


def test_auto_takes_a_series_for_many_rows_where_it_is_possible(monkeypatch):
    monkeypatch.setattr(pathwise, "LEAST_ROWS", 50)
    x = points(60, 2)
    found = posterior(x, x[:, 0], Matern52(lengthscale=0.4))
    assert isinstance(found.samples(2).prior, PriorSeries)
    assert isinstance(found.samples(2, prior="features").prior, pathwise.PriorSamples)
    periodic = posterior(x, x[:, 0], RBF(lengthscale=0.5) * apviz.Periodic())
    assert isinstance(periodic.samples(2).prior, pathwise.PriorSamples)
    with pytest.raises(ValueError, match="not a function of the distance"):
        periodic.samples(2, prior="series")
    with pytest.raises(ValueError, match="prior must be one of auto, features, series, got 'exact'"):
        found.samples(2, prior="exact")


def test_the_prior_of_an_estimator_is_sampled_at_many_points():
    h = apviz.Hyperparameters.of(Matern52(lengthscale=0.2, outputscale=2.0), NOISE, MEAN)
    z = points(40_000, 1)
    values = Prior(h).samples(400, seed=1, around=z)(z[:200]).numpy()
    assert values.shape == (400, 200)
    assert values.mean() == pytest.approx(MEAN, abs=0.3)
    k = formula(Matern52(lengthscale=0.2, outputscale=2.0), z[:200], z[:200])
    assert np.abs(np.cov(values.T) - k).max() < 5 * 2 * np.sqrt(2 / 400)
