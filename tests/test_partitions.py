import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz.partitions import PARTITIONS, KDTree, Partition, Sequential, Shuffled, partitioner_named

EVERY_PARTITIONER = pytest.mark.parametrize("partitioner", PARTITIONS.values(), ids=PARTITIONS.keys())


def points(n, d, seed=0, duplicates=False):
    x = np.random.default_rng(seed).standard_normal((n, d))
    if duplicates:
        x = np.round(x)
    return torch.tensor(x)


def solved_rows(partition, block):
    rows = partition.solved(block)
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows.numpy()


def distances_to_box(points, box):
    """‖z − box‖ of each point, box the bounding box of some points."""
    low, high = box.min(0), box.max(0)
    return np.linalg.norm(np.maximum(0, np.maximum(low - points, points - high)), axis=1)


@EVERY_PARTITIONER
@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(2, 150), d=st.integers(1, 6), block_size=st.integers(1, 160), seed=st.integers(0, 99),
    overlap=st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0, 1000.0]), duplicates=st.booleans(),
)  # fmt: skip
def test_every_row_is_owned_once_and_margins_hold_other_rows(partitioner, n, d, block_size, seed, overlap, duplicates):
    x = points(n, d, seed, duplicates)
    partition = partitioner(x, block_size, overlap)
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


@EVERY_PARTITIONER
@pytest.mark.parametrize("overlap", [0.2, 1.0])
def test_margin_rows_are_the_nearest_to_the_bounding_box_of_the_block(partitioner, overlap):
    x = points(237, 3)
    partition = partitioner(x, 30, overlap)
    stored = x.numpy()[partition.order.numpy()]
    for j in range(len(partition)):
        owned = np.arange(237)[partition.owned(j)]
        margin = solved_rows(partition, j)[len(owned) :]
        others = np.setdiff1d(np.arange(237), np.union1d(owned, margin))
        distance = distances_to_box(stored, stored[owned])
        if len(margin) and len(others):
            # the distance to the centre breaks ties with weight 1e-6, squared distances apart
            assert (distance[margin] ** 2).max() <= (distance[others] ** 2).min() + 1e-6 * 4 * np.ptp(stored) ** 2


def test_rows_inside_the_box_are_taken_by_their_distance_to_its_centre():
    # the box of the first block is [0, 10]; the others all lie in it
    x = torch.tensor([0.0, 10.0, 1.0, 4.0, 9.0, 5.5, 2.0, 8.0])[:, None].double()
    partition = Sequential()(x, 2, 1.0)
    assert partition.solved(0).tolist() == [0, 1, 3, 5]


def test_sequential_and_one_block_partitions_keep_the_order_of_the_rows():
    x = points(50, 2)
    assert Sequential()(x, 7, 0.5).is_identity
    assert not KDTree()(x, 7, 0.0).is_identity and not Shuffled(0)(x, 7, 0.0).is_identity


@EVERY_PARTITIONER
@pytest.mark.parametrize("block_size", [20, 21, 10**6])
def test_a_block_size_of_n_or_more_gives_one_block_without_margin(partitioner, block_size):
    partition = partitioner(points(20, 2), block_size, 0.5)
    assert len(partition) == 1 and partition.owned(0) == partition.solved(0) == slice(0, 20)


def test_kd_tree_blocks_are_compact():
    x = points(2000, 2)
    sizes = {}
    for name, partitioner in PARTITIONS.items():
        partition = partitioner(x, 50, 0.0)
        stored = x.numpy()[partition.order.numpy()]
        sizes[name] = np.mean([np.ptp(stored[partition.owned(j)], axis=0).prod() for j in range(len(partition))])
    # 40 blocks that tile the plane have 1/40 of its area, those of rows at random nearly all of it
    assert sizes["kd-tree"] < 0.1 * sizes["sequential"] and sizes["kd-tree"] < 0.1 * sizes["shuffled"]


@settings(deadline=None, max_examples=25)
@given(n=st.integers(3, 120), block_size=st.integers(1, 60), seed=st.integers(0, 99))
def test_in_one_dimension_kd_tree_blocks_are_runs_of_the_sorted_points(n, block_size, seed):
    x = points(n, 1, seed)
    partition = KDTree()(x, block_size, 0.0)
    stored, ordered = x[partition.order, 0], np.sort(x[:, 0])
    for j in range(len(partition)):
        np.testing.assert_array_equal(np.sort(stored[partition.owned(j)]), ordered[partition.owned(j)])


def test_the_kd_tree_cuts_the_longest_side():
    # 8 × 1 points on a grid ten times as long as wide: the first cut is across the length
    x = torch.cartesian_prod(torch.arange(0.0, 80, 10), torch.arange(0.0, 8, 1))
    partition = KDTree()(x, 32, 0.0)
    assert set(x[partition.order[partition.owned(0)], 0].tolist()) == {0, 10, 20, 30}


def test_shuffled_orders_come_from_the_seed():
    x = points(40, 1)
    assert torch.equal(Shuffled(3)(x, 5, 0.0).order, Shuffled(3)(x, 5, 0.0).order)
    assert not torch.equal(Shuffled(3)(x, 5, 0.0).order, Shuffled(4)(x, 5, 0.0).order)


def test_partitioning_leaves_the_global_random_state_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    Shuffled(1)(points(40, 1), 5, 0.0)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("starts", [(0, 3), (1, 5), (0, 2, 2, 5), (0, 4, 2, 5), (0,), ()])
def test_starts_that_leave_a_row_unowned_or_owned_twice_are_refused(starts):
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


def test_partitioners_are_found_by_name_an_object_passes_and_an_unknown_name_lists_them():
    assert partitioner_named("kd-tree") == KDTree()
    mine = Shuffled(7)
    assert partitioner_named(mine) is mine
    with pytest.raises(ValueError, match=r"partition must be one of sequential, shuffled, kd-tree.*, got 'ball-tree'"):
        partitioner_named("ball-tree")
