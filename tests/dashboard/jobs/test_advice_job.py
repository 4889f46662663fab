"""The job that advises on a system."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard.jobs.advice_job import AdviceJob
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import BY_HAND, SystemSpec
from tests.dashboard.small_trainings import finished

SPEC = SystemSpec("china", 2_400, source=BY_HAND, lengthscale=(0.3,), noise=0.01, rhs=2)


def test_the_advised_method_solves_the_chosen_system_to_the_chosen_tolerance():
    job = finished(AdviceJob(JobQueue(1), Limits(), SPEC, 0.05, 80))
    assert job.state == "done" and job.message.startswith("advice for china: 2,400 rows, 2 inputs, 2 right-hand sides")
    best = job.advice.best.solver
    assert best.tol == 0.05
    assert apviz.solve(SPEC.build(Limits()).system, best).residual < 0.05


def test_systems_beyond_the_limits_of_the_server_are_rejected_with_the_limit():
    job = finished(AdviceJob(JobQueue(1), Limits(max_n=100), SPEC, 0.05, 80))
    assert job.state == "failed" and "n = 2,400 is above this server's limit of 100 rows" in job.message


def test_stopped_advice_ends_before_its_next_solve():
    job = AdviceJob(JobQueue(1), Limits(), SPEC, 0.05, 80)
    job.stop()
    finished(job)
    assert job.state == "stopped" and job.advice is None
