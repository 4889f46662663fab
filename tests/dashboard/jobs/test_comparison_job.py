"""Comparisons in a thread: their records, rejected settings, and how they stop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.analysis import Limit
from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.jobs.comparison_job import ComparisonJob, rerun
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.methods import BlockSizeSweep, MethodChoice
from apviz.dashboard.settings.systems import BY_HAND, FITTED, SystemSpec
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.kernels import Evaluated
from tests.dashboard.small_trainings import finished

SPEC = SystemSpec("china", 200, source=BY_HAND, rhs=1)


@pytest.fixture
def runs(tmp_path):
    return RunsFolder(tmp_path)


def sweep(runs, sizes, limits=None):
    return finished(
        ComparisonJob(JobQueue(1), limits or Limits(), runs, SPEC, BlockSizeSweep(sizes=sizes).solvers(200))
    )


def test_every_solver_has_a_run_in_order(runs):
    job = sweep(runs, [20, 50, 100])
    assert job.state == "done" and job.fraction_done == 1.0
    assert [runs.open(name).method.block_size for name in job.done] == [20, 50, 100]


@pytest.mark.slow
def test_every_noise_has_a_run_of_every_method_and_less_noise_a_larger_kappa(runs):
    solvers = MethodChoice(methods=["ap", "cg"], rules=["cyclic"], block_sizes=[50], tol=0.1).solvers(0)
    job = finished(ComparisonJob(JobQueue(1), Limits(), runs, SPEC, solvers, noise_factors=[10, 1, 0.1]))
    assert job.state == "done" and "6 runs recorded." in job.message and job.fraction_done == 1.0
    traces = [runs.open(name) for name in job.done]
    assert [trace.attrs["noise"] for trace in traces] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert [trace.method_name for trace in traces] == ["Alternating projection (cyclic, b = 50)", "CG"] * 3
    kappas = [float(trace["spectrum"]["kappa"]) for trace in traces[::2]]
    assert kappas == sorted(kappas)


def test_a_b_above_the_memory_limit_is_rejected_and_the_others_run(runs):
    job = sweep(runs, [20, 100], Limits(max_block_gb=2e-5))
    assert job.state == "done" and len(job.done) == 1
    (failure,) = job.failures
    assert "b = 100" in failure and "take smaller blocks" in failure
    assert "1 run recorded" in job.message


def test_if_no_b_fits_nothing_runs(runs):
    job = sweep(runs, [50, 100], Limits(max_block_gb=1e-6))
    assert job.state == "failed" and job.message.count("the block factors take") == 2
    assert runs.names() == []


def test_stop_keeps_what_was_recorded_and_starts_no_other_solver(runs):
    job = ComparisonJob(JobQueue(1), Limits(), runs, SPEC, BlockSizeSweep(sizes=[20, 50], tol=1e-7).solvers(200))
    job.stop()
    finished(job)
    assert job.state == "stopped" and len(job.done) <= 1


def test_stop_ends_a_fit_at_its_next_step(runs):
    spec = SystemSpec("china", 200, source=FITTED, rhs=1)
    job = ComparisonJob(JobQueue(1), Limits(), runs, spec, BlockSizeSweep(sizes=[20]).solvers(200))
    job.stop()
    finished(job)
    assert (job.state, job.message) == ("stopped", "stopped before anything was recorded")
    assert runs.names() == []


COMPOSITE = 0.5 * (apviz.Matern52(lengthscale=0.3).on(0) + apviz.Linear() * apviz.RBF(lengthscale=0.8).on(1))


def recorded_with(kernel, solver=apviz.ConjugateGradient(tol=1e-3)):  # noqa: B008
    x, y = SPEC.load().train_x, SPEC.load().train_y
    recorder = apviz.Recorder()
    system = apviz.KernelSystem(x, y - y.mean(), kernel, noise=0.02, dataset="china", seed=0)
    apviz.solve(system, solver, [recorder])
    return recorder.trace


def test_a_run_with_a_sum_of_kernels_is_solved_again_with_another_setting(runs):
    trace = recorded_with(COMPOSITE)
    spec, solver = rerun(trace, Diagnosis(Limit.TOLERANCE, "", "", {"tol": 1e-6}), lambda name: None)
    job = finished(ComparisonJob(JobQueue(1), Limits(), runs, spec, [solver]))
    (name,) = job.done
    again = runs.open(name)
    assert again.attrs["kernel"] == trace.attrs["kernel"] and again.attrs["noise"] == 0.02 and again.converged
    x, y = (each.double().numpy() for each in (SPEC.load().train_x, SPEC.load().train_y))
    r = np.sqrt(5) * np.abs(x[:, None, 0] - x[None, :, 0]) / 0.3
    away = np.exp(-((x[:, None, 1] - x[None, :, 1]) ** 2) / (2 * 0.8**2))
    k = 0.5 * ((1 + r + r**2 / 3) * np.exp(-r) + (x @ x.T) * away) + 0.02 * np.eye(len(x))
    # h(W) = −½yᵀK⁻¹y of its solution
    b = y - (y.mean() if abs(again.attrs["rhs_norms"][0] - np.linalg.norm(y)) > 1e-3 else 0.0)
    assert float(again["epoch"]["energy"][-1]) == pytest.approx(-0.5 * b @ np.linalg.solve(k, b), rel=1e-4)


def test_blocks_in_float64_keep_their_factors_in_half_precision():
    half = apviz.solvers.Precision(recursion="float32", factors="float16")
    trace = recorded_with(apviz.Matern52(lengthscale=0.3), apviz.AlternatingProjection(block_size=20, precision=half))
    _, solver = rerun(trace, Diagnosis(Limit.PRECISION, "", "", {"precision": "float64"}), lambda name: None)
    assert solver.precision == apviz.solvers.Precision(recursion="float64", factors="float16")


def test_a_change_that_is_no_setting_of_the_solver_is_rejected_with_a_remedy():
    diagnosis = Diagnosis(Limit.SCALE, "", "", {"targets": "standardised"})
    with pytest.raises(ValueError, match="a solve cannot change the targets: do it where the data are made"):
        rerun(recorded_with(COMPOSITE), diagnosis, lambda name: None)


def test_a_run_with_a_kernel_of_user_code_is_rejected_with_a_remedy():
    theirs = Evaluated(lambda x, z, values: torch.exp(-torch.cdist(x, z)), {}, {}, "Theirs")
    with pytest.raises(
        ValueError, match="the code of the kernel Theirs, which is not apviz's: create the kernel again"
    ):
        rerun(recorded_with(theirs), Diagnosis(Limit.TOLERANCE, "", "", {"tol": 1e-6}), lambda name: None)
