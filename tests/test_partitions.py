import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from apviz.operators import native
from apviz.partitions import (
    PARTITIONS,
    KDTree,
    Partition,
    PrincipalAxisTree,
    Sequential,
    ShuffledRows,
    overlap_of,
    partitioner_named,
    squared_distances,
    with_overlap,
)

EVERY_PARTITIONER = pytest.mark.parametrize(
    "partitioner", [kind() for kind in PARTITIONS.values()], ids=PARTITIONS.keys()
)


def points(n, d, seed=0, duplicates=False):
    x = np.random.default_rng(seed).standard_normal((n, d))
    if duplicates:
        x = np.round(x)
    return torch.tensor(x)


def solved_rows(partition, block):
    rows = partition.solved(block)
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows.numpy()


@EVERY_PARTITIONER
@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(2, 150), d=st.integers(1, 6), block_size=st.integers(1, 160), seed=st.integers(0, 99),
    overlap=st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0, 1000.0]), duplicates=st.booleans(),
)  # fmt: skip
def test_every_row_is_owned_once_and_margins_contain_other_rows(
    partitioner, n, d, block_size, seed, overlap, duplicates
):
    x = points(n, d, seed, duplicates)
    partition = replace(partitioner, overlap=overlap)(x, block_size)
    m = math.ceil(n / block_size)
    assert len(partition) == m
    assert partition.owned_sizes() == [block_size] * (m - 1) + [n - (m - 1) * block_size]  # only the last is short
    owned = np.concatenate([np.arange(n)[partition.owned(j)] for j in range(m)])
    assert owned.tolist() == list(range(n))
    assert sorted(partition.order.tolist()) == list(range(n))
    for j, (size, solved_size) in enumerate(zip(partition.owned_sizes(), partition.solved_sizes(), strict=True)):
        solved = solved_rows(partition, j)
        margin = solved[size:]
        assert solved[:size].tolist() == list(range(n))[partition.owned(j)]  # the owned rows come first
        assert solved_size == len(solved) == len(set(solved.tolist()))
        assert len(margin) == min(math.floor(overlap * size), n - size)


def assert_margins_are_exact(partition, x, blocks=None):
    """Check that margins have the distances of the rows nearest to any owned row; ties may be broken in any way."""
    stored = np.asarray(x, dtype=np.float64)[partition.order.numpy()]
    for j in range(len(partition)) if blocks is None else blocks:
        owned = partition.owned(j)
        others = np.delete(np.arange(len(stored)), owned)
        nearest = dict(zip(others.tolist(), cdist(stored[others], stored[owned]).min(1), strict=True))
        margin = solved_rows(partition, j)[owned.stop - owned.start :]
        expected = np.sort(list(nearest.values()))[: len(margin)]
        np.testing.assert_allclose(np.sort([nearest[row] for row in margin.tolist()]), expected, rtol=1e-6, atol=1e-7)


@EVERY_PARTITIONER
@settings(deadline=None, max_examples=60)
@given(
    blocks=st.integers(2, 3), block_size=st.integers(1, 40), short=st.integers(0, 39), d=st.sampled_from([1, 2, 5]),
    overlap=st.sampled_from([0.1, 0.5, 1.0, 1.5, 1000.0]), seed=st.integers(0, 99), duplicates=st.booleans(),
)  # fmt: skip
def test_with_few_blocks_a_margin_contains_the_rows_nearest_to_any_owned_row(
    partitioner, blocks, block_size, short, d, overlap, seed, duplicates
):
    x = points(blocks * block_size - short % block_size, d, seed, duplicates)
    assert_margins_are_exact(replace(partitioner, overlap=overlap)(x, block_size), x)


@pytest.fixture(params=["compiled", "matrix products"])
def search(request, monkeypatch):
    """Choose how distances to the nearest owned row are computed."""
    if request.param == "matrix products":
        monkeypatch.setattr(native, "is_built", lambda *_: False)
    elif native.library() is None:
        pytest.skip("no C++ compiler on this machine")


@pytest.mark.usefixtures("search")
@EVERY_PARTITIONER
@pytest.mark.parametrize(("overlap", "blocks"), [(0.25, 4), (0.5, 7), (1.0, 12), (2.0, 22)])
@pytest.mark.parametrize("duplicates", [False, True], ids=["distinct", "duplicates"])
def test_margins_of_full_blocks_are_exact_up_to_about_ten_times_the_overlap_in_blocks(
    partitioner, overlap, blocks, duplicates
):
    # candidates are ten times the margin and the next block, here all rows; fewer for the short last block
    x = points(20 * blocks - 7, 3, duplicates=duplicates)
    partition = replace(partitioner, overlap=overlap)(x, 20)
    assert len(partition) == blocks
    assert_margins_are_exact(partition, x, range(blocks - 1))


def test_a_margin_is_nearest_to_the_rows_not_to_their_bounding_box():
    # the box of the first block is [0, 10]; 5 lies in it, far from both rows, and 11 outside, near one
    x = torch.tensor([0.0, 10.0, 5.0, 11.0, 4.0, -0.5])[:, None].double()
    assert Sequential(overlap=1.0)(x, 2).solved(0).tolist() == [0, 1, 3, 5]


@pytest.mark.usefixtures("search")
def test_margins_far_from_the_origin_are_as_accurate_in_float32():
    # float32 represents this grid exactly; ‖x‖² is 1e8 times the squared spacing
    grid = torch.cartesian_prod(torch.arange(12.0), torch.arange(12.0))
    x = grid[torch.randperm(144, generator=torch.Generator().manual_seed(0))] + 8192
    assert_margins_are_exact(KDTree(overlap=1.0)(x, 16), x)


@EVERY_PARTITIONER
def test_an_overlap_that_covers_everything_solves_on_all_rows_in_every_block(partitioner):
    partition = replace(partitioner, overlap=6.0)(points(53, 2), 10)
    assert all(sorted(solved_rows(partition, j)) == list(range(53)) for j in range(5))
    # ⌊6 · 3⌋ rows in addition to the three of the last block
    assert partition.solved_sizes() == [53] * 5 + [21]


def share_of_exact_margins(partition, x):
    """Return the mean share of margins that belongs there: not farther away than the last exact row."""
    stored = x.numpy()[partition.order.numpy()]
    shares = []
    for j in range(len(partition)):
        owned = partition.owned(j)
        nearest = cKDTree(stored[owned]).query(stored)[0]
        nearest[owned] = np.inf
        margin = nearest[solved_rows(partition, j)[owned.stop - owned.start :]]
        shares.append((margin <= np.partition(nearest, len(margin) - 1)[len(margin) - 1] * (1 + 1e-9)).mean())
    return np.mean(shares)


@pytest.mark.parametrize("partitioner", [KDTree(), PrincipalAxisTree()], ids=["kd-tree", "principal-axis-tree"])
@pytest.mark.parametrize(
    ("d", "overlap", "least"), [(1, 0.5, 1.0), (2, 0.5, 0.999), (3, 0.5, 0.8), (3, 1.0, 0.95), (3, 2.0, 0.995)]
)
def test_with_many_compact_blocks_nearly_all_of_the_exact_margin_is_found(partitioner, d, overlap, least):
    x = points(6000, d)
    partition = replace(partitioner, overlap=overlap)(x, 50)
    assert len(partition) == 120
    assert share_of_exact_margins(partition, x) >= least


def test_margins_do_not_depend_on_the_order_of_the_rows():
    x = points(800, 2)
    shuffle = torch.randperm(800, generator=torch.Generator().manual_seed(1))
    first, second = KDTree(overlap=1.0)(x, 25), KDTree(overlap=1.0)(x[shuffle], 25)
    for j in range(32):
        held = shuffle[second.order[second.solved(j)]]
        assert set(held.tolist()) == set(first.order[first.solved(j)].tolist())


def test_sequential_and_one_block_partitions_keep_the_order_of_the_rows():
    x = points(50, 2)
    assert Sequential(overlap=0.5)(x, 7).is_identity
    assert not KDTree()(x, 7).is_identity and not ShuffledRows(seed=0)(x, 7).is_identity


@EVERY_PARTITIONER
@pytest.mark.parametrize("block_size", [20, 21, 10**6])
def test_a_block_size_of_n_or_more_gives_one_block_without_margin(partitioner, block_size):
    partition = replace(partitioner, overlap=0.5)(points(20, 2), block_size)
    assert len(partition) == 1 and partition.owned(0) == partition.solved(0) == slice(0, 20)


def test_kd_tree_blocks_are_compact():
    x = points(2000, 2)
    sizes = {}
    for name, partitioner in ((name, kind()) for name, kind in PARTITIONS.items()):
        partition = partitioner(x, 50)
        stored = x.numpy()[partition.order.numpy()]
        sizes[name] = np.mean([np.ptp(stored[partition.owned(j)], axis=0).prod() for j in range(len(partition))])
    # 40 blocks that tile the plane cover 1/40 of its area each, those of random rows nearly all of it
    assert sizes["kd-tree"] < 0.1 * sizes["sequential"] and sizes["kd-tree"] < 0.1 * sizes["shuffled"]


@settings(deadline=None, max_examples=25)
@given(n=st.integers(3, 120), block_size=st.integers(1, 60), seed=st.integers(0, 99))
def test_in_one_dimension_kd_tree_blocks_are_intervals_of_the_sorted_points(n, block_size, seed):
    x = points(n, 1, seed)
    partition = KDTree()(x, block_size)
    stored, ordered = x[partition.order, 0], np.sort(x[:, 0])
    for j in range(len(partition)):
        np.testing.assert_array_equal(np.sort(stored[partition.owned(j)]), ordered[partition.owned(j)])


def test_the_kd_tree_cuts_the_longest_side():
    # 8 × 1 points on a grid ten times as long as wide: the first cut is across the length
    x = torch.cartesian_prod(torch.arange(0.0, 80, 10), torch.arange(0.0, 8, 1))
    partition = KDTree()(x, 32)
    assert set(x[partition.order[partition.owned(0)], 0].tolist()) == {0, 10, 20, 30}


def across(x, axis):
    return np.asarray(x) @ axis


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "block_size"), [(400, 50), (400, 390), (390, 100), (401, 40)])
def test_the_principal_axis_tree_first_cuts_across_the_leading_singular_vector(n, block_size, dtype):
    x = (points(n, 4) @ points(4, 4, seed=1)).to(dtype) + 3
    partition = PrincipalAxisTree()(x, block_size)
    axis = np.linalg.svd(x.double().numpy() - x.double().numpy().mean(0))[2][0]
    left = across(x[partition.order[: (len(partition) // 2) * block_size]], axis)
    right = across(x[partition.order[(len(partition) // 2) * block_size :]], axis)
    slack = 1e-5
    assert left.max() <= right.min() + slack or right.max() <= left.min() + slack


def test_the_principal_axis_tree_cuts_each_half_across_its_own_axis():
    # an L: a long arm along x, and a shorter along y at its far end
    along = torch.stack([torch.arange(0.0, 64), torch.zeros(64)], 1)
    up = torch.stack([torch.full((64,), 64.0), torch.arange(0.0, 32, 0.5)], 1)
    x = torch.cat([along, up]).double()
    partition = PrincipalAxisTree()(x, 32)
    blocks = {tuple(sorted(partition.order[partition.owned(j)].tolist())) for j in range(4)}
    assert blocks == {tuple(range(k, k + 32)) for k in (0, 32, 64, 96)}


@settings(deadline=None, max_examples=25)
@given(
    halvings=st.integers(1, 4), block_size=st.integers(1, 20), d=st.integers(1, 6), seed=st.integers(0, 99),
    shift=st.floats(-3, 3), factor=st.floats(0.1, 10),
)  # fmt: skip
def test_blocks_of_the_principal_axis_tree_are_invariant_under_rotation_shift_and_scaling(
    halvings, block_size, d, seed, shift, factor
):
    # a power of two of full blocks gives equal halves, because the direction of an axis is arbitrary
    x = points(block_size * 2**halvings, d, seed)
    rotation = torch.linalg.qr(points(d, d, seed + 1))[0]
    partitions = [PrincipalAxisTree()(inputs, block_size) for inputs in (x, factor * (x @ rotation) + shift)]
    first, second = (
        {frozenset(p.order[p.owned(j)].tolist()) for j in range(len(p))} for p in partitions
    )  # fmt: skip
    assert first == second


def test_principal_axis_blocks_are_thinner_if_the_inputs_are_correlated():
    # five inputs that all follow one of them: a box cannot be cut across the diagonal
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((1600, 1)) + 0.05 * rng.standard_normal((1600, 5)))
    spread = {}
    for partitioner in (KDTree(), PrincipalAxisTree()):
        stored = x.numpy()[partitioner(x, 50).order.numpy()].reshape(32, 50, 5)
        spread[type(partitioner)] = stored.var(1).sum(1).mean()
    assert spread[PrincipalAxisTree] < 0.95 * spread[KDTree]


def test_shuffled_orders_depend_on_the_seed():
    x = points(40, 1)
    assert torch.equal(ShuffledRows(seed=3)(x, 5).order, ShuffledRows(seed=3)(x, 5).order)
    assert not torch.equal(ShuffledRows(seed=3)(x, 5).order, ShuffledRows(seed=4)(x, 5).order)


def test_partitioning_does_not_change_the_global_random_state():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    ShuffledRows(seed=1)(points(40, 1), 5)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("starts", [(0, 3), (1, 5), (0, 2, 2, 5), (0, 4, 2, 5), (0,), ()])
def test_starts_that_leave_a_row_unowned_or_owned_twice_are_rejected(starts):
    with pytest.raises(ValueError, match="starts must rise from 0 to n = 5, so that every row is owned exactly once"):
        Partition(torch.arange(5), starts)


@pytest.mark.parametrize("order", [[0, 0, 1, 2], [1, 2, 3, 4], [-1, 0, 1, 2]])
def test_an_order_that_is_not_a_permutation_is_refused(order):
    with pytest.raises(ValueError, match="order must be a permutation of the 4 rows"):
        Partition(torch.tensor(order), (0, 2, 4))


def test_a_wrong_number_of_margins_is_refused():
    with pytest.raises(ValueError, match="1 margins were given for 2 blocks"):
        Partition(torch.arange(4), (0, 2, 4), (torch.tensor([2]),))


@pytest.mark.parametrize("bad", [[0], [4], [-1], [2, 2]], ids=["owned", "beyond n", "negative", "twice"])
def test_a_margin_of_rows_that_are_owned_absent_or_repeated_is_refused(bad):
    with pytest.raises(ValueError, match="margin of block 0"):
        Partition(torch.arange(4), (0, 2, 4), (torch.tensor(bad), torch.tensor([0])))


def test_a_partitioner_may_be_given_by_name_or_as_an_object_and_an_unknown_name_raises():
    assert partitioner_named("kd-tree") == KDTree()
    mine = ShuffledRows(seed=7)
    assert partitioner_named(mine) is mine
    with pytest.raises(ValueError, match=r"partition must be one of sequential, shuffled, kd-tree.*, got 'ball-tree'"):
        partitioner_named("ball-tree")
    with pytest.raises(ValueError, match=r"partition must be an object, such as KDTree\(\), got the class"):
        partitioner_named(KDTree)


@EVERY_PARTITIONER
@pytest.mark.parametrize("wrong", [-0.1, math.inf, math.nan, "much", None])
def test_an_overlap_out_of_range_is_named_with_its_value_and_what_is_accepted(partitioner, wrong):
    message = rf"overlap must be a finite fraction of a block's rows, at least 0, or 'auto', got '?{wrong}"
    with pytest.raises(ValueError, match=message):
        replace(partitioner, overlap=wrong)


@EVERY_PARTITIONER
def test_an_overlap_that_is_still_to_be_chosen_makes_no_blocks(partitioner):
    with pytest.raises(ValueError, match=r"overlap is still 'auto'"):
        replace(partitioner, overlap="auto")(points(20, 2), 5)


def test_an_overlap_beside_a_partition_becomes_one_of_the_partition():
    plain = {"block_size": 5, "partition": "shuffled", "seed": 3}
    assert with_overlap(plain | {"overlap": 0.0}) == plain  # the solver's seed still draws the rows
    assert with_overlap(plain | {"overlap": 0.5})["partition"] == ShuffledRows(overlap=0.5, seed=3)
    assert with_overlap({"overlap": 0.5, "rank": 7}) == {"rank": 7}
    assert overlap_of("kd-tree") == 0 and overlap_of(KDTree(overlap="auto")) == "auto"
    assert overlap_of(lambda inputs, block_size: None) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_a_compiler_the_squared_distance_to_the_nearest_point_is_not_negative_either(dtype, monkeypatch):
    monkeypatch.setattr(native, "library", lambda: None)
    x = points(2000, 3).to(dtype) + 50
    found = squared_distances(x)(x, x[::7])
    expected = cdist(x.double(), x[::7].double(), "sqeuclidean").min(1)
    assert (found >= 0).all()
    np.testing.assert_allclose(found, expected, atol=1e3 * torch.finfo(dtype).eps)
