"""Near rows and skeletons against dense float64 linear algebra."""

import math

import numpy as np
import pytest
import torch

import apviz
from apviz.factors import BlockFactors
from apviz.operators import CountingOperator, native
from apviz.partitions import KDTree, Sequential, near_rows
from apviz.skeletons import BlockSkeletons, ExactColumns, suggest

NOISE = 0.05


def dense(x, lengthscale):
    r = np.sqrt(5) * np.linalg.norm((x[:, None] - x[None]) / lengthscale, axis=2)
    return (1 + r + r**2 / 3) * np.exp(-r) + NOISE * np.eye(len(x))


def setup(n=900, d=2, lengthscale=0.5, block_size=60, rank=30, near=200, dtype=torch.float64, seed=0):
    """Return a set-up in stored order, and K in that order."""
    x = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    system = apviz.KernelSystem(
        x, np.ones(n), apviz.Matern52(lengthscale=lengthscale), noise=NOISE, operator="tiled", dtype=dtype, device="cpu"
    )
    partition = KDTree(overlap=0.5)(system.operator.inputs, block_size)
    operator = CountingOperator(system.operator).reordered(partition.order)
    factors = BlockFactors(operator, [partition.solved(block) for block in range(len(partition))])
    skeletons = BlockSkeletons(operator, partition, factors, rank, near, seed)
    return partition, operator, factors, skeletons, dense(x[partition.order], lengthscale)


def image_of(columns, u, block, n):
    r = torch.zeros(n, u.shape[1], dtype=u.dtype)
    columns.subtract_(r, block, -u)
    return r.numpy()


def test_near_rows_are_the_solved_rows_and_those_nearest_to_the_owned_ones():
    x = torch.as_tensor(np.random.default_rng(1).uniform(0, 1, (300, 3)))
    partition = KDTree(overlap=0.5)(x, 40)
    stored = x[partition.order]
    for block, near in enumerate(near_rows(partition, stored, 130)):
        owned, solved = set(range(300)[partition.owned(block)]), set(partition.solved(block).tolist())
        distance = torch.cdist(stored, stored[partition.owned(block)]).amin(1)
        nearest = [row for row in distance.argsort().tolist() if row not in owned][: 130 - len(owned)]
        assert near.tolist() == sorted(owned | solved | set(nearest))
    # no more than a block solves on
    assert [near.tolist() for near in near_rows(partition, stored, 1)] == [
        sorted(partition.solved(block).tolist()) for block in range(len(partition))
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("d", "lengthscale"), [(2, 0.1), (3, 0.2), (5, 0.8)])
def test_near_rows_are_exact_and_far_ones_nearly_optimal_for_their_rank(dtype, d, lengthscale):
    partition, operator, _, skeletons, k = setup(n=1500, d=d, lengthscale=lengthscale, near=300, dtype=dtype)
    bound, n = skeletons.bind(operator), operator.n
    for block in (0, 7, len(partition) - 1):
        rows, near = partition.solved(block).numpy(), skeletons.near(block).numpy()
        far = np.setdiff1d(np.arange(n), near)
        u = np.random.default_rng(block).standard_normal((len(rows), 3))
        found = image_of(bound, torch.as_tensor(u, dtype=dtype), block, n)
        exact = k[:, rows] @ u
        np.testing.assert_allclose(found[near], exact[near], atol=1e-12 if dtype == torch.float64 else 1e-4)
        missed = np.linalg.norm(found[far] - exact[far])
        singular = np.linalg.svd(k[np.ix_(far, rows)], compute_uv=False)
        best = math.sqrt(3 * np.sum(singular[skeletons.rank :] ** 2))  # the mean error of truncation to this rank
        assert missed < 4 * best + 0.01 * np.linalg.norm(exact)


def test_the_cost_of_a_skeleton_is_its_near_rows_and_columns():
    partition, operator, _, skeletons, _ = setup()
    for block in range(len(partition)):
        rows = len(partition.solved(block))
        before = operator.entries
        image_of(skeletons.bind(operator), torch.ones(rows, 1, dtype=torch.float64), block, operator.n)
        assert operator.entries - before == len(skeletons.near(block)) * rows + operator.n * skeletons.rank


def test_a_skeleton_consists_of_distinct_rows_of_the_block():
    partition, _, _, skeletons, _ = setup()
    for block in range(len(partition)):
        chosen = skeletons.skeleton(block).tolist()
        assert len(set(chosen)) == skeletons.rank and set(chosen) <= set(partition.solved(block).tolist())


@pytest.fixture(params=["compiled distances", "distances by products"])
def _distances(request, monkeypatch):
    """Compute distances as with a compiler, and as without one and on GPUs."""
    if request.param == "distances by products":
        monkeypatch.setattr(native, "library", lambda: None)


@pytest.mark.usefixtures("_distances")
@pytest.mark.parametrize(("rank", "lengthscale"), [(4, 0.5), (20, 0.5), (20, 0.1), (40, 2.0)])
def test_the_estimated_drift_equals_that_of_updates_for_random_signs(rank, lengthscale):
    partition, operator, factors, skeletons, k = setup(rank=rank, lengthscale=lengthscale)
    bound, squared = skeletons.bind(operator), 0.0
    for block in range(len(partition)):
        rows = partition.solved(block)
        z = np.sign(np.random.default_rng(block).standard_normal((len(rows), 20)))
        u = factors.solve(block, torch.as_tensor(z))
        found = image_of(bound, u, block, operator.n)
        squared += np.sum((found - k[:, rows.numpy()] @ u.numpy()) ** 2) / 20
    true = math.sqrt(squared / operator.n)
    assert true / 2 < skeletons.drift < 2 * true or max(true, skeletons.drift) < 1e-10


def test_suggested_skeletons_grow_with_the_far_columns_and_have_the_predicted_drift():
    costs = []
    for d in (1, 2, 5):
        partition, operator, factors, _, _ = setup(n=1200, d=d, lengthscale=0.4, block_size=80)
        found = suggest(operator, partition, (4, 8, 16, 32), (150, 300), 0.01, None, 0)
        costs.append(found.rank * operator.n + found.near * 120)
        built = BlockSkeletons(operator, partition, factors, found.rank, found.near, 0)
        assert built.drift / 2 - 0.01 < found.drift < 2 * built.drift + 0.01
    assert costs == sorted(costs) and costs[0] < costs[-1]


def test_a_smaller_tolerance_never_gets_skeletons_of_larger_drift():
    partition, operator, _, _, _ = setup(n=1200, lengthscale=0.4, block_size=80)
    drifts = [suggest(operator, partition, (4, 8, 16, 32), (150, 300), tol, None, 0).drift for tol in (0.1, 1e-3, 1e-6)]
    assert drifts == sorted(drifts, reverse=True)


def test_if_all_far_entries_are_zero_skeletons_add_nothing_to_far_rows():
    partition, operator, _, skeletons, _ = setup(lengthscale=0.002)
    u = torch.ones(len(partition.solved(3)), 2, dtype=torch.float64)
    found = image_of(skeletons.bind(operator), u, 3, operator.n)
    far = np.setdiff1d(np.arange(operator.n), skeletons.near(3).numpy())
    assert np.isfinite(found).all() and np.abs(found[far]).max() < 1e-20


@pytest.mark.usefixtures("_distances")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_rows_that_coincide_with_those_of_a_block_are_drawn_and_fitted(dtype):
    x = np.tile(np.random.default_rng(0).uniform(-1, 1, (20, 3)), (30, 1))
    system = apviz.KernelSystem(
        x, np.ones(600), apviz.RBF(lengthscale=0.5), noise=NOISE, operator="dense", dtype=dtype, device="cpu"
    )
    partition = Sequential()(system.operator.inputs, 5)
    operator = CountingOperator(system.operator)
    rows = [partition.solved(block) for block in range(len(partition))]
    # skeletons of all rows of a block
    skeletons = BlockSkeletons(operator, partition, BlockFactors(operator, rows), 5, 60, 0)
    for block in (0, 50, 119):
        u = torch.ones(5, 1, dtype=dtype)
        exact = image_of(ExactColumns(operator, rows), u, block, 600)
        found = image_of(skeletons.bind(operator), u, block, 600)
        np.testing.assert_allclose(found, exact, atol=1e-3 * np.abs(exact).max())


def test_if_every_row_is_near_columns_are_exact():
    partition, operator, _, skeletons, k = setup(n=200, near=200)
    u = torch.randn(len(partition.solved(1)), 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = image_of(ExactColumns(operator, [partition.solved(j) for j in range(len(partition))]), u, 1, 200)
    np.testing.assert_allclose(image_of(skeletons.bind(operator), u, 1, 200), exact, atol=1e-12)
    np.testing.assert_allclose(exact, k[:, partition.solved(1).numpy()] @ u.numpy(), atol=1e-12)
