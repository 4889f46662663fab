"""What `auto` chooses, and that what is given stays."""

import json

import numpy as np
import pytest
import torch

import apviz
from apviz.factors import factor_bytes
from apviz.partitions import partitioner_named
from apviz.solvers import choices
from apviz.solvers.automatic import left_by_low_rank
from apviz.solvers.choices import resolve


def system(n=900, d=5, columns=3, noise=0.1, lengthscale=0.5):
    rng = np.random.default_rng(0)
    x, b = rng.uniform(-1, 1, (n, d)), rng.standard_normal((n, columns))
    return apviz.KernelSystem(
        x, b, apviz.Matern52(lengthscale=lengthscale), noise=noise, operator="dense", dtype=torch.float32, device="cpu"
    )


AUTO = apviz.AlternatingProjection(
    block_size="auto", partition="kd-tree", overlap="auto", history="auto", coarse_rank="auto"
)


def test_every_auto_gets_a_value_the_solver_takes_and_a_reason_that_starts_with_it():
    solver, reasons = resolve(AUTO, system().operator, 3)
    values = {name: getattr(solver, name) for name in ("block_size", "overlap", "history", "coarse_rank")}
    assert not any(isinstance(value, str) for value in values.values())
    assert {name: reason.partition(":")[0] for name, reason in reasons.items()} == {
        name: str(value) for name, value in values.items()
    }
    assert apviz.solve(system(), AUTO).converged


def test_given_values_always_win():
    given = apviz.AlternatingProjection(block_size=77, overlap=0.25, history=3, coarse_rank=2)
    assert resolve(given, system().operator, 3) == (given, {})
    mixed, reasons = resolve(apviz.AlternatingProjection(block_size="auto", overlap=3.0), system().operator, 3)
    assert mixed.overlap == 3.0 and set(reasons) == {"block_size"}


@pytest.mark.parametrize("d", [3, 5])
def test_blocks_solve_on_as_many_rows_at_any_overlap_and_twice_as_many_of_four_times_the_points(d):
    def solved(n, overlap):
        given = apviz.AlternatingProjection(block_size="auto", overlap=overlap)
        return resolve(given, system(n, d).operator, 3)[0].block_size * (1 + overlap)

    for overlap in (0.5, 1.0, 3.0):
        assert solved(900, overlap) == pytest.approx(solved(900, 0.0), rel=0.03)
    assert solved(3600, 1.0) == pytest.approx(2 * solved(900, 1.0), rel=0.03)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("n", [900, 3600])
def test_factoring_the_blocks_costs_less_than_an_iteration_at_any_n(d, n):
    operator = system(n, d).operator
    chosen, _ = resolve(AUTO, operator, 3)
    blocks = partitioner_named(chosen.partition)(operator.inputs, chosen.block_size, chosen.overlap)
    factoring = sum(size**3 / 3 for size in blocks.solved_sizes())
    assert 0.2 < factoring / (90 * n**2) < 0.8  # an entry of K takes some 90 flops


MEMORY = apviz.AlternatingProjection(block_size="auto", overlap=1.0, history="auto", factor_dtype="auto")


def test_where_memory_is_short_factors_are_in_half_precision_and_then_blocks_smaller(monkeypatch):
    operator = system(1600).operator
    wished = resolve(MEMORY, operator, 3)[0]
    assert wished.factor_dtype == "inner"
    sizes = []
    for free in (3_200_000, 1_600_000, 800_000):
        monkeypatch.setattr(choices, "free_memory", lambda device, free=free: free)
        found, why = resolve(MEMORY, operator, 3)
        sizes.append(found.block_size)
        assert found.factor_dtype == "float16" and "GiB" in why["factor_dtype"]
        held = factor_bytes(operator.inputs, found.block_size, 1.0) / 2 + 12 * operator.n * found.history
        assert 0.2 * free < held < free / 2  # the solve wants memory too
    assert sizes[0] == wished.block_size > sizes[1] > sizes[2]
    assert "of the free memory" in why["block_size"]


def test_factors_are_never_in_half_precision_where_it_may_not_hold_them(monkeypatch):
    monkeypatch.setattr(choices, "free_memory", lambda device: 800_000)
    assert resolve(MEMORY, system(1600, noise=1e-7).operator, 3)[0].factor_dtype == "inner"


def test_more_right_hand_sides_get_a_shorter_history():
    lengths = [resolve(AUTO, system().operator, p)[0].history for p in (1, 8, 64)]
    assert lengths == sorted(lengths, reverse=True) and lengths[-1] >= 1


def test_the_trace_keeps_what_was_chosen_and_why():
    recorder = apviz.Recorder()
    apviz.solve(system(), apviz.ConjugateGradient(preconditioner=apviz.TwoLevelSchwarz()), [recorder])
    attrs = recorder.trace.attrs
    assert {"block_size", "overlap", "coarse_rank"} <= set(json.loads(attrs["choices"]))
    assert "auto" not in attrs["method"]


def test_auto_takes_cg_where_few_vectors_hold_all_of_k_and_projections_elsewhere():
    smooth, rough = system(2001, lengthscale=20.0), system(2001, lengthscale=0.1)
    assert isinstance(apviz.Automatic().resolve(smooth.operator)[0], apviz.ConjugateGradient)
    assert isinstance(apviz.Automatic().resolve(rough.operator)[0], apviz.AlternatingProjection)
    for one in (smooth, rough):
        solution = apviz.solve(one, apviz.Automatic(tol=1e-3))
        k = one.kernel(one.x.double()).numpy() + one.noise * np.eye(one.n)
        r = one.b.double().numpy() - k @ solution.weights.double().numpy()
        assert solution.converged
        assert np.mean(np.linalg.norm(r, axis=0) / np.linalg.norm(one.b.double().numpy(), axis=0)) < 1.1e-3


def test_what_low_rank_leaves_is_what_the_smallest_eigenvalues_hold_and_somewhat_more():
    one, rank = system(800, lengthscale=1.0), 60
    eigenvalues = np.linalg.eigvalsh(one.kernel(one.x.double()).numpy())
    best = eigenvalues[:-rank].sum() / (one.n - rank)  # of any rank-60 approximation, a row that is no pivot
    for seed in range(3):
        assert best < left_by_low_rank(one.operator, rank, seed) < 3 * best


def test_what_low_rank_leaves_is_never_below_zero():
    x = torch.linspace(0, 1, 2500)[:, None]
    one = apviz.KernelSystem(x, x[:, 0], apviz.RBF(lengthscale=1.0), noise=1e-7)
    assert 0 <= left_by_low_rank(one.operator, 75, 0) < 1e-12


def test_auto_asks_for_the_trace_that_low_rank_leaves_for_eigenvalues_grow_with_n():
    one = system(6000, lengthscale=2.0)
    left = left_by_low_rank(one.operator, choices.coarse_rank(one.n), 0) * one.n
    # under a tenth of the noise on the diagonal in both
    for times_noise, expected in ((590, apviz.AlternatingProjection), (100, apviz.ConjugateGradient)):
        noisy = apviz.KernelSystem(one.x, one.b, one.kernel, noise=left / times_noise)
        assert left / one.n < 0.1 * noisy.noise
        assert isinstance(apviz.Automatic().resolve(noisy.operator)[0], expected)


def test_auto_factors_a_small_matrix_and_says_why():
    solver, why = apviz.Automatic(tol=1e-3).resolve(system(700).operator)
    assert solver == apviz.Cholesky(tol=1e-3) and why["method"].startswith("Cholesky: n = 700 is at most")


def test_a_preconditioner_built_by_hand_says_what_to_do_with_auto():
    from apviz.operators import CountingOperator

    with pytest.raises(ValueError, match=r"block_size is still 'auto': .*resolve\(operator\) first"):
        apviz.TwoLevelSchwarz().build(CountingOperator(system().operator))
