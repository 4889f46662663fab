"""Races in a thread: all methods grow, every run is kept, and Stop stops all of them."""

from __future__ import annotations

import time

import pytest
import torch

pytest.importorskip("panel")

from apviz import racing
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.jobs.race_job import RaceJob
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.methods import MethodChoice
from apviz.dashboard.settings.systems import BY_HAND, SystemSpec
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.factors import factor_bytes
from tests.dashboard.small_trainings import finished

SPEC = SystemSpec("china", 200, source=BY_HAND, rhs=1)
ENDLESS = MethodChoice(methods=["ap"], rules=["cyclic", "random"], block_sizes=[20], tol=1e-14, max_epochs=100_000)


@pytest.fixture
def runs(tmp_path):
    return RunsFolder(tmp_path)


def race(runs, solvers, **options):
    return RaceJob(JobQueue(1), Limits(), runs, SPEC, solvers, **{"by": "work"} | options)


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("by", ["work", "seconds"])
def test_every_method_of_a_race_has_a_run(runs, by):
    solvers = MethodChoice(methods=["ap", "cg", "cholesky"], rules=["cyclic"], block_sizes=[50], tol=0.1).solvers(0)
    job = finished(race(runs, solvers, by=by))
    assert job.state == "done" and "3 runs recorded" in job.message and job.fraction_done == 1.0
    assert {runs.open(name).method_name for name in job.done} == {
        "Alternating projection (cyclic, b = 50)",
        "CG",
        "Cholesky",
    }
    assert job.growing == {}


def test_all_methods_of_a_race_grow_and_stop_keeps_their_records(runs):
    spec = SystemSpec("china", 200, source=BY_HAND, rhs=1, noise=1e-6, lengthscale=(1.0,), dtype="float64")
    job = RaceJob(JobQueue(1), Limits(), runs, spec, ENDLESS.solvers(0), by="seconds")
    job.start()
    until(lambda: len(job.growing) == 2 and all(t["epoch"].sizes["epoch"] > 2 for t in job.growing.values()))
    assert "race on seconds · 0 of 2 have ended" in job.status and set(job.growing) == set(runs.names())
    job.stop()
    job.join(60)
    assert job.state == "stopped" and len(job.done) == 2
    traces = [runs.open(name) for name in job.done]
    assert [trace.outcome for trace in traces] == ["stopped", "stopped"]


def test_a_race_is_shown_at_one_common_moment(runs, monkeypatch):
    monkeypatch.setattr(racing, "TURN_SECONDS", 0.0)
    spec = SystemSpec("china", 200, source=BY_HAND, rhs=1, noise=1e-6, lengthscale=(1.0,), dtype="float64")
    job = RaceJob(JobQueue(1), Limits(), runs, spec, ENDLESS.solvers(0), by="work")
    job.start()
    seen: list[list[float]] = []

    def has_gone_on() -> bool:
        ends = [float(trace["epoch"]["work"][-1]) for trace in job.growing.values()]
        if len(ends) == 2:
            seen.append(ends)
        return bool(seen) and seen[-1][0] > seen[0][0] + 5

    until(has_gone_on)
    job.stop()
    job.join(60)
    # an update, the incomplete epoch, and a check
    assert all(abs(one - other) <= 2.5 for one, other in seen)


def test_methods_that_fit_only_one_after_another_are_rejected_with_a_remedy(runs):
    solvers = MethodChoice(methods=["ap"], rules=["cyclic", "random"], block_sizes=[100]).solvers(0)
    one = factor_bytes(torch.zeros(200, 2), 100, 0.0)
    job = finished(RaceJob(JobQueue(1), Limits(max_block_gb=1.5e-9 * one), runs, SPEC, solvers, by="work"))
    assert job.state == "failed" and "run them one by one" in job.message and runs.names() == []
