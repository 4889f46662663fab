import linear_operator
import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz import RBF, KernelSystem, Matern12, Matern52, PivotedCholesky
from apviz.kernels import KERNELS
from apviz.operators import CountingOperator
from apviz.preconditioners.pivoted_cholesky import pivoted_cholesky
from tests.device import DEVICE


def make(n=120, d=3, kernel=None, noise=0.05, dtype=torch.float64, seed=0, operator="dense"):
    x = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    system = KernelSystem(
        x,
        np.ones(n),
        kernel or Matern52(lengthscale=0.5, outputscale=1.3),
        noise=noise,
        operator=operator,
        dtype=dtype,
        device=DEVICE,
    )
    return CountingOperator(system.operator)


def noise_free(operator):
    return operator.kernel(operator.x.double())


@pytest.mark.parametrize("kind", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("operator", ["dense", "tiled"])
@pytest.mark.parametrize("rank", [1, 7, 30])
def test_the_low_rank_product_equals_that_of_linear_operator(kind, operator, rank):
    counting = make(kernel=kind(lengthscale=(0.5, 0.8, 1.1), outputscale=1.3), operator=operator)
    ours = pivoted_cholesky(counting, rank)
    theirs = linear_operator.functions.pivoted_cholesky(noise_free(counting), rank, error_tol=0.0)
    assert ours.shape == (120, rank)
    torch.testing.assert_close(ours @ ours.T, theirs @ theirs.T, rtol=1e-8, atol=1e-9)


def test_full_rank_pivoted_cholesky_reconstructs_the_kernel_matrix():
    counting = make(n=40, kernel=Matern12(lengthscale=0.5))
    factor = pivoted_cholesky(counting, 500)
    assert factor.shape == (40, 40)
    torch.testing.assert_close(factor @ factor.T, noise_free(counting), rtol=1e-10, atol=1e-10)


@settings(deadline=None, max_examples=15)
@given(n=st.integers(2, 60), rank=st.integers(1, 70), seed=st.integers(0, 99))
def test_the_remainder_is_positive_semidefinite_and_shrinks_with_the_rank(n, rank, seed):
    counting = make(n=n, seed=seed)
    exact = noise_free(counting).numpy()
    left = [exact - (factor @ factor.T).numpy() for factor in (pivoted_cholesky(counting, r) for r in (rank, rank + 1))]
    assert all(np.linalg.eigvalsh(rest)[0] > -1e-10 for rest in left)
    assert np.trace(left[1]) <= np.trace(left[0]) + 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_rank_deficient_kernel_stops_the_factor_early(dtype):
    x = torch.rand(8, 2, generator=torch.Generator().manual_seed(0)).repeat(10, 1)
    counting = CountingOperator(
        KernelSystem(
            x, x[:, 0], Matern12(lengthscale=0.3), noise=0.1, operator="dense", dtype=dtype, device=DEVICE
        ).operator
    )
    factor = pivoted_cholesky(counting, 50)
    assert factor.shape == (80, 8)  # eight distinct points
    torch.testing.assert_close(factor @ factor.T, noise_free(counting).to(dtype), rtol=0, atol=1e-5)
    assert counting.entries == 80 * factor.shape[1]


@pytest.mark.parametrize("outputscale", [2.0**-40, 2.0**40])
def test_rounding_ends_the_factor_at_the_same_rank_in_every_unit(outputscale):
    x = torch.rand(80, 2, generator=torch.Generator().manual_seed(0))

    def factor(scale):
        kernel = RBF(lengthscale=0.5, outputscale=scale)
        system = KernelSystem(x, x[:, 0], kernel, noise=0.1 * scale, operator="dense", device=DEVICE)
        return pivoted_cholesky(CountingOperator(system.operator), 80)

    plain, scaled = factor(1.0), factor(outputscale)
    assert 20 < plain.shape[1] < 80
    torch.testing.assert_close(scaled, plain * outputscale**0.5, rtol=1e-6, atol=0)


@pytest.mark.parametrize("rank", [1, 10, 120, 500])
@pytest.mark.parametrize(
    "kernel",
    [RBF(lengthscale=1.0, outputscale=2.0), Matern52(lengthscale=0.5), Matern12(lengthscale=0.1)],
    ids=lambda kernel: kernel.name,
)
def test_applying_the_preconditioner_solves_with_the_low_rank_plus_noise_matrix(kernel, rank):
    counting = make(kernel=kernel)
    low_rank = pivoted_cholesky(counting, rank).numpy()
    r = np.random.default_rng(1).standard_normal((120, 3))
    expected = np.linalg.solve(low_rank @ low_rank.T + 0.05 * np.eye(120), r)
    applied = PivotedCholesky(rank=rank).build(counting)(torch.tensor(r, device=DEVICE))
    np.testing.assert_allclose(applied, expected, rtol=1e-8, atol=1e-8)


def test_applying_the_preconditioner_does_not_modify_the_residual():
    r = torch.ones(120, 2, dtype=torch.float64, device=DEVICE)
    PivotedCholesky(rank=5).build(make())(r)
    assert torch.equal(r, torch.ones(120, 2, dtype=torch.float64))


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4])
def test_in_float32_the_preconditioner_stays_positive_definite_along_the_leading_eigenvectors(noise):
    # λmax/σ² reaches 1e7 here, so the difference in Woodbury's formula would be pure rounding
    counting = make(n=1500, kernel=RBF(lengthscale=1.0), noise=noise, dtype=torch.float32)
    apply = PivotedCholesky(rank=100).build(counting)
    k = noise_free(counting).numpy()
    eigenvalues, vectors = scipy.linalg.eigh(k, subset_by_index=[1492, 1499])
    v = torch.tensor(vectors, dtype=torch.float32, device=DEVICE)
    values = (v * apply(v)).sum(0).double().numpy()
    assert (values > 0).all()
    exact = 1 / (eigenvalues + noise)
    # v and the factor are rounded to eps: vᵀP⁻¹v may gain eps²‖v‖²·n/σ², and a factor 1 ± eps·√n
    np.testing.assert_allclose(values, exact, rtol=0.05, atol=1e-11 / noise)


def test_a_preconditioned_kernel_matrix_is_better_conditioned():
    counting = make(kernel=RBF(lengthscale=1.0), noise=1e-3)
    k = noise_free(counting).numpy() + 1e-3 * np.eye(120)
    apply = PivotedCholesky(rank=60).build(counting)
    values = np.linalg.eigvals(apply(torch.tensor(k, device=DEVICE)).numpy()).real
    assert values.max() / values.min() < 0.05 * np.linalg.cond(k)


def test_building_costs_rank_over_n_of_work():
    counting = make(n=80)
    PivotedCholesky(rank=20).build(counting)
    assert counting.entries == 80 * 20 and counting.work == 20 / 80


@pytest.mark.parametrize("rank", [0, -3])
def test_a_rank_below_one_is_rejected(rank):
    with pytest.raises(ValueError, match=rf"rank must be .*at least 1, got {rank}"):
        PivotedCholesky(rank=rank)
