"""The diagnosis of what limited a training, on trainings with each of these limits."""

from __future__ import annotations

import dataclasses
import re
import warnings

import numpy as np
import pytest
import torch

from apviz import AlternatingProjection, Cholesky, ConjugateGradient, Hook, TwoLevelSchwarz, open_trace
from apviz.analysis.diagnosis import Limit
from apviz.analysis.diagnosis.training import diagnose_training
from apviz.gp.training.settings import TrainingSettings
from apviz.gp.training.training import Training, TrainingError
from apviz.hyperparameters import Hyperparameters
from apviz.partitions import KDTree, PrincipalAxisTree


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


def test_twice_the_steps_are_advised_for_a_training_whose_noise_still_changes(data):
    found = diagnose_training(trained(data, steps=8))
    assert found.limit is Limit.STEPS and found.change == {"steps": 16}
    trace = trained(data, steps=8)
    values = [*trace["step"]["noise"].values[-5:], trace.hyperparameters.noise]
    assert f"5 of 8 steps moved σ² between {min(values):.3g} and {max(values):.3g}" in found.evidence


def test_a_training_whose_noise_has_settled_is_left_alone(data):
    trace = trained(data, steps=150, probes=50)
    found = diagnose_training(trace)
    assert found.limit is Limit.NOTHING and not found.change
    (since,) = [int(word) for word in re.findall(r"since step (\d+) of 150", found.evidence)]
    noise = [*trace["step"]["noise"].values, trace.hyperparameters.noise][since - 5 :]
    assert all(max(noise[k : k + 6]) < 1.05 * min(noise[k : k + 6]) for k in range(len(noise) - 5))


def test_noise_that_turns_has_not_settled():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-2, 2, (150, 1)))
    y = torch.sin(3 * x[:, 0]) + 0.6 * torch.tensor(rng.standard_normal(150))
    trace = trained((x, y), steps=20, probes=15)
    noise = trace.noise_path
    turn = int(noise.argmin())
    assert 5 < turn < 15 and noise[-1] > 1.1 * noise[turn]  # Adam overshot, and returns
    assert diagnose_training(trace).limit is Limit.STEPS


def test_solves_that_did_not_converge_come_first_and_get_overlapping_blocks(data):
    trace = trained(data, steps=3, solver=ConjugateGradient(tol=1e-9, max_epochs=2))
    found = diagnose_training(trace)
    assert found.limit is Limit.CONDITIONING and found.change == {"solver": "overlap"}
    assert "The solves of 3 of 3 steps did not converge, the first at step 1" in found.evidence


def test_overlapping_blocks_that_did_not_converge_are_not_proposed_again(data):
    solver = AlternatingProjection(block_size=10, partition=KDTree(overlap=0.5), tol=1e-9, max_epochs=1)
    found = diagnose_training(trained(data, steps=2, solver=solver))
    assert found.limit is Limit.CONDITIONING and not found.change


@pytest.mark.parametrize(
    "solver",
    [
        AlternatingProjection(block_size=10, tol=1e-9, max_epochs=1),
        ConjugateGradient(
            preconditioner=TwoLevelSchwarz(block_size=20, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=5),
            tol=1e-9,
            max_epochs=1,
        ),
    ],
)
def test_overlapping_blocks_are_advised_for_other_solvers(data, solver):
    found = diagnose_training(trained(data, steps=2, solver=solver))
    assert found.limit is Limit.CONDITIONING and found.change == {"solver": "overlap"}


def test_float32_solves_are_refined_to_their_tolerance(data):
    training = Training(*data, TrainingSettings(solver=Cholesky(tol=1e-9), steps=2, probes=2), dtype=torch.float32)
    training.run()
    assert diagnose_training(training.trace).limit is Limit.STEPS


def test_float64_is_advised_if_rounding_prevents_convergence(data):
    # so smooth, and with so little noise, that K has no factor in float32 without jitter
    initial = Hyperparameters("rbf", (3.0,), 1.0, 1e-9, 0.0)
    settings = TrainingSettings(solver=Cholesky(tol=1e-6), steps=2, probes=2, noise_floor=1e-10, step_size=1e-3)
    training = Training(*data, settings, dtype=torch.float32, initial=initial)
    with pytest.warns(UserWarning, match="stagnated|rounding"):
        training.run()
    found = diagnose_training(training.trace)
    assert found.limit is Limit.PRECISION and found.change == {"dtype": "float64"}
    assert "Rounding in float32 kept the solves of 2 of 2 steps" in found.evidence


def test_noise_at_its_floor_is_named_with_a_lower_floor():
    x = torch.linspace(0, 1, 40, dtype=torch.float64)[:, None]
    trace = trained((x, torch.sin(3 * x[:, 0])), steps=120, noise_floor=0.1)
    found = diagnose_training(trace)
    assert trace.hyperparameters.noise < 0.11
    assert found.limit is Limit.FLOOR and found.change == {"noise_floor": 0.01}


def test_noise_that_rises_from_its_floor_is_not_at_its_floor(data):
    initial = Hyperparameters("matern52", (0.3,), 1.0, 0.0102, 0.0)
    training = Training(*data, TrainingSettings(solver=Cholesky(), steps=6, step_size=1e-3, noise_floor=0.01),
                        initial=initial)  # fmt: skip
    training.run()
    noise = training.trace.noise_path
    assert (np.diff(noise) > 0).all() and noise[-1] < 0.011
    assert diagnose_training(training.trace).limit is not Limit.FLOOR


@pytest.mark.slow
def test_a_training_with_a_diverged_solve_is_not_advised_to_resume():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1, 1, (200, 1)))
    solver = AlternatingProjection(block_size=20, partition="sequential", tol=1e-3, max_epochs=30)
    settings = TrainingSettings(kernel="rbf", solver=solver, steps=60, step_size=1.0, noise_floor=0.0, probes=2)
    training = Training(x, torch.sin(3 * x[:, 0]), settings, dtype=torch.float32)
    with pytest.raises(TrainingError, match="training step") as failure, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training.run()
    found = diagnose_training(training.trace)
    assert found.limit is Limit.FAILED and found.change == {"dtype": "float64"}
    assert training.trace.attrs["stop_message"] in str(failure.value) and not training.trace.finished
    assert training.trace.attrs["stop_message"] in found.evidence


def test_resuming_a_training_discards_its_previous_stop_reason(data, tmp_path):
    class Once(Hook):
        def on_start(self, run):
            run.request_stop("enough")

    settings = TrainingSettings(solver=AlternatingProjection(block_size=20, tol=1.0), steps=4)
    path = tmp_path / "t.zarr"
    Training(*data, dataclasses.replace(settings, steps=2), path=path).run()
    training = Training(*data, settings, path=path)
    training.run([Once()])
    assert "enough" in diagnose_training(training.trace).evidence
    assert "enough" in open_trace(path).attrs["stop_message"]
    training.run()
    assert training.trace.finished and "stop_message" not in training.trace.attrs


def test_a_stopped_training_is_advised_to_resume_to_its_last_step(data):
    class Stop(Hook):
        solves = 0

        def on_epoch(self, epoch):
            self.solves += 1
            if self.solves == 3:
                self.run.request_stop("enough")

        def on_start(self, run):
            self.run = run

    trace = trained(data, [Stop()], steps=20, solver=AlternatingProjection(block_size=20, tol=1.0))
    found = diagnose_training(trace)
    assert not trace.finished and found.limit is Limit.INTERRUPTED and found.change == {"steps": 20}


def test_large_residuals_in_steps_are_reported_as_inaccurate_gradients(data):
    settings = {"steps": 4, "noise_floor": 1e-4, "probes": 4}
    initial = Hyperparameters("matern52", (1.0,), 1.0, 1e-3, 0.0)
    loose = Training(
        *data, TrainingSettings(solver=AlternatingProjection(block_size=20, tol=1.0), **settings), initial=initial
    )
    exact = Training(*data, TrainingSettings(solver=Cholesky(), **settings), initial=initial)
    for training in (loose, exact):
        training.run()
    assert (loose.trace["step"]["converged"].values == 1).all()
    # steps of Adam are 0.1 in either direction
    apart = np.abs(loose.trace["step"]["mean"].values - exact.trace["step"]["mean"].values)
    assert apart.max() > 0.05
    found = diagnose_training(loose.trace)
    assert found.limit is Limit.LOOSE and found.change == {"solver": "overlap"} and "W = 0" in found.evidence
    assert diagnose_training(exact.trace).limit is not Limit.LOOSE
