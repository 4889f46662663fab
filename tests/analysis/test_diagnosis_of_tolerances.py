"""Diagnoses of tolerances and models, which judge a run by its test error."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis import errors
from apviz.analysis.diagnosis import Limit, diagnose
from apviz.partitions import PrincipalAxisTree, with_overlap
from tests.analysis.problems import other_points, predicting, recorded, system

BLOCKS = apviz.AlternatingProjection(block_size=50, tol=1e-7)


@functools.cache
def _predicted(solver):
    return recorded(system(), solver, predicting(*other_points()))


def predicted(solver):
    """Return a copy of the trace of a solve of the system that most tests have, with its test error."""
    return apviz.Trace(_predicted(solver).tree.copy(deep=True))


def test_a_tolerance_tighter_than_predictions_need_is_loosened_to_the_flat_part_of_the_error():
    problem = system()
    test_x, test_y = map(torch.as_tensor, other_points())
    trace = predicted(BLOCKS)
    found = diagnose(trace)
    assert found.limit is Limit.TOLERANCE
    looser = apviz.solve(problem, apviz.AlternatingProjection(block_size=50, **with_overlap(found.change)))
    mean = problem.kernel(test_x, problem.x) @ looser.weights[:, 0]
    rmse = float((mean - test_y).square().mean().sqrt())
    assert rmse == pytest.approx(float(trace["epoch"]["test_rmse"][-1]), rel=0.05)


def test_all_runs_of_a_system_are_advised_the_same_tolerance():
    """The headline of a page once advised 0.1, the diagnosis of another of its runs 0.05."""
    several = [predicted(solver) for solver in (BLOCKS, apviz.ConjugateGradient(tol=1e-7), apviz.Cholesky())]
    found = [diagnose(trace, several) for trace in several[:2]]
    alone = [diagnose(trace).change["tol"] for trace in several[:2]]
    assert {each.change["tol"] for each in found} == {min(alone)}


def test_the_end_of_an_unconverged_run_does_not_judge_its_tolerance():
    problem, other = system(1e-2, 1.5), other_points()
    cut = recorded(problem, apviz.AlternatingProjection(block_size=200, tol=1e-2, max_epochs=300), predicting(*other))
    assert cut.outcome == "max_epochs"
    # judged by its own end, its tolerance looks too tight
    first, work = errors.sufficient_epoch(cut), cut["epoch"]["work"].values
    assert float(cut["epoch"]["residual"][first]) > 0.05 and work[first] < 0.2 * work[-1]
    assert diagnose(cut).limit is not Limit.TOLERANCE
    exact = recorded(problem, apviz.Cholesky(), predicting(*other))
    ends = [float(trace["epoch"]["test_rmse"][-1]) for trace in (cut, exact)]
    assert ends[0] > 1.01 * ends[1]
    assert diagnose(cut, [cut, exact]).limit is not Limit.TOLERANCE


def test_an_unconverged_run_is_judged_by_a_converged_one_on_the_same_system():
    problem, other = system(), other_points()
    cut = predicted(apviz.AlternatingProjection(block_size=10, tol=1e-12, max_epochs=150))
    exact = predicted(apviz.Cholesky())
    elsewhere = recorded(system(0.2), apviz.Cholesky(), predicting(*other))
    assert cut.outcome == "max_epochs" and diagnose(cut, [elsewhere]).limit is not Limit.TOLERANCE
    found = diagnose(cut, [elsewhere, exact])
    assert found.limit is Limit.TOLERANCE and "the best final value on this system" in found.evidence
    looser = recorded(
        problem, apviz.AlternatingProjection(block_size=10, **with_overlap(found.change)), predicting(*other)
    )
    assert float(looser["epoch"]["test_rmse"][-1]) == pytest.approx(float(exact["epoch"]["test_rmse"][-1]), rel=0.02)


def test_a_looser_tolerance_does_not_end_a_solve_before_its_predictions_are_good():
    """Residuals may rise: the lowest one counts, up to the epoch from which predictions stay good."""
    trace = predicted(BLOCKS)
    residual, rmse = trace["epoch"]["residual"].values, trace["epoch"]["test_rmse"].values
    epochs = len(residual)
    assert epochs > 12
    # low at epoch 2, when predictions are bad, and again from epoch 6
    residual[:7] = [1, 0.3, 0.01, 0.5, 0.4, 0.3, 0.2]
    rmse[:6], rmse[6:] = 0.9, 0.3
    trace.tree["epoch"] = trace["epoch"].assign(
        residual=("epoch", residual), test_rmse=("epoch", rmse), work=("epoch", np.arange(epochs) + 1.0)
    )
    found = diagnose(trace)
    assert found.limit is Limit.TOLERANCE
    stops_at = np.flatnonzero(residual < found.change["tol"])[0]
    assert stops_at >= 6


def test_a_model_that_predicts_no_better_than_the_mean_is_reported_to_predict_nothing():
    # with such a short lengthscale, rows are uncorrelated
    problem, (x, y) = system(lengthscale=1e-4), other_points()
    for solver in (apviz.ConjugateGradient(tol=1e-6), apviz.AlternatingProjection(block_size=50, tol=1e-6)):
        trace = recorded(problem, solver, predicting(x, y))
        assert trace["epoch"]["test_rmse"].values == pytest.approx(np.sqrt(np.mean(y**2)), rel=0.02)
        found = diagnose(trace)
        assert found.limit is Limit.INDEPENDENT and not found.change


def test_a_run_stopped_near_zero_weights_is_not_reported_to_predict_nothing():
    problem = system(1e-3, 0.5)
    trace = recorded(
        problem, apviz.AlternatingProjection(block_size=2, tol=1e-5, max_epochs=1), predicting(*other_points())
    )
    trace.tree["epoch"] = trace["epoch"].assign(test_rmse=("epoch", [0.7, 0.7]), residual=("epoch", [1.0, 0.97]))
    assert diagnose(trace).limit is not Limit.MODEL


def test_a_better_test_error_of_an_unconverged_run_counts_against_a_looser_tolerance():
    """The RMSE of this run is flat, but that of another, which did not converge, is 4% better."""
    problem, other = system(), other_points()
    trace = recorded(problem, apviz.ConjugateGradient(tol=1e-9), predicting(*other))
    assert diagnose(trace).limit is Limit.TOLERANCE
    better = recorded(problem, apviz.ConjugateGradient(tol=1e-9, max_epochs=30), predicting(*other))
    rmse = better["epoch"]["test_rmse"].values
    rmse[-1] = 0.96 * float(trace["epoch"]["test_rmse"][-1])
    better.tree["epoch"] = better["epoch"].assign(test_rmse=("epoch", rmse))
    assert better.outcome == "max_epochs" and diagnose(trace, [better]).limit is not Limit.TOLERANCE


def test_the_tolerance_of_a_very_cheap_run_is_not_discussed():
    overlapping = apviz.AlternatingProjection(block_size=60, partition=PrincipalAxisTree(overlap=0.5), tol=1e-4)
    trace = recorded(system(), overlapping, predicting(*other_points()))
    assert float(trace["epoch"]["work"][-1]) < 8 and diagnose(trace).limit is Limit.NOTHING
