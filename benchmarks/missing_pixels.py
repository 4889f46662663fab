"""A photograph with 90% of its pixels missing, filled in with standard deviations: 25,000 rows, 225,000 predictions.

`python -m benchmarks.missing_pixels [stride]` takes every pixel, or every few rows and columns as the gallery does.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from sklearn.datasets import load_sample_image

import apviz
from benchmarks.machine import keep

SHAPE, LUMINANCE, TRAINING = (400, 625), (0.299, 0.587, 0.114), 1_000


def main(stride: int = 1) -> None:
    """Fill in the missing pixels, with means alone and with deviations; keep seconds of the processor and errors."""
    picture = load_sample_image("china.jpg")[: SHAPE[0] : stride, : SHAPE[1] : stride] @ np.array(LUMINANCE)
    places, values = np.indices(picture.shape).reshape(2, -1).T, picture.ravel()
    order = np.random.default_rng(0).permutation(picture.size)
    known, missing = np.split(order, [picture.size // 10])
    started, used = time.perf_counter(), time.process_time()
    trained = apviz.GaussianProcess("matern12").fit(places[known[:TRAINING]], values[known[:TRAINING]])
    at_training = time.process_time()
    gp = apviz.GaussianProcess(hyperparameters=trained.hyperparameters_).fit(places[known], values[known])
    at_fit = time.process_time()
    gp.predict(places[missing])
    at_means = time.process_time()
    mean, sd = gp.predict(places[missing], return_std=True, include_noise=True)
    done = time.process_time()
    off = np.abs(mean - values[missing])
    keep("missing_pixels", {
        "rows": len(known), "predictions": len(missing), "training_seconds": at_training - used,
        "fit_seconds": at_fit - at_training, "mean_seconds": at_means - at_fit, "mean_and_sd_seconds": done - at_means,
        "wall_seconds": time.perf_counter() - started, "rmse": float(np.sqrt(np.mean(off**2))),
        "sd_of_pixels": float(values.std()), "coverage_95": float(np.mean(off <= 1.96 * sd)),
        "accuracy": str(gp.prediction_accuracy_),
    })  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
