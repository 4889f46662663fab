"""Whitenings by near rows against dense algebra in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.gp.training.log_determinant import lanczos_log_determinant
from apviz.gp.training.probes import rademacher
from apviz.operators import make_operator
from apviz.preconditioners import NeighbourWhitening, Whitening, neighbour_whitening, whitening_of
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from tests.device import only_on_the_cpu
from tests.textbook import CORRELATIONS

pytestmark = only_on_the_cpu("low rank alone whitens on a GPU")


def problem(n, noise=0.05, d=2, lengthscale=0.2):
    """Return an operator, and K as a dense array."""
    x = np.random.default_rng(0).uniform(size=(n, d))
    kernel = apviz.Matern32(lengthscale=lengthscale, outputscale=1.4)
    k = 1.4 * CORRELATIONS["matern32"](cdist(x, x) / lengthscale) + np.diag(np.broadcast_to(noise, n))
    noise = torch.from_numpy(noise) if isinstance(noise, np.ndarray) else noise
    return make_operator("tiled", torch.from_numpy(x), kernel, noise), k


def dense(whitening, n):
    return whitening(torch.eye(n, dtype=torch.float64)).numpy()


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(neighbour_whitening, "BLOCK", 5)
    monkeypatch.setattr(neighbour_whitening, "NEIGHBOURS", 12)
    monkeypatch.setattr(neighbour_whitening, "AT_ONCE", 4)


def test_conditioned_on_all_rows_before_it_the_whitening_is_exact():
    operator, k = problem(200)
    whitening = NeighbourWhitening(operator)
    root = dense(whitening, 200)
    np.testing.assert_allclose(root @ k @ root.T, np.eye(200), atol=1e-4)
    np.testing.assert_allclose(whitening.log_determinant, np.linalg.slogdet(k)[1], rtol=1e-6)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("rank", [0, 8])
def test_whitened_rows_have_variance_one_and_the_determinant_of_the_matrix_is_known(rank):
    operator, k = problem(83)
    factor = randomly_pivoted_cholesky(operator, rank, 0) if rank else None
    left = k if factor is None else k - factor.numpy() @ factor.numpy().T
    whitening = NeighbourWhitening(operator, factor, seed=1)
    root = dense(whitening, 83)
    # a row minus its mean given its neighbours, over its conditional standard deviation
    np.testing.assert_allclose(np.diag(root @ left @ root.T), 1.0, rtol=1e-5)
    assert (np.count_nonzero(root, axis=1) <= 17).all()
    np.testing.assert_allclose(whitening.log_determinant, -2.0 * np.linalg.slogdet(root)[1], rtol=1e-6)
    np.testing.assert_allclose(whitening.transposed(torch.eye(83, dtype=torch.float64)).numpy(), root.T, atol=1e-12)


@pytest.mark.usefixtures("small")
def test_with_a_low_rank_it_whitens_their_sum():
    operator, _ = problem(60)
    factor = randomly_pivoted_cholesky(operator, 7, 0)
    local = NeighbourWhitening(operator, factor)
    root = np.linalg.inv(dense(local, 60))
    p = root @ root.T + factor.numpy() @ factor.numpy().T
    whitening = Whitening(factor, operator.noise_of(), local)
    whitener = dense(whitening, 60)
    np.testing.assert_allclose(whitener @ p @ whitener.T, np.eye(60), atol=1e-6)
    np.testing.assert_allclose(whitening.log_determinant, np.linalg.slogdet(p)[1], rtol=1e-8)
    assert whitening.largest_eigenvalue >= np.linalg.eigvalsh(p)[-1]


@pytest.mark.parametrize("noise", [0.2, 1e-5, 10 ** np.random.default_rng(5).uniform(-4, 0, 700)])
def test_few_probes_and_steps_give_log_det_k_within_their_small_standard_error(noise):
    operator, k = problem(700, noise)
    found = lanczos_log_determinant(operator, rademacher(700, 4, 0, operator.x).z, whitening=whitening_of(operator, 0))
    assert abs(float(found.value) - np.linalg.slogdet(k)[1]) < 4 * float(found.standard_error) + 1e-3
    assert found.standard_error < 1e-3 * 700 and found.steps <= 15


def test_many_inputs_are_whitened_by_low_rank_alone():
    operator, _ = problem(60, d=4)
    whitening, low_rank = whitening_of(operator, 0), Whitening(randomly_pivoted_cholesky(operator, 15, 0), 0.05)
    np.testing.assert_array_equal(dense(whitening, 60), dense(low_rank, 60))
