"""One noise per row: K = k(X, X) + D against dense float64, in every engine, solver and preconditioner."""

import numpy as np
import pytest
import torch

import apviz
from apviz.operators import CountingOperator
from apviz.operators.dense import DenseOperator
from apviz.operators.tiled import TiledOperator
from apviz.partitions import PrincipalAxisTree
from apviz.plots._labels import settings_labels
from apviz.preconditioners import PivotedCholesky, RandomlyPivotedCholesky
from apviz.solvers import overlapping
from apviz.solvers.choosing.rehearsal import Rehearsal
from apviz.spectrum import spectrum
from tests.device import DEVICE

N, SIDES = 300, 3
ENGINES = {
    "dense": (DenseOperator, {}),
    "in-place": (TiledOperator, {"compiled": False}),
    "compiled": (TiledOperator, {}),
}
SOLVERS = {
    "automatic": apviz.Automatic(tol=1e-8),
    "Cholesky": apviz.Cholesky(tol=1e-8),
    "CG": apviz.ConjugateGradient(tol=1e-8),
    "CG, low rank": apviz.ConjugateGradient(tol=1e-8, preconditioner=apviz.RandomlyPivotedCholesky(rank=40)),
    "CG, Schwarz": apviz.ConjugateGradient(
        tol=1e-8,
        preconditioner=apviz.TwoLevelSchwarz(block_size=50, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=10),
    ),
    "overlapping": overlapping(block_size=60, tol=1e-8, max_epochs=3000),
}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x, b = rng.uniform(-1, 1, (N, 2)), rng.standard_normal((N, SIDES))
    noise = 10 ** rng.uniform(-3, 0, N)
    r = np.sqrt(((x[:, None] - x[None]) ** 2).sum(2)) / 0.4 * np.sqrt(5)
    k = 2.0 * (1 + r + r**2 / 3) * np.exp(-r)
    return x, b, noise, k + np.diag(noise)


KERNEL = apviz.Matern52(lengthscale=0.4, outputscale=2.0)


def of(data, **more):
    x, b, noise, _ = data
    return apviz.KernelSystem(x, b, KERNEL, noise=noise, device=DEVICE, **more)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_multiplies_by_k_plus_the_noises(engine, data):
    x, b, noise, k = data
    kind, settings = ENGINES[engine]
    operator = kind(torch.from_numpy(x), KERNEL, torch.from_numpy(noise), **settings)
    operator.prepare(SIDES)
    v, rows = torch.from_numpy(b), torch.tensor([7, 250, 3])
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(operator.matmul(v), k @ b, **close)
    np.testing.assert_allclose(operator.matmul(v.repeat(1, 9)), k @ np.tile(b, 9), **close)
    for chosen, index in ((rows, rows.numpy()), (slice(10, 60), slice(10, 60))):
        np.testing.assert_allclose(operator.columns_matmul(chosen, v[chosen]), k[:, index] @ b[index], **close)
        np.testing.assert_allclose(operator.rows_matmul(chosen, v), k[index] @ b, **close)
        np.testing.assert_allclose(operator.block(chosen), k[index][:, index], **close)
    np.testing.assert_allclose(operator.diagonal(), k.diagonal(), **close)
    near, r = torch.arange(0, 280), v.clone()
    operator.subtract_part_(r, near, rows, v[rows])
    expected = b.copy()
    expected[:280] -= k[:280][:, rows.numpy()] @ b[rows.numpy()]
    np.testing.assert_allclose(r, expected, **close)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    shuffled = operator.reordered(order).in_dtype(torch.float32).exact()
    np.testing.assert_allclose(shuffled.block(slice(0, N)), k[order][:, order], **close)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_solves_with_the_noises(name, data):
    solution = apviz.solve(of(data), SOLVERS[name])
    assert solution.converged
    residual = data[1] - data[3] @ solution.weights.numpy()
    assert np.mean(np.linalg.norm(residual, axis=0) / np.linalg.norm(data[1], axis=0)) < 1.01 * SOLVERS[name].tol


@pytest.mark.parametrize("kind", [PivotedCholesky, RandomlyPivotedCholesky])
def test_a_preconditioner_of_full_rank_equals_the_inverse(kind, data):
    system = of(data)
    applied = kind(rank=N).build(system.operator)(system.b)
    np.testing.assert_allclose(applied, np.linalg.solve(data[3], data[1]), rtol=1e-5, atol=1e-5)


def test_draws_from_a_preconditioner_have_its_covariance(data):
    drawn = PivotedCholesky(rank=N).build(of(data).operator).sample(20_000, torch.Generator().manual_seed(0)).numpy()
    found, k = drawn @ drawn.T / drawn.shape[1], data[3]
    sampling = np.sqrt((k**2 + np.outer(k.diagonal(), k.diagonal())) / drawn.shape[1])
    assert np.abs((found - k) / sampling).max() < 6


def test_a_rehearsal_counts_the_iterations_that_cg_takes(data):
    system = of(data)
    rank, tol = 30, 1e-4
    counted = Rehearsal(system.operator, system.b, rank, N, seed=0).iterations(rank, tol, 1e4)
    solver = apviz.ConjugateGradient(tol=tol, preconditioner=apviz.RandomlyPivotedCholesky(rank=rank))
    taken = apviz.solve(system, solver).epochs
    assert abs(counted - taken) <= 0.1 * taken  # with other pivots of the same law


@pytest.mark.parametrize("method", ["exact", "lanczos", "subsample"])
def test_the_bounds_on_eigenvalues_hold(method, data):
    found, values = spectrum(of(data), (), method), np.linalg.eigvalsh(data[3])
    assert found.lambda_max.bound >= values[-1] * (1 - 1e-9)
    assert found.lambda_min.bound <= values[0] * (1 + 1e-9)
    assert 0.5 < found.lambda_max.value / values[-1] < 2


def test_the_derivative_with_respect_to_every_noise_is_exact(data):
    system = of(data)
    a, b = (torch.randn(N, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    found = system.operator.bilinear_derivatives(a, b).noise
    np.testing.assert_allclose(found, (a * b).sum(1))
    m = a @ b.T
    np.testing.assert_allclose(CountingOperator(system.operator).weighted_derivatives(m).noise, m.diagonal())


def test_equal_noises_give_the_results_of_one_noise(data):
    x, b, _, _ = data
    solver = apviz.Automatic(tol=1e-10)
    many, one = (
        apviz.solve(apviz.KernelSystem(x, b, KERNEL, noise=noise, device=DEVICE), solver).weights
        for noise in (np.full(N, 0.1), np.array([0.1]))
    )
    np.testing.assert_allclose(many, one, rtol=1e-6, atol=1e-6)


def test_displays_of_the_system_state_the_range_of_the_noises(data):
    recorder = apviz.Recorder()
    system = of(data)
    apviz.solve(system, apviz.Automatic(), [recorder])
    noise = data[2]
    assert f"noise={noise.min():g} to {noise.max():g}" in repr(system)
    attrs = recorder.trace.attrs
    assert (attrs["noise"], attrs["largest_noise"]) == (noise.min(), noise.max())
    low, high = (f"{each:.3g}" for each in (noise.min(), noise.max()))
    assert f"σ² = {low}–{high}" in settings_labels([recorder.trace])


def test_systems_that_differ_in_one_noise_have_different_fingerprints(data):
    x, b, noise, k = data
    assert of(data).fingerprint() != of((x, b, noise[::-1].copy(), k)).fingerprint()


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        (np.ones(5), r"noise must be one number, or \(300,\): one for every row, got shape \(5,\)"),
        (np.append(np.ones(N - 1), 0.0), r"finite and positive, got 0.0 in row 299, of 1 such"),
        (np.append(np.ones(N - 2), [-1.0, np.nan]), r"got -1.0 in row 298, of 2 such"),
        (np.ones((N, N)), r"got shape \(300, 300\)"),
    ],
)
def test_invalid_noises_are_rejected(noise, said, data):
    x, b, _, _ = data
    with pytest.raises(ValueError, match=said):
        apviz.KernelSystem(x, b, KERNEL, noise=noise, device=DEVICE)


def test_an_operator_with_other_noises_is_rejected(data):
    x, b, noise, _ = data
    operator = of(data).operator
    with pytest.raises(ValueError, match="another kernel or noise"):
        apviz.KernelSystem(x, b, KERNEL, noise=noise[::-1].copy(), operator=operator, device=DEVICE)
