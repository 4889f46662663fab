"""Small systems and recorded solves for diagnoses."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.spatial.distance import cdist

import apviz

N = 400


def system(noise=0.1, lengthscale=0.3, kernel=apviz.Matern52, dtype=torch.float64, n=N, d=2, columns=1):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, d))
    y = np.sin(5 * x[:, :1]) + 0.3 * rng.standard_normal((n, columns))
    return apviz.KernelSystem(x, y, kernel(lengthscale=lengthscale), noise=noise, dtype=dtype, device="cpu")


def recorded(problem, solver, *hooks):
    recorder = apviz.Recorder()
    apviz.solve(problem, solver, [*hooks, recorder])
    return recorder.trace


def predicting(x, y):
    """Return a hook that records the test error."""
    return apviz.PredictionHook(torch.as_tensor(x), torch.as_tensor(y))


def other_points(count=200):
    x = np.random.default_rng(1).uniform(-1, 1, (count, 2))
    return x, np.sin(5 * x[:, 0])


def dense_matrix(x, lengthscale, noise):
    """Return Matérn-5/2 plus noise by its formula."""
    scaled = math.sqrt(5) * cdist(x, x) / lengthscale
    return (1 + scaled + scaled**2 / 3) * np.exp(-scaled) + noise * np.eye(len(x))
