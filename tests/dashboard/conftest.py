"""A folder of small real runs."""

from __future__ import annotations

import shutil

import pytest
import torch

import apviz


@pytest.fixture(scope="session")
def recorded_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    y = torch.sin(3 * x[:, 0])
    system = apviz.KernelSystem(
        x, y[:, None], apviz.Matern52(lengthscale=0.5), noise=0.1, operator="dense", dataset="made", seed=0
    )
    for name, solver in {
        "cg": apviz.ConjugateGradient(),
        "ap": apviz.AlternatingProjection(block_size=20),
        "cut": apviz.AlternatingProjection(block_size=10, tol=1e-9, max_epochs=2),
    }.items():
        apviz.solve(system, solver, hooks=[apviz.Recorder(folder / f"{name}.zarr")])
    settings = apviz.TrainingSettings(solver=apviz.ConjugateGradient(), steps=2, probes=2)
    apviz.Training(x, y, settings, path=folder / "fit.zarr", operator="dense", dataset="made").run()
    return folder


@pytest.fixture
def folder(tmp_path, recorded_runs):
    """Return a private copy: solves `cg`, `ap`, `cut` (not converged) and the training `fit`."""
    return shutil.copytree(recorded_runs, tmp_path / "runs")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return a folder with a training of three steps."""
    from tests.dashboard.small_trainings import finished, job_in

    folder = tmp_path_factory.mktemp("trained")
    finished(job_in(folder))
    return folder
