"""Likelihoods and their gradients by Fourier products, against dense NumPy in float64."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.duplicates import merged
from apviz.gp.training import fast_products
from apviz.gp.training.fast_products import GRADIENT_ERROR, with_fast_products
from apviz.gp.training.gradient import marginal_likelihood_gradient
from apviz.gp.training.information import average_information
from apviz.gp.training.likelihood import estimated_marginal_likelihood
from apviz.gp.training.parametrisation import Parametrisation
from apviz.gp.training.probes import rademacher
from apviz.operators import CountingOperator, FourierOperator
from tests.device import only_on_the_cpu
from tests.textbook import CORRELATIONS

pytestmark = only_on_the_cpu("the Fourier operator runs there")
N, NOISE, SCALE = 90, 0.05, 1.4
LENGTHSCALE = np.array([0.3, 0.7])


@pytest.fixture
def fast(monkeypatch):
    """Take Fourier products for few rows too, whatever they cost."""
    monkeypatch.setattr(fast_products, "LEAST_ROWS", 10)
    monkeypatch.setattr(FourierOperator, "seconds_of_product", lambda *_: 0.0)


def data(n=N):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (n, 2))
    return x, np.sin(5 * x[:, 0]) + 0.2 * rng.standard_normal(n)


def dense(x, scale=SCALE, noise=NOISE, lengthscale=LENGTHSCALE):
    return scale * CORRELATIONS["matern32"](cdist(x / lengthscale, x / lengthscale)) + noise * np.eye(len(x))


def loss(x, y, *numbers):
    """½(yᵀK⁻¹y + log det K)."""
    k = dense(x, numbers[0], numbers[1], np.array(numbers[2:]))
    return 0.5 * (y @ np.linalg.solve(k, y) + np.linalg.slogdet(k)[1])


def differences(function, numbers, step=1e-5):
    """Central differences of a function of several numbers."""
    found = []
    for k, number in enumerate(numbers):
        above, below = ([*numbers[:k], number * (1 + h), *numbers[k + 1 :]] for h in (step, -step))
        found.append((function(*above) - function(*below)) / (2 * step * number))
    return found


def system(x, y, **settings):
    kernel = apviz.Matern32(lengthscale=tuple(LENGTHSCALE), outputscale=SCALE)
    return apviz.KernelSystem(x, y, kernel, noise=NOISE, operator="tiled", device="cpu", **settings)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_by_sums_over_frequencies_are_finite_differences_of_the_dense_likelihood(dtype):
    x, y = data()
    operator = CountingOperator(system(x, y, dtype=dtype).operator)
    assert with_fast_products(operator, GRADIENT_ERROR).converts_seconds
    z = math.sqrt(N) * np.eye(N)
    weights = torch.from_numpy(np.linalg.solve(dense(x), np.c_[y, z]))
    found = marginal_likelihood_gradient(operator, weights, torch.from_numpy(z))
    expected = differences(lambda *numbers: loss(x, y, *numbers), [SCALE, NOISE, *LENGTHSCALE])
    values = [float(found.kernel["outputscale"]), found.noise, *found.kernel["lengthscale"].tolist()]
    np.testing.assert_allclose(values, expected, rtol=2e-5, atol=1e-3)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_information_of_a_training_by_sums_over_frequencies_is_that_of_dense_algebra(dtype):
    x, y = data()
    kernel = apviz.kernels.kernel_named("matern32", (1.0, 1.0), 1.0)
    of = Parametrisation(kernel, 0.0, transform="log")
    raw = torch.tensor([0.0, *np.log([NOISE, SCALE, *LENGTHSCALE])], dtype=torch.float64)
    built = apviz.KernelSystem(
        x, y, of.hyperparameters(raw).build_kernel(), noise=of.hyperparameters(raw).noise, operator="tiled",
        dtype=dtype, device="cpu",
    )  # fmt: skip
    operator = CountingOperator(built.operator)
    assert with_fast_products(operator, GRADIENT_ERROR).converts_seconds
    rows = merged(torch.from_numpy(x), torch.from_numpy(y), groups=torch.arange(N))
    weights = apviz.solve(built, apviz.Cholesky(tol=1e-4)).weights[:, None]
    found, _ = average_information(operator, weights, raw, of, apviz.Cholesky(tol=1e-4), rows)

    def moved(place, change):
        v = raw.numpy().copy()
        v[place] += change
        return dense(x, np.exp(v[2]), np.exp(v[1]), np.exp(v[3:]))

    k = dense(x)
    q = np.stack([(moved(j, 1e-5) - moved(j, -1e-5)) @ np.linalg.solve(k, y) / 2e-5 for j in range(1, 5)], axis=1)
    expected = 0.5 * q.T @ np.linalg.solve(k, q)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(found[1:, 1:].numpy() - expected) / scale).max() < 0.1  # forward differences of 2%


@pytest.mark.usefixtures("fast")
def test_a_likelihood_by_lanczos_is_that_of_dense_eigenvalues_with_the_same_probes():
    x, y = data()
    found = estimated_marginal_likelihood(system(x, y), apviz.Cholesky(), 3, seed=0)
    z = rademacher(N, 3, 0, torch.zeros(1, dtype=torch.float64)).z.numpy()

    def value(*numbers):
        k = dense(x, numbers[0], numbers[1], np.array(numbers[2:]))
        eigenvalues, vectors = np.linalg.eigh(k)
        logarithm = (np.log(eigenvalues)[:, None] * (vectors.T @ z) ** 2).sum() / 3
        return -0.5 * (y @ np.linalg.solve(k, y) + logarithm + N * math.log(2 * math.pi))

    numbers = [SCALE, NOISE, *LENGTHSCALE]
    assert found.value == pytest.approx(value(*numbers), rel=1e-6)
    values = [float(found.gradient.kernel["outputscale"]), found.gradient.noise]
    values += found.gradient.kernel["lengthscale"].tolist()
    np.testing.assert_allclose(values, -np.array(differences(value, numbers)), rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("fast")
def test_a_training_takes_them_and_ends_where_one_by_entries_does(monkeypatch):
    x, y = data(100)
    settings = apviz.TrainingSettings(solver=apviz.Cholesky(), steps=1, probes=2)
    found = []
    for rows in (10, 10**9):
        monkeypatch.setattr(fast_products, "LEAST_ROWS", rows)
        training = apviz.Training(x, y, settings, device="cpu", operator="tiled")
        found.append(training.run())
    np.testing.assert_allclose(found[0].lengthscale, found[1].lengthscale, rtol=1e-4)
    assert found[0].noise == pytest.approx(found[1].noise, rel=1e-4)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("case", ["few rows", "little noise", "kernel", "inputs", "slow"])
def test_entries_are_evaluated_where_series_are_not_exact_or_not_fast(case, monkeypatch):
    x, y = data(200)
    kernel, noise = apviz.Matern32(lengthscale=0.3), NOISE
    if case == "few rows":
        monkeypatch.setattr(fast_products, "LEAST_ROWS", 1_000)
    elif case == "little noise":
        noise = 1e-9
    elif case == "kernel":
        kernel = apviz.Periodic()
    elif case == "inputs":
        x = np.c_[x, x]
    else:
        monkeypatch.setattr(FourierOperator, "seconds_of_product", lambda *_: 1e9)
    made = apviz.KernelSystem(x, y, kernel, noise=noise, operator="tiled", device="cpu")
    operator = CountingOperator(made.operator)
    assert with_fast_products(operator, GRADIENT_ERROR) is operator
