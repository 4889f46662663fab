"""Variances given the nearest rows are upper bounds, and right where they have settled, by dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.gp.prediction import neighbour_variances
from apviz.gp.prediction.neighbour_variances import NeighbourVariances
from apviz.operators import CountingOperator
from tests.device import DEVICE
from tests.textbook import CORRELATIONS

LAYOUTS = {
    "uniform": lambda rng, n, d: rng.random((n, d)),
    "clusters": lambda rng, n, d: rng.random((4, d))[rng.integers(4, size=n)] + 0.03 * rng.standard_normal((n, d)),
    "far": lambda rng, n, d: 1e4 + rng.random((n, d)),
}


def both(layout, d, kernel, noise, n=300, m=60, lengthscale=0.15, added=0.0):
    """Return standard deviations by neighbours, whether they have settled, and those by NumPy."""
    rng = np.random.default_rng(d)
    x, z = LAYOUTS[layout](rng, n, d), LAYOUTS[layout](rng, m, d)
    correlation, noises = CORRELATIONS[kernel], np.broadcast_to(noise, n)
    k, c = (2.0 * correlation(cdist(x, other) / lengthscale) for other in (x, z))
    solved = scipy.linalg.solve(k + np.diag(noises), c, assume_a="pos")
    exact = np.sqrt(2.0 - np.einsum("ij,ij->j", c, solved))
    of_kernel = apviz.Hyperparameters(kernel, (lengthscale,), 2.0, 1.0).build_kernel()
    system = apviz.KernelSystem(x, np.zeros(n), of_kernel, noise=noise, dtype=torch.float64, device=DEVICE)
    points = torch.as_tensor(z, device=system.device)
    variance, settled = NeighbourVariances(CountingOperator(system.operator)).variances(points, added)
    return variance.sqrt().cpu().numpy(), settled.cpu().numpy(), exact


@pytest.mark.parametrize(
    ("layout", "d", "kernel", "lengthscale"),
    [
        ("uniform", 1, "matern52", 0.02), ("uniform", 2, "rbf", 0.1), ("clusters", 2, "matern12", 0.2),
        ("far", 3, "matern32", 0.2), ("uniform", 5, "matern52", 0.5), ("clusters", 5, "rbf", 0.3),
    ],
)  # fmt: skip
def test_they_are_never_below_the_posterior_and_close_where_settled(layout, d, kernel, lengthscale):
    sd, settled, exact = both(layout, d, kernel, noise=0.02, n=1_200, lengthscale=lengthscale)
    assert (sd >= exact * (1 - 1e-6)).all()
    assert (sd <= np.sqrt(2.0) * (1 + 1e-12)).all()
    assert settled.mean() > 0.8
    assert np.quantile(sd[settled] / exact[settled], 0.95) < 1.02


def test_they_are_exact_with_all_rows(monkeypatch):
    monkeypatch.setattr(neighbour_variances, "ROWS", (100,))
    sd, settled, exact = both("uniform", 2, "matern32", noise=0.1, n=100)
    np.testing.assert_allclose(sd, exact, rtol=1e-8)
    assert settled.all()


def test_they_do_not_claim_to_have_settled_where_many_rows_average_a_large_noise(monkeypatch):
    monkeypatch.setattr(neighbour_variances, "ROWS", (50, 100))
    sd, settled, exact = both("uniform", 2, "rbf", noise=50.0, n=1_000, lengthscale=0.5)
    assert (sd > 1.1 * exact).all()
    assert not settled.any()


def test_more_rows_are_tried_before_a_solve_where_n_is_large(monkeypatch):
    monkeypatch.setattr(neighbour_variances, "ROWS", (16, 32))
    few, few_settled, exact = both("uniform", 2, "matern12", noise=1.0, n=1_000)
    monkeypatch.setattr(neighbour_variances, "FURTHER", (64, 256, 512))
    monkeypatch.setattr(neighbour_variances, "WORTH", 2)
    more, settled, _ = both("uniform", 2, "matern12", noise=1.0, n=1_000)
    assert few_settled.mean() < 0.6 and np.median(few / exact) > 1.05
    assert (more >= exact * (1 - 1e-6)).all()
    assert settled.mean() > 0.9 and (more < 1.03 * exact)[settled & ~few_settled].all()


def test_noise_that_predictions_add_settles_what_it_hides(monkeypatch):
    monkeypatch.setattr(neighbour_variances, "ROWS", (64, 128))
    noise = 1.0
    _, settled, exact = both("uniform", 3, "matern52", noise=0.1, n=2_000, lengthscale=0.3)
    assert settled.mean() < 0.6
    more, with_noise, _ = both("uniform", 3, "matern52", noise=0.1, n=2_000, lengthscale=0.3, added=noise)
    assert with_noise.all() and (more >= exact * (1 - 1e-6)).all()
    ratio = np.sqrt((more**2 + noise) / (exact**2 + noise))
    assert ratio.max() < 1.02 < (more / exact).max()


def test_rows_with_little_noise_explain_more(monkeypatch):
    monkeypatch.setattr(neighbour_variances, "ROWS", (100,))
    noise = np.where(np.arange(300) % 5, 50.0, 0.01)
    sd, _, exact = both("uniform", 5, "matern52", noise=noise, lengthscale=0.5)
    assert (sd >= exact * (1 - 1e-6)).all() and np.quantile(sd / exact, 0.95) < 1.02


def test_without_points_there_are_none():
    system = apviz.KernelSystem(np.zeros((3, 2)), np.zeros(3), apviz.RBF(), noise=0.1, device=DEVICE)
    found = NeighbourVariances(CountingOperator(system.operator)).variances(torch.zeros(0, 2, dtype=torch.float64))
    assert [len(each) for each in found] == [0, 0]


@pytest.mark.parametrize(("d", "lengthscale"), [(1, 0.02), (2, 0.15), (5, 0.6)])
def test_observations_left_out_are_never_below_one_over_the_diagonal_of_the_inverse(monkeypatch, d, lengthscale):
    monkeypatch.setattr(neighbour_variances, "ROWS", (128, 256))
    rng, n = np.random.default_rng(d), 700
    x, noise = rng.random((n, d)), rng.uniform(0.01, 0.1, n)
    k = 2.0 * CORRELATIONS["matern52"](cdist(x, x) / lengthscale) + np.diag(noise)
    exact, rows = 1 / np.diag(np.linalg.inv(k)), np.arange(0, n, 10)
    kernel = apviz.Matern52(lengthscale=lengthscale, outputscale=2.0)
    system = apviz.KernelSystem(x, np.zeros(n), kernel, noise=noise, dtype=torch.float64, device=DEVICE)
    variance, settled = NeighbourVariances(CountingOperator(system.operator)).left_out(torch.as_tensor(rows))
    variance, settled = variance.cpu().numpy(), settled.cpu().numpy()
    assert (variance >= exact[rows] * (1 - 1e-6)).all()
    assert settled.mean() > 0.7
    assert np.quantile(variance[settled] / exact[rows][settled], 0.95) < 1.04


def test_an_observation_left_out_takes_more_rows_before_a_solve_where_n_is_large(monkeypatch):
    monkeypatch.setattr(neighbour_variances, "ROWS", (4, 8))
    x = np.random.default_rng(0).random((1_000, 2))
    system = apviz.KernelSystem(x, np.zeros(1_000), apviz.Matern12(lengthscale=1.0), noise=2.0, dtype=torch.float64)
    near, rows = NeighbourVariances(CountingOperator(system.operator)), torch.arange(0, 1_000, 50)
    few, few_settled = near.left_out(rows)
    monkeypatch.setattr(neighbour_variances, "FURTHER", (64, 256))
    monkeypatch.setattr(neighbour_variances, "WORTH", 2)
    more, settled = near.left_out(rows)
    k = np.exp(-cdist(x, x)) + 2.0 * np.eye(1_000)
    exact = 1 / np.diag(np.linalg.inv(k))[rows]
    assert not few_settled.any() and settled.all()
    assert (more <= few * (1 + 1e-12)).all() and (more.numpy() >= exact * (1 - 1e-6)).all()
