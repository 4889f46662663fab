import math

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz import RBF, KernelSystem, Matern52, PivotedCholesky, RandomlyPivotedCholesky, TwoLevelSchwarz
from apviz.kernels import KERNELS
from apviz.operators import CountingOperator
from apviz.partitions import PrincipalAxisTree
from apviz.preconditioners.pivoted_cholesky import pivoted_cholesky
from apviz.spectrum import DENSE_ROWS, all_eigenvalues, lanczos, largest_eigenvalue, spectrum


def make(n=200, d=2, kernel=None, noise=0.1, dtype=torch.float32, seed=0, **settings):
    x = np.random.default_rng(seed).uniform(0, 1, (n, d))
    kernel = kernel or Matern52(lengthscale=0.3)
    return KernelSystem(x, np.ones(n), kernel, noise=noise, dtype=dtype, device="cpu", operator="dense", **settings)


def eigenvalues(system):
    """Return all eigenvalues of K by SciPy, in ascending order; test_kernels tests the entries in float64."""
    x = system.operator.given
    return scipy.linalg.eigvalsh(system.kernel(x).numpy() + system.noise * np.eye(len(x)))


def blocks_of(system, size):
    return [system.operator.block(slice(i, min(i + size, system.n))) for i in range(0, system.n, size)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_exact_spectrum_equals_that_of_scipy(dtype):
    system = make(dtype=dtype)
    found, expected = spectrum(system, method="exact"), eigenvalues(system)
    assert found.lambda_max.value == pytest.approx(expected[-1], rel=1e-12)
    assert found.lambda_min.value == pytest.approx(expected[0], rel=1e-9)
    assert not found.lambda_max.is_estimate and not found.lambda_min.is_estimate
    assert found.kappa.value == pytest.approx(expected[-1] / expected[0], rel=1e-9) and not found.kappa.is_estimate
    assert spectrum(system).lambda_max == found.lambda_max  # the default for small n


def test_kappa_prime_equals_the_largest_block_eigenvalue_over_lambda_min():
    system = make(dtype=torch.float64)
    blocks = blocks_of(system, 60)
    found = spectrum(system, iter(blocks))
    largest = [scipy.linalg.eigvalsh(block.numpy())[-1] for block in blocks]
    np.testing.assert_allclose(found.blocks, largest, rtol=1e-2)
    assert found.lambda_max_block.value == found.blocks.max()
    assert found.kappa_prime.value == found.lambda_max_block.value / found.lambda_min.value
    assert found.kappa_prime.is_estimate and found.kappa_prime.bound >= max(largest) / eigenvalues(system)[0] * (
        1 - 1e-9
    )
    assert found.kappa_prime.value < found.kappa.value  # blocks are better conditioned than the whole


def test_without_blocks_kappa_prime_is_nan():
    found = spectrum(make(n=20))
    assert math.isnan(found.kappa_prime.value) and math.isnan(found.lambda_max_block.bound) and len(found.blocks) == 0


@pytest.mark.parametrize("kind", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("lengthscale", [1e-4, 0.05, 1.0, 1e4])
def test_lanczos_bounds_hold_on_both_sides_in_float32(kind, lengthscale):
    system = make(kernel=kind(lengthscale=lengthscale), n=150)
    found, expected = spectrum(system, method="lanczos", steps=8), eigenvalues(system)
    # products in float32: Ritz values and row sums err by at most n·eps·λmax, and usually much less
    rounding = 10 * torch.finfo(torch.float32).eps * expected[-1]
    assert found.lambda_max.value <= expected[-1] + rounding
    assert found.lambda_max.bound >= expected[-1] * (1 - 1e-6)
    assert found.lambda_min.value >= expected[0] - rounding
    assert found.lambda_min.bound <= expected[0] + 1e-12
    assert found.lambda_max.is_estimate and found.lambda_min.is_estimate


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 60), seed=st.integers(0, 999))
def test_ritz_values_stay_within_the_spectrum_and_reach_its_ends(n, seed):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    exact = np.sort(rng.uniform(0.1, 10, n))
    a = torch.tensor(q * exact @ q.T)
    highs, lows = zip(*(lanczos(lambda v: a @ v, n, steps) for steps in (1, 3, 10, n + 5)), strict=True)
    assert min(lows) >= exact[0] - 1e-9 and max(highs) <= exact[-1] + 1e-9
    assert (np.diff(highs) >= -1e-9).all()  # Krylov spaces are nested
    assert (np.diff(lows) <= 1e-9).all()
    assert highs[-1] == pytest.approx(exact[-1], abs=1e-6) and lows[-1] == pytest.approx(exact[0], abs=1e-6)


def test_thirty_two_lanczos_steps_find_lambda_max_of_a_kernel_matrix():
    k = make(kernel=Matern52(lengthscale=0.2), dtype=torch.float64).operator.matrix
    assert lanczos(lambda v: k @ v, len(k), 32)[0] == pytest.approx(scipy.linalg.eigvalsh(k.numpy())[-1], rel=1e-10)


def test_lanczos_stops_once_the_krylov_space_is_exhausted():
    assert lanczos(lambda v: 3.0 * v, 50, 20) == (pytest.approx(3.0), pytest.approx(3.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(list(KERNELS.values())), b=st.integers(1, 120), d=st.integers(1, 8),
    lengthscale=st.floats(1e-3, 1e3), noise=st.floats(1e-3, 10), outputscale=st.floats(0.1, 10),
    duplicates=st.booleans(), outlier=st.booleans(), seed=st.integers(0, 999),
)  # fmt: skip
def test_power_iteration_lies_below_lambda_max_of_a_block_and_its_bound_above(
    dtype, kind, b, d, lengthscale, noise, outputscale, duplicates, outlier, seed
):
    x = torch.tensor(np.random.default_rng(seed).uniform(0, 1, (b, d)), dtype=dtype)
    if duplicates:
        x[b // 2 :] = x[: b - b // 2].clone()
    if outlier:
        x[-1] = 50.0
    k = kind(lengthscale=lengthscale, outputscale=outputscale)(x)
    k.diagonal().add_(noise)
    value, bound = largest_eigenvalue(k)
    exact = scipy.linalg.eigvalsh(k.double().numpy())[-1]
    rounding = 8 * torch.finfo(dtype).eps * math.sqrt(b)
    assert value <= exact * (1 + rounding)
    assert bound >= exact * (1 - 1e-12)
    assert value >= float(k.double().sum()) / b * (1 - rounding)  # never worse than the Rayleigh quotient of ones


def test_the_bound_stays_finite_if_power_iteration_rounds_an_entry_to_zero():
    value, bound = largest_eigenvalue(torch.diag(torch.tensor([1.0, 1e-12])))
    assert value == pytest.approx(1.0) and 1.0 <= bound < 1.001


def test_power_iteration_is_accurate_for_a_smooth_block():
    k = make(kernel=RBF(lengthscale=0.5), dtype=torch.float64).operator.matrix
    exact = scipy.linalg.eigvalsh(k.numpy())[-1]
    value, bound = largest_eigenvalue(k)
    assert value == pytest.approx(exact, rel=1e-6) and exact <= bound <= 1.01 * exact


@pytest.mark.parametrize(
    "kernel", [RBF(lengthscale=0.5), Matern52(lengthscale=0.3, outputscale=2.0)], ids=["rbf", "matern52"]
)
def test_the_subsample_estimates_lambda_max_within_a_tenth_for_a_smooth_kernel(kernel):
    # λmax/n is a mean over pairs of points; 1,000 of 2,500 rows estimate it to about 1/√1000 = 3 %
    system = make(n=2500, kernel=kernel)
    found = spectrum(system)
    x = system.operator.given
    k = system.kernel(x).numpy() + system.noise * np.eye(2500)
    exact = scipy.sparse.linalg.eigsh(k, k=1, return_eigenvectors=False)[0]
    assert found.lambda_max.value == pytest.approx(exact, rel=0.1)
    assert found.lambda_max.is_estimate and "1,000 random rows" in found.lambda_max.how
    assert found.lambda_max.bound == pytest.approx(2500 * (kernel.outputscale + 0.1)) and found.lambda_max.bound > exact
    assert found.lambda_min.value == found.lambda_min.bound == system.noise


def dense(system):
    """Return K in float64, summed by NumPy."""
    return system.kernel(system.operator.given).numpy() + system.noise * np.eye(system.n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_eigenvalues_equal_those_of_scipy_in_descending_order(dtype):
    system = make(dtype=dtype)
    found, preconditioned = all_eigenvalues(system)
    np.testing.assert_allclose(found.numpy(), eigenvalues(system)[::-1], rtol=1e-10)
    assert found.dtype == torch.float64 and preconditioned is None


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_preconditioned_eigenvalues_solve_the_generalised_problem_of_k_and_p(dtype, rtol):
    system = make(dtype=dtype)
    a = np.random.default_rng(1).standard_normal((200, 200)) / 14
    p = a @ a.T + 0.5 * np.eye(200)
    inverse = torch.tensor(np.linalg.inv(p)).to(dtype)
    of_k, found = all_eigenvalues(system, lambda r: inverse @ r)
    np.testing.assert_allclose(found.numpy(), scipy.linalg.eigh(dense(system), p, eigvals_only=True)[::-1], rtol=rtol)
    np.testing.assert_allclose(of_k.numpy(), eigenvalues(system)[::-1], rtol=1e-10)
    assert found.dtype == torch.float64


def test_pivoted_cholesky_gives_the_eigenvalues_of_its_own_p():
    system = make(dtype=torch.float64)
    factor = pivoted_cholesky(CountingOperator(system.operator), 20).numpy()
    p = factor @ factor.T + system.noise * np.eye(200)
    _, found = all_eigenvalues(system, PivotedCholesky(rank=20).build(CountingOperator(system.operator)))
    np.testing.assert_allclose(found.numpy(), scipy.linalg.eigh(dense(system), p, eigvals_only=True)[::-1], rtol=1e-8)
    # K − P is positive semidefinite
    assert found.min() >= 1 - 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        RandomlyPivotedCholesky(rank=20),
        TwoLevelSchwarz(block_size=40, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=20),
        TwoLevelSchwarz(block_size=40, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=20, coarse="galerkin"),
        TwoLevelSchwarz(block_size=40, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=0),
    ],
    ids=repr,
)
def test_a_preconditioner_in_float32_has_the_eigenvalues_it_has_in_float64(settings):
    single = make()
    double = KernelSystem(
        single.x.double(),
        np.ones(200),
        single.kernel,
        noise=single.noise,
        operator="dense",
        dtype=torch.float64,
        device="cpu",
    )
    (_, rough), (_, exact) = (
        all_eigenvalues(system, settings.build(CountingOperator(system.operator))) for system in (single, double)
    )
    np.testing.assert_allclose(rough.numpy(), exact.numpy(), rtol=1e-3)
    assert exact[0] / exact[-1] < 0.5 * spectrum(double, method="exact").kappa.value


def test_with_the_exact_inverse_as_a_preconditioner_every_eigenvalue_is_one():
    system = make(dtype=torch.float64)
    _, found = all_eigenvalues(system, lambda r: torch.linalg.solve(system.operator.matrix, r))
    np.testing.assert_allclose(found.numpy(), 1, rtol=1e-10)


def test_too_many_rows_for_all_eigenvalues_are_refused_before_any_work():
    system = KernelSystem(
        np.linspace(0, 1, DENSE_ROWS + 1), np.ones(DENSE_ROWS + 1), RBF(lengthscale=0.1), noise=0.1, device="cpu"
    )
    advice = (
        r"at most 4,000, got n = 4,001; take fewer rows \(apviz\.datasets\.load\(name, n=4000\)\), or leave them out"
    )
    with pytest.raises(ValueError, match=advice):
        all_eigenvalues(system, lambda r: pytest.fail("P⁻¹ was applied"))


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="method must be exact, lanczos or subsample, got 'guess'"):
        spectrum(make(n=5), method="guess")


@pytest.mark.parametrize(
    ("d", "noise", "kernel"),
    [
        (2, 0.01, Matern52(lengthscale=1e-3)),  # once estimated as κ = 121, by σ²
        (2, 0.01, Matern52(lengthscale=0.02)),
        (2, 0.01, RBF(lengthscale=0.3)),
        (6, 0.01, Matern52(lengthscale=0.5)),
        (6, 1e-4, Matern52(lengthscale=2.0)),
    ],
    ids=str,
)
def test_the_estimate_of_kappa_is_accurate_whether_or_not_sigma_is_the_least_eigenvalue(d, noise, kernel):
    system = make(n=1200, d=d, noise=noise, kernel=kernel)
    found, exact = spectrum(system), eigenvalues(system)
    assert found.kappa.value == pytest.approx(exact[-1] / exact[0], rel=0.35) and found.kappa.is_estimate
    # Ritz values interlace, so the estimate is at least λmin unless it is σ²
    assert found.lambda_min.value == noise or found.lambda_min.value >= exact[0] * (1 - 1e-9)
    assert found.lambda_min.bound == noise


def test_eigenvalues_after_the_largest_are_exact_if_all_are_computed():
    system = make()
    exact = eigenvalues(system)[::-1]
    ranks, values = zip(*spectrum(system, method="exact").leading, strict=True)
    assert ranks[0] == 0 and ranks[-1] == 199 and len(ranks) < 40
    np.testing.assert_allclose(values, exact[list(ranks)], rtol=1e-9)


@pytest.mark.parametrize("kernel", [RBF(lengthscale=0.3), Matern52(lengthscale=0.1)], ids=str)
def test_estimates_of_eigenvalues_after_the_largest_are_within_a_half(kernel):
    system = make(n=1500, kernel=kernel, noise=0.01)
    exact = eigenvalues(system)[::-1]
    found = spectrum(system, leading=True).leading
    assert max(rank for rank, _ in found) >= 100
    for rank, value in found:
        assert value == pytest.approx(exact[rank], rel=0.5)
