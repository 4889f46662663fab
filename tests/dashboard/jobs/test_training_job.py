"""Trainings in a thread: what they write to the folder, how they stop and resume, and what they reject."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.training import recorded
from apviz.dashboard.store.trainings import Trainings
from tests.dashboard.small_trainings import SETTINGS, SPEC, finished, job_in


def press_stop(job, solve, update=None):
    """Press Stop after an update of the k-th solve, or at its end."""
    recorder, seen = job._recorder, {"solves": 0}
    started, updated, stopped = recorder.on_start, recorder.on_update, recorder.on_stop

    def on_start(run):
        seen["solves"] += 1
        started(run)

    def on_update(each):
        updated(each)
        if seen["solves"] == solve and each.number == update:
            job.stop()

    def on_stop(solution):
        stopped(solution)
        if seen["solves"] == solve and update is None:
            job.stop()

    recorder.on_start, recorder.on_update, recorder.on_stop = on_start, on_update, on_stop


def test_a_job_trains_like_the_library_and_writes_trace_and_checkpoint(trained, tmp_path):
    job = finished(job_in(tmp_path))
    data = SPEC.load()
    plain = apviz.Training(data.train_x, data.train_y, SETTINGS)
    assert job.state == "done" and plain.run().noise == job.trace.hyperparameters.noise
    written = Trainings(tmp_path).open(job.name)
    np.testing.assert_array_equal(written["step"]["noise"], plain.trace["step"]["noise"])
    assert written.finished and (tmp_path / f"{job.name}.zarr.checkpoint.npz").exists()
    assert "3 of 3 steps" in job.message and job.fraction_done == 1


def test_every_step_has_its_solve(tmp_path):
    job = finished(job_in(tmp_path))
    steps = job.trace["step"]
    for k in (1, 2, 3):
        assert job.solve(k).attrs["noise"] == steps["noise"].values[k - 1]
        assert job.solve(k)["epoch"]["epoch"].values[-1] == steps["epochs"].values[k - 1]
    assert job.solve(4) is None


@pytest.mark.parametrize(("solve", "update"), [(3, 2), (2, None)], ids=["within a solve", "as one ends"])
def test_stop_ends_a_training_within_one_update_and_keeps_its_steps(tmp_path, solve, update):
    job = job_in(tmp_path, replace(SETTINGS, steps=500))
    press_stop(job, solve, update)
    finished(job)
    assert job.state == "stopped" and "2 of 500 steps" in job.message
    assert Trainings(tmp_path).open(job.name)["step"].sizes["step"] == 2


@pytest.mark.slow
def test_a_stopped_training_resumes_to_the_same_result(tmp_path):
    job = job_in(tmp_path)
    press_stop(job, 2, 1)
    finished(job)
    trainings = Trainings(tmp_path)
    spec, settings = recorded(trainings.open(job.name), lambda name: None)
    again = finished(job_in(tmp_path, settings, job.name, spec))
    assert again.state == "done" and again.solve(1) is None and again.solve(2) is not None
    whole = finished(job_in(tmp_path))
    assert whole.name != again.name
    assert trainings.open(again.name).hyperparameters == trainings.open(whole.name).hyperparameters


@pytest.mark.slow
def test_a_finished_training_can_be_extended(tmp_path):
    name = finished(job_in(tmp_path)).name
    longer = finished(job_in(tmp_path, replace(SETTINGS, steps=4), name))
    assert longer.state == "done" and Trainings(tmp_path).open(name)["step"].sizes["step"] == 4


def test_two_jobs_never_write_one_training(tmp_path):
    one, two = job_in(tmp_path), job_in(tmp_path)
    assert one.path != two.path
    finished(one)
    again = job_in(tmp_path, replace(SETTINGS, steps=4), one.name)
    with pytest.raises(ValueError, match="already running, here or in another window"):
        job_in(tmp_path, replace(SETTINGS, steps=4), one.name)
    finished(again)


def test_a_training_that_another_process_may_be_writing_is_not_touched(tmp_path):
    data, settings = SPEC.load(), replace(SETTINGS, steps=2)

    class Stop(apviz.TrainingHook):
        def on_step(self, step, settings):
            raise KeyboardInterrupt

    path = tmp_path / "other.zarr"
    with pytest.raises(KeyboardInterrupt):
        apviz.Training(data.train_x, data.train_y, settings, path=path, dataset="china").run([Stop()])
    with pytest.raises(ValueError, match="written . s ago, so another process may still train it"):
        job_in(tmp_path, settings, "other")
    os.utime(path / "zarr.json", (time.time() - 60,) * 2)
    assert finished(job_in(tmp_path, settings, "other")).state == "done"


def test_a_training_without_a_checkpoint_or_of_other_rows_cannot_resume(tmp_path):
    name, more = finished(job_in(tmp_path)).name, replace(SETTINGS, steps=4)
    other = finished(job_in(tmp_path, more, name, replace(SPEC, seed=3)))
    assert other.state == "failed" and "differ from those it started with" in other.message
    assert Trainings(tmp_path).open(name)["step"].sizes["step"] == 3
    (tmp_path / f"{name}.zarr.checkpoint.npz").unlink()
    with pytest.raises(ValueError, match="there is no checkpoint next to"):
        job_in(tmp_path, more, name)


def test_limits_are_enforced_and_named(tmp_path):
    many = finished(job_in(tmp_path, limits=Limits(max_n=100)))
    assert many.state == "failed" and "above this server's limit of 100 rows" in many.message
    large = finished(job_in(tmp_path, limits=Limits(max_block_gb=1e-6)))
    assert large.state == "failed" and "this server allows 1e-06 GB a solve" in large.message
    assert Trainings(tmp_path).names() == []
