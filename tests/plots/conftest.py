"""Real traces of small solves, from which every plot is drawn."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest
import torch

import apviz
from apviz.partitions import PrincipalAxisTree
from apviz.solvers import Skeletons, Subspace

N = 400


class Interrupt(apviz.Hook):
    """Raises KeyboardInterrupt after two epochs."""

    def on_epoch(self, epoch):
        if epoch.number == 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="session")
def runs():
    """Return traces by name; `cut` did not converge, `interrupted` has no stop reason."""
    rng = np.random.default_rng(0)
    x = torch.as_tensor(np.cumsum(rng.normal(size=(N + 50, 3)), axis=0) / 20, dtype=torch.float32)
    y = torch.sin(3 * x[:, 0]) + 0.1 * torch.as_tensor(rng.normal(size=N + 50), dtype=torch.float32)
    targets = torch.cat([y[:N, None], torch.as_tensor(rng.normal(size=(N, 3)), dtype=torch.float32)], 1)
    kernel = apviz.Matern52(lengthscale=0.5)
    test = (x[N:], y[N:])

    def run(solver, *hooks, noise=0.05, **recording):
        system = apviz.KernelSystem(x[:N], targets, kernel, noise=noise, operator="dense")
        recorder = apviz.Recorder(**recording)
        with contextlib.suppress(KeyboardInterrupt):
            apviz.solve(system, solver, hooks=[*hooks, recorder])
        return recorder.trace

    # such small systems gain nothing from threads, which wait for each other on a busy machine
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    projection, gradient = apviz.AlternatingProjection, apviz.ConjugateGradient
    traces = {
        "ap": run(projection(block_size=50, max_epochs=300, check_every=5), apviz.PredictionHook(*test)),
        "ap100": run(projection(block_size=100, max_epochs=300)),
        "cyclic": run(projection(block_size=50, rule="cyclic", max_epochs=100)),
        "cut": run(projection(block_size=50, rule="random", max_epochs=2)),
        "interrupted": run(projection(block_size=50, rule="shuffled", tol=1e-4), Interrupt()),
        "skeletons": run(
            projection(
                block_size=50,
                partition=PrincipalAxisTree(overlap=0.5),
                step=Subspace(length=2),
                columns=Skeletons(rank=8),
                tol=1e-6,
            )
        ),
        "noisy": run(projection(block_size=50, max_epochs=300), noise=0.5),
        "cg": run(gradient(), apviz.PredictionHook(*test)),
        "pcg": run(gradient(preconditioner=apviz.PivotedCholesky(rank=20))),
        "cholesky": run(apviz.Cholesky()),
        "ap eigenvalues": run(projection(block_size=50), eigenvalues=True),
        "pcg eigenvalues": run(gradient(preconditioner=apviz.PivotedCholesky(rank=20)), eigenvalues=True),
    }
    torch.set_num_threads(threads)
    return traces


@pytest.fixture(scope="session")
def trainings():
    """Return traces of small trainings by name; `cut` was stopped, and its solves did not converge."""

    class Stop(apviz.Hook):
        solves = 0

        def on_start(self, run):
            Stop.solves += 1
            if Stop.solves == 4:
                run.request_stop("enough")

    rng = np.random.default_rng(1)
    x = torch.as_tensor(rng.uniform(-1, 1, size=(N, 3)), dtype=torch.float32)
    y = torch.sin(3 * x[:, 0]) + 0.1 * torch.as_tensor(rng.normal(size=N), dtype=torch.float32)

    def train(solver, hooks=(), **settings):
        settings = apviz.TrainingSettings(solver=solver, **{"steps": 6, "probes": 3} | settings)
        training = apviz.Training(x, y, settings, operator="dense")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            training.run(hooks)
        return training.trace

    return {
        "ap": train(apviz.AlternatingProjection(block_size=50, tol=1.0, min_epochs=3)),
        "cg": train(apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=20), tol=1e-3)),
        "one": train(apviz.AlternatingProjection(block_size=50, tol=1.0, min_epochs=3), ard=False),
        "kappa": train(apviz.AlternatingProjection(block_size=50, tol=1.0, min_epochs=3), spectrum=True),
        "cut": train(apviz.AlternatingProjection(block_size=50, tol=1e-9, max_epochs=2), [Stop()]),
    }


@pytest.fixture
def edited():
    """Return a function that copies a trace and replaces values of epochs or root attributes."""

    def edit(trace, attrs=None, **values):
        tree = trace.tree.copy(deep=True)
        tree.attrs.update(attrs or {})
        epochs = tree["epoch"].to_dataset()
        for name, new in values.items():
            epochs[name] = epochs[name].copy(data=new)
        tree["epoch"].dataset = epochs
        return apviz.Trace(tree)

    return edit


@pytest.fixture
def curve():
    """Return the drawn curve of a run: the first scatter with lines named after its method."""

    def find(figure, trace, row=1):
        axis = "y" if row == 1 else f"y{row}"
        return next(
            each
            for each in figure.data
            if trace.method_name in each.name and "lines" in each.mode and (each.yaxis or "y") == axis
        )

    return find
