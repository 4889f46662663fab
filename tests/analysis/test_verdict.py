"""The verdict on runs of one system: real runs with fixed times, because clocks differ."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis import Basis, judge
from apviz.analysis.seed_verdict import judge_over_seeds
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
    """Return the trace of a solve with a free set-up and epochs of the given seconds."""
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


def test_the_named_runs_are_those_in_the_headline(problem):
    """Their curves have names and colours on the page Compare."""
    rules = {"cyclic": 0.1, "random": 0.2, "gauss-southwell": 0.3}
    plain = cg(problem, 9.0, tol=0.05)
    found = judge([*(ap(problem, seconds, rule=rule, tol=0.05) for rule, seconds in rules.items()), plain])
    assert plain in [each.trace for each in found.named] and len(found.named) == 3
    for each in found.standings:
        assert (each.name in found.headline) == (each in found.named)


def test_the_best_run_is_the_fastest_converged_one(problem):
    quick, slow, cut = cg(problem, 0.1), ap(problem, 5.0), ap(problem, 1e-6, max_epochs=3)
    found = judge([slow, cut, quick])
    assert found.best.trace is quick and found.best.basis is Basis.MEASURED
    assert [each.trace for each in found.standings] == [quick, slow, cut]
    assert found.headline.startswith(f"CG solved it in {0.1 * epochs(quick):.2g} s. {slow.method_name} took ")


def test_the_fastest_is_named_even_if_another_took_less_work_in_nearly_the_same_time(problem):
    """The verdict once named overlapping projections, 0.763 s, and hid two-level Schwarz, 0.733 s."""
    one, other = cg(problem), ap(problem)
    work = {id(trace): float(trace["epoch"]["work"][-1]) for trace in (one, other)}
    less, more = sorted((one, other), key=lambda trace: work[id(trace)])
    less.tree["epoch"]["seconds"][-1], more.tree["epoch"]["seconds"][-1] = 0.763, 0.733
    found = judge([less, more])
    assert found.best.trace is more
    assert found.headline == f"{more.method_name} solved it in 0.73 s. {less.method_name} took 4% more time."
    less.tree["epoch"]["seconds"][-1] = 0.734
    assert judge([less, more]).headline.endswith(f"{less.method_name} took the same time.")


def test_other_converged_runs_are_compared_by_measurements(problem):
    best, other = ap(problem, 0.01), cg(problem, 1.0)
    seconds = float(other["epoch"]["seconds"][-1]), float(best["epoch"]["seconds"][-1])
    times = seconds[0] / seconds[1]
    words = judge([best, other]).headline
    assert f"CG took {times:{'.2g' if times < 10 else ',.0f'}} times as long" in words
    assert "bound" not in words and "extrapolated" not in words


def test_no_sentence_of_a_verdict_is_longer_than_twenty_words(problem):
    runs = [ap(problem, 0.01), cg(problem, 1.0), ap(problem, 1e-6, max_epochs=3), cg(problem, 1.0, max_epochs=3)]
    for chosen in (runs, runs[:1], runs[2:], runs[3:]):
        found = judge(chosen)
        for part in (found.headline, found.others, found.change):
            assert all(len(sentence.split()) <= 20 for sentence in re.split(r"\.\s", part)), part
    several = judge(runs)
    assert several.headline.split(". ")[0].endswith(" s") and not several.headline.endswith("..")


# --- runs that did not end ----------------------------------------------------------------------------------------


def test_plain_cg_without_a_rate_is_bounded_by_theory_and_textbook_cg_satisfies_the_bound(problem):
    cut = cg(problem, 2.0, max_epochs=3)
    found = standing(cut)
    k = problem.operator.block(slice(0, N)).numpy()
    values = np.linalg.eigvalsh(k)
    root = math.sqrt(values[-1] / values[0])
    most = math.ceil(0.5 * root * math.log(2 * root / 0.01))
    assert found.basis is Basis.BOUND and found.seconds == pytest.approx(2.0 * most)
    assert epochs(cg(problem)) <= most
    residual = float(cut["epoch"]["residual"][-1])
    told = judge([ap(problem, 0.01), cut])
    # a measurement instead of a bound
    assert f"CG stopped at residual {residual:.3g} after 6 s" in told.headline and "bound" not in told.headline
    assert "1 run stopped at 3 epochs without converging." in told.others and f"κ = {root**2:,.0f}" in told.others
    bound = f"CG needs at most {most} iterations in exact arithmetic (a bound). "
    assert f"{bound}At the pace it had, that is about {2 * most / 60:.0f} min." in judge([cut]).others


def test_cg_near_its_tolerance_is_extrapolated_from_its_rate_and_not_bounded(problem):
    """At a residual of 0.01038 after 25.1 s, the verdict was once "would take up to about 53 s"."""
    whole = cg(problem, 0.25)
    done = epochs(whole) - 1
    cut = cg(problem, 0.25, max_epochs=done)
    found = standing(cut)
    assert found.basis is Basis.EXTRAPOLATED and found.seconds == pytest.approx(0.25 * epochs(whole), rel=0.25)
    told = judge([cut])
    assert f"It stopped at residual {float(cut['epoch']['residual'][-1]):.3g} after" in told.headline
    assert "(extrapolated)" in told.others and "bound" not in told.sentence


def test_unconverged_projections_are_extrapolated_close_to_their_true_cost(problem):
    whole = ap(problem, 2.0, rule="cyclic", max_epochs=1000)
    assert whole.converged
    cut = ap(problem, 2.0, rule="cyclic", max_epochs=epochs(whole) // 2)
    found = standing(cut)
    assert found.basis is Basis.EXTRAPOLATED
    assert found.seconds == pytest.approx(2.0 * epochs(whole), rel=0.25)
    assert found.work == pytest.approx(float(whole["epoch"]["work"][-1]), rel=0.25)
    assert "(extrapolated)" in judge([cut]).others


def test_a_residual_that_does_not_fall_is_not_extrapolated(problem):
    cut = ap(problem, max_epochs=8, tol=1e-9)
    cut.tree["epoch"]["residual"][:] = 0.5
    found = standing(cut)
    assert found.basis is Basis.UNKNOWN and math.isnan(found.seconds) and math.isnan(found.work)
    words = judge([cut]).sentence
    assert "extrapolated" not in words and "bound" not in words and "did not converge" in words


def test_runs_stopped_by_rounding_are_not_extrapolated(problem):
    cut = ap(problem, max_epochs=8)
    assert standing(cut).basis is Basis.EXTRAPOLATED
    cut.attrs["stop_reason"] = "stagnated"
    assert standing(cut).basis is Basis.UNKNOWN
    assert "Alternating projection (greedy, b = 60) stagnated at residual" in judge([cg(problem), cut]).headline


def test_an_estimate_of_kappa_is_marked_as_an_estimate(problem):
    recorder = apviz.Recorder(spectrum="subsample", spectrum_rows=100)
    attempt(problem, apviz.ConjugateGradient(), [recorder])
    assert "κ ≈" in judge([recorder.trace]).others


# --- few runs, none, or runs of several systems -------------------------------------------------------------------


def test_if_no_run_converged_the_verdict_names_the_closest(problem):
    near, far = ap(problem, max_epochs=6), ap(problem, max_epochs=2, rule="cyclic", block_size=30)
    found = judge([far, near])
    assert found.best is None and found.diagnosis is not None
    assert found.headline.startswith(
        f"None of the 2 runs converged to 0.01. {near.method_name} came closest: it stopped at residual"
    )


def test_the_verdict_on_a_single_run_makes_no_comparison(problem):
    assert "No other method ran." in judge([ap(problem, 0.01)]).headline
    assert "did not converge to 0.01. It stopped at" in judge([ap(problem, max_epochs=3)]).headline
    assert "No other run has ended yet." in judge([ap(problem)], more_to_come=True).headline


def test_without_runs_nothing_is_claimed():
    found = judge([])
    assert (found.best, found.diagnosis, found.standings) == (None, None, ())
    assert found.sentence == "Nothing has run yet."


def test_runs_of_another_system_or_to_another_tolerance_are_left_out_and_counted(problem):
    ours = [cg(problem, 0.1), ap(problem)]
    others = [cg(problem, 1e-6, tol=0.5), cg(system(noise=0.5), 1e-6)]
    found = judge([others[0], *ours, others[1]])
    assert [each.trace for each in found.standings] == ours and found.left_out == 2
    assert "2 other runs do not compare: they have another system, tolerance or machine." in found.others


def test_the_fastest_run_is_one_of_a_single_machine(problem):
    ours = [cg(problem, 0.1), ap(problem)]
    elsewhere = cg(problem, 1e-6)
    elsewhere.attrs["device_name"] = "another"
    found = judge([*ours, elsewhere])
    assert [each.trace for each in found.standings] == ours and found.left_out == 1
    assert "1 other run does not compare: it has another system, tolerance or machine." in found.others


@pytest.mark.parametrize(("hours", "says_it"), [(1, False), (30, True)])
def test_the_verdict_says_that_the_runs_compared_were_not_made_at_one_time(problem, hours, says_it):
    ours, third = [cg(problem, 0.1), ap(problem)], ap(problem, 5.0, rule="cyclic")
    created = datetime(2026, 3, 1, 20, 15, tzinfo=UTC)
    for each, later in zip((*ours, third), (0, hours, 90), strict=True):
        each.attrs["created"] = (created + timedelta(hours=later)).isoformat()
    # the headline does not name the slowest run
    assert ("from 2026-03-01 20:15 to 2026-03-03 02:15." in judge([*ours, third]).others) is says_it
    groups = [[each, each] for each in ours]
    assert ("from 2026-03-01 20:15 to 2026-03-03 02:15." in judge_over_seeds(groups, ["CG", "AP"]).others) is says_it


def test_a_run_to_a_smaller_tolerance_is_named_if_it_was_the_fastest(problem):
    ours = [cg(problem, 0.1), ap(problem)]
    faster, slower = cg(problem, 1e-6, tol=1e-6), cg(problem, 9.0, tol=1e-5)
    found = judge([*ours, faster, slower])
    assert found.best.trace is faster and found.left_out == 1
    assert [each.trace for each in found.standings] == [faster, *ours]
    assert judge([*ours, slower]).best.trace is ours[0]


def test_a_run_that_was_killed_before_its_first_epoch_is_left_out(problem):
    killed = cg(problem)
    del killed.tree["epoch"]
    found = judge([killed, ap(problem)])
    assert len(found.standings) == 1


def test_names_distinguish_runs_of_one_method(problem):
    one, two = cg(problem, 1.0), cg(problem, 3.0)
    assert judge([two, one], ["CG, seed 2", "CG, seed 1"]).headline.startswith("CG, seed 1 solved it in ")


# --- what to change -----------------------------------------------------------------------------------------------


def test_a_tolerance_tighter_than_predictions_need_is_advised_to_change(problem):
    rng = np.random.default_rng(1)
    x = torch.as_tensor(rng.uniform(-1, 1, (100, 2)))
    prediction = apviz.PredictionHook(x, torch.sin(5 * x[:, 0]))
    tight = run(problem, apviz.ConjugateGradient(tol=1e-10), 1.0, prediction)
    found = judge([tight])
    assert found.diagnosis.change["tol"] > 1e-9
    assert found.change.startswith("The tolerance is tighter than the predictions need. A tolerance of")


def predicting(problem, solver, seconds=1.0):
    x = torch.as_tensor(np.random.default_rng(1).uniform(-1, 1, (100, 2)))
    return run(problem, solver, seconds, apviz.PredictionHook(x, torch.sin(5 * x[:, 0])))


def test_there_is_no_action_if_the_diagnosis_advises_none(problem):
    found = judge([predicting(problem, apviz.Cholesky())])
    assert found.diagnosis.limit is apviz.analysis.Limit.NOTHING and found.change == ""


def test_the_fastest_run_is_advised_a_tighter_tolerance_if_it_predicts_worse_than_another(problem):
    """The verdict was once "Nothing to change" though the fastest predicted 2 to 14 times worse than Cholesky."""
    quick, exact = (
        predicting(problem, apviz.ConjugateGradient(tol=0.3), 0.01),
        predicting(problem, apviz.Cholesky(tol=0.3)),
    )
    ends = [float(trace["epoch"]["test_rmse"][-1]) for trace in (quick, exact)]
    assert ends[0] > 1.2 * ends[1]
    found = judge([quick, exact])
    assert found.best.trace is quick and found.diagnosis == apviz.diagnose(quick, [exact])
    assert found.diagnosis.limit is apviz.analysis.Limit.LOOSE and "tolerance of 0.03" in found.change


def test_the_action_equals_that_of_the_diagnosis_even_with_runs_to_other_tolerances(problem):
    """The verdict was once "Nothing to change." above a diagnosis that used more runs."""
    tight, loose = predicting(problem, apviz.ConjugateGradient(tol=1e-9)), predicting(problem, apviz.Cholesky(tol=0.5))
    found = judge([tight, predicting(problem, apviz.ConjugateGradient(tol=1e-9, max_epochs=9)), loose])
    assert found.left_out == 1 and found.diagnosis == apviz.diagnose(tight, [tight, loose])
