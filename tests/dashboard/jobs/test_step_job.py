"""Repeating the solve of one training step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.jobs.step_job import StepJob, changed_solver
from apviz.dashboard.store.trainings import Trainings
from apviz.partitions import KDTree
from tests.dashboard.small_trainings import LIMITS, SETTINGS, SOLVER, SPEC, finished, job_in


@pytest.mark.slow
def test_the_solve_of_a_step_is_repeated_exactly_or_with_a_change(tmp_path):
    job = finished(job_in(tmp_path))
    path, trace = tmp_path / f"{job.name}.zarr", job.trace

    def again(**change):
        return finished(StepJob(JobQueue(1), LIMITS, path, job.name, trace, SPEC, SETTINGS, 2, change)).trace

    same, tighter, double, auto = again(), again(tol=1e-3), again(dtype="float64"), again(solver="auto")
    np.testing.assert_array_equal(same["epoch"]["residual"], job.solve(2)["epoch"]["residual"])
    assert tighter.converged and float(tighter["epoch"]["residual"][-1]) < 1e-3
    assert double.attrs["dtype"] == "float64" and auto.converged
    for each in (tighter, double, auto):
        np.testing.assert_allclose(each.attrs["rhs_norms"], same.attrs["rhs_norms"], rtol=1e-5)
    assert len(Trainings(tmp_path).names()) == 1


def test_the_automatic_solver_takes_over_the_tolerance():
    assert changed_solver(replace(SOLVER, tol=0.5), {"solver": "auto"}) == apviz.Automatic(tol=0.5)
    assert changed_solver(SOLVER, {"partition": KDTree(overlap=1.0)}).method.overlap == 1.0
