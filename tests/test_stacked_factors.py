"""Stacked factors, for a device that chooses blocks itself, against dense float64 linear algebra."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz import factors, stacked_factors
from apviz.factors import BlockFactors, NotPositiveDefinite
from apviz.stacked_factors import Stacked, StackedFactors, factors_of, stacked_indices
from tests.test_factors import EPS, consecutive, dense, operator


@settings(deadline=None)
@given(
    sizes=st.lists(st.sampled_from([3, 7, 12]), min_size=1, max_size=9), columns=st.integers(1, 3),
    dtype=st.sampled_from([torch.float32, torch.float64]), batch=st.sampled_from([1, 2_000, 2**20]),
)  # fmt: skip
def test_a_block_is_solved_equally_by_its_number_on_the_host_and_on_the_device(sizes, columns, dtype, batch):
    counting, rows = operator(sum(sizes), dtype), consecutive(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factors, "BATCH_BYTES", batch)
        found = StackedFactors(counting, rows)
    assert len(found) == len(sizes) and counting.entries == sum(size**2 for size in sizes)
    r = torch.tensor(np.random.default_rng(1).standard_normal((sum(sizes), columns)), dtype=dtype)
    for block, (held, size) in enumerate(zip(rows, sizes, strict=True)):
        k = dense(counting, held)
        expected = torch.linalg.solve(k, r[held].double())
        atol = 50 * EPS[dtype] * np.linalg.cond(k.numpy()) * float(expected.abs().max())
        by_host, by_device = found.project(block, r), found.project(torch.tensor(block), r)
        assert len(by_device) == max(sizes) and torch.equal(found.rows[torch.tensor(block)][:size], held)
        np.testing.assert_allclose(by_host, expected, rtol=0, atol=atol)
        np.testing.assert_allclose(by_device[:size], expected, rtol=0, atol=atol)
        assert float(by_device[size:].abs().sum()) <= 1e-34  # padded rows do not move


def test_only_the_block_that_needs_jitter_gets_it():
    x = np.random.default_rng(0).uniform(0, 1, (30, 2))
    x[12:20] = x[11]  # nine duplicate rows
    counting, rows = operator(30, torch.float32, 1e-9, x), consecutive([10, 10, 10])
    with pytest.warns(UserWarning, match="1 of 3 blocks needed jitter"):
        found = StackedFactors(counting, rows)
    with pytest.warns(UserWarning, match="1 of 3 blocks needed jitter"):
        before = BlockFactors(counting, rows)
    assert torch.equal(found.jitter, before.jitter) and (found.jitter > 0).tolist() == [False, True, False]


def test_an_error_about_a_block_without_a_factor_names_it(monkeypatch):
    monkeypatch.setattr(factors, "JITTERS", (1e-12,))
    x = np.random.default_rng(0).uniform(0, 1, (20, 2))
    x[12:20] = x[11]
    with pytest.raises(NotPositiveDefinite, match="block 1 of K is not positive definite"):
        StackedFactors(operator(20, torch.float32, 1e-9, x), consecutive([10, 10]))


@pytest.mark.parametrize(("sizes", "dtype", "stacked"), [
    ([10, 10, 4], torch.float64, True), ([10], torch.float64, True), ([10, 1, 1], torch.float64, False),
    ([10, 10], torch.float16, False),
])  # fmt: skip
def test_only_blocks_of_about_one_size_in_full_precision_are_stacked(monkeypatch, sizes, dtype, stacked):
    counting, rows = operator(sum(sizes)), consecutive(sizes)
    assert not factors_of(counting, rows, dtype).is_stacked  # on the CPU there is nothing to wait for
    monkeypatch.setattr(stacked_factors, "STACKED_ON", ("cpu",))
    assert factors_of(counting, rows, dtype).is_stacked is stacked


def test_if_a_stack_does_not_fit_in_memory_factors_are_not_stacked(monkeypatch):
    counting, rows = operator(20), consecutive([10, 10])
    monkeypatch.setattr(stacked_factors, "STACKED_ON", ("cpu",))
    monkeypatch.setattr(stacked_factors, "free_memory", lambda device: 1_000)
    found = factors_of(counting, rows, torch.float64)
    assert not found.is_stacked and found.index(torch.tensor(1)) == 1 and type(found.index(torch.tensor(1))) is int


def test_indices_are_padded_with_the_first_or_with_given_ones():
    each = [torch.tensor([4, 5, 6]), torch.tensor([7])]
    assert stacked_indices(each).tolist() == [[4, 5, 6], [7, 7, 7]]
    assert stacked_indices(each, [torch.tensor([0]), torch.tensor([1, 2, 3])]).tolist() == [[4, 5, 6], [7, 1, 2]]


def test_rows_are_gathered_once_for_each_tensor_that_indexes_them():
    found = Stacked(["a", "b"], torch.tensor([[1], [2]]))
    one, other = torch.tensor(0), torch.tensor(1)
    assert found[one] is found[one] and found[other].tolist() == [2] and found[one].tolist() == [1]
    assert list(found) == ["a", "b"] and len(found) == 2


def test_the_number_of_a_block_stays_on_its_device_and_must_not_be_overwritten():
    found = StackedFactors(operator(20), consecutive([10, 10]))
    block = torch.tensor(1)
    assert found.index(block) is block and found.index(block) is block and found.index(0) == 0
    block.zero_()
    with pytest.raises(ValueError, match="a rule must return a new tensor for every update"):
        found.index(block)
