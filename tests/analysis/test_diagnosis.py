"""The diagnosis of what limited a run, on runs with each of these limits."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis.diagnosis import Limit, diagnose
from apviz.analysis.diagnosis.limits import share
from apviz.partitions import PrincipalAxisTree, with_overlap
from apviz.solvers import Skeletons
from tests.analysis.problems import N, dense_matrix, recorded, system


@functools.cache
def _solved(solver, noise, lengthscale, columns):
    return recorded(system(noise, lengthscale, columns=columns), solver)


def solved(solver, noise, lengthscale=0.3, columns=1):
    """Return a copy of a solve that several tests diagnose."""
    return apviz.Trace(_solved(solver, noise, lengthscale, columns).tree.copy(deep=True))


GRADIENTS = apviz.ConjugateGradient(tol=1e-3)
BLOCKS = apviz.AlternatingProjection(block_size=60, tol=1e-3, max_epochs=100)


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


def test_noise_far_below_the_outputscale_is_named():
    found = diagnose(solved(GRADIENTS, 1e-4))
    assert found.limit is Limit.NOISE and found.change == {"noise": 1e-3} and "σ² = 0.0001" in found.evidence


def test_neighbouring_blocks_and_a_margin_are_advised_if_blocks_undo_each_others_work():
    before = solved(BLOCKS, 0.03, 0.2, columns=2)
    found = diagnose(before)
    assert found.limit is Limit.BLOCKS and "blocks, removes only" in found.evidence
    better = dataclasses.replace(BLOCKS, **with_overlap(found.change))
    after = recorded(system(0.03, 0.2, columns=2), better)
    assert float(after["epoch"]["work"][-1]) < 0.5 * float(before["epoch"]["work"][-1])


def test_every_change_is_a_setting_that_exists():
    fields = {field.name for field in dataclasses.fields(apviz.AlternatingProjection)} | {"dtype", "noise", "solver"}
    for trace in (
        recorded(system(0.01), apviz.AlternatingProjection(block_size=20, tol=1e-4, max_epochs=60)),
        recorded(system(0.01), apviz.ConjugateGradient(tol=1e-3)),
        solved(GRADIENTS, 1e-4),
    ):
        assert set(with_overlap(diagnose(trace).change)) <= fields


def test_rounding_is_not_blamed_for_a_residual_that_float64_does_not_lower():
    slow = apviz.AlternatingProjection(block_size=20, tol=1e-7, max_epochs=100, check_every=10)
    single, double = (recorded(system(1e-3, 0.5, dtype=dtype), slow) for dtype in (torch.float32, torch.float64))
    ends = [float(trace["epoch"]["residual"][-1]) for trace in (single, double)]
    assert single.outcome == double.outcome == "max_epochs" and ends[0] == pytest.approx(ends[1], rel=0.05)
    # more than half of the tolerance, and almost nothing of the residual
    assert 0.5e-7 < float(single["epoch"]["drift"].max()) < 0.1 * ends[0]
    assert diagnose(single).limit is diagnose(double).limit is not Limit.PRECISION


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
    trace = solved(dataclasses.replace(BLOCKS, max_epochs=30), 0.03, 0.2)
    for factor, words in ((0.999, "by less than 0.5%"), (1.001, "does not lower the whole residual")):
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
    trace = solved(GRADIENTS, 1e-4)
    trace.attrs["noise"] = 0.0
    assert diagnose(trace).change["noise"] > 0


def test_the_diagnosis_of_a_slow_run_names_a_far_faster_one_on_the_same_system():
    problem = system(0.03, 0.2, columns=2)
    slow = solved(BLOCKS, 0.03, 0.2, columns=2)
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


def test_a_share_is_shown_as_all_or_nothing_only_if_it_is_exactly_so():
    assert [share(each) for each in (0.0, 1e-5, 0.004, 0.5, 0.988, 0.996, 0.99999, 1.0)] == [
        "0%", "under 0.1%", "0.4%", "50%", "99%", "99.6%", "more than 99.9%", "100%",
    ]  # fmt: skip


def test_a_run_without_a_description_of_the_data_is_diagnosed_too():
    trace = solved(dataclasses.replace(BLOCKS, max_epochs=30), 0.03, 0.2)
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


def test_a_diagnosis_recorded_in_a_trace_is_returned():
    trace, told = (
        recorded(system(), apviz.Cholesky()),
        apviz.analysis.Diagnosis(Limit.DUPLICATES, "Three of them.", "Merge them."),
    )
    told.write_into(trace)
    assert diagnose(trace) == told
    for damaged in ("", "[]", '{"limit": "UNHEARD", "evidence": "", "advice": "", "change": {}}'):
        trace.attrs["diagnosis"] = damaged
        assert diagnose(trace).limit is Limit.NOTHING
