"""The advice: forecasts agree with solves, and methods that do not fit or converge are reported."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

import apviz
from apviz.advice import advising
from apviz.advice.forecast import Band
from apviz.advice.rehearsing import Budget, Rehearsing
from apviz.preconditioners import PivotedCholesky
from apviz.solvers import attempt, overlapping
from apviz.solvers.choosing.costs import CostModel
from tests.advice.test_pilots import made

SMOOTH = {"lengthscale": 3.0, "noise": 0.1}
LOCAL = {"lengthscale": 0.1, "noise": 1e-3}


def named(advice, word):
    return next(each for name, each in advice.methods.items() if word in name)


@pytest.mark.parametrize("settings", [SMOOTH, LOCAL], ids=["smooth", "local"])
def test_the_work_of_the_advised_method_is_within_a_factor_of_one_and_a_half_of_its_forecast(settings):
    system = made(n=3_000, **settings)
    best = apviz.advise(system, thorough=True).best
    solution = attempt(system, best.solver)
    assert solution.converged
    assert best.work.likely / 1.5 < solution.work < best.work.likely * 1.5
    assert best.work.low <= best.work.likely <= best.work.high


def test_low_rank_is_advised_for_smooth_systems_and_blocks_for_local_ones():
    smooth, local = (apviz.advise(made(n=5_000, **settings), thorough=True) for settings in (SMOOTH, LOCAL))
    names = list(smooth.methods)
    assert names.index("Overlapping projections") > min(
        place for place, name in enumerate(names) if name.startswith("CG")
    )
    assert next(iter(local.methods)) == "Overlapping projections"
    assert local.sentence.startswith("Use Overlapping projections: about ")


def test_the_memory_of_a_method_is_that_of_its_kept_arrays():
    system = made(n=3_000, **LOCAL)
    each = named(apviz.advise(system, thorough=True), "Overlapping")
    prepared = each.solver.prepare(system.operator, 4)
    b, n = each.solver.block_size, system.n
    squares = math.ceil(n / b / 2) * (b * (1 + each.solver.partition.overlap)) ** 2 * 4
    vectors = (each.solver.step.length + 10) * n * 4 * 4
    assert prepared.factors is not None
    assert each.memory == pytest.approx(squares + vectors, rel=0.4)


def test_few_rows_are_factored_without_a_rehearsal():
    advice = apviz.advise(made(n=500))
    assert list(advice.methods) == ["Cholesky"] and advice.best.solver == apviz.Cholesky()
    assert set(advice.unfit.values()) == {"with up to 2,000 rows, Cholesky is so fast that others were not tested"}
    (once,) = advice.left_out
    assert once.startswith("Overlapping projections, CG + ") and once.endswith("that others were not tested.")


def test_methods_that_do_not_fit_in_memory_are_left_out_with_their_size(monkeypatch):
    monkeypatch.setattr(advising, "free_memory", lambda device: 30e6)
    advice = apviz.advise(made(n=3_000))
    assert advice.unfit["Cholesky"].startswith("it needs 0.2 GiB, 0.0 GiB are free")
    monkeypatch.setattr(advising, "free_memory", lambda device: 1e3)
    with pytest.raises(MemoryError, match="no method fits. Cholesky: it needs"):
        apviz.advise(made(n=2_500), thorough=True)


def test_where_a_test_takes_longer_than_a_tenth_of_the_solve_auto_is_advised_with_what_it_usually_takes(
    monkeypatch,
):
    system = made(n=3_000, **LOCAL)
    monkeypatch.setattr(CostModel, "_least", lambda self, act: 1e-6)  # by which a solve takes far less than a second
    CostModel.forget()
    advice = apviz.advise(system)
    CostModel.forget()
    assert set(advice.methods) == {"Automatic", "Cholesky"} and advice.alternatives == ()
    guess = advice.methods["Automatic"]
    assert guess.seconds.low < guess.seconds.likely < guess.seconds.high and "nothing was tested" in guess.reason
    (once,) = advice.left_out
    assert once.startswith("Overlapping projections, CG + ")
    assert once.endswith("a test takes longer than a tenth of the solve; thorough advice tests every method.")
    solution = attempt(system, guess.solver)
    assert solution.converged and guess.work.low <= solution.work < guess.work.high


def test_tests_end_where_one_as_long_as_the_longest_would_exceed_the_share_of_the_best_solve():
    now = 0.0
    budget = Budget(lambda: now, 0.0, 0.1)
    budget.start(100.0)
    for lasts, another in ((2.0, True), (1.0, True), (3.0, True), (1.5, False)):  # 2, 3, 6, 7.5 s of 10 s are over
        with budget.test():
            now += lasts
        assert budget.allows_another is another
    budget.expect(math.inf)
    assert not budget.allows_another  # a test that failed says nothing about the best solve
    budget.expect(200.0)
    assert budget.allows_another


def test_a_slow_factorisation_does_not_lengthen_the_time_for_tests():
    system = made(n=2_500, **LOCAL)
    budget = Budget(time.perf_counter, 0.0, 0.1, 1e-6)
    costs = CostModel(system.operator, 4)
    factor = Rehearsing(system, costs, 800, 0, budget).begin(apviz.Cholesky(), apviz.Cholesky())
    assert factor.forecast.seconds.likely > budget.best == 1e-6


def test_measurements_that_take_half_of_the_share_leave_no_time_for_a_test():
    for took, another in ((0.4, True), (0.6, False)):
        budget = Budget(lambda took=took: took, 0.0, 0.1)
        budget.start(10.0)
        assert budget.allows_another is another


def test_methods_are_tested_one_after_another_while_a_tenth_of_the_best_solve_lasts(monkeypatch):
    monkeypatch.setattr(CostModel, "_least", lambda self, act: 0.1)  # by which the fastest solve takes 14 s
    CostModel.forget()
    fifths = iter(range(1_000))
    advice = apviz.advise(made(n=3_000, **LOCAL), clock=lambda: next(fifths) / 5)
    CostModel.forget()
    assert list(advice.methods)[:2] == ["Cholesky", "Overlapping projections"] and "CG" in advice.unfit


def test_methods_not_expected_to_converge_come_last_with_a_small_chance():
    system = made(n=3_000, lengthscale=0.3, noise=1e-5)
    methods = {"few": apviz.ConjugateGradient(max_epochs=5), "blocks": overlapping()}
    advice = apviz.advise(system, methods)
    assert list(advice.methods) == ["blocks", "few"]
    assert advice.methods["few"].chance < 0.05 < 0.9 < advice.best.chance
    assert advice.methods["few"].reason.startswith("on 800 rows the limit of 5 iterations left a residual of ")
    assert not attempt(system, methods["few"]).converged


def test_rounding_that_stops_a_pilot_system_rules_out_convergence_on_all_rows():
    system = made(n=2_400, lengthscale=1.5, noise=1e-9, dtype=None)
    small = apviz.KernelSystem(system.x.float(), system.b.float(), system.kernel, noise=1e-9, device="cpu")
    advice = apviz.advise(small, {"blocks": apviz.AlternatingProjection(block_size=300, max_epochs=60, tol=1e-8)})
    assert advice.best.chance <= 0.5


def test_if_no_method_is_expected_to_converge_the_advice_says_so_with_a_remedy():
    system = made(n=2_500, lengthscale=0.3, noise=1e-5)
    said = apviz.advise(system, {"few": apviz.ConjugateGradient(max_epochs=5)}).sentence
    assert said.startswith("No method is expected to reach 0.01 within its limit. few comes closest: on 800 rows")
    assert "more epochs" in said


def test_a_method_far_slower_than_the_best_is_rehearsed_in_part_and_marked():
    advice = apviz.advise(made(n=3_000, lengthscale=0.3, noise=1e-5), thorough=True)
    slow = advice.methods["CG"]
    assert not slow.is_bounded and slow.work.high == math.inf and "stopped there, as others need less" in slow.reason
    row = next(each for each in advice.rows() if each["method"] == "CG")
    assert row["seconds"].endswith(" or more)") and row["work"].endswith(" or more)")


def test_a_method_rehearsed_on_the_smaller_pilot_alone_has_a_range_that_holds_the_solve():
    system = made(n=3_000, d=5, lengthscale=2.0, noise=0.03)
    rehearsing = Rehearsing(system, CostModel(system.operator, 4), 800, 0, Budget(time.perf_counter, 0.0))
    solvers = [apviz.ConjugateGradient(tol=1e-2, preconditioner=each) for each in (None, PivotedCholesky(rank=100))]
    slow, fast = [rehearsing.begin(each, each) for each in solvers]
    rehearsing.decide([slow, fast])
    assert slow.half.converged and slow.whole is None and fast.whole is not None
    assert slow.forecast.work.low < attempt(system, solvers[0]).work < slow.forecast.work.high < math.inf


def test_custom_solvers_are_compared_and_unsuitable_ones_are_rejected_by_name():
    system = made(n=2_500)
    advice = apviz.advise(system, {"mine": apviz.AlternatingProjection(block_size=250), "auto": apviz.Automatic()})
    assert set(advice.methods) == {"mine", "auto"}
    with pytest.raises(ValueError, match="mine: GradientDescent cannot be forecast; alternating and coloured"):
        apviz.advise(system, {"mine": apviz.solvers.GradientDescent()})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tol": 0.0}, "tol"), ({"tol": -1.0}, "tol"), ({"max_epochs": 0}, "max_epochs"),
        ({"thorough": "yes"}, "thorough must be True or False, got"),
    ],
)  # fmt: skip
def test_bad_settings_are_rejected_by_name(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        apviz.advise(made(n=100), **settings)


def test_a_number_is_shown_with_its_probable_range():
    assert f"{Band(1.234, 0.9, 2.0)}" == "1.2 (0.9–2)"
    assert f"{Band(12345.6, 900.0, math.inf)}" == "12,346 (900 or more)"


def test_the_same_seed_gives_the_same_forecast_of_work():
    first, second = (apviz.advise(made(n=2_200, **LOCAL), thorough=True).methods for _ in range(2))
    # only which rehearsals run to their end depends on the clock
    both = [name for name in first if first[name].is_bounded and second[name].is_bounded]
    assert "Overlapping projections" in both
    for name in both:
        np.testing.assert_allclose(first[name].work, second[name].work)
