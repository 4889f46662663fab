"""Factors of blocks, stored two in one square, against dense float64 linear algebra."""

import gc
from types import FunctionType, ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import apviz
from apviz import factors
from apviz.factors import BlockFactors, NotPositiveDefinite, factor_bytes, numbers_held
from apviz.operators import CountingOperator

EPS = {torch.float32: 6e-8, torch.float64: 1.1e-16}


def operator(n, dtype=torch.float64, noise=0.1, x=None):
    x = np.random.default_rng(n).uniform(0, 1, (n, 2)) if x is None else x
    system = apviz.KernelSystem(
        x, np.ones(n), apviz.Matern52(lengthscale=0.4), noise=noise, operator="dense", dtype=dtype, device="cpu"
    )
    return CountingOperator(system.operator)


def dense(counting, rows):
    """Return K[I, I] in float64."""
    one = counting.uncounted
    k = one.kernel(one.x[rows].double())
    k.diagonal().add_(one.noise)
    return k


def consecutive(sizes):
    return list(torch.arange(sum(sizes)).split(list(sizes)))


@settings(deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 7, 12]), min_size=2, max_size=12), columns=st.integers(1, 3),
    dtype=st.sampled_from([torch.float32, torch.float64]), batch=st.sampled_from([1, 2_000, 2**20]),
)  # fmt: skip
def test_every_block_is_solved_for_any_sizes_of_its_neighbours_and_of_batches(sizes, columns, dtype, batch):
    counting, rows = operator(sum(sizes), dtype), consecutive(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factors, "BATCH_BYTES", batch)
        found = BlockFactors(counting, rows)
    assert len(found) == len(sizes) and counting.entries == sum(size**2 for size in sizes)
    r = torch.tensor(np.random.default_rng(1).standard_normal((sum(sizes), columns)), dtype=dtype)
    for block, (held, matrix) in enumerate(zip(rows, found.matrices(), strict=True)):
        k = dense(counting, held)
        expected = torch.linalg.solve(k, r[held].double())
        scale = np.linalg.cond(k.numpy()) * float(expected.abs().max())
        np.testing.assert_allclose(found.solve(block, r[held]), expected, rtol=0, atol=50 * EPS[dtype] * scale)
        np.testing.assert_allclose(matrix, k, rtol=0, atol=10 * EPS[dtype])


@pytest.mark.parametrize("panel", [7, 30, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_half_precision_factors_belong_to_a_matrix_within_rounding_of_k(monkeypatch, panel, dtype):
    monkeypatch.setattr(factors, "PANEL", panel)
    sizes = [30, 20, 30, 30, 1, 50]
    counting, rows = operator(sum(sizes), dtype), consecutive(sizes)
    found = BlockFactors(counting, rows, dtype=torch.float16)
    for block, held in enumerate(rows):
        k = dense(counting, held).numpy()
        inverse = found.solve(block, torch.eye(len(held), dtype=dtype)).double().numpy()
        np.testing.assert_allclose(inverse, inverse.T, atol=50 * EPS[dtype] * np.abs(inverse).max())
        assert (np.linalg.eigvalsh(inverse) > 0).all()  # so a projection decreases h whatever the rounding
        # |(C + δC) D (C + δC)ᵀ − C D Cᵀ| is at most twice 2⁻¹¹ |C| D |C|ᵀ
        unit = np.linalg.cholesky(k)
        np.testing.assert_array_less(
            np.abs(np.linalg.inv(inverse) - k), 1e-12 + 2.1 * 2.0**-11 * np.abs(unit) @ np.abs(unit).T
        )


def test_half_precision_factors_take_half_the_memory_of_float32():
    sizes = [30, 20, 30, 30, 20]
    counting, rows = operator(sum(sizes), torch.float32), consecutive(sizes)
    found, seen = BlockFactors(counting, rows, dtype=torch.float16), {}
    bytes_held([counting, rows], seen)
    squares = 2 * 30**2 + 20**2
    assert 2 * squares <= bytes_held(found, seen) <= 2 * squares + 4 * sum(sizes) + 8 * len(sizes)


def test_half_precision_is_rejected_if_entries_of_a_factor_may_exceed_its_range():
    counting = operator(40, torch.float64, noise=1e-9)
    with pytest.raises(ValueError, match=r"noise of at least 1e-08 times the outputscale, got 1.0e-09 .*'recursion'"):
        BlockFactors(counting, consecutive([20, 20]), dtype=torch.float16)


def bytes_held(thing, seen):
    """Return the bytes of all tensors reachable from an object and not yet in `seen`."""
    total, left = 0, [thing]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | FunctionType):
            continue
        seen[id(each)] = each
        if isinstance(each, torch.Tensor):
            storage = each.untyped_storage()
            total += 0 if storage.data_ptr() in seen else storage.nbytes()
            seen[storage.data_ptr()] = storage
        left += gc.get_referents(each)
    return total


def test_two_blocks_of_one_size_share_the_memory_of_one():
    sizes = [30, 20, 30, 30, 30, 20, 30, 10]
    counting, rows = operator(sum(sizes)), consecutive(sizes)
    found, seen = BlockFactors(counting, rows), {}
    bytes_held([counting, rows], seen)
    held = bytes_held(found, seen)
    squares = 3 * 30**2 + 20**2 + 10**2
    assert squares == found.numbers == numbers_held(sizes)
    # plus one pivot per row and one jitter per block
    assert 8 * squares <= held <= 8 * (squares + sum(sizes) + len(sizes))


@pytest.mark.parametrize("n", [1, 59, 60, 100, 119, 121, 180, 200])
@pytest.mark.parametrize("overlap", [0.0, 0.5, 1.0, 7.0])
def test_the_memory_estimated_from_the_inputs_equals_that_of_the_partition(n, overlap):
    x = torch.rand(n, 2, generator=torch.Generator().manual_seed(0))
    sizes = apviz.partitions.KDTree(overlap=overlap)(x, 60).solved_sizes()
    assert factor_bytes(x, 60, overlap) == 4 * numbers_held(sizes)


def test_factoring_blocks_in_place_does_not_change_a_dense_matrix():
    counting, rows = operator(60), [slice(0, 30), slice(30, 60)]
    before = counting.uncounted.matrix.clone()
    BlockFactors(counting, rows)
    assert torch.equal(counting.uncounted.matrix, before)


def test_blocks_of_the_remainder_of_a_low_rank_factor_are_solved():
    counting, rows = operator(60), consecutive([20, 20, 20])
    v = 0.02 * torch.tensor(np.random.default_rng(2).standard_normal((60, 3)))
    found = BlockFactors(counting, rows, v)
    for block, held in enumerate(rows):
        k, r = dense(counting, held) - v[held] @ v[held].T, v[held] + 1
        np.testing.assert_allclose(found.solve(block, r), torch.linalg.solve(k, r), rtol=1e-10)


@pytest.mark.parametrize("singular", [0, 1, 2])
def test_only_the_block_that_needs_jitter_gets_it(singular):
    x = np.random.default_rng(0).uniform(0, 1, (60, 2))
    x[20 * singular : 20 * (singular + 1)] = x[20 * singular]
    counting, rows = operator(60, torch.float32, 1e-9, x), consecutive([20, 20, 20])
    with pytest.warns(UserWarning, match=f"1 of 3 blocks needed jitter .* block {singular}"):
        found = BlockFactors(counting, rows)
    assert found.jitter.nonzero().tolist() == [[singular]]
    for block, held in enumerate(rows):
        k = dense(counting, held) + found.jitter[block] * torch.eye(20)
        r = torch.ones(20, 1)
        solved = found.solve(block, r).double()
        np.testing.assert_allclose(k @ solved, r, atol=1e-2)


@pytest.mark.parametrize("block", [0, 1])
def test_an_error_about_a_block_that_no_jitter_saves_names_it(block):
    counting, rows = operator(40), consecutive([20, 20])
    v = torch.zeros(40, 1, dtype=torch.float64)
    v[20 * block] = 10.0
    with pytest.raises(NotPositiveDefinite, match=f"block {block} of K − LLᵀ is not positive definite"):
        BlockFactors(counting, rows, v)
