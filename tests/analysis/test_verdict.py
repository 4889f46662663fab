"""The verdict on runs of one system, on real runs whose times are set, for clocks differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis import Basis, judge
from apviz.analysis.verdict import standing
from apviz.solvers import attempt

N = 200


def system(noise=0.05, lengthscale=0.3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (N, 2))
    y = np.sin(5 * x[:, :1]) + 0.1 * rng.standard_normal((N, 1))
    kernel = apviz.Matern52(lengthscale=lengthscale)
    return apviz.KernelSystem(x, y, kernel, noise=noise, dtype=torch.float64, device="cpu")


def run(problem, solver, seconds_an_epoch, *hooks):
    """Trace of a solve whose set-up took nothing and whose epochs took as long as is said."""
    recorder = apviz.Recorder()
    attempt(problem, solver, [*hooks, recorder])
    trace = recorder.trace
    epoch = trace["epoch"]
    trace.tree["epoch"] = epoch.assign(seconds=("epoch", seconds_an_epoch * epoch["epoch"].values.astype(float)))
    return trace


def cg(problem, seconds=1.0, **settings):
    return run(problem, apviz.ConjugateGradient(**settings), seconds)


def ap(problem, seconds=1.0, **settings):
    return run(problem, apviz.AlternatingProjection(**{"block_size": 60, **settings}), seconds)


def epochs(trace):
    return int(trace["epoch"]["epoch"][-1])


@pytest.fixture(scope="module")
def problem():
    return system()


# --- which was best -----------------------------------------------------------------------------------------------


def test_of_those_that_converged_the_best_took_the_fewest_seconds_and_one_that_did_not_is_never_best(problem):
    quick, slow, cut = cg(problem, 0.1), ap(problem, 5.0), ap(problem, 1e-6, max_epochs=3)
    found = judge([slow, cut, quick])
    assert found.best.trace is quick and found.best.basis is Basis.MEASURED
    assert [each.trace for each in found.standings] == [quick, slow, cut]
    work = float(quick["epoch"]["work"][-1])
    assert found.headline.startswith(f"CG, {0.1 * epochs(quick):.2g} s and {work:.3g} work; ")


def test_of_two_that_took_as_long_within_a_tenth_the_one_with_less_work_is_best(problem):
    one, other = cg(problem), ap(problem)
    work = {id(trace): float(trace["epoch"]["work"][-1]) for trace in (one, other)}
    less, more = sorted((one, other), key=lambda trace: work[id(trace)])
    for trace, seconds in ((less, 1.05), (more, 1.0)):
        trace.tree["epoch"]["seconds"][-1] = seconds
    assert judge([more, less]).best.trace is less
    less.tree["epoch"]["seconds"][-1] = 1.2
    found = judge([more, less])
    assert found.best.trace is more and f"took the least work, {work[id(less)]:.3g}" in found.others


def test_another_that_converged_is_compared_by_what_was_measured(problem):
    best, other = ap(problem, 0.01), cg(problem, 1.0)
    seconds = float(other["epoch"]["seconds"][-1]), float(best["epoch"]["seconds"][-1])
    words = judge([best, other]).headline
    assert f"CG took {seconds[0]:.2g} s, {seconds[0] / seconds[1]:.2g} times as long" in words
    assert "bound" not in words and "extrapolated" not in words


# --- runs that did not end ----------------------------------------------------------------------------------------


def test_plain_cg_that_was_cut_off_is_bounded_by_theory_and_textbook_cg_keeps_to_the_bound(problem):
    cut = cg(problem, 2.0, max_epochs=3)
    found = standing(cut)
    k = problem.operator.block(slice(0, N)).numpy()
    values = np.linalg.eigvalsh(k)
    root = math.sqrt(values[-1] / values[0])
    most = math.ceil(0.5 * root * math.log(2 * root / 0.01))
    assert found.basis is Basis.BOUND and found.seconds == pytest.approx(2.0 * most)
    assert epochs(cg(problem)) <= most
    words = judge([ap(problem, 0.01), cut]).headline
    assert f"CG would take up to {2 * most / 60:.0f} min in all (a bound)" in words
    assert f"because κ = {root**2:,.0f}" in words


def test_projections_that_were_cut_off_are_extrapolated_and_come_out_near_what_they_need(problem):
    whole = ap(problem, 2.0, rule="cyclic", max_epochs=1000)
    assert whole.converged
    cut = ap(problem, 2.0, rule="cyclic", max_epochs=epochs(whole) // 2)
    found = standing(cut)
    assert found.basis is Basis.EXTRAPOLATED
    assert found.seconds == pytest.approx(2.0 * epochs(whole), rel=0.25)
    assert found.work == pytest.approx(float(whole["epoch"]["work"][-1]), rel=0.25)
    assert "(extrapolated)" in judge([cut]).headline


def test_a_residual_that_does_not_fall_is_not_extrapolated(problem):
    cut = ap(problem, max_epochs=8, tol=1e-9)
    cut.tree["epoch"]["residual"][:] = 0.5
    found = standing(cut)
    assert found.basis is Basis.UNKNOWN and math.isnan(found.seconds) and math.isnan(found.work)
    words = judge([cut]).headline
    assert "extrapolated" not in words and "bound" not in words and "did not converge" in words


def test_what_rounding_stopped_would_not_have_got_there_with_more_time(problem):
    cut = ap(problem, max_epochs=8)
    assert standing(cut).basis is Basis.EXTRAPOLATED
    cut.attrs["stop_reason"] = "stagnated"
    assert standing(cut).basis is Basis.UNKNOWN
    assert "AP gauss-southwell b=60 did not get there: it stagnated at residual" in judge([cg(problem), cut]).headline


def test_an_estimate_of_kappa_makes_a_bound_about_that(problem):
    recorder = apviz.Recorder(spectrum="subsample", spectrum_rows=100)
    attempt(problem, apviz.ConjugateGradient(max_epochs=3), [recorder])
    words = judge([ap(problem, 1e-4), recorder.trace]).headline
    assert "up to about" in words and "because κ ≈" in words


# --- few runs, none, or runs of several systems -------------------------------------------------------------------


def test_where_none_converged_it_says_so_and_names_the_closest(problem):
    near, far = ap(problem, max_epochs=6), ap(problem, max_epochs=2, rule="cyclic", block_size=30)
    found = judge([far, near])
    assert found.best is None and found.diagnosis is not None
    assert found.headline.startswith(f"None of the 2 runs converged to 0.01; the closest, {near.label}, is at residual")


def test_a_run_alone_is_said_to_be_alone_and_cg_is_told_from_kappa(problem):
    words = judge([ap(problem, 0.01)]).headline
    assert "nothing else ran" in words and "CG, which did not run, would take up to" in words and "(a bound)" in words
    assert "alone ran, and did not converge to 0.01" in judge([ap(problem, max_epochs=3)]).headline
    assert "CG, which did not run" not in judge([cg(problem)]).headline


def test_while_others_are_solved_nothing_is_said_of_what_did_not_run(problem):
    won, lost = (judge([each], more_to_come=True).headline for each in (ap(problem), ap(problem, max_epochs=3)))
    assert "nothing else has ended yet" in won and "did not converge to 0.01" in lost
    assert not any("did not run" in words or "alone" in words or "nothing else ran" in words for words in (won, lost))


def test_without_a_run_nothing_is_claimed():
    found = judge([])
    assert (found.best, found.diagnosis, found.standings) == (None, None, ())
    assert found.sentence == "Nothing has run yet."


def test_runs_of_another_system_or_to_another_tolerance_are_left_out_and_counted(problem):
    ours = [cg(problem, 0.1), ap(problem)]
    others = [cg(problem, 1e-6, tol=0.5), cg(system(noise=0.5), 1e-6)]
    found = judge([others[0], *ours, others[1]])
    assert [each.trace for each in found.standings] == ours and found.left_out == 2
    assert "2 other runs solve another system, or to another tolerance" in found.others


def test_a_run_that_was_killed_before_its_first_epoch_is_left_out(problem):
    killed = cg(problem)
    del killed.tree["epoch"]
    found = judge([killed, ap(problem)])
    assert len(found.standings) == 1


def test_names_tell_runs_of_one_method_apart(problem):
    one, two = cg(problem, 1.0), cg(problem, 3.0)
    assert judge([two, one], ["CG, seed 2", "CG, seed 1"]).headline.startswith("CG, seed 1, ")


# --- what to change -----------------------------------------------------------------------------------------------


def test_a_tolerance_tighter_than_the_predictions_need_is_what_to_change(problem):
    rng = np.random.default_rng(1)
    x = torch.as_tensor(rng.uniform(-1, 1, (100, 2)))
    prediction = apviz.PredictionHook(x, torch.sin(5 * x[:, 0]))
    tight = run(problem, apviz.ConjugateGradient(tol=1e-10), 1.0, prediction)
    found = judge([tight])
    assert found.diagnosis.change["tol"] > 1e-9
    assert found.change.startswith("The tolerance is tighter than the predictions need: a tolerance of")


def test_where_nothing_limited_the_best_there_is_nothing_to_change(problem):
    assert judge([run(problem, apviz.Cholesky(), 1.0)]).change == "Nothing to change."
