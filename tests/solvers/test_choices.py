"""`auto` settings: their choices and reasons, and given values, which stay."""

import json
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

import apviz
from apviz import solvers
from apviz.factors import factor_bytes
from apviz.partitions import KDTree, Sequential
from apviz.solvers import Precision, Subspace, recommended
from apviz.solvers.choosing import automatic
from apviz.solvers.choosing.automatic import cholesky_work, cost_model
from apviz.solvers.choosing.costs import CostModel
from apviz.solvers.choosing.rehearsal import Rehearsal
from apviz.solvers.serialization import to_plain
from tests.device import DEVICE


def system(n=900, d=5, columns=3, noise=0.1, lengthscale=0.5):
    rng = np.random.default_rng(0)
    x, b = rng.uniform(-1, 1, (n, d)), rng.standard_normal((n, columns))
    return apviz.KernelSystem(
        x, b, apviz.Matern52(lengthscale=lengthscale), noise=noise, operator="dense", dtype=torch.float32, device=DEVICE
    )


def resolve(solver, operator, columns):
    return solver.resolve(operator, columns)


AUTO = apviz.AlternatingProjection(block_size="auto", partition=KDTree(overlap="auto"), step="subspace")


def test_every_auto_setting_gets_a_valid_value_and_a_reason_that_starts_with_it():
    solver, reasons = resolve(AUTO, system().operator, 3)
    values = {"block_size": solver.block_size, "overlap": solver.partition.overlap, "step.length": solver.step.length}
    assert not any(isinstance(value, str) for value in values.values())
    assert {name: reason.partition(":")[0] for name, reason in reasons.items()} == {
        name: str(value) for name, value in values.items()
    }
    assert apviz.solve(system(), AUTO).converged


def test_given_values_always_take_precedence():
    given = apviz.AlternatingProjection(block_size=77, partition=Sequential(overlap=0.25), step=Subspace(length=3))
    assert resolve(given, system().operator, 3) == (given, {})
    mixed, reasons = resolve(
        apviz.AlternatingProjection(block_size="auto", partition=Sequential(overlap=3.0)), system().operator, 3
    )
    assert mixed.partition.overlap == 3.0 and set(reasons) == {"block_size"}


@pytest.mark.parametrize("d", [3, 5])
def test_the_rows_of_a_block_do_not_depend_on_the_overlap_and_double_with_four_times_the_points(d):
    def solved(n, overlap):
        given = apviz.AlternatingProjection(block_size="auto", partition=Sequential(overlap=overlap))
        return resolve(given, system(n, d).operator, 3)[0].block_size * (1 + overlap)

    for overlap in (0.5, 1.0, 3.0):
        assert solved(900, overlap) == pytest.approx(solved(900, 0.0), rel=0.03)
    assert solved(3600, 1.0) == pytest.approx(2 * solved(900, 1.0), rel=0.03)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("n", [900, 3600])
def test_factoring_the_blocks_costs_less_than_an_iteration_at_any_n(d, n):
    operator = system(n, d).operator
    chosen, _ = resolve(AUTO, operator, 3)
    blocks = chosen.partition(operator.inputs, chosen.block_size)
    factoring = sum(size**3 / 3 for size in blocks.solved_sizes())
    assert 0.2 < factoring / (90 * n**2) < 0.8  # an entry of K takes some 90 flops


MEMORY = apviz.AlternatingProjection(
    block_size="auto", partition=Sequential(overlap=1.0), step="subspace", precision=Precision(factors="auto")
)


def test_with_little_memory_factors_use_half_precision_and_then_blocks_become_smaller(monkeypatch):
    operator = system(1600).operator
    wished = resolve(MEMORY, operator, 3)[0]
    assert wished.precision.factors == "recursion"
    sizes = []
    for free in (3_200_000, 1_600_000, 800_000):
        monkeypatch.setattr(recommended, "free_memory", lambda device, free=free: free)
        found, why = resolve(MEMORY, operator, 3)
        sizes.append(found.block_size)
        assert found.precision.factors == "float16" and "GiB" in why["precision.factors"]
        held = factor_bytes(operator.inputs, found.block_size, 1.0) / 2 + 12 * operator.n * found.step.length
        assert 0.2 * free < held < free / 2  # the solve needs memory too
    assert sizes[0] == wished.block_size > sizes[1] > sizes[2]
    assert "of the free memory" in why["block_size"]


def test_factors_never_use_half_precision_if_they_may_exceed_its_range(monkeypatch):
    monkeypatch.setattr(recommended, "free_memory", lambda device: 800_000)
    assert resolve(MEMORY, system(1600, noise=1e-7).operator, 3)[0].precision.factors == "recursion"


@pytest.mark.parametrize(("noise", "chosen"), [(1e-9, "system"), (0.1, "float32")])
def test_projections_of_a_float64_system_run_in_float32_if_the_noise_is_far_above_its_rounding(noise, chosen):
    x, asked = (
        torch.rand(300, 2, dtype=torch.float64),
        apviz.AlternatingProjection(precision=Precision(recursion="auto")),
    )
    operator = apviz.KernelSystem(x, x[:, 0], apviz.Matern32(), noise=noise, device="cpu").operator
    assert resolve(asked, operator, 1)[0].precision.recursion == chosen


def test_more_right_hand_sides_get_a_shorter_history():
    lengths = [resolve(AUTO, system().operator, p)[0].step.length for p in (1, 8, 64)]
    assert lengths == sorted(lengths, reverse=True) and lengths[-1] >= 1


def test_the_trace_keeps_the_choices_and_their_reasons():
    recorder = apviz.Recorder()
    apviz.solve(system(), apviz.ConjugateGradient(preconditioner=apviz.TwoLevelSchwarz()), [recorder])
    attrs = recorder.trace.attrs
    assert {"block_size", "overlap", "coarse_rank"} <= set(json.loads(attrs["choices"]))
    assert "auto" not in attrs["method"]


def take_rates(monkeypatch, entry, flop):
    """Let an entry of K and a flop of a factorisation take these seconds, and solves with a factor none."""
    for name, seconds in (("entry", entry), ("entry_of_pass", entry), ("flop", flop)):
        monkeypatch.setattr(CostModel, name, seconds)
    monkeypatch.setattr(CostModel, "projection", lambda self, rows: 0.0)


def test_auto_chooses_cg_if_k_has_low_rank_and_projections_otherwise(monkeypatch):
    take_rates(monkeypatch, entry=1e-9, flop=1e-9)
    smooth, rough = system(2001, lengthscale=20.0), system(2001, lengthscale=0.5)
    assert isinstance(apviz.Automatic().resolve(smooth.operator)[0], apviz.ConjugateGradient)
    assert isinstance(apviz.Automatic().resolve(rough.operator)[0], apviz.AlternatingProjection)
    for one in (smooth, rough):
        solution = apviz.solve(one, apviz.Automatic(tol=1e-3))
        k = one.kernel(one.x.double()).numpy() + one.noise * np.eye(one.n)
        r = one.b.double().numpy() - k @ solution.weights.double().numpy()
        assert solution.converged
        assert np.mean(np.linalg.norm(r, axis=0) / np.linalg.norm(one.b.double().numpy(), axis=0)) < 1.1e-3


def test_auto_chooses_plain_cg_if_k_is_nearly_diagonal():
    solver, why = apviz.Automatic().resolve(system(3000, d=8, lengthscale=0.03).operator)
    assert isinstance(solver, apviz.ConjugateGradient) and solver.preconditioner is None
    assert "would take about" in why["method"] and "estimate" in why["method"]


def test_auto_chooses_for_the_given_right_hand_sides(monkeypatch):
    take_rates(monkeypatch, entry=1e-9, flop=1e-9)
    one = system(4000, d=2, lengthscale=0.6, noise=0.01)
    smooth, rough = torch.cos(one.x[:, :1]), torch.randn(4000, 1, generator=torch.Generator().manual_seed(0))
    for b, expected in ((smooth, apviz.ConjugateGradient), (rough, apviz.AlternatingProjection)):
        assert isinstance(apviz.Automatic().prepare(one.operator, 1, like=b).solver, expected)
        recorder = apviz.Recorder()
        apviz.solve(apviz.KernelSystem(one.x, b, one.kernel, noise=0.01), apviz.Automatic(), [recorder])
        assert recorder.trace.method.has_blocks == (expected is apviz.AlternatingProjection)


@pytest.mark.parametrize(("limit", "chosen"), [(1000, "ConjugateGradient"), (1, "AlternatingProjection")])
def test_auto_takes_no_cg_that_cannot_end_within_the_limit(monkeypatch, limit, chosen):
    take_rates(monkeypatch, entry=1e-9, flop=1e-9)
    solver, reasons = apviz.Automatic(max_epochs=limit).resolve(system(2001, lengthscale=20.0).operator, 3)
    assert solver.name == chosen and reasons["method"].startswith(f"{chosen}: ")


def test_auto_factors_a_small_matrix_and_says_why():
    solver, why = apviz.Automatic(tol=1e-3).resolve(system(700).operator)
    assert solver == apviz.Cholesky(tol=1e-3) and why["method"].startswith("Cholesky: n = 700 is at most")


def many_inputs(d, noise=1e-3, dtype=torch.float32, smoothness=0.7):
    x = torch.randn(2500, d, generator=torch.Generator().manual_seed(0))
    kernel = apviz.Matern52(lengthscale=smoothness * d**0.5)
    found = apviz.KernelSystem(x, x[:, 0], kernel, noise=noise, operator="tiled", dtype=dtype, device="cpu")
    found.operator.prepare()
    return found.operator


@pytest.mark.parametrize("entry", [1e-9, 1e-7])
@pytest.mark.parametrize("margin", [0.9, 1.1])
def test_auto_factors_k_where_the_flops_at_the_measured_rate_take_less_time_than_the_entries_of_blocks(
    monkeypatch, entry, margin
):
    n = 2001
    monkeypatch.setattr(automatic, "left_by_a_sweep", lambda *args: 0.1)
    blocks = (2.5 + 3.3 * 3) * n**2 * entry  # the usual work to 0.001
    take_rates(monkeypatch, entry, flop=(margin * blocks - 2 * n**2 * entry) / (n**3 / 3))
    solver, reasons = apviz.Automatic(tol=1e-3).resolve(system(n).operator)
    assert isinstance(solver, apviz.Cholesky) == (margin < 1)
    assert ("factoring K takes about" in reasons["method"]) == (margin < 1)


@pytest.mark.parametrize(("left", "chosen"), [(0.0, apviz.AlternatingProjection), (1.0, apviz.ConjugateGradient)])
def test_auto_takes_cg_instead_of_blocks_that_leave_much_of_the_residual(monkeypatch, left, chosen):
    take_rates(monkeypatch, entry=1e-7, flop=5e-9)  # a factorisation takes 42 work
    monkeypatch.setattr(automatic, "left_by_a_sweep", lambda *args: left)
    solver, _ = apviz.Automatic(tol=1e-2).resolve(many_inputs(20, noise=0.01, smoothness=1.8))
    assert isinstance(solver, chosen)


@pytest.mark.parametrize(("entry", "sweeps"), [(1e-9, 0), (1e-7, 1)])
def test_a_solve_of_a_tenth_of_a_second_is_chosen_without_a_sweep(monkeypatch, entry, sweeps):
    take_rates(monkeypatch, entry, flop=entry / 20)
    made = []
    monkeypatch.setattr(automatic, "left_by_a_sweep", lambda *args: made.append(args) or 1.0)
    solver, _ = apviz.Automatic(tol=1e-2).resolve(many_inputs(20, noise=0.01, smoothness=1.8))
    assert len(made) == sweeps and isinstance(
        solver, apviz.ConjugateGradient if sweeps else apviz.AlternatingProjection
    )


@pytest.mark.parametrize("entry", [1e-9, 1e-7])
@pytest.mark.parametrize(("noise", "chosen"), [(1e-4, apviz.AlternatingProjection), (1.0, apviz.ConjugateGradient)])
def test_a_local_kernel_is_not_judged_by_few_rows_that_look_uncorrelated_unless_there_is_noise(
    monkeypatch, entry, noise, chosen
):
    take_rates(monkeypatch, entry, flop=entry)
    x = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    b = torch.randn(4000, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    one = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.02), noise=noise, operator="tiled", device="cpu")
    assert isinstance(apviz.Automatic(tol=0.1).prepare(one.operator, 16, like=one.b).solver, chosen)
    neighbours = Rehearsal(one.operator, None, 0, 4000, seed=0).neighbours
    distance = (5**0.5 / 0.02) * torch.cdist(x, x)
    correlation = (1 + distance + distance**2 / 3) * (-distance).exp()
    assert neighbours == pytest.approx(correlation.square().sum(1).mean().item() - 1, rel=1e-3) and neighbours > 0.1


def test_no_sweep_is_made_where_rows_far_apart_are_uncorrelated(monkeypatch):
    take_rates(monkeypatch, entry=1e-9, flop=1e-9)

    def sweep(*args):
        raise AssertionError

    monkeypatch.setattr(automatic, "left_by_a_sweep", sweep)
    one = system(2500, d=6, lengthscale=0.7, noise=0.01)
    for tol in (0.1, 1e-2, 1e-3):
        assert isinstance(apviz.Automatic(tol=tol).resolve(one.operator)[0], apviz.AlternatingProjection)


def test_the_rates_of_factors_are_measured_once_for_all_kernels(monkeypatch):
    CostModel.forget()
    one, other = system(300), apviz.KernelSystem(torch.randn(40, 5), torch.ones(40), apviz.RBF(), noise=0.1)
    rates = [cost_model(one.operator, 1).flop, cost_model(one.operator, 1).projection(30)]
    monkeypatch.setattr(CostModel, "_least", lambda self, act: 1e9)
    costs = cost_model(other.operator, 1)
    assert [costs.flop, costs.projection(30)] == rates and costs.entry > 1.0
    CostModel.forget()


def test_auto_and_the_advisor_predict_the_same_seconds_of_a_factorisation(monkeypatch):
    one = system(2001)
    take_rates(monkeypatch, entry=1e-9, flop=1e-11)
    seconds = 2001**3 / 3 * 1e-11 + 2 * 2001**2 * 1e-9
    assert cholesky_work(one.operator, cost_model(one.operator, 3)) == pytest.approx(seconds / (2001**2 * 1e-9))
    advised = apviz.advise(one, {"Cholesky": apviz.Cholesky()}).best
    assert advised.seconds.likely == pytest.approx(seconds) and advised.memory == 3 * 2001**2 * 4


def test_the_factors_of_coloured_blocks_are_in_the_dtype_of_the_recursion_unless_one_is_named():
    one = system(600, d=2)
    for asked, found in (("auto", "recursion"), ("float16", "float16")):
        solver, _ = apviz.ColouredProjection(precision=Precision(recursion="auto", factors=asked)).resolve(one.operator)
        assert solver.precision.factors == found


def test_costs_in_the_same_dtype_are_the_same_and_in_another_those_of_its_operator():
    costs = cost_model(system().operator, 3)
    assert costs.in_float32 is costs
    other = costs.in_dtype(torch.float64)
    assert other is not costs and other.in_dtype(torch.float64) is other and other.entry > 0


def test_auto_never_factors_a_matrix_that_does_not_fit_or_whose_noise_is_below_rounding(monkeypatch):
    def work(**settings):
        operator = many_inputs(3, **settings)
        return cholesky_work(operator, cost_model(operator, 1))

    assert work() < math.inf and work(noise=1e-4) == math.inf  # n·eps/2 = 1.5e-4
    assert work(noise=1e-4, dtype=torch.float64) < math.inf
    monkeypatch.setattr(automatic, "free_memory", lambda device: 3 * 2500**2 * 4)
    assert work() == math.inf


def test_building_a_preconditioner_with_auto_settings_tells_to_resolve_them_first():
    from apviz.operators import CountingOperator

    with pytest.raises(ValueError, match=r"block_size is still 'auto': .*resolve\(operator\) first"):
        apviz.TwoLevelSchwarz().build(CountingOperator(system().operator))


@pytest.mark.parametrize(
    "solver",
    [
        apviz.Automatic(tol=1e-3), apviz.solvers.overlapping(), apviz.solvers.ASkotch(rank=10),
        apviz.ConjugateGradient(preconditioner=apviz.TwoLevelSchwarz()), apviz.solvers.CoordinateDescentPlusPlus(),
        apviz.solvers.StochasticDualDescent(),
    ],
    ids=lambda solver: solver.name,
)  # fmt: skip
def test_every_auto_is_chosen_before_anything_is_built(solver, monkeypatch):
    seen = []
    for kind in solvers.SOLVERS.values():

        def build(self, operator, columns, build=kind.build):
            seen.append(json.dumps(to_plain(self)))
            return build(self, operator, columns)

        monkeypatch.setattr(kind, "build", build)
    prepared = solver.prepare(system(2100).operator, 3)
    assert seen and not any('"auto"' in each for each in seen) and seen[-1] == json.dumps(to_plain(prepared.solver))
    assert prepared.choices and prepared.asked == solver


def test_a_solver_of_ones_own_builds_with_what_it_chose_and_its_reasons_are_recorded():
    @dataclass(frozen=True, kw_only=True)
    class Halving(apviz.solvers.Solver):
        share: float | str = "auto"
        name: ClassVar[str] = "Halving"

        def resolve(self, operator, columns=1):
            return replace(self, share=0.5), {"share": "0.5: half"}

        def build(self, operator, columns):
            assert self.share == 0.5
            return super().build(operator, columns)

        def epochs(self, prepared, state):
            raise NotImplementedError

    prepared = Halving().prepare(system().operator)
    assert prepared.solver == Halving(share=0.5) and prepared.choices == {"share": "0.5: half"}
