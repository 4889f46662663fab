"""Seconds of one call of `predict`, for 1 to 20,000 rows, next to scikit-learn's `GaussianProcessRegressor`.

`python -m benchmarks.prediction_rows` fits both with the same hyperparameters to n = 500 and 2,000 rows of three
inputs, and predicts in turns: means, and means with standard deviations. Seconds are those of the processor in one
thread; the smallest of several rounds, because other jobs only add to them.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

import apviz
from benchmarks.machine import describe, keep

SIZES, LENGTHSCALE, NOISE = (500, 2_000), (0.5, 0.5, 0.5), 0.01
#: rounds and calls in each, by number of predicted rows
REPEATS = {1: (15, 20), 2_000: (3, 1), 20_000: (1, 1)}


def fitted(n: int) -> tuple[Any, Any]:
    """Return the models of apviz and scikit-learn, fitted to the same n rows."""
    rng = np.random.default_rng(0)
    x = rng.random((n, len(LENGTHSCALE)))
    y = np.sin(4 * x.sum(1)) + 0.1 * rng.standard_normal(n)
    h = apviz.Hyperparameters("matern52", LENGTHSCALE, 1.0, NOISE)
    kernel = ConstantKernel(1.0) * Matern(LENGTHSCALE, nu=2.5)
    ours = apviz.GaussianProcess(hyperparameters=h, scale=False, device="cpu").fit(x, y)
    return ours, GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(x, y)


def seconds(models: tuple[Any, Any], rows: int, with_sd: bool) -> list[float]:
    """Return the seconds of a call of each model, predicting in turns."""
    z = np.random.default_rng(1).random((rows, len(LENGTHSCALE)))
    rounds, calls = REPEATS[rows]
    found = np.empty((rounds, len(models)))
    for number in range(rounds):
        for place, model in enumerate(models):
            started = time.process_time()
            for _ in range(calls):
                model.predict(z, return_std=with_sd)
            found[number, place] = (time.process_time() - started) / calls
    return [float(each) for each in found.min(axis=0)]


def main() -> None:
    """Measure everything, and keep it."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    cells = {}
    for n in SIZES:
        models = fitted(n)
        for rows in REPEATS:
            for with_sd in (False, True):
                if rows > 1:
                    seconds(models, 1, with_sd)  # compiles what is compiled once
                ours, theirs = seconds(models, rows, with_sd)
                key = f"n = {n:,}, {rows:,} rows, {'means and sd' if with_sd else 'means'}"
                cells[key] = {"apviz": ours, "scikit-learn": theirs, "ratio": ours / theirs}
                print(key, {name: float(f"{value:.3g}") for name, value in cells[key].items()}, flush=True)
    keep("prediction_rows", cells, describe() | {"threads": 1}, show=False)


if __name__ == "__main__":
    main()
