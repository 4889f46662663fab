"""Trainings that take seconds."""

from __future__ import annotations

import apviz
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.jobs.training_job import TrainingJob
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.store.trainings import Trainings

LIMITS = Limits()
SPEC = SystemSpec("china", 200)
SOLVER = apviz.AlternatingProjection(block_size=50, tol=1.0, min_epochs=3)
SETTINGS = apviz.TrainingSettings(solver=SOLVER, steps=3, probes=2)


def finished(job, seconds=300):
    job.start()
    job.join(seconds)
    assert not job.is_active
    return job


def job_in(folder, settings=SETTINGS, name=None, spec=SPEC, limits=LIMITS):
    return TrainingJob(JobQueue(1), limits, Trainings(folder), spec, settings, name)
