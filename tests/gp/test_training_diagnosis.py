"""What limited a training, from trainings that are limited so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from apviz import AlternatingProjection, Cholesky, ConjugateGradient, Hook
from apviz.diagnosis import Limit
from apviz.gp.diagnosis import diagnose_training
from apviz.gp.training import Training, TrainingSettings


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-2, 2, (60, 1)))
    return x, torch.sin(3 * x[:, 0]) + 0.3 * torch.tensor(rng.standard_normal(60))


def trained(data, hooks=(), **settings):
    x, y = data
    settings = {"solver": Cholesky(), "probes": 2} | settings
    training = Training(x, y, TrainingSettings(**settings))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training.run(hooks)
    return training.trace


def test_a_training_whose_noise_still_moves_should_go_on_for_as_many_steps_again(data):
    found = diagnose_training(trained(data, steps=8))
    assert found.limit is Limit.STEPS and found.change == {"steps": 16}
    trace = trained(data, steps=8)
    before, now = float(trace["step"]["noise"][3]), trace.hyperparameters.noise
    assert f"5 of 8 steps moved σ² from {before:.3g} to {now:.3g}" in found.evidence


def test_a_training_whose_noise_has_settled_is_left_alone(data):
    trace = trained(data, steps=150)
    found = diagnose_training(trace)
    assert trace.settled_at is not None and found.limit is Limit.SETTLED and not found.change
    assert f"up to step {trace.settled_at} of 150" in found.evidence


def test_solves_that_did_not_converge_come_first_and_get_overlapping_blocks(data):
    trace = trained(data, steps=3, solver=ConjugateGradient(tol=1e-9, max_iterations=2))
    found = diagnose_training(trace)
    assert found.limit is Limit.CONDITIONING and found.change == {"solver": "overlap"}
    assert "The solves of 3 of 3 steps did not converge, the first at step 1" in found.evidence


def test_overlapping_blocks_that_did_not_converge_are_not_proposed_again(data):
    solver = AlternatingProjection(10, partition="kd-tree", overlap=0.5, tol=1e-9, max_epochs=1)
    found = diagnose_training(trained(data, steps=2, solver=solver))
    assert found.limit is Limit.CONDITIONING and not found.change


def test_noise_that_lies_on_its_floor_is_named_with_a_lower_floor():
    x = torch.linspace(0, 1, 40, dtype=torch.float64)[:, None]
    trace = trained((x, torch.sin(3 * x[:, 0])), steps=120, noise_floor=0.1)
    found = diagnose_training(trace)
    assert trace.hyperparameters.noise < 0.11
    assert found.limit is Limit.FLOOR and found.change == {"noise_floor": 0.01}


def test_a_training_that_was_stopped_should_go_on_to_its_own_last_step(data):
    class Stop(Hook):
        solves = 0

        def on_epoch(self, epoch):
            self.solves += 1
            if self.solves == 3:
                self.run.request_stop("enough")

        def on_start(self, run):
            self.run = run

    trace = trained(data, [Stop()], steps=20, solver=AlternatingProjection(20, tol=1.0))
    found = diagnose_training(trace)
    assert not trace.finished and found.limit is Limit.INTERRUPTED and found.change == {"steps": 20}
