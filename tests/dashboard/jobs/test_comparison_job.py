"""Comparisons in a thread: what they record, what is refused, and how they stop."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.methods import BatchSizeSweep, MethodChoice
from apviz.dashboard.settings.systems import BY_HAND, FITTED, SystemSpec
from apviz.dashboard.store.runs_folder import RunsFolder
from tests.dashboard.small_trainings import finished

SPEC = SystemSpec("china", 200, source=BY_HAND, rhs=1)


@pytest.fixture
def runs(tmp_path):
    return RunsFolder(tmp_path)


def sweep(runs, sizes, limits=None):
    return finished(
        ComparisonJob(JobQueue(1), limits or Limits(), runs, SPEC, BatchSizeSweep(sizes=sizes).solvers(200))
    )


def test_every_solver_has_a_run_in_order(runs):
    job = sweep(runs, [20, 50, 100])
    assert job.state == "done" and job.fraction_done == 1.0
    assert [runs.open(name).method.block_size for name in job.done] == [20, 50, 100]


def test_every_noise_has_a_run_of_every_method_and_a_smaller_one_a_larger_kappa(runs):
    solvers = MethodChoice(methods=["ap", "cg"], rules=["cyclic"], block_sizes=[50], tol=0.1).solvers(0)
    job = finished(ComparisonJob(JobQueue(1), Limits(), runs, SPEC, solvers, noise_factors=[10, 1, 0.1]))
    assert job.state == "done" and "6 of 6 runs" in job.message and job.fraction_done == 1.0
    traces = [runs.open(name) for name in job.done]
    assert [trace.attrs["noise"] for trace in traces] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert [trace.label for trace in traces] == ["AP cyclic b=50", "CG"] * 3
    kappas = [float(trace["spectrum"]["kappa"]) for trace in traces[::2]]
    assert kappas == sorted(kappas)


def test_a_b_above_the_memory_limit_is_refused_and_the_others_run(runs):
    job = sweep(runs, [20, 100], Limits(max_block_gb=2e-5))
    assert job.state == "done" and len(job.done) == 1
    (failure,) = job.failures
    assert "b=100" in failure and "take smaller blocks" in failure
    assert "1 of 1 runs" in job.message


def test_where_no_b_fits_nothing_is_run(runs):
    job = sweep(runs, [50, 100], Limits(max_block_gb=1e-6))
    assert job.state == "failed" and job.message.count("the block factors take") == 2
    assert runs.names() == []


def test_stop_keeps_what_was_recorded_and_starts_no_other_solver(runs):
    job = ComparisonJob(JobQueue(1), Limits(), runs, SPEC, BatchSizeSweep(sizes=[20, 50], tol=1e-7).solvers(200))
    job.stop()
    finished(job)
    assert job.state == "stopped" and len(job.done) <= 1


def test_stop_ends_a_fit_at_its_next_step(runs):
    spec = SystemSpec("china", 200, source=FITTED, rhs=1)
    job = ComparisonJob(JobQueue(1), Limits(), runs, spec, BatchSizeSweep(sizes=[20]).solvers(200))
    job.stop()
    finished(job)
    assert (job.state, job.message) == ("stopped", "stopped before there was anything to record")
    assert runs.names() == []
