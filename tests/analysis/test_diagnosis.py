"""The diagnosis of what limited a run, on runs with each of these limits."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.analysis import errors
from apviz.analysis.diagnosis import Limit, diagnose, evidence
from apviz.analysis.diagnosis.limits import share
from apviz.partitions import KDTree, PrincipalAxisTree, with_overlap
from apviz.solvers import Skeletons

N = 400


def system(noise=0.1, lengthscale=0.3, kernel=apviz.Matern52, dtype=torch.float64, n=N, d=2, columns=1):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, d))
    y = np.sin(5 * x[:, :1]) + 0.3 * rng.standard_normal((n, columns))
    return apviz.KernelSystem(x, y, kernel(lengthscale=lengthscale), noise=noise, dtype=dtype, device="cpu")


def recorded(problem, solver, *hooks):
    recorder = apviz.Recorder()
    apviz.solve(problem, solver, [*hooks, recorder])
    return recorder.trace


def predicting(x, y):
    """Return a hook that records the test error."""
    return apviz.PredictionHook(torch.as_tensor(x), torch.as_tensor(y))


def other_points(count=200):
    x = np.random.default_rng(1).uniform(-1, 1, (count, 2))
    return x, np.sin(5 * x[:, 0])


def dense_matrix(x, lengthscale, noise):
    """Return Matérn-5/2 plus noise by its formula."""
    scaled = math.sqrt(5) * cdist(x, x) / lengthscale
    return (1 + scaled + scaled**2 / 3) * np.exp(-scaled) + noise * np.eye(len(x))


def iterations_of_textbook_cg(matrix, b, tol, orthogonal=False):
    """Count iterations of Hestenes & Stiefel's CG from 0 until ‖r‖ < tol·‖b‖, optionally orthogonalising residuals."""
    r = p = b
    former = []
    for iteration in range(1, 1000):
        step = r @ r / (p @ matrix @ p)
        former.append(r / np.linalg.norm(r))
        previous, r = r, r - step * (matrix @ p)
        for each in former * 2 if orthogonal else ():
            r = r - (each @ r) * each
        if np.linalg.norm(r) < tol * np.linalg.norm(b):
            return iteration
        p = r + r @ r / (previous @ previous) * p
    raise AssertionError("CG did not converge")


def test_a_run_that_converged_quickly_is_left_alone():
    found = diagnose(recorded(system(), apviz.Cholesky()))
    assert found.limit is Limit.NOTHING and not found.change and "work" in found.evidence


def test_the_diagnosis_of_a_stopped_run_states_where_it_ended():
    solver = apviz.AlternatingProjection(block_size=20, tol=1e-8)
    found = diagnose(recorded(system(), solver, apviz.StopHook(max_work=2)))
    assert found.limit is Limit.INTERRUPTED and "the work limit of 2 was reached" in found.evidence


def test_a_float32_solve_is_refined_to_its_tolerance():
    trace = recorded(system(1e-3, 0.5, dtype=torch.float32), apviz.AlternatingProjection(block_size=N, tol=1e-8))
    assert trace.converged and diagnose(trace).limit is Limit.NOTHING


def near_singular(dtype):
    """Return a system so smooth and with so little noise that float32 has no factor without jitter."""
    return system(1e-7, 1.0, apviz.RBF, dtype=dtype)


@pytest.mark.filterwarnings("ignore::apviz.NotConverged", "ignore:.*jitter")
def test_float64_is_advised_if_refinement_cannot_save_a_float32_solve():
    solver = apviz.Cholesky(tol=1e-5)
    single, double = (recorded(near_singular(dtype), solver) for dtype in (torch.float32, torch.float64))
    assert (single.outcome, double.outcome) == ("stagnated", "converged")
    found = diagnose(single)
    assert found.limit is Limit.PRECISION and found.change == {"dtype": "float64"}


@pytest.mark.filterwarnings("ignore::apviz.NotConverged", "ignore:.*jitter")
def test_blocks_in_float32_that_needed_jitter_should_be_in_float64():
    solver = apviz.AlternatingProjection(block_size=N, tol=1e-5, precision="float32", max_epochs=60)
    trace = recorded(near_singular(torch.float64), solver)
    found, jitter = diagnose(trace), float(trace["block"]["jitter"].max())
    assert found.limit is Limit.PRECISION and found.change == {"precision": "float64"} and jitter > 0
    assert f"a jitter of up to {jitter:.2g}" in found.evidence and "drifted" not in found.evidence
    assert recorded(near_singular(torch.float64), dataclasses.replace(solver, **with_overlap(found.change))).converged


def test_the_drift_of_a_run_without_correcting_passes_is_named():
    slow = apviz.AlternatingProjection(block_size=20, tol=1e-7, max_epochs=20, check_every=10)
    trace = recorded(system(1e-3, 0.5, dtype=torch.float32), slow)
    drift = trace["epoch"]["drift"].values
    drift[-1] = 0.6 * float(trace["epoch"]["residual"][-1])
    trace.tree["epoch"] = trace["epoch"].assign(drift=("epoch", drift))
    assert diagnose(trace).limit is not Limit.PRECISION  # after each pass the solve continued from B − KW
    without = trace.tree.copy()
    del without["pass"]
    found = diagnose(apviz.Trace(without))
    assert found.limit is Limit.PRECISION and found.change == {"dtype": "float64"} and "drifted" in found.evidence


def test_the_drift_of_skeletons_is_not_taken_for_rounding():
    solver = apviz.AlternatingProjection(
        block_size=40, partition=PrincipalAxisTree(overlap=0.5), columns=Skeletons(rank=3), tol=1e-9, max_epochs=12
    )
    trace = recorded(system(0.01), solver)
    assert not trace.converged and float(trace["epoch"]["drift"].max()) > 0.01
    assert diagnose(trace).limit is not Limit.PRECISION


def test_passes_that_cost_much_of_the_work_are_reported():
    solver = apviz.AlternatingProjection(block_size=20, tol=1e-4, max_epochs=60, check_every=1)
    trace = recorded(system(0.01), solver)
    count, work = trace["pass"].sizes["pass"], float(trace["epoch"]["work"][-1])
    assert count == 60 and f"{count} passes" in diagnose(trace).evidence
    assert f"took {count / work:.0%} of the work" in diagnose(trace).evidence
    rare = recorded(system(0.01), dataclasses.replace(solver, check_every=50))
    assert "passes" not in diagnose(rare).evidence


def test_a_tolerance_tighter_than_predictions_need_is_loosened_to_the_flat_part_of_the_error():
    problem = system()
    rng = np.random.default_rng(1)
    test_x = torch.tensor(rng.uniform(-1, 1, (200, 2)))
    test_y = torch.sin(5 * test_x[:, 0])
    hook = apviz.PredictionHook(test_x, test_y)
    trace = recorded(problem, apviz.AlternatingProjection(block_size=50, tol=1e-7), hook)
    found = diagnose(trace)
    assert found.limit is Limit.TOLERANCE
    looser = apviz.solve(problem, apviz.AlternatingProjection(block_size=50, **with_overlap(found.change)))
    predicted = problem.kernel(test_x, problem.x) @ looser.weights[:, 0]
    rmse = float((predicted - test_y).square().mean().sqrt())
    assert rmse == pytest.approx(float(trace["epoch"]["test_rmse"][-1]), rel=0.05)


def test_noise_far_below_the_outputscale_is_named():
    found = diagnose(recorded(system(noise=1e-4), apviz.ConjugateGradient(tol=1e-3)))
    assert found.limit is Limit.NOISE and found.change == {"noise": 1e-3} and "σ² = 0.0001" in found.evidence


def test_neighbouring_blocks_and_a_margin_are_advised_if_blocks_undo_each_others_work():
    problem, slow = system(0.03, 0.2, columns=2), apviz.AlternatingProjection(block_size=60, tol=1e-3, max_epochs=100)
    before = recorded(problem, slow)
    found = diagnose(before)
    assert found.limit is Limit.BLOCKS and "an epoch keeps" in found.evidence
    after = recorded(problem, dataclasses.replace(slow, **with_overlap(found.change)))
    assert float(after["epoch"]["work"][-1]) < 0.5 * float(before["epoch"]["work"][-1])


def test_plain_cg_on_an_ill_conditioned_system_should_let_apviz_choose():
    trace = recorded(system(0.01), apviz.ConjugateGradient(tol=1e-3))
    found = diagnose(trace)
    kappa = float(trace["spectrum"]["kappa"])
    assert found.limit is Limit.CONDITIONING and found.change == {"solver": "auto"}
    # it is exact for so few rows
    assert f"κ = {kappa:.3g}" in found.evidence


@pytest.mark.parametrize(
    ("lengthscale", "noise", "tol", "power"),
    [(0.3, 0.01, 1e-3, 0.0), (0.1, 0.01, 0.01, 0.5), (0.05, 3e-3, 0.5, 0.75), (0.1, 2e-3, 0.5, 0.75)],
)
def test_cg_never_takes_more_iterations_than_the_bound_in_the_diagnosis(lengthscale, noise, tol, power):
    x = np.random.default_rng(0).uniform(-1, 1, (N, 2))
    matrix = dense_matrix(x, lengthscale, noise)
    values, vectors = np.linalg.eigh(matrix)
    # the more of b lies along small eigenvalues, the slower is its residual compared to its error in the K-norm
    b = vectors @ (values**-power * np.random.default_rng(1).standard_normal(N))
    b /= b.std()
    problem = apviz.KernelSystem(
        x, b, apviz.Matern52(lengthscale=lengthscale), noise=noise, dtype=torch.float64, device="cpu"
    )
    trace = recorded(problem, apviz.ConjugateGradient(tol=tol))
    found = diagnose(trace)
    assert found.limit is Limit.CONDITIONING and trace.converged
    most = int(re.search(r"up to ([\d,]+) iterations", found.evidence)[1].replace(",", ""))
    taken = iterations_of_textbook_cg(matrix, b, tol)
    assert taken <= most and int(trace["epoch"]["epoch"][-1]) <= most
    root = math.sqrt(values[-1] / values[0])
    assert most == pytest.approx(0.5 * root * math.log(2 * root / tol), rel=0.02, abs=1)
    if tol == 0.5:  # then a bound on the error in the K-norm does not bound the residual
        assert taken > 1.1 * 0.5 * root * math.log(2 / tol)


def test_a_coarse_space_is_advised_for_slow_overlapping_blocks():
    slow = apviz.AlternatingProjection(block_size=25, partition=KDTree(overlap=0.2), tol=1e-6, max_epochs=60)
    found = diagnose(recorded(system(0.01, 1.0), slow))
    assert found.limit is Limit.CONDITIONING and not found.change
    assert "two-level Schwarz" in found.advice


def test_every_change_is_a_setting_that_exists():
    fields = {field.name for field in dataclasses.fields(apviz.AlternatingProjection)} | {"dtype", "noise", "solver"}
    for trace in (
        recorded(system(0.01), apviz.AlternatingProjection(block_size=20, tol=1e-4, max_epochs=60)),
        recorded(system(0.01), apviz.ConjugateGradient(tol=1e-3)),
        recorded(system(1e-4), apviz.ConjugateGradient(tol=1e-3)),
    ):
        assert set(with_overlap(diagnose(trace).change)) <= fields


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
    cut = recorded(problem, apviz.AlternatingProjection(block_size=10, tol=1e-12, max_epochs=150), predicting(*other))
    exact = recorded(problem, apviz.Cholesky(), predicting(*other))
    elsewhere = recorded(system(0.2), apviz.Cholesky(), predicting(*other))
    assert cut.outcome == "max_epochs" and diagnose(cut, [elsewhere]).limit is not Limit.TOLERANCE
    found = diagnose(cut, [elsewhere, exact])
    assert found.limit is Limit.TOLERANCE and "the best that runs on this system ended at" in found.evidence
    looser = recorded(
        problem, apviz.AlternatingProjection(block_size=10, **with_overlap(found.change)), predicting(*other)
    )
    assert float(looser["epoch"]["test_rmse"][-1]) == pytest.approx(float(exact["epoch"]["test_rmse"][-1]), rel=0.02)


def test_a_looser_tolerance_does_not_end_a_solve_before_its_predictions_are_good():
    """Residuals may rise: the lowest one counts, up to the epoch from which predictions stay good."""
    problem = system()
    trace = recorded(problem, apviz.AlternatingProjection(block_size=50, tol=1e-7), predicting(*other_points()))
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


def test_rounding_is_not_blamed_for_a_residual_that_float64_does_not_lower():
    slow = apviz.AlternatingProjection(block_size=20, tol=1e-7, max_epochs=100, check_every=10)
    single, double = (recorded(system(1e-3, 0.5, dtype=dtype), slow) for dtype in (torch.float32, torch.float64))
    ends = [float(trace["epoch"]["residual"][-1]) for trace in (single, double)]
    assert single.outcome == double.outcome == "max_epochs" and ends[0] == pytest.approx(ends[1], rel=0.05)
    # more than half of the tolerance, and almost nothing of the residual
    assert 0.5e-7 < float(single["epoch"]["drift"].max()) < 0.1 * ends[0]
    assert diagnose(single).limit is diagnose(double).limit is not Limit.PRECISION


def test_cg_that_converges_in_thirty_iterations_at_a_small_kappa_is_not_ill_conditioned():
    problem = system(0.1, 0.08)
    trace = recorded(problem, apviz.ConjugateGradient(tol=1e-3))
    values = np.linalg.eigvalsh(dense_matrix(problem.x.numpy(), 0.08, 0.1))
    assert values[-1] / values[0] < 200 and 20 < float(trace["epoch"]["work"][-1]) < 60
    found = diagnose(trace)
    assert found.limit is Limit.NOTHING and f"κ = {values[-1] / values[0]:.3g}" in found.evidence


def test_a_higher_cap_is_advised_at_which_the_solve_converges():
    problem = system(0.1, 0.08)
    for solver in (
        apviz.ConjugateGradient(tol=1e-3, max_epochs=10),
        apviz.AlternatingProjection(block_size=100, partition="kd-tree", tol=1e-4, max_epochs=6),
    ):
        found = diagnose(recorded(problem, solver))
        assert found.limit is Limit.CAP
        (name,) = found.change
        assert recorded(problem, dataclasses.replace(solver, **{name: 2 * found.change[name]})).converged


def test_an_epoch_that_keeps_almost_all_of_the_residual_is_not_reported_as_a_hundred_percent():
    trace = recorded(system(0.03, 0.2), apviz.AlternatingProjection(block_size=60, tol=1e-3, max_epochs=25))
    for factor, words in ((0.999, "takes less than 0.5% off it"), (1.001, "does not lower it")):
        residual = 0.5 * factor ** np.arange(trace["epoch"].sizes["epoch"])
        trace.tree["epoch"] = trace["epoch"].assign(residual=("epoch", residual))
        found = diagnose(trace)
        assert found.limit is Limit.BLOCKS and words in found.evidence and "100%" not in found.evidence


def test_proposed_numbers_are_round():
    noise = diagnose(recorded(system(noise=1e-6, dtype=torch.float64), apviz.ConjugateGradient(tol=1e-2)))
    assert noise.limit is Limit.NOISE and noise.change == {"noise": 1e-5} and "σ² = 1e-05" in noise.advice
    trace = recorded(system(), apviz.ConjugateGradient(tol=7e-7))
    trace.attrs["stop_reason"] = "stagnated"
    assert diagnose(trace).change == {"tol": 7e-6}


def test_noise_is_advised_for_a_run_without_noise():
    trace = recorded(system(1e-4), apviz.ConjugateGradient(tol=1e-3))
    trace.attrs["noise"] = 0.0
    assert diagnose(trace).change["noise"] > 0


def test_the_diagnosis_of_a_slow_run_names_a_far_faster_one_on_the_same_system():
    problem = system(0.03, 0.2, columns=2)
    slow = recorded(problem, apviz.AlternatingProjection(block_size=60, tol=1e-3, max_epochs=100))
    quick = recorded(problem, apviz.Cholesky(tol=1e-3))
    work = float(quick["epoch"]["work"][-1])
    assert f"Cholesky converged on the same system after {work:.3g} work" in diagnose(slow, [slow, quick]).evidence
    looser = recorded(problem, apviz.Cholesky(tol=0.1))
    assert "same system" not in diagnose(slow, [slow, looser]).evidence


def with_copies(lengthscale, noise):
    x = np.tile(np.random.default_rng(0).uniform(-1, 1, (40, 2)), (10, 1))
    y = np.sin(5 * x[:, :1]) + 0.1 * np.random.default_rng(1).standard_normal((400, 1))
    return apviz.KernelSystem(
        x, y, apviz.Matern52(lengthscale=lengthscale), noise=noise, dtype=torch.float64, device="cpu"
    )


def test_duplicate_rows_are_the_cause_if_merging_them_makes_kappa_small():
    problem = with_copies(0.1, 1e-4)
    found = diagnose(recorded(problem, apviz.AlternatingProjection(block_size=20, tol=1e-4, max_epochs=60)))
    assert found.limit is Limit.DUPLICATES and "Only 40 of the 400 training rows have distinct" in found.evidence
    merged = dense_matrix(problem.x.numpy()[:40], 0.1, 1e-5)
    assert f"merged it would be about {np.linalg.cond(merged):.2g}" in found.evidence


def test_duplicate_rows_are_named_in_addition_to_another_cause():
    slow = apviz.AlternatingProjection(block_size=80, tol=1e-6, max_epochs=30)
    found = diagnose(recorded(with_copies(2.0, 0.1), slow))
    assert found.limit is not Limit.DUPLICATES and "Only 40 of the 400 training rows have dist" in found.evidence


def test_a_method_of_another_kind_that_took_far_less_is_named_with_its_work():
    problem = system(0.01, 2.0, apviz.RBF)
    slow = recorded(problem, apviz.AlternatingProjection(block_size=30, partition="kd-tree", max_epochs=100))
    quick = recorded(problem, apviz.ConjugateGradient())
    ends = [float(trace["epoch"]["work"][-1]) for trace in (slow, quick)]
    assert not slow.converged and ends[1] < 20
    found = diagnose(slow, [slow, quick])
    assert found.limit is Limit.METHOD and found.change == {"solver": "auto"}
    assert f"CG converged on the same system after {ends[1]:.3g} work" in found.evidence and "Take CG" in found.advice
    # also without a measurement, from the eigenvalues
    alone = diagnose(slow)
    assert alone.limit is Limit.METHOD
    most = int(re.search(r"CG needs up to (\d+) iterations", alone.evidence)[1])
    assert int(quick["epoch"]["epoch"][-1]) <= most <= 40


@pytest.mark.parametrize("large", [0, 3, 12])
@pytest.mark.parametrize("seed", range(3))
def test_cg_takes_no_more_iterations_than_the_bound_by_its_large_eigenvalues(large, seed):
    """The matrix has a few eigenvalues far above the rest; residuals are kept orthogonal, like exact ones."""
    rng = np.random.default_rng(seed)
    values = np.sort(np.concatenate([rng.uniform(1, 30, 100 - large), rng.uniform(1e3, 1e5, large)]))[::-1]
    vectors = np.linalg.qr(rng.standard_normal((100, 100)))[0]
    matrix = vectors * values @ vectors.T
    trace = recorded(system(n=50), apviz.ConjugateGradient(tol=1e-3))
    group = trace["spectrum"].assign(kappa=values[0] / values[-1], lambda_min=values[-1])
    trace.tree["spectrum"] = group.assign_attrs(
        leading_ranks=list(range(0, 100, 3)), leading_eigenvalues=values[::3].tolist()
    )
    most, rank = evidence.iterations_of_cg(trace)
    b = rng.standard_normal(100)
    taken = iterations_of_textbook_cg(matrix, b, 1e-3, orthogonal=True)
    assert taken <= most and rank == large
    # rounding adds little
    assert iterations_of_textbook_cg(matrix, b, 1e-3) <= 1.5 * most


def test_noise_is_not_blamed_if_more_noise_changes_nothing():
    """With such a rough kernel, λmin is far above σ²."""
    problem = system(1e-4, 3.0, apviz.Matern12)
    trace = recorded(problem, apviz.ConjugateGradient(tol=1e-8))
    values = np.linalg.eigvalsh(np.exp(-cdist(problem.x, problem.x) / 3.0) + 1e-4 * np.eye(N))
    assert values[-1] / values[0] > 500 and values[0] > 1.5e-4
    blamed = (values[0] + 1e-3) / values[0] >= 3
    assert (diagnose(trace).limit is Limit.NOISE) == blamed


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


def test_a_share_is_shown_as_all_or_nothing_only_if_it_is_exactly_so():
    assert [share(each) for each in (0.0, 1e-5, 0.004, 0.5, 0.988, 0.996, 0.99999, 1.0)] == [
        "0%", "under 0.1%", "0.4%", "50%", "99%", "99.6%", "more than 99.9%", "100%",
    ]  # fmt: skip


def test_a_run_without_a_description_of_the_data_is_diagnosed_too():
    trace = recorded(system(0.03, 0.2), apviz.AlternatingProjection(block_size=60, tol=1e-3, max_epochs=30))
    bare = apviz.Trace(trace.tree.copy(deep=True))
    for name in ("distinct_rows", "input_spreads", "zero_right_hand_sides", "nearest_correlation", "signal"):
        del bare.attrs[name]
    group = bare["spectrum"]
    group.attrs = {name: value for name, value in group.attrs.items() if name.endswith("bound")}
    bare.tree["spectrum"] = group
    assert diagnose(bare) == diagnose(trace)


def test_a_trace_without_an_epoch_was_interrupted():
    class Leave(apviz.Hook):
        def on_start(self, run):
            raise KeyboardInterrupt

    recorder = apviz.Recorder()
    with pytest.raises(KeyboardInterrupt):
        apviz.solve(system(), apviz.ConjugateGradient(), [recorder, Leave()])
    found = diagnose(recorder.trace)
    assert found.limit is Limit.INTERRUPTED and "before its first epoch" in found.evidence


def trained_by_gpytorch(kernel, tol, n=300, noise=0.05):
    """Return the trace of GPyTorch's CG in one step of a training."""
    gpytorch = pytest.importorskip("gpytorch")
    torch.manual_seed(0)  # for its probes
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1, 1, (n, 2)))
    y = torch.sin(5 * x[:, 0]) + 0.3 * torch.tensor(rng.standard_normal(n))

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), kernel(gpytorch.kernels)

        def forward(self, z):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(z), self.covar_module(z))

    model = Model().double()
    model.likelihood.noise = noise
    recorder, settings = apviz.Recorder(), gpytorch.settings
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    by_cg = settings.max_cholesky_size(1), settings.max_preconditioner_size(0), settings.cg_tolerance(tol)
    with apviz.gpytorch.record_cg(recorder), by_cg[0], by_cg[1], by_cg[2]:
        (-mll(model(x), y)).backward()
    return recorder.trace


def scaled(name, lengthscale, **settings):
    def make(kernels):
        base = getattr(kernels, name)(**settings)
        base.lengthscale = lengthscale
        return kernels.ScaleKernel(base)

    return make


def test_the_minimum_iterations_of_gpytorch_are_not_mistaken_for_ill_conditioning():
    trace = trained_by_gpytorch(scaled("RBFKernel", 0.3), tol=1.0, noise=0.7)
    assert trace.converged and float(trace["epoch"]["work"][-1]) > 20
    found = diagnose(trace)
    assert found.limit is Limit.NOTHING
    assert "force it to take 21" in found.evidence and "tolerance of 1 asked for next to nothing" in found.evidence


def test_a_gpytorch_solve_that_converged_at_a_tolerance_of_one_is_warned_about_it():
    trace = trained_by_gpytorch(scaled("MaternKernel", 0.1, nu=0.5), tol=1.0, n=900, noise=1e-4)
    assert trace.converged and float(trace["epoch"]["residual"][-1]) > 0.1
    found = diagnose(trace)
    assert found.limit is Limit.LOOSE and found.change == {"tol": 0.01}
    assert "tolerance of 1" in found.evidence and "gpytorch.settings.cg_tolerance(0.01)" in found.advice


@pytest.mark.filterwarnings("ignore:CG terminated")
def test_advice_for_gpytorch_uses_its_own_settings():
    slow = trained_by_gpytorch(scaled("RBFKernel", 0.3), tol=1e-3, noise=1e-2)
    assert "apviz.gpytorch.alternating_projection()" in diagnose(slow).advice
    slow.attrs["stop_reason"], slow.attrs["dtype"] = "stagnated", "float32"
    assert "model.double()" in diagnose(slow).advice
    rough = trained_by_gpytorch(scaled("MaternKernel", 0.1, nu=0.5), tol=1e-4, noise=0.5)
    rough.attrs["stop_reason"] = "max_epochs"
    rough.tree["epoch"] = rough["epoch"].isel(epoch=slice(0, 5))
    found = diagnose(rough)
    assert found.limit is Limit.CAP and f"max_cg_iterations({found.change['max_epochs']})" in found.advice


def test_a_diagnosis_recorded_in_a_trace_is_returned():
    trace, told = (
        recorded(system(), apviz.Cholesky()),
        apviz.analysis.Diagnosis(Limit.DUPLICATES, "So many.", "Merge them."),
    )
    told.write_into(trace)
    assert diagnose(trace) == told
    for damaged in ("", "[]", '{"limit": "UNHEARD", "evidence": "", "advice": "", "change": {}}'):
        trace.attrs["diagnosis"] = damaged
        assert diagnose(trace).limit is Limit.NOTHING


@pytest.mark.filterwarnings("ignore:CG terminated")
@pytest.mark.parametrize("tol", [1.0, 1e-8])
def test_a_recorded_kernel_that_apviz_lacks_is_diagnosed_without_its_kappa(tol):
    trace = trained_by_gpytorch(scaled("PeriodicKernel", 0.3), tol)
    assert math.isnan(float(trace["spectrum"]["kappa"]))
    found = diagnose(trace)
    assert "nan" not in found.evidence + found.advice and found.limit is not Limit.CONDITIONING
