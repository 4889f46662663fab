"""Ideas that the notebooks name after others are what those others proved, checked on small systems in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.notebooks.statements import matern52, prose, sweep

DRAWS = np.random.default_rng(0)
X = np.sort(DRAWS.uniform(size=12))[:, None]
K = matern52(X, 0.3) + 0.05 * np.eye(12)
B = DRAWS.standard_normal(12)


def test_representer_theorem_a_fit_with_a_penalty_gives_no_weight_to_other_points():
    assert "**representer theorem**" in prose("09") and "*representer theorem*" in prose("01")
    every = matern52(np.concatenate([X, DRAWS.uniform(size=(8, 1))]), 0.3)
    rows, penalty = every[:12], 0.05  # of Σ(f(xᵢ) − yᵢ)² + penalty·‖f‖², over functions of 20 points
    weights = np.linalg.solve(rows.T @ rows + penalty * every, rows.T @ B)
    assert np.abs(weights[12:]).max() < 1e-6 * np.abs(weights[:12]).max()
    assert weights[:12] == pytest.approx(np.linalg.solve(K, B), rel=1e-6)  # the ridge is the posterior mean


def test_block_kaczmarz_on_the_arrows_takes_the_steps_of_alternating_projection():
    assert "*block Kaczmarz* in $H$ (Elfving 1980)" in prose("01b")
    arrows, blocks = np.linalg.cholesky(K), np.split(np.arange(12), 3)  # row i is k(xᵢ, ·)
    s, w = np.zeros(12), np.zeros(12)
    for rows in blocks * 4:
        s = s + np.linalg.pinv(arrows[rows]) @ (B[rows] - arrows[rows] @ s)
        w = sweep(K, B, w, [rows])
        assert arrows.T @ w == pytest.approx(s, abs=1e-10)


def test_an_update_is_a_step_of_block_coordinate_descent():
    assert "*Block coordinate descent* minimises $h$ over the rows $W_I$" in prose("02") and "Wright" in prose("02")
    w, rows = DRAWS.standard_normal(12), np.arange(4, 8)
    least = sweep(K, B, w, [rows])
    for _ in range(20):
        other = least.copy()
        other[rows] += 0.1 * DRAWS.standard_normal(4)
        assert 0.5 * other @ K @ other - B @ other > 0.5 * least @ K @ least - B @ least


def test_mercers_sum_is_the_kernel_and_its_coefficients_of_a_sample_divided_by_eigenvalues_are_squares_of_normals():
    assert "**Mercer's theorem** (1909)" in prose("09")
    t, i = np.linspace(0.05, 1, 15), np.arange(1, 20_001)  # Brownian motion has these eigenfunctions
    values, functions = ((i - 0.5) * np.pi) ** -2.0, np.sqrt(2) * np.sin(np.outer(t, (i - 0.5) * np.pi))
    assert (functions * values) @ functions.T == pytest.approx(np.minimum(t[:, None], t), abs=1e-4)
    fine = (np.arange(1000) + 0.5) / 1000
    sample = np.cumsum(DRAWS.standard_normal((1000, 400)), axis=0) / np.sqrt(1000)
    of_first = np.sqrt(2) * np.sin(np.outer((i[:20] - 0.5) * np.pi, fine)) @ sample / 1000
    assert np.mean(of_first**2 / values[:20, None]) == pytest.approx(1, abs=0.1)


def test_pivoted_cholesky_is_the_nystroem_approximation_of_its_pivots():
    assert "*Nyström* approximation" in prose("05") and "Williams & Seeger, 2001" in prose("05")
    prior = matern52(X, 0.3)
    left, factor, pivots = prior.copy(), [], []
    for _ in range(5):
        j = int(np.argmax(np.diag(left)))
        factor.append(left[:, j] / np.sqrt(left[j, j]))
        left = left - np.outer(factor[-1], factor[-1])
        pivots.append(j)
    low_rank = np.array(factor).T @ np.array(factor)
    columns = prior[:, pivots]
    assert low_rank == pytest.approx(columns @ np.linalg.solve(prior[np.ix_(pivots, pivots)], columns.T), abs=1e-10)


def test_a_pseudo_inverse_takes_the_shortest_weights_and_a_small_change_of_its_limit_changes_them():
    assert "Of all weights that fit equally well it takes the shortest" in prose("09")
    twice = np.concatenate([X, X[:3]])  # three duplicate rows, without noise
    prior, b = matern52(twice, 0.3), np.concatenate([B, B[:3]])
    shortest = np.linalg.pinv(prior, rcond=1e-10, hermitian=True) @ b
    null = np.zeros(15)
    null[[0, 12]] = 1.0, -1.0  # weight that two equal rows exchange
    assert prior @ shortest == pytest.approx(b, abs=1e-6) and prior @ null == pytest.approx(0, abs=1e-12)
    assert np.linalg.norm(shortest + 0.1 * null) > np.linalg.norm(shortest)
    smooth = np.exp(-((X - X.T) ** 2) / (2 * 0.3**2))
    fits = [np.linalg.pinv(smooth, rcond=limit, hermitian=True) @ B for limit in (1e-8, 1e-9, 1e-10, 1e-11)]
    changes = [np.linalg.norm(one - other) / np.linalg.norm(one) for one, other in zip(fits, fits[1:], strict=False)]
    assert max(changes) > 0.5


def test_with_jitter_the_mean_misses_the_data_by_the_jitter_times_the_weights():
    assert "the mean no longer passes through the data" in prose("09")
    prior, jitter = matern52(X, 0.3), 1e-3
    w = np.linalg.solve(prior + jitter * np.eye(12), B)
    assert B - prior @ w == pytest.approx(jitter * w) and np.abs(jitter * w).max() > 1e-3


def test_early_stopping_and_the_ridge_are_filters_of_the_same_eigenvalues():
    assert "share $1 - (1 - \\eta\\lambda)^t$ of the data" in prose("09")
    prior = matern52(X, 0.3)
    values, vectors = np.linalg.eigh(prior)
    eta, w = 1 / values[-1], np.zeros(12)
    for _ in range(30):
        w = w + eta * (B - prior @ w)
    assert vectors.T @ (prior @ w) == pytest.approx((1 - (1 - eta * values) ** 30) * (vectors.T @ B))
    ridge = prior @ np.linalg.solve(prior + 0.2 * np.eye(12), B)
    assert vectors.T @ ridge == pytest.approx(values / (values + 0.2) * (vectors.T @ B))


def test_random_variables_and_functions_have_the_same_inner_products():
    assert "an **isometry**" in prose("09")
    root = np.linalg.cholesky(matern52(X, 0.3))
    f = root @ np.random.default_rng(1).standard_normal((12, 100_000))  # rows are f(xᵢ)
    one, other = DRAWS.standard_normal((2, 12))
    assert np.mean((one @ f) * (other @ f)) == pytest.approx(one @ matern52(X, 0.3) @ other, abs=0.2)
