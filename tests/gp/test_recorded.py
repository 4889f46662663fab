"""A recorded training can be repeated: its settings, its data, and the solve of any step."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import apviz
from apviz.gp.training.checkpoint import can_resume, check_data
from apviz.gp.training.gradient import step_system
from apviz.gp.training.settings import settings_of
from apviz.partitions import KDTree
from apviz.rules import GaussSouthwell
from apviz.solvers.serialization import from_plain, to_plain
from tests.device import DEVICE

SOLVERS = [
    apviz.AlternatingProjection(block_size=20, tol=1e-3, min_epochs=3),
    apviz.AlternatingProjection(
        block_size=20, rule=GaussSouthwell(short_block="end-of-epoch"), partition=KDTree(overlap=0.5)
    ),
    apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=10), tol=1e-3),
    apviz.ConjugateGradient(),
    apviz.Automatic(tol=0.05),
    apviz.Cholesky(),
]


def data(n=80, d=2):
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(n, d, generator=generator) * 2 - 1
    return x, torch.sin(4 * x[:, 0]) + 0.2 * torch.randn(n, generator=generator)


def trained(solver=SOLVERS[0], path=None, hooks=(), **settings):
    x, y = data()
    settings = apviz.TrainingSettings(**{"solver": solver, "steps": 3, "probes": 3} | settings)
    training = apviz.Training(x, y, settings, path=path)
    training.run(hooks)
    return training


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_solver_is_rebuilt_from_its_json(solver):
    assert from_plain(json.loads(json.dumps(to_plain(solver)))) == solver


def test_the_settings_of_a_training_are_read_from_its_trace(tmp_path):
    training = trained(SOLVERS[2], tmp_path / "t.zarr", ard=False, warm_start=True, seed=4, step_size=0.2)
    assert settings_of(apviz.open_trace(tmp_path / "t.zarr")) == training.settings


def test_settings_of_another_version_raise_an_error_that_says_so():
    trace = trained().trace
    trace.attrs["training_settings"] = '{"momentum": 0.9}'
    with pytest.raises(ValueError, match="does not know the settings of this training: .*momentum"):
        settings_of(trace)


@pytest.mark.parametrize("solver", [SOLVERS[0], SOLVERS[2]], ids=["AP", "PCG"])
def test_the_solve_of_a_step_can_be_repeated_from_the_trace_alone(solver):
    recorder = apviz.Recorder()
    trace = trained(solver, hooks=[recorder]).trace
    settings, (x, y) = settings_of(trace), (each.to(DEVICE) for each in data())
    again = apviz.Recorder()
    step = step_system(x, y, trace.hyperparameters_at(2), settings.solver, settings.probes, settings.seed_of(2))
    solution = apviz.solve(step.system, settings.solver, [again], prepared=step.prepared)
    assert solution.epochs == int(trace["step"]["epochs"][1])
    np.testing.assert_array_equal(again.trace["epoch"]["residual"], recorder.traces[1]["epoch"]["residual"])


def test_hyperparameters_of_a_step_that_was_not_done_raise():
    with pytest.raises(KeyError, match="step 4 was not recorded; there are 3"):
        trained().trace.hyperparameters_at(4)


def test_data_other_than_those_of_the_training_are_rejected(tmp_path):
    path, (x, y) = tmp_path / "t.zarr", data()
    check_data(path, x, y)
    assert not can_resume(path)
    trained(path=path)
    check_data(path, x, y)
    assert can_resume(path)
    with pytest.raises(ValueError, match="the rows found for t differ from those it started with: another split"):
        check_data(path, x + 1, y)


def test_a_trace_records_when_the_noise_has_settled():
    trace = trained(apviz.Cholesky(tol=1e-3), steps=120, probes=50).trace
    noise = np.append(trace["step"]["noise"].values, trace.hyperparameters.noise)
    assert trace.settled_at is not None and noise[-6:].max() < 1.05 * noise[-6:].min()
    assert trained().trace.settled_at is None
