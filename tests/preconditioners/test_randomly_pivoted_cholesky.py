import collections

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz import RBF, KernelSystem, Matern12, Matern52, RandomlyPivotedCholesky
from apviz.operators import CountingOperator
from apviz.preconditioners.randomly_pivoted_cholesky import PROPOSALS, randomly_pivoted_cholesky
from tests.device import DEVICE


class Patient(CountingOperator):
    """Raises after a limit of work, so that an endless draw fails instead of hanging."""

    def block(self, rows, out=None):
        assert self.work < 1000, "the pivots are still being drawn after the work of 1000 products with K"
        return super().block(rows, out)


def make(x, kernel, noise=0.05, dtype=torch.float64, operator="dense"):
    x = np.asarray(x, dtype=np.float64)
    return Patient(
        KernelSystem(x, np.ones(len(x)), kernel, noise=noise, operator=operator, dtype=dtype, device=DEVICE).operator
    )


def uniform(n, d=2, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


def noise_free(operator):
    return operator.kernel(operator.x.double()).numpy()


def factor_of(operator, rank, seed=0):
    return randomly_pivoted_cholesky(operator, rank, seed).double().numpy()


def pivots_of(factor, scale):
    """Return the pivots in order: the rows that each new column explains completely."""
    explained = np.cumsum(factor**2, axis=1) > scale * (1 - 1e-9)
    return [int(np.flatnonzero(explained[:, k] & ~explained[:, :k].any(1))[0]) for k in range(factor.shape[1])]


def nystrom(k, pivots):
    """Return K[:, S] K[S, S]⁻¹ K[S, :]."""
    return k[:, pivots] @ np.linalg.lstsq(k[np.ix_(pivots, pivots)], k[pivots], rcond=None)[0]


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(2, 80),
    rank=st.integers(1, 90),
    seed=st.integers(0, 99),
    kernel=st.sampled_from(
        [Matern12(lengthscale=0.5, outputscale=1.3), Matern52(lengthscale=0.5), RBF(lengthscale=0.3, outputscale=2.0)]
    ),
    operator=st.sampled_from(["dense", "tiled"]),
)
def test_the_remainder_is_positive_semidefinite(n, rank, seed, kernel, operator):
    counting = make(uniform(n, seed=seed), kernel, operator=operator)
    factor = factor_of(counting, rank, seed)
    left = noise_free(counting) - factor @ factor.T
    assert left.diagonal().min() > -1e-12 * kernel.outputscale
    assert np.linalg.eigvalsh(left)[0] > -1e-11 * n * kernel.outputscale


@pytest.mark.parametrize("rank", [1, 10, 100, PROPOSALS + 40])
def test_the_factor_is_the_nystrom_approximation_at_its_pivots_whose_columns_are_exact(rank):
    counting = make(uniform(250), Matern12(lengthscale=0.5, outputscale=1.3))
    k, factor = noise_free(counting), factor_of(counting, rank)
    pivots = pivots_of(factor, 1.3)
    assert factor.shape == (250, rank) and len(set(pivots)) == rank
    np.testing.assert_allclose((factor @ factor.T)[:, pivots], k[:, pivots], rtol=0, atol=1e-11)
    np.testing.assert_allclose(factor @ factor.T, nystrom(k, pivots), rtol=0, atol=1e-9)
    # a Cholesky factor: triangular in the order of the pivots
    np.testing.assert_allclose(np.triu(factor[pivots], 1), 0, atol=1e-12)


@pytest.mark.parametrize("rank", [40, 41, 500])
def test_full_rank_reconstructs_the_kernel_matrix(rank):
    counting = make(uniform(40), Matern12(lengthscale=0.5, outputscale=0.7))
    factor = factor_of(counting, rank)
    assert factor.shape == (40, 40)
    np.testing.assert_allclose(factor @ factor.T, noise_free(counting), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("operator", ["dense", "tiled"])
@pytest.mark.parametrize("seed", range(5))
def test_duplicate_rows_stop_the_factor_at_the_number_of_distinct_ones(dtype, operator, seed):
    counting = make(np.tile(uniform(8), (10, 1)), Matern12(lengthscale=0.3), dtype=dtype, operator=operator)
    factor = factor_of(counting, 50, seed)
    assert factor.shape == (80, 8)
    np.testing.assert_allclose(factor @ factor.T, noise_free(counting), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(lengthscale=2.0),
        RBF(lengthscale=2.0, outputscale=0.1),
        RBF(lengthscale=1.0, outputscale=1e4),
        Matern52(lengthscale=3.0, outputscale=0.07),
    ],
    ids=str,
)
@pytest.mark.parametrize("noise", [1e-4, 1.0, 100.0])
def test_in_float32_a_smooth_kernel_stops_at_rounding_whatever_the_noise(kernel, noise):
    # λmax/n is close to the outputscale, so the remainder is rounding of numbers of that size
    for seed in range(10):
        counting = make(uniform(50, seed=seed), kernel, noise, torch.float32)
        factor = factor_of(counting, 50, seed)
        left = noise_free(counting) - factor @ factor.T
        allowed = 1e-6 * 50 * kernel.outputscale
        assert np.linalg.eigvalsh(left)[0] > -allowed
        if factor.shape[1] < 50:
            assert left.diagonal().max() < 2 * allowed


@pytest.mark.parametrize("seed", [3, 6, 76, 97])
@pytest.mark.parametrize(("outputscale", "noise"), [(0.07, 0.58), (1.3, 20.0)])
def test_in_float32_the_draw_ends_if_the_noise_is_ten_times_the_outputscale(outputscale, noise, seed):
    counting = make(uniform(60, seed=seed), RBF(lengthscale=2.0, outputscale=outputscale), noise, torch.float32)
    factor = factor_of(counting, 60, seed)
    # the remainder is rounding: only about thirty eigenvalues of the kernel are above it
    assert (noise_free(counting).diagonal() - (factor**2).sum(1)).max() < 1e-4 * outputscale
    assert counting.work < 100


def test_only_the_seed_determines_the_factor():
    counting = make(uniform(60), Matern52(lengthscale=0.5))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = randomly_pivoted_cholesky(counting, 10, 3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(first, randomly_pivoted_cholesky(counting, 10, 3))
    assert not torch.equal(first, randomly_pivoted_cholesky(counting, 10, 4))


def test_another_seed_draws_other_pivots():
    counting = make(uniform(500), Matern52(lengthscale=0.5))
    drawn = {tuple(pivots_of(factor_of(counting, 5, seed), 1.0)) for seed in range(20)}
    assert len(drawn) == 20


def sequential_law(k, length):
    """Return the probability of every sequence of pivots, each drawn in proportion to the remaining diagonal."""
    law = {(): 1.0}
    for _ in range(length):
        longer = {}
        for pivots, probability in law.items():
            left = np.diag(k - nystrom(k, list(pivots))).clip(0) if pivots else np.diag(k).copy()
            left[list(pivots)] = 0
            for p in np.flatnonzero(left):
                longer[(*pivots, int(p))] = probability * left[p] / left.sum()
        law = longer
    return law


def chi_square(counts, law, draws):
    """Return the p-value; sequences expected fewer than five times are pooled."""
    expected = {pivots: draws * probability for pivots, probability in law.items()}
    often = [pivots for pivots in law if expected[pivots] >= 5]
    seen, hoped = [counts.get(p, 0) for p in often], [expected[p] for p in often]
    rest = draws - sum(hoped)
    if rest > 1e-6 * draws:
        seen.append(draws - sum(seen))
        hoped.append(rest)
    return scipy.stats.chisquare(seen, hoped).pvalue


@pytest.mark.parametrize("rank", [2, 3])
def test_rejection_sampling_draws_pivots_by_the_sequential_law(rank):
    # close pairs, so that most second proposals are rejected and the law is far from uniform
    x = np.array([0.0, 0.05, 0.1, 1.0, 1.3, 3.0])[:, None]
    counting, draws = make(x, RBF(lengthscale=0.5, outputscale=2.0)), 3000
    drawn = [tuple(pivots_of(factor_of(Patient(counting.uncounted), rank, seed), 2.0)) for seed in range(draws)]
    for length in range(1, rank + 1):
        counts = collections.Counter(pivots[:length] for pivots in drawn)
        law = sequential_law(noise_free(counting), length)
        assert set(counts) <= set(law) and abs(sum(law.values()) - 1) < 1e-12
        if length == 1:
            np.testing.assert_allclose(list(law.values()), 1 / 6)  # of a stationary kernel: the first pivot is uniform
        assert chi_square(counts, law, draws) > 1e-3
        if length == 2:  # the test has power: it rejects pairs drawn independently of the kernel
            pairs = {(i, j): 1 / 30 for i in range(6) for j in range(6) if i != j}
            assert chi_square(counts, pairs, draws) < 1e-100


def test_the_expected_trace_error_satisfies_the_bound_of_chen_epperly_tropp_and_webber():
    # theorem 5.1: E tr(K − LLᵀ) ≤ (1 + ε) tr(K − ⟦K⟧_r) for k ≥ r/ε + r log(1/(εη)), η the best relative error
    counting = make(uniform(200), RBF(lengthscale=0.7))
    k = noise_free(counting)
    eigenvalues = np.linalg.eigvalsh(k)[::-1]
    for r in (3, 6, 10):
        best = eigenvalues[r:].sum()
        rank = int(np.ceil(r + r * np.log(200 / best)))
        errors = [200 - (factor_of(Patient(counting.uncounted), rank, seed) ** 2).sum() for seed in range(20)]
        assert np.mean(errors) <= 2 * best
        assert min(errors) >= eigenvalues[rank:].sum() - 1e-9  # no factor of this rank beats the best


def test_on_clustered_data_random_pivots_find_small_clusters_that_uniform_ones_miss():
    rng = np.random.default_rng(0)
    centres = np.arange(10) * 10.0
    labels = np.concatenate([np.zeros(230, dtype=int), np.repeat(np.arange(1, 10), 3)])
    x = centres[labels][:, None] + 0.05 * rng.standard_normal((257, 1))
    counting = make(x, RBF(lengthscale=1.0))
    k = noise_free(counting)
    ours = [257 - (factor_of(counting, 15, seed) ** 2).sum() for seed in range(20)]
    theirs = [257 - np.trace(nystrom(k, rng.permutation(257)[:15])) for _ in range(20)]
    assert np.mean(ours) < 0.1 * np.mean(theirs)


@pytest.mark.parametrize("rank", [1, 30, 200])
def test_only_columns_of_pivots_and_blocks_of_proposals_count_as_entries(rank):
    counting, asked = make(uniform(400), Matern12(lengthscale=0.3)), []
    for name, cost in (("block", lambda rows: len(rows) ** 2), ("columns", lambda rows: 400 * len(rows))):
        call = getattr(counting.uncounted, name)

        def spy(rows, *others, call=call, name=name, cost=cost):
            asked.append((name, cost(rows)))
            return call(rows, *others)

        setattr(counting.uncounted, name, spy)
    factor_of(counting, rank)
    assert counting.entries == sum(cost for _, cost in asked)
    assert sum(cost for name, cost in asked if name == "columns") == 400 * rank
    assert all(cost == min(rank, PROPOSALS) ** 2 for name, cost in asked if name == "block")


def test_building_costs_about_rank_over_n_of_work():
    counting = make(uniform(3000), Matern12(lengthscale=0.1), dtype=torch.float32, operator="tiled")
    RandomlyPivotedCholesky(rank=100).build(counting)
    assert 100 / 3000 < counting.work < 1.1 * 100 / 3000


@pytest.mark.parametrize("rank", [1, 10, 120, 500])
@pytest.mark.parametrize(
    "kernel",
    [RBF(lengthscale=1.0, outputscale=2.0), Matern52(lengthscale=0.5), Matern12(lengthscale=0.1)],
    ids=lambda kernel: kernel.name,
)
def test_applying_the_preconditioner_solves_with_the_low_rank_plus_noise_matrix(kernel, rank):
    counting = make(uniform(120, 3), kernel)
    factor = factor_of(counting, rank, 5)
    r = np.random.default_rng(1).standard_normal((120, 3))
    expected = np.linalg.solve(factor @ factor.T + 0.05 * np.eye(120), r)
    applied = RandomlyPivotedCholesky(rank=rank, seed=5).build(counting)(torch.tensor(r, device=DEVICE))
    np.testing.assert_allclose(applied, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("rank", [0, -3, 2.5, True])
def test_a_rank_that_is_not_a_positive_integer_is_rejected(rank):
    with pytest.raises(ValueError, match=rf"rank must be a whole number, at least 1, got {rank}"):
        RandomlyPivotedCholesky(rank=rank)


def test_a_negative_seed_is_rejected():
    with pytest.raises(
        ValueError, match="seed must be a whole number, at least 0, at most 4611686018427387904, got -1"
    ):
        RandomlyPivotedCholesky(rank=10, seed=-1)
