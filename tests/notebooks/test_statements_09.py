"""Statements of notebook 09 about numbers, recomputed with NumPy, SciPy and mpmath alone."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

import apviz
from tests.notebooks.statements import matern52, prose, ran, source_of

POINTS = np.linspace(0, 1, 801)


def matern32(x: np.ndarray, lengthscale: float) -> np.ndarray:
    q = np.sqrt(3) * np.abs(x[:, None] - x) / lengthscale
    return (1 + q) * np.exp(-q)


def test_the_norm_of_a_sine_settles_and_that_of_a_sample_grows_with_n():
    norms = ran("09", "imports", "samples-code")["norms"]
    values, vectors = np.linalg.eigh(matern32(POINTS, 0.3))
    sine = np.sum((vectors.T @ np.sin(2 * np.pi * POINTS)) ** 2 / values)
    assert sine == pytest.approx(4.62, abs=0.01) and "The sine settles at 4.6." in prose("09")
    assert [each[1] for each in norms] == sorted(each[1] for each in norms) and norms[-1][1] == pytest.approx(sine)
    z = np.random.default_rng(0).standard_normal(801)
    assert norms[-1][0] == pytest.approx(z @ z, rel=1e-6) and "the sum of $n$ squares" in prose("09")


def test_the_smallest_eigenvalue_of_thirty_points_is_below_the_rounding_of_an_entry():
    with mpmath.workdps(60):
        x = [mpmath.mpf(i) / 29 for i in range(30)]
        K = mpmath.matrix(30, 30)
        for i in range(30):
            for j in range(30):
                K[i, j] = mpmath.exp(-((x[i] - x[j]) ** 2) / (2 * mpmath.mpf("0.3") ** 2))
        values = mpmath.eigsy(K, eigvals_only=True)
        assert 0 < min(values) < mpmath.mpf("1e-16") * max(values)
    factors = ran("09", "imports", "cholesky-code")["factors"]
    assert [factors(apviz.RBF(lengthscale=0.3), n)[1] for n in (10, 30)] == ["works", "fails"]


def test_the_rough_kernel_of_exercise_2_has_eigenvalues_far_above_the_rounding():
    x = np.linspace(0, 1, 1000)
    least = np.linalg.eigvalsh(np.exp(-np.abs(x[:, None] - x) / 0.3))[0]
    assert least == pytest.approx(0.0017, abs=5e-5) and "the smallest is 0.0017" in source_of("09", "check-2")
    assert 'check("works", right' in source_of("09", "solution-2")


def test_the_bands_of_the_forecast_contain_the_shares_of_the_text():
    profile = apviz.datasets.load("china-profile", n=512, dtype=torch.float64)
    x = np.concatenate([profile.train_x[:, 0], profile.test_x[:, 0]])
    y = np.concatenate([profile.train_y, profile.test_y])[x.argsort()]
    x = np.sort(x)
    seen = np.flatnonzero(x < 0.5)[::8]
    every = matern52(x[:, None], 0.25)
    K, cross = every[np.ix_(seen, seen)] + 0.01 * np.eye(len(seen)), every[:, seen]
    mean, variance = cross @ np.linalg.solve(K, y[seen]), 1 - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))
    inside = x < 0.5
    of_f, of_y = (np.mean(np.abs(y - mean)[inside] < 1.96 * np.sqrt(variance + s)[inside]) for s in (0.0, 0.01))
    assert f"here {of_y:.0%} of the columns are, and {of_f:.0%} are in the inner one" in prose("09")
    assert abs(mean[-1]) < 0.15 and np.sqrt(variance[-1]) > 0.98


def test_a_correlation_of_one_lengthscale_is_52_percent():
    assert matern52(np.array([[0.0], [1.0]]), 1.0)[0, 1] == pytest.approx(0.52, abs=0.005)
    assert "at one lengthscale the correlation is 52%" in source_of("09", "check-3")


def test_the_best_stop_predicts_about_as_well_as_the_best_noise():
    names = ran("09", "imports", "stopping-code")
    data = apviz.datasets.load("china", n=1000, seed=0)
    h, x, others = data.card.hyperparameters, data.train_x[:400].double().numpy(), data.test_x.double().numpy()
    b, truth = data.train_y[:400].double().numpy() - h.mean, data.test_y.double().numpy() - h.mean
    K = matern52(np.concatenate([x, others]), h.lengthscale, h.outputscale)
    K, cross = K[:400, :400], K[400:, :400]
    w, eta = np.zeros(400), 1 / np.linalg.eigvalsh(K)[-1]
    errors = []
    for _ in range(60):  # gradient descent, step by step
        w = w + eta * (b - K @ w)
        errors.append(np.sqrt(np.mean((cross @ w - truth) ** 2)))
    assert min(errors) == pytest.approx(min(names["stopped"]), rel=1e-3)
    noises = (
        np.sqrt(np.mean((cross @ np.linalg.solve(K + s * np.eye(400), b) - truth) ** 2)) for s in (0.05, 0.1, 0.2)
    )
    assert min(errors) == pytest.approx(min(noises), rel=0.015) and "about as well as the best" in prose("09")


def test_the_regression_over_draws_finds_the_weights_and_the_variance_of_the_projection():
    names = ran("09", "imports", "forecast-code", "kriging-code")
    K = matern52(names["at"][:, None], 0.25)
    u = np.linalg.solve(K[:4, :4] + 0.01 * np.eye(4), K[:4, 4])
    assert names["u"] == pytest.approx(u, rel=1e-9) and names["regression"] == pytest.approx(u, abs=0.01)
    left = names["draws"][4] - names["regression"] @ names["observed"]
    assert np.mean(left**2) == pytest.approx(1 - K[:4, 4] @ u, rel=0.02)
