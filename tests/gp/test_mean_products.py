"""Means at many points by Fourier series, against NumPy's sums; entries where a series would err too much."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.gp.kriging.drift import Basis, FittedDrift
from apviz.gp.prediction import mean_products
from tests.device import only_on_the_cpu
from tests.textbook import CORRELATIONS

pytestmark = only_on_the_cpu("the Fourier operator runs there")
H = apviz.Hyperparameters("matern52", lengthscale=(0.05,), outputscale=1.3, noise=0.01, mean=0.4)


@pytest.fixture(scope="module")
def posterior():
    """Many rows with given weights, so that nothing is solved."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.uniform(0, 1, (30_000, 2)))
    weights = torch.from_numpy(rng.standard_normal(30_000))
    return apviz.Posterior(x, torch.sin(9 * x[:, 0]), H, weights=weights, device="cpu")


def expected(posterior, z):
    r = cdist(z.numpy(), posterior.system.operator.given.numpy()) / 0.05
    return 0.4 + 1.3 * CORRELATIONS["matern52"](r) @ posterior.weights.numpy()


def test_means_at_many_points_take_a_series_and_are_right(posterior):
    z = torch.from_numpy(np.random.default_rng(1).uniform(-0.05, 1.05, (40_000, 2)))
    before = posterior.work
    found = posterior.mean(z)
    assert np.abs(found[::500].numpy() - expected(posterior, z[::500])).max() < 1e-6
    assert posterior.work - before < 0.5 * len(z) / 30_000  # all entries would count as m/n


def test_means_at_few_points_evaluate_all_entries(posterior):
    z = torch.from_numpy(np.random.default_rng(2).uniform(0, 1, (100, 2)))
    before = posterior.work
    assert np.abs(posterior.mean(z).numpy() - expected(posterior, z)).max() < 1e-10
    assert posterior.work - before == pytest.approx(100 / 30_000)


def test_a_series_that_errs_too_much_is_given_up(posterior, monkeypatch):
    z = torch.from_numpy(np.random.default_rng(3).uniform(0, 1, (40_000, 2)))
    monkeypatch.setattr(mean_products, "ALLOWED", 1e-14)
    products = mean_products.MeanProducts(posterior.operator, posterior.double)
    found = products.product(z, posterior.weights)[::1_000] + 0.4
    assert np.abs(found.numpy() - expected(posterior, z[::1_000])).max() < 1e-10


def test_the_deviations_of_a_drift_take_a_series_too_and_its_error_counts(posterior):
    rng = np.random.default_rng(4)
    z, x = torch.from_numpy(rng.uniform(0, 1, (40_000, 2))), posterior.system.operator.given
    basis = Basis.of("linear", x.numpy())
    solved, root = torch.from_numpy(rng.standard_normal((30_000, 3))), torch.from_numpy(rng.standard_normal((3, 3)))
    drift = FittedDrift(basis, torch.zeros(3, dtype=torch.float64), solved, root, 0.0)
    before = posterior.work
    found = drift.deviations(posterior, z)[::500].numpy()
    assert posterior.work - before < 0.9 * len(z) / 30_000
    k = 1.3 * CORRELATIONS["matern52"](cdist(z[::500].numpy(), x.numpy()) / 0.05)
    off = np.abs(found - (basis(z[::500].numpy()).numpy() - k @ solved.numpy()) @ root.numpy()).max()
    assert 0 < off < 1e-5 and posterior._means.error > 0


def test_the_error_of_a_series_is_measured_at_a_sample_of_many_points(posterior):
    z = torch.from_numpy(np.random.default_rng(5).uniform(0, 1, (64, 2)))
    products = mean_products.MeanProducts(posterior.operator, posterior.double)
    products.measure(z, posterior.weights, 100)
    assert products.error == 0
    products.measure(z, posterior.weights, 40_000)
    assert 0 < products.error < 1e-6
