"""Small trainings on a noisy sine, for tests and for their subprocesses, which should import little."""

from __future__ import annotations

import warnings

import torch

import apviz
from tests.device import DEVICE

CHOLESKY = apviz.Cholesky(tol=1e-6)


def data(n=80, d=2):
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(n, d, generator=generator, dtype=torch.float64) * 2 - 1
    y = torch.sin(4 * x[:, 0]) + 0.5 + 0.2 * torch.randn(n, generator=generator, dtype=torch.float64)
    return x, y


def training(path=None, n=80, dtype=torch.float64, x=None, **settings):
    inputs, y = data(n)
    settings = apviz.TrainingSettings(**{"solver": CHOLESKY, "steps": 6, **settings})
    return apviz.Training(
        inputs if x is None else x, y, settings, path=path, dtype=dtype, dataset="sine", device=DEVICE
    )


def train_to(path, results, start):
    """Train to a path, in one of several processes that do so at the same time."""
    trained = training(path, steps=5)
    start.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            trained.run()
            results.put("trained")
        except Exception as error:
            results.put(f"{type(error).__name__}: {error}")
