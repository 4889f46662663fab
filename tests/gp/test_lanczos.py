import re

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import apviz
from apviz import memory
from apviz.gp.prediction.lanczos import LanczosInverse
from apviz.gp.prediction.posterior import Posterior
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS
from apviz.operators import CountingOperator
from apviz.spectrum import LanczosBasis
from tests.device import DEVICE
from tests.textbook import CORRELATIONS


def points(n=80, m=20, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(n, d)), rng.uniform(size=(m, d))


def dense(x, z, kernel="matern32", lengthscale=0.4, outputscale=1.3, noise=0.1):
    """Return K and c = k(X, z) in float64 NumPy."""
    correlation = CORRELATIONS[kernel]
    k = outputscale * correlation(cdist(x, x) / lengthscale) + noise * np.eye(len(x))
    return k, outputscale * correlation(cdist(x, z) / lengthscale)


def exact_variance(x, z, **values):
    k, c = dense(x, z, **values)
    return values.get("outputscale", 1.3) - (c * np.linalg.solve(k, c)).sum(0)


def posterior(x, kernel="matern32", lengthscale=0.4, outputscale=1.3, noise=0.1, dtype=torch.float64, **kwargs):
    h = Hyperparameters(kernel, (lengthscale,), outputscale, noise)
    return Posterior(x, np.ones(len(x)), h, weights=np.ones(len(x)), dtype=dtype, device=DEVICE, **kwargs)


def inverse(x, dtype=torch.float64, noise=0.1, **values):
    kernel = apviz.Matern32(lengthscale=values.get("lengthscale", 0.4), outputscale=values.get("outputscale", 1.3))
    operator = apviz.KernelSystem(
        x, np.ones(len(x)), kernel, noise=noise, operator="dense", dtype=dtype, device=DEVICE
    ).operator
    return LanczosInverse(CountingOperator(operator))


# --- variances --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_at_full_rank_the_variance_is_exact(kernel):
    x, z = points()
    found = posterior(x, kernel).variance(z, "lanczos", len(x))
    np.testing.assert_allclose(found, exact_variance(x, z, kernel=kernel), atol=1e-9)


def test_a_rank_above_the_number_of_points_is_full_rank():
    x, z = points(n=30)
    found = posterior(x)
    np.testing.assert_allclose(found.variance(z, "lanczos"), exact_variance(x, z), atol=1e-9)
    assert found._methods.inverse.rank == 30


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 999), kernel=st.sampled_from(list(CORRELATIONS)), lengthscale=st.floats(0.01, 10),
    noise=st.floats(1e-3, 1), dtype=st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_the_variance_falls_with_the_rank_and_stays_above_the_exact_one(seed, kernel, lengthscale, noise, dtype):
    x, z = points(n=40, m=8, seed=seed)
    values = {"kernel": kernel, "lengthscale": lengthscale, "noise": noise}
    found = posterior(x, dtype=dtype, **values).variance_by_rank(z, [1, 2, 5, 10, 20, 40]).double().numpy()
    k, _ = dense(x, z, **values)
    rounding = 20 * torch.finfo(dtype).eps * np.linalg.norm(k, 2) / noise
    assert (np.diff(found, axis=1) <= torch.finfo(dtype).eps).all()
    assert (found >= exact_variance(x, z, **values)[:, None] - rounding).all()


def test_rank_r_projects_onto_the_krylov_space_of_the_average_covariance():
    x, z = points()
    k, c = dense(x, z)
    vectors = [k @ np.ones(80)]
    for _ in range(5):
        vectors.append(k @ vectors[-1])
    q, _ = np.linalg.qr(np.array(vectors).T)
    expected = 1.3 - np.einsum("rm,rm->m", q.T @ c, np.linalg.solve(q.T @ k @ q, q.T @ c))
    np.testing.assert_allclose(posterior(x).variance(z, "lanczos", 6), expected, atol=1e-7)


def test_all_ranks_together_equal_each_rank_alone():
    x, z = points()
    ranks = [7, 1, 30, 7]
    together = posterior(x).variance_by_rank(z, ranks, include_noise=True)
    for column, rank in zip(together.T, ranks, strict=True):
        np.testing.assert_allclose(column, posterior(x).variance(z, "lanczos", rank, include_noise=True), atol=1e-12)


def test_the_variance_does_not_depend_on_earlier_points_or_ranks():
    x, z = points()
    used = posterior(x)
    used.variance(z[:3], "lanczos", 5)
    used.variance(z, "lanczos", 40)
    assert torch.equal(used.variance(z, "lanczos", 20), posterior(x).variance(z, "lanczos", 20))


def test_variances_are_exact_for_uncorrelated_points_which_exhaust_the_krylov_space_at_once():
    x = np.arange(20.0)[:, None] * 1e3  # K = (outputscale + noise) I
    found = posterior(x).variance(x, "lanczos", 20)
    np.testing.assert_allclose(found, 1.3 - 1.3**2 / 1.4, rtol=1e-12)


def test_a_symmetric_grid_is_exact_at_full_rank():
    x = np.linspace(0, 1, 24)[:, None]  # the start is even under reflection, the test points are not
    z = np.array([[0.03], [0.4]])
    found = posterior(x).variance(z, "lanczos", 24)
    np.testing.assert_allclose(found, exact_variance(x, z), atol=1e-9)


def test_repeated_points_are_exact_at_full_rank():
    x, z = points(n=20)
    x = np.vstack([x, x, x])
    np.testing.assert_allclose(posterior(x).variance(z, "lanczos", 60), exact_variance(x, z), atol=1e-9)


def test_float32_with_little_noise_makes_the_variance_larger_and_never_negative():
    x, z = points(n=300, m=50)
    values = {"kernel": "rbf", "lengthscale": 1.0, "noise": 1e-5}  # eps·λmax ≈ 3 σ²
    found = posterior(x, dtype=torch.float32, **values).variance(z, "lanczos", 300).double().numpy()
    assert (found >= 0).all() and (found <= 0.02).all()


# --- the inverse and the basis ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 5e-6), (torch.float64, 1e-13)])
def test_the_basis_is_orthonormal_and_makes_k_tridiagonal(dtype, atol):
    x, z = points()
    k, _ = dense(x, z)
    a = torch.tensor(k, dtype=dtype)
    basis = LanczosBasis(lambda v: a @ v, torch.ones(80, dtype=dtype))
    basis.extend(80)
    q = basis.vectors.double().numpy()
    t = np.diag(basis.diagonal) + np.diag(basis.off_diagonal[:79], 1) + np.diag(basis.off_diagonal[:79], -1)
    np.testing.assert_allclose(q @ q.T, np.eye(80), atol=atol)
    np.testing.assert_allclose(q @ k @ q.T, t, atol=20 * atol)


def test_a_basis_grown_in_pieces_is_the_basis_grown_at_once():
    x, z = points()
    a = torch.tensor(dense(x, z)[0])
    grown, whole = (LanczosBasis(lambda v: a @ v, torch.ones(80, dtype=torch.float64)) for _ in range(2))
    for steps in (1, 4, 4, 3, 20):
        grown.extend(steps)
    whole.extend(20)
    assert torch.equal(grown.vectors, whole.vectors) and grown.off_diagonal == whole.off_diagonal


def test_an_exhausted_space_ends_the_basis_or_restarts_it_if_a_seed_is_given():
    start = torch.ones(10, dtype=torch.float64)
    ended, restarted = LanczosBasis(lambda v: 3.0 * v, start), LanczosBasis(lambda v: 3.0 * v, start, restart_seed=0)
    ended.extend(10)
    restarted.extend(10)
    assert ended.diagonal == [pytest.approx(3.0)] and restarted.diagonal == [pytest.approx(3.0)] * 10
    np.testing.assert_allclose(restarted.vectors @ restarted.vectors.T, np.eye(10), atol=1e-14)


def test_a_restarted_basis_finds_eigenvalues_of_any_multiplicity():
    q = scipy.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))[0]
    a = torch.tensor(q * np.r_[1.0, 2.0, np.full(8, 5.0)] @ q.T)
    basis = LanczosBasis(lambda v: a @ v, torch.ones(10, dtype=torch.float64), restart_seed=0)
    basis.extend(10)
    t = np.diag(basis.diagonal) + np.diag(basis.off_diagonal[:9], 1) + np.diag(basis.off_diagonal[:9], -1)
    np.testing.assert_allclose(np.linalg.eigvalsh(t), [1, 2] + 8 * [5], rtol=1e-10)


def test_the_inverse_at_full_rank_is_exact_and_counts_its_products():
    x, z = points()
    k, c = dense(x, z)
    found = inverse(x)
    explained = found.explained(torch.tensor(z), [80])[:, 0]
    np.testing.assert_allclose(explained, (c * np.linalg.solve(k, c)).sum(0), rtol=1e-9)
    assert found.operator.entries == 81 * 80**2 + 20 * 80
    found.extend(10)
    assert found.rank == 80 and found.operator.entries == 81 * 80**2 + 20 * 80


def test_a_basis_that_does_not_fit_in_memory_is_rejected_before_any_work(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 1000)
    found = inverse(points()[0])
    message = "a Lanczos basis of rank 50 for n = 80 and its copies need 0.0 GiB, 0.0 GiB are free; use a smaller"
    with pytest.raises(MemoryError, match=re.escape(message)):
        found.extend(50)
    assert found.operator.entries == 0
