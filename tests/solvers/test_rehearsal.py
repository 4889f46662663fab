"""Rehearsals of CG on few rows, against CG on all of them and dense float64 linear algebra."""

import numpy as np
import pytest
import torch

import apviz
from apviz.solvers.choosing import rehearsal
from apviz.solvers.choosing.rehearsal import Rehearsal, Rehearsals, affordable_iterations, growth
from tests.device import DEVICE


def problem(n, d=2, lengthscale=0.4, noise=0.01, columns=2):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, d))
    b = np.sin(3 * x[:, :1]) + 0.1 * rng.standard_normal((n, columns))
    return apviz.KernelSystem(
        x, b, apviz.Matern52(lengthscale=lengthscale), noise=noise, operator="tiled", dtype=torch.float32, device=DEVICE
    )


def cheapest(one, ranks, tol, columns, work, rows, **others):
    rehearsals = Rehearsals(operator=one.operator, b=one.b, rank=max(ranks), rows=rows, seed=0, **others)
    return rehearsals.cheapest(ranks, tol, columns, work)


def iterations_of_cg(k, b, tol):
    """Return the iterations of textbook conjugate gradients on each column, until the mean residual is small enough."""
    w, r = np.zeros_like(b), b.copy()
    p, norms = r.copy(), np.linalg.norm(b, axis=0)
    for iteration in range(1, 500):
        for j in range(b.shape[1]):
            image = k @ p[:, j]
            step = r[:, j] @ r[:, j] / (p[:, j] @ image)
            before = r[:, j] @ r[:, j]
            w[:, j] += step * p[:, j]
            r[:, j] -= step * image
            p[:, j] = r[:, j] + r[:, j] @ r[:, j] / before * p[:, j]
        if np.mean(np.linalg.norm(r, axis=0) / norms) < tol:
            return iteration
    raise AssertionError


@pytest.mark.parametrize("tol", [0.1, 0.01, 1e-3])
def test_a_rehearsal_on_all_rows_is_cg(tol):
    one = problem(150)
    x = one.x.double().numpy()
    u = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None], axis=2) / 0.4
    k = (1 + u + u**2 / 3) * np.exp(-u) + 0.01 * np.eye(150)
    b, rng = one.b.double().numpy(), np.random.default_rng(0)
    # the order of the rows changes rounding alone, which changes the count by some iterations
    orders = [rng.permutation(150) for _ in range(12)]
    counts = [iterations_of_cg(k[np.ix_(order, order)], b[order], tol) for order in orders]
    rehearsed = Rehearsal(one.operator, one.b, 0, rows=1000, seed=0)
    assert 0.97 * min(counts) - 1 < rehearsed.iterations(0, tol, 200) <= 1.03 * max(counts)
    assert rehearsed.iterations(0, tol, 0.9 * min(counts) - 2) is None
    assert rehearsed.correlation == pytest.approx(k.mean(), rel=1e-6)


@pytest.mark.parametrize(("d", "lengthscale", "noise"), [(2, 0.4, 0.01), (2, 1.0, 1e-3), (5, 3.0, 0.1)])
@pytest.mark.parametrize("rank", [pytest.param(30, marks=pytest.mark.slow), 90])
def test_few_rows_predict_the_iterations_on_all_rows_for_any_rank(d, lengthscale, noise, rank):
    one = problem(5000, d, lengthscale, noise)
    for tol in (0.05, 0.005):
        preconditioner = apviz.RandomlyPivotedCholesky(rank=rank)
        taken = apviz.solve(one, apviz.ConjugateGradient(preconditioner=preconditioner, tol=tol)).epochs
        for most in (rank, 200):  # the first columns of a larger factor form one of lower rank
            expected = Rehearsal(one.operator, one.b, most, 1000, seed=0).iterations(rank, tol, 500)
            assert 0.5 * taken - 2 < expected < 2 * taken + 2


def test_the_scale_of_the_right_hand_sides_does_not_matter_to_a_rehearsal():
    one = problem(2000)
    counts = [
        Rehearsal(one.operator, one.b.double() * scale, 20, 500, seed=0).iterations(20, 0.01, 100)
        for scale in (1.0, 1e-200, 1e200)
    ]
    assert counts[0] is not None and counts == pytest.approx([counts[0]] * 3, rel=0.1)
    nothing = torch.zeros(2000, 1)
    assert Rehearsal(one.operator, nothing, 20, 500, seed=0).iterations(20, 0.01, 100) is not None


@pytest.mark.slow
def test_iterations_beyond_a_rehearsal_are_extrapolated_from_their_growth():
    local, smooth = problem(12_000, d=6, lengthscale=1.2, noise=0.05), problem(12_000, d=2, lengthscale=1.0)
    for one, grows in ((local, True), (smooth, False)):
        on_rows = Rehearsal(one.operator, one.b, 60, 500, seed=0).iterations(60, 0.01, 1000)
        plan = cheapest(one, [60], 0.01, 2, on_rows + 20, 500)  # just enough to examine the growth
        assert (plan is None or plan.iterations > 1.2 * on_rows) == grows
    taken = apviz.solve(local, apviz.ConjugateGradient(preconditioner=apviz.RandomlyPivotedCholesky(rank=60))).epochs
    assert taken > 1.2 * Rehearsal(local.operator, local.b, 60, 500, seed=0).iterations(60, 0.01, 1000)


def test_the_cheapest_rank_is_chosen_or_none_if_all_cost_more():
    smooth, diagonal = problem(6000, d=2, lengthscale=1.5), problem(6000, d=8, lengthscale=0.05)
    few, many = (cheapest(smooth, [rank], 0.01, 2, 100.0, 1000) for rank in (20, 200))
    both = cheapest(smooth, [200, 20], 0.01, 2, 100.0, 1000)
    assert both.work == pytest.approx(min(few.work, many.work)) and both.rank in (20, 200)
    assert cheapest(diagonal, [100, 50, 0], 0.01, 2, 20.0, 1000).rank == 0
    assert cheapest(smooth, [20, 0], 1e-6, 2, 3.0, 1000) is None


def test_cg_alone_is_chosen_where_low_rank_costs_more_than_it_saves():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 10))  # far apart: K is diagonally dominant, of no low rank
    system = apviz.KernelSystem(
        x,
        np.sin(x @ np.ones(10)),
        apviz.Matern52(lengthscale=1.0),
        noise=0.1,
        operator="tiled",
        dtype=torch.float32,
        device="cpu",
    )
    low_rank, alone = (
        apviz.solve(system, apviz.ConjugateGradient(preconditioner=inner, tol=0.1)).epochs
        for inner in (apviz.RandomlyPivotedCholesky(rank=80), None)
    )
    most = affordable_iterations(system.operator, 1, 80, 6.0)
    assert low_rank > most and alone <= affordable_iterations(system.operator, 1, 0, 6.0)
    assert cheapest(system, [80, 40, 0], 0.1, 1, 6.0, 500).rank == 0


def test_only_a_close_choice_is_rehearsed_on_more_than_half_of_the_rows(monkeypatch):
    drawn = []

    class Noted(Rehearsal):
        def __init__(self, operator, b, rank, rows, seed):
            drawn.append(rows)
            super().__init__(operator, b, rank, rows, seed)

    monkeypatch.setattr(rehearsal, "Rehearsal", Noted)
    one = problem(2000)
    needed = cheapest(one, [20], 0.01, 2, 1000.0, 400)
    assert needed.rank == 20 and drawn == [200]  # few of the iterations that 1000 work allows
    drawn.clear()
    assert cheapest(one, [20], 0.01, 2, 0.5 * needed.work, 400) is None and drawn == [200]
    drawn.clear()
    assert cheapest(one, [20], 0.01, 2, 1.5 * needed.work, 400).rank == 20 and drawn == [200, 400]
    far = problem(2000, lengthscale=2.0)
    few = cheapest(far, [20], 0.01, 2, 1000.0, 400)
    for each, most, found, rows in (
        (far, 1.2, None, [200]), (far, 2.0, few, [200]),  # a short solve, with a margin
        (one, 1.5, needed, [200, 400]),  # but not where rows far apart are uncorrelated
    ):  # fmt: skip
        drawn.clear()
        plan = cheapest(each, [20], 0.01, 2, most * (few if each is far else needed).work, 400, is_short=True)
        assert drawn == rows and (plan == found if each is far else plan.rank == 20)


def test_more_vectors_are_rehearsed_where_blocks_are_slow_and_take_about_the_iterations_expected(monkeypatch):
    monkeypatch.setattr(rehearsal, "MANY_VECTORS", 150)
    monkeypatch.setattr(rehearsal, "LARGE", 2000)
    one = problem(2400, d=12, lengthscale=12.0, noise=0.001)
    rehearsals = Rehearsals(operator=one.operator, b=one.b, rank=20, rows=300, seed=0)
    assert rehearsals.correlation > 0.5
    plan = rehearsals.cheaper_than_slow(1e-3, 2, 60.0, flop=0.0)
    preconditioner = apviz.RandomlyPivotedCholesky(rank=150)
    taken = apviz.solve(one, apviz.ConjugateGradient(preconditioner=preconditioner, tol=1e-3)).epochs
    assert plan.rank == 150 and 0.6 * taken < plan.iterations < 1.7 * taken
    assert rehearsals.cheaper_than_slow(1e-3, 2, 60.0, flop=1.0) is None  # a set-up of too many flops
    assert rehearsals.cheaper_than_slow(1e-3, 2, 4.0, flop=0.0) is None
    monkeypatch.setattr(rehearsal, "LARGE", 3000)
    few = rehearsals.cheaper_than_slow(1e-3, 2, 60.0, flop=0.0)
    assert few is None or few.rank == 20


@pytest.mark.parametrize("lengthscale", [0.1, 2.0])
def test_a_rehearsed_sweep_leaves_what_dense_projections_onto_the_blocks_in_turn_leave(lengthscale):
    one = problem(120, lengthscale=lengthscale, columns=3)
    cut = apviz.partitions.PrincipalAxisTree(overlap=0.5)
    found = Rehearsal(one.operator, one.b, 0, rows=120, seed=0).left_by_a_sweep(
        apviz.partitions.PrincipalAxisTree(), 20, 0.5
    )
    drawn = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    partition = cut(one.operator.of_rows(drawn.to(DEVICE), 0.01).inputs, 20)
    x, r = (each.double().cpu().numpy()[drawn][partition.order.cpu()] for each in (one.x, one.b))
    u = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None], axis=2) / lengthscale
    k, norms = (1 + u + u**2 / 3) * np.exp(-u) + 0.01 * np.eye(120), np.linalg.norm(r, axis=0)
    for block in range(len(partition)):
        rows = partition.solved(block).cpu().numpy()
        r = r - k[:, rows] @ np.linalg.solve(k[np.ix_(rows, rows)], r[rows])
    assert found == pytest.approx(np.mean(np.linalg.norm(r, axis=0) / norms), rel=1e-5) and 0 < found < 3


def test_a_rehearsed_sweep_says_nothing_where_rounding_leaves_a_block_without_a_factor():
    x = torch.linspace(0, 1, 300, dtype=torch.float64)
    one = apviz.KernelSystem(x, torch.cos(x), apviz.RBF(lengthscale=1.0), noise=1e-300, operator="tiled", device=DEVICE)
    found = Rehearsal(one.operator, one.b, 0, 300, seed=0).left_by_a_sweep(
        apviz.partitions.PrincipalAxisTree(), 60, 0.5
    )
    assert found == 0


def test_more_work_allows_more_iterations_and_a_set_up_fewer():
    operator = problem(2000).operator
    alone, preconditioned = (affordable_iterations(operator, 1, rank, 20.0) for rank in (0, 100))
    assert 0 < preconditioned < alone < affordable_iterations(operator, 1, 0, 30.0)
    assert affordable_iterations(operator, 1, 100, 0.5) == 0
    assert affordable_iterations(operator, 16, 0, 20.0) <= alone


@pytest.mark.parametrize("noise", [1e-12, 1e-300])
def test_a_noise_below_rounding_is_rehearsed_without_an_error(noise):
    one = problem(2500, lengthscale=3.0, noise=noise)
    for rank in (0, 60):
        found = Rehearsal(one.operator, one.b, rank, 500, seed=0).iterations(rank, 1e-3, 20)
        assert found is None or 0 < found <= 20
    assert apviz.Automatic(tol=2.0).resolve(one.operator, 2)[0] is not None  # W = 0 meets this tolerance


def test_only_iterations_that_grow_with_the_rows_are_expected_to_grow_further():
    assert growth(33.0, 15.0, 8.0) == pytest.approx(8.0)  # (33 + 3)/(15 + 3) = 2 for each doubling
    assert growth(33.0, 33.0, 8.0) == growth(20.0, 33.0, 8.0) == growth(33.0, None, 8.0) == growth(33.0, 15.0, 0.5) == 1
