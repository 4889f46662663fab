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


def test_what_is_advised_solves_the_system_that_was_chosen_to_the_tolerance_that_was_chosen():
    job = finished(AdviceJob(JobQueue(1), Limits(), SPEC, 0.05, 80))
    assert job.state == "done" and job.message.startswith("advised on china: n = 2,400, d = 2, 2 right-hand sides")
    best = job.advice.best.solver
    assert best.tol == 0.05
    assert apviz.solve(SPEC.build(Limits()).system, best).residual < 0.05


def test_what_the_server_does_not_allow_is_refused_with_its_limit():
    job = finished(AdviceJob(JobQueue(1), Limits(max_n=100), SPEC, 0.05, 80))
    assert job.state == "failed" and "n = 2,400 is above this server's limit of 100 rows" in job.message


def test_advice_that_is_stopped_ends_before_its_next_solve():
    job = AdviceJob(JobQueue(1), Limits(), SPEC, 0.05, 80)
    job.stop()
    finished(job)
    assert job.state == "stopped" and job.advice is None
