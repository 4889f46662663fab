"""Both two-level forms against their textbook formulas, with dense matrices in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz.preconditioners.low_rank import LowRankPlusNoise, galerkin, low_rank

CASES = {
    "n": st.integers(1, 40), "rank": st.integers(1, 45), "columns": st.integers(1, 4),
    "decades": st.floats(0, 4), "size": st.sampled_from([1e-4, 1.0, 30.0]), "seed": st.integers(0, 999),
}  # fmt: skip


def definite(n, decades, rng):
    """Return a symmetric matrix with eigenvalues from 1 to 10^decades."""
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (q * np.logspace(0, decades, n)) @ q.T


def times(matrix):
    matrix = torch.tensor(matrix)
    return lambda r: matrix @ r


def assert_close(applied, matrix, r):
    """Compare to 1e-9 of ‖P⁻¹‖‖r‖, the accuracy of float64 for a badly conditioned M."""
    scale = np.linalg.norm(matrix, 2) * np.linalg.norm(r)
    np.testing.assert_allclose(applied, matrix @ r, rtol=0, atol=1e-9 * scale)


@settings(deadline=None, max_examples=40)
@given(**CASES)
def test_low_rank_applies_the_inverse_of_the_sum(n, rank, columns, decades, size, seed):
    rng = np.random.default_rng(seed)
    m, factor = definite(n, decades, rng), size * rng.standard_normal((n, rank))
    r = rng.standard_normal((n, columns))
    apply = low_rank(times(m), torch.tensor(factor))
    assert_close(apply(torch.tensor(r)), np.linalg.inv(np.linalg.inv(m) + factor @ factor.T), r)


@pytest.mark.parametrize("case", ["repeated columns", "zero columns", "one column", "no effect at all"])
def test_low_rank_accepts_a_factor_with_linearly_dependent_columns(case):
    rng = np.random.default_rng(0)
    m, base = definite(30, 2.0, rng), rng.standard_normal((30, 4))
    factor = {
        "repeated columns": np.hstack([base, base, base[:, :1]]),
        "zero columns": np.hstack([base, np.zeros((30, 3))]),
        "one column": base[:, :1],
        "no effect at all": np.zeros((30, 2)),
    }[case]
    r = rng.standard_normal((30, 2))
    apply = low_rank(times(m), torch.tensor(factor))
    assert_close(apply(torch.tensor(r)), np.linalg.inv(np.linalg.inv(m) + factor @ factor.T), r)


@settings(deadline=None, max_examples=40)
@given(**CASES)
def test_galerkin_applies_the_balancing_preconditioner(n, rank, columns, decades, size, seed):
    rng = np.random.default_rng(seed)
    k, m = definite(n, decades, rng), definite(n, 2.0, rng)
    v, r = size * rng.standard_normal((n, min(rank, n))), rng.standard_normal((n, columns))
    # Mandel (1993): P = Q + (I − QK) M (I − KQ), Q = V(VᵀKV)⁻¹Vᵀ, in a basis of span V
    basis = np.linalg.svd(v, full_matrices=False)[0]
    q = basis @ np.linalg.inv(basis.T @ k @ basis) @ basis.T
    expected = q + (np.eye(n) - q @ k) @ m @ (np.eye(n) - k @ q)
    assert_close(galerkin(times(m), torch.tensor(v), times(k))(torch.tensor(r)), expected, r)


def test_galerkin_is_exact_on_the_coarse_space_and_depends_only_on_its_span():
    rng = np.random.default_rng(0)
    k, m, v = definite(50, 3.0, rng), definite(50, 1.0, rng), rng.standard_normal((50, 7))
    apply = galerkin(times(m), torch.tensor(v), times(k))
    np.testing.assert_allclose(apply(torch.tensor(k @ v)), v, atol=1e-10)  # P⁻¹Kv = v
    mixed = galerkin(times(m), torch.tensor(v @ rng.standard_normal((7, 7))), times(k))
    r = torch.tensor(rng.standard_normal((50, 3)))
    torch.testing.assert_close(mixed(r), apply(r), rtol=1e-8, atol=1e-8)


def test_building_galerkin_costs_one_product_with_k_and_applying_it_none():
    rng, products = np.random.default_rng(0), []
    k = torch.tensor(definite(20, 2.0, rng))

    def matmul(v):
        products.append(v.shape)
        return k @ v

    apply = galerkin(lambda r: r / 3, torch.tensor(rng.standard_normal((20, 5))), matmul)
    apply(torch.ones(20, 2, dtype=torch.float64))
    assert products == [(20, 5)]


@pytest.mark.parametrize("kind", ["low-rank", "galerkin"])
def test_an_exact_fine_level_stays_exact(kind):
    # M = (K − LLᵀ)⁻¹, or K⁻¹: the sum is K⁻¹ whatever the coarse space
    rng = np.random.default_rng(0)
    rest, factor = definite(40, 2.0, rng), rng.standard_normal((40, 6))
    k = rest + factor @ factor.T
    r = rng.standard_normal((40, 3))
    if kind == "low-rank":
        apply = low_rank(times(np.linalg.inv(rest)), torch.tensor(factor))
    else:
        apply = galerkin(times(np.linalg.inv(k)), torch.tensor(factor), times(k))
    np.testing.assert_allclose(apply(torch.tensor(r)), np.linalg.solve(k, r), atol=1e-10)


@pytest.mark.parametrize("kind", ["low-rank", "galerkin"])
def test_applying_does_not_modify_the_residual_even_if_the_fine_level_returns_its_argument(kind):
    rng = np.random.default_rng(0)
    factor = torch.tensor(rng.standard_normal((20, 3)))
    r = torch.tensor(rng.standard_normal((20, 2)))
    kept = r.clone()
    k = times(definite(20, 1.0, rng))
    apply = low_rank(lambda v: v, factor) if kind == "low-rank" else galerkin(lambda v: v, factor, k)
    apply(r)
    assert torch.equal(r, kept)


@pytest.mark.parametrize("kind", ["low-rank", "galerkin"])
@pytest.mark.parametrize("ratio", [1e3, 1e5, 1e7])
def test_in_float32_the_sum_is_symmetric_and_definite_however_large_the_coarse_part(kind, ratio):
    # P = I + UΛUᵀ, Λ from `ratio` to 10; M = I
    rng = np.random.default_rng(0)
    u, spectrum = np.linalg.qr(rng.standard_normal((300, 40)))[0], np.logspace(np.log10(ratio), 1, 40)
    k = np.eye(300) + (u * spectrum) @ u.T
    factor = torch.tensor(u * np.sqrt(spectrum), dtype=torch.float32)
    k32 = torch.tensor(k, dtype=torch.float32)
    apply = low_rank(torch.clone, factor) if kind == "low-rank" else galerkin(torch.clone, factor, lambda v: k32 @ v)
    applied = apply(torch.eye(300)).double().numpy()
    np.testing.assert_allclose(applied, applied.T, rtol=0, atol=1e-6)
    v = torch.tensor(u, dtype=torch.float32)
    values = (v * apply(v)).sum(0).double().numpy()
    # v is rounded to eps: vᵀP⁻¹v may gain eps²‖v‖²·n, and a factor 1 ± eps·√n
    np.testing.assert_allclose(values, 1 / (1 + spectrum), rtol=0.01, atol=1e-11)
    assert np.linalg.eigvalsh((applied + applied.T) / 2)[0] > -1e-7


@pytest.mark.parametrize("noise", [0.3, torch.linspace(0.1, 2.0, 9, dtype=torch.float64)])
def test_a_factor_plus_noise_per_row_is_inverted_and_sampled_like_its_dense_matrix(noise):
    factor = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    made = LowRankPlusNoise(factor, noise)
    dense = (factor @ factor.T + torch.diag(torch.as_tensor(noise, dtype=torch.float64).expand(9))).numpy()
    np.testing.assert_allclose(made(torch.eye(9, dtype=torch.float64)), np.linalg.inv(dense), rtol=1e-10, atol=1e-12)
    drawn = made.sample(40_000, torch.Generator().manual_seed(1))
    np.testing.assert_allclose(np.cov(drawn.numpy()), dense, atol=0.05 * np.diag(dense).max())


def test_samples_are_determined_by_their_generator():
    made = LowRankPlusNoise(torch.ones(9, 3, dtype=torch.float64), 0.3)
    first, again, other = (made.sample(2, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
