"""Merging equal rows changes neither posterior nor likelihood: against dense float64 algebra on the raw rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz.duplicates import (
    count_distinct,
    equal_rows,
    groups_of,
    merged,
    near_duplicates,
    near_pairs,
)

NOISE = 0.3


def kernel(a, b):
    """Return the Matérn-3/2 kernel with lengthscale 0.7, from its formula."""
    r = np.sqrt(3) * np.linalg.norm(a[:, None] - b[None], axis=2) / 0.7
    return 1.4 * (1 + r) * np.exp(-r)


def posterior(x, y, noises, z):
    """Return mean, covariance and log density of dense algebra."""
    k, c = kernel(x, x) + np.diag(noises), kernel(x, z)
    value = scipy.stats.multivariate_normal(np.zeros(len(x)), k).logpdf(y)
    return c.T @ np.linalg.solve(k, y), kernel(z, z) - c.T @ np.linalg.solve(k, c), value


def repeated(counts, seed, d=2):
    """Return distinct points repeated `counts` times in a random order, targets and weights."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (len(counts), d)).repeat(counts, axis=0)
    x = x[rng.permutation(len(x))]
    y = 40 + np.sin(3 * x[:, 0]) + rng.standard_normal(len(x))
    return x, y, rng.lognormal(0, 1, len(x))


COUNTS = st.lists(st.integers(1, 9), min_size=2, max_size=8)


@settings(deadline=None, max_examples=60)
@given(counts=COUNTS, seed=st.integers(0, 999), is_weighted=st.booleans())
def test_the_merged_rows_have_the_posterior_and_with_their_term_the_likelihood_of_all_rows(counts, seed, is_weighted):
    x, y, weights = repeated(counts, seed)
    weights = weights if is_weighted else np.ones(len(x))
    z = np.random.default_rng(1).uniform(-1, 1, (5, 2))
    mean, covariance, value = posterior(x, y, NOISE / weights, z)
    rows = merged(torch.tensor(x), torch.tensor(y), torch.tensor(weights))
    noises = torch.as_tensor(rows.noises(NOISE), dtype=torch.float64).expand(len(counts)).numpy()
    found = posterior(rows.x.numpy(), rows.y.numpy(), noises, z)
    np.testing.assert_allclose(found[0], mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found[1], covariance, rtol=1e-10, atol=1e-10)
    assert found[2] + rows.log_density(NOISE) == pytest.approx(value, rel=1e-10, abs=1e-10)
    assert rows.n == len(x) and len(rows.x) == len(counts)


@settings(deadline=None, max_examples=30)
@given(counts=COUNTS, seed=st.integers(0, 999))
def test_known_noises_are_weights_of_unit_noise(counts, seed):
    x, y, noises = repeated(counts, seed)
    mean, covariance, value = posterior(x, y, noises, x[:3])
    rows = merged(torch.tensor(x), torch.tensor(y), 1 / torch.tensor(noises))
    found = posterior(rows.x.numpy(), rows.y.numpy(), rows.noises(1.0).numpy(), x[:3])
    np.testing.assert_allclose(found[0], mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found[1], covariance, rtol=1e-10, atol=1e-10)
    assert found[2] + rows.log_density(1.0) == pytest.approx(value, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["counts", "weights"])
def test_the_derivative_in_the_noise_is_that_of_all_rows(is_weighted):
    x, y, weights = repeated([3, 1, 5, 2], 0)
    weights = weights if is_weighted else np.ones(len(x))
    k = kernel(x, x) + np.diag(NOISE / weights)
    inverse = np.linalg.inv(k)
    w = inverse @ y
    expected = 0.5 * np.sum((inverse - np.outer(w, w)).diagonal() / weights)
    rows = merged(torch.tensor(x), torch.tensor(y), torch.tensor(weights))
    inverse = np.linalg.inv(kernel(rows.x.numpy(), rows.x.numpy()) + np.diag(rows.noises(NOISE).numpy()))
    w = inverse @ rows.y.numpy()
    by_row = torch.tensor(0.5 * (inverse - np.outer(w, w)).diagonal())
    assert rows.noise_derivative(by_row, NOISE) == pytest.approx(expected, rel=1e-10)
    step = 1e-5
    differences = (rows.log_density(NOISE + step) - rows.log_density(NOISE - step)) / (2 * step)
    assert rows.noise_derivative(torch.zeros(4), NOISE) == pytest.approx(-differences, rel=1e-7)


def test_several_outputs_have_means_and_a_term_of_their_own():
    x, y, weights = (torch.tensor(each) for each in repeated([2, 4, 1], 3))
    both = torch.stack([y, y.square()], 1)
    rows, *alone = (merged(x, values, weights) for values in (both, y, y.square()))
    torch.testing.assert_close(rows.y, torch.stack([each.y for each in alone], 1), rtol=1e-14, atol=0)
    assert rows.log_density(0.2) == pytest.approx(sum(each.log_density(0.2) for each in alone), rel=1e-12)
    zeros = torch.zeros((), dtype=torch.float64)
    expected = sum(each.noise_derivative(zeros, 0.2) for each in alone)
    assert rows.noise_derivative(zeros, 0.2) == pytest.approx(expected, rel=1e-12)


def test_distinct_rows_stay_bit_for_bit_what_they_were():
    x, y = torch.randn(50, 3, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    rows = merged(x, y)
    assert torch.equal(rows.x, x) and torch.equal(rows.y, y) and rows.noises(0.1) == 0.1
    assert not rows.are_merged and rows.sentence == "" and rows.log_density(0.1) == 0.0
    assert rows.noise_derivative(torch.tensor(0.25), 0.1) == 0.25


def test_rows_are_equal_if_their_numbers_are_whatever_the_sign_of_a_zero():
    just_above = np.nextafter(1.0, 2.0)
    x = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [0.0, just_above], [0.0, 1.0]], dtype=torch.float64)
    assert groups_of(x).tolist() == [0, 0, 1, 0]
    assert groups_of(torch.tensor([[2], [1], [2]])).tolist() == [0, 1, 0]


def test_groups_are_numbered_in_the_order_in_which_they_occur():
    x = torch.randint(4, (200, 3), generator=torch.Generator().manual_seed(0)).double()
    seen, expected = {}, []
    for row in x.tolist():
        expected.append(seen.setdefault(tuple(row), len(seen)))
    assert groups_of(x).tolist() == expected


def test_different_rows_with_one_hash_are_not_merged(monkeypatch):
    x = torch.randint(3, (40, 2), generator=torch.Generator().manual_seed(0)).double()
    expected = groups_of(x)
    real = __import__("pandas").util.hash_pandas_object
    monkeypatch.setattr("pandas.util.hash_pandas_object", lambda frame, index: real(frame, index=index) % 3)
    assert groups_of(x).tolist() == expected.tolist()


def test_if_all_inputs_are_equal_two_rows_are_left_because_a_system_needs_two():
    assert count_distinct(torch.ones(30, 2)) == 1 and equal_rows(torch.ones(30, 2)).tolist() == [0] * 30
    rows = merged(torch.ones(30, 2), torch.arange(30.0))
    assert rows.y.tolist() == [0.0, 15.0] and rows.counts.tolist() == [1.0, 29.0]
    assert rows.sentence == "30 rows at 1 distinct input: solved as 2 rows"


def test_a_subset_of_merged_rows_is_the_merged_subset():
    x, y, weights = (torch.tensor(each) for each in repeated([2, 4, 1, 3], 5))
    some = torch.tensor([3, 1])
    inside = torch.isin(groups_of(x), some)
    direct, subset = merged(x[inside], y[inside], weights[inside]), merged(x, y, weights).of(some)
    assert subset.n == direct.n and subset.log_density(0.4) == pytest.approx(direct.log_density(0.4), rel=1e-12)
    order = torch.argsort(direct.x[:, 0])
    torch.testing.assert_close(subset.y[torch.argsort(subset.x[:, 0])], direct.y[order])


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_weights_that_are_not_positive_numbers_are_rejected(weight):
    with pytest.raises(ValueError, match="weights must be positive, finite numbers, got"):
        merged(torch.zeros(2, 1), torch.zeros(2), torch.tensor([1.0, weight]))


# --- near-duplicates --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(n=st.integers(2, 9), d=st.integers(1, 4), seed=st.integers(0, 999))
def test_of_up_to_nine_rows_the_pairs_found_are_those_of_a_comparison_of_all(n, d, seed):
    x = np.unique(np.random.default_rng(seed).integers(0, 5, (n, d)) * 0.1, axis=0)
    apart = np.abs(x[:, None] - x[None]).max(2)
    found = near_pairs(x, 0.11, np.linspace(0.5, 1, d))
    assert set(map(tuple, found.tolist())) == {(i, j) for i, j in np.argwhere(apart <= 0.11) if i < j}


def test_in_a_crowd_of_near_rows_each_row_is_in_a_pair():
    x = np.random.default_rng(0).uniform(0, 1e-7, (5_000, 2))
    found = near_duplicates(x, np.ones(2))
    assert len(np.unique(found)) == 5_000 and len(found) <= 8 * 5_000


def test_rows_within_a_millionth_of_a_lengthscale_in_every_input_are_near():
    x = np.random.default_rng(0).uniform(-1, 1, (1_000, 3))
    assert len(near_duplicates(x, np.full(3, 0.5))) == 0
    x[700] = x[30] + [4e-7, -4e-7, 0.0]
    assert near_duplicates(x, np.full(3, 0.5)).tolist() == [[30, 700]]
    assert len(near_duplicates(x, np.array([0.5, 0.3, 0.5]))) == 0
    x[700] = x[30] + [0.0, 0.0, 1e-3]
    assert near_duplicates(x, np.array([0.5, 0.5, 1e4])).tolist() == [[30, 700]]
