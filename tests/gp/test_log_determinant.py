"""log det K and its gradient by Lanczos against dense eigenvalues in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz import memory
from apviz.gp.training import log_determinant as module
from apviz.gp.training.log_determinant import lanczos_log_determinant
from apviz.gp.training.probes import rademacher
from apviz.preconditioners import Whitening
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky


def operator(n=120, lengthscale=0.3, noise=1e-2, dtype=torch.float64):
    x = np.random.default_rng(0).uniform(size=(n, 2))
    kernel = apviz.Matern52(lengthscale=lengthscale, outputscale=1.3)
    return x, apviz.KernelSystem(x, np.ones(n), kernel, noise=noise, dtype=dtype).operator


def dense(x, lengthscale, noise):
    r = math.sqrt(5) * cdist(x, x) / lengthscale
    return 1.3 * (1 + r + r**2 / 3) * np.exp(-r) + noise * np.eye(len(x))


def quadratic(k, z):
    """Return the mean of zᵀ log(K) z."""
    values, vectors = np.linalg.eigh(k)
    return float((np.log(values)[:, None] * (vectors.T @ z) ** 2).sum() / z.shape[1])


@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-4])
def test_value_and_gradient_equal_those_of_the_quadratic_form_in_log_k(noise):
    x, k = operator(noise=noise)
    z = rademacher(120, 5, 0, k.x).z
    found = lanczos_log_determinant(k, z)

    def value(lengthscale, sigma):
        return quadratic(dense(x, lengthscale, sigma), z.numpy())

    np.testing.assert_allclose(found.value, value(0.3, noise), rtol=1e-6)
    gradient = k.bilinear_derivatives(found.left, found.right)
    h = 1e-5
    along = (value(0.3 + h, noise) - value(0.3 - h, noise)) / (2 * h)
    by_noise = (value(0.3, noise * (1 + h)) - value(0.3, noise * (1 - h))) / (2 * h * noise)
    np.testing.assert_allclose(gradient.kernel["lengthscale"], [along], rtol=1e-5)
    np.testing.assert_allclose(gradient.noise, by_noise, rtol=1e-5)


def test_with_exact_probes_it_equals_the_log_determinant_and_its_derivative():
    x, k = operator(40)
    found = lanczos_log_determinant(k, math.sqrt(40) * torch.eye(40, dtype=torch.float64, device=k.x.device))
    exact = dense(x, 0.3, 1e-2)
    np.testing.assert_allclose(found.value, np.linalg.slogdet(exact)[1], rtol=1e-10)
    np.testing.assert_allclose(found.left @ found.right.T, np.linalg.inv(exact), atol=1e-6)


def test_an_exhausted_krylov_space_ends_the_iteration():
    # for points far apart, K = (outputscale + σ²) I, and one step spans its Krylov space
    system = apviz.KernelSystem(
        1e3 * np.arange(30.0), np.ones(30), apviz.RBF(lengthscale=1.0, outputscale=2.0), noise=0.5, dtype=torch.float64
    )
    found = lanczos_log_determinant(system.operator, rademacher(30, 4, 0, system.x).z)
    np.testing.assert_allclose(found.value, 30 * math.log(2.5), rtol=1e-12)
    np.testing.assert_allclose((found.left * found.right).sum(), 30 / 2.5, rtol=1e-12)


def test_float32_is_accurate_and_without_a_gradient_there_are_no_vectors():
    x, k = operator(dtype=torch.float32)
    z = rademacher(120, 5, 0, k.x).z
    found = lanczos_log_determinant(k, z, with_gradient=False)
    np.testing.assert_allclose(found.value, quadratic(dense(x, 0.3, 1e-2), z.double().numpy()), rtol=1e-4)
    assert found.left.shape == found.right.shape == (120, 0)


def test_an_unsettled_value_warns_and_a_basis_too_large_for_the_memory_is_rejected(monkeypatch):
    _, k = operator(noise=1e-6)
    z = rademacher(120, 5, 0, k.x).z
    monkeypatch.setattr(module, "MAX_STEPS", 30)
    with pytest.warns(UserWarning, match="log det K has not settled after 30 Lanczos steps"):
        lanczos_log_determinant(k, z)
    monkeypatch.setattr(memory, "free_memory", lambda device: 1000)
    with pytest.raises(MemoryError, match="Lanczos basis of log det K and its copies need"):
        lanczos_log_determinant(k, z)


@pytest.mark.parametrize("noises", [None, 10 ** np.random.default_rng(5).uniform(-3, 0, 120)])
@pytest.mark.parametrize("rank", [20, 80])
def test_whitened_value_and_gradient_belong_to_one_function_close_to_the_log_determinant(rank, noises):
    x, k = operator(noise=1e-3)
    d = np.full(120, 1e-3) if noises is None else noises
    kernel = k.kernel
    k = apviz.operators.make_operator("tiled", k.x, kernel, 1e-3 if noises is None else torch.from_numpy(noises))
    factor = randomly_pivoted_cholesky(k, rank, seed=0)
    whitening, z = Whitening(factor, k.noise_of()), rademacher(120, 5, 0, k.x).z
    # P, and L as dense matrices
    identity = torch.eye(120, dtype=torch.float64, device=k.x.device)
    p = (factor @ factor.T).numpy() + np.diag(d)
    whitener = whitening(identity).numpy()
    np.testing.assert_allclose(whitener @ p @ whitener.T, np.eye(120), atol=1e-8)
    np.testing.assert_allclose(whitening.transposed(identity), whitener.T, atol=1e-12)
    np.testing.assert_allclose(whitening.log_determinant, np.linalg.slogdet(p)[1])
    assert whitening.largest_eigenvalue >= np.linalg.eigvalsh(p)[-1] * (1 - 1e-9)
    found = lanczos_log_determinant(k, z, whitening=whitening)

    def value(lengthscale, scale):
        of_k = dense(x, lengthscale, 0.0) + np.diag(d) * scale
        return np.linalg.slogdet(p)[1] + quadratic(whitener @ of_k @ whitener.T, z.numpy())

    np.testing.assert_allclose(found.value, value(0.3, 1.0), rtol=1e-6)
    gradient, h = k.bilinear_derivatives(found.left, found.right), 1e-5
    along = (value(0.3 + h, 1.0) - value(0.3 - h, 1.0)) / (2 * h)
    np.testing.assert_allclose(gradient.kernel["lengthscale"], [along], rtol=1e-4)
    by_noise = (value(0.3, 1 + h) - value(0.3, 1 - h)) / (2 * h)
    np.testing.assert_allclose(np.sum(gradient.noise.numpy() * (1e-3 if noises is None else d)), by_noise, rtol=1e-4)
    plain, exact = lanczos_log_determinant(k, z), np.linalg.slogdet(dense(x, 0.3, 0.0) + np.diag(d))[1]
    assert found.steps < plain.steps
    assert found.standard_error < plain.standard_error
    assert abs(float(found.value) - exact) < 4 * float(found.standard_error)


def test_a_whitening_from_other_hyperparameters_gives_the_same_log_determinant():
    x, k = operator(40)
    _, other = operator(40, lengthscale=0.7, noise=0.1)
    whitening = Whitening(randomly_pivoted_cholesky(other, 20, seed=0), 0.1)
    found = lanczos_log_determinant(
        k, math.sqrt(40) * torch.eye(40, dtype=torch.float64, device=k.x.device), whitening=whitening
    )
    np.testing.assert_allclose(found.value, np.linalg.slogdet(dense(x, 0.3, 1e-2))[1], rtol=1e-9)
