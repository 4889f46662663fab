"""The benchmark of the published sgemm run, at a size a test can afford: the same code, against dense NumPy."""

from __future__ import annotations

import os

import numpy as np
import pytest

import apviz

needs_data = pytest.mark.skipif("APVIZ_DATA" not in os.environ, reason="APVIZ_DATA is not set: no sgemm here")


def dense(system: apviz.KernelSystem) -> np.ndarray:
    x = system.x.double().numpy() / np.array(system.kernel.lengthscale)
    r = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None], axis=2)
    k = system.kernel.outputscale * (1 + r + r**2 / 3) * np.exp(-r)
    return k + system.noise * np.eye(system.n)


def authors_schedule(k: np.ndarray, b: np.ndarray, size: int, epochs: int) -> list[float]:
    """Full blocks by the mean over right-hand sides of their norms, the short block at the end of every epoch."""
    blocks = [np.arange(i, min(i + size, len(b))) for i in range(0, len(b), size)]
    *full, short = blocks
    assert len(short) < size
    r, residuals = b.copy(), []
    for _ in range(epochs):
        for number in range(len(blocks)):
            scores = [np.linalg.norm(r[rows], axis=0).mean() for rows in full]
            rows = short if number == len(full) else full[int(np.argmax(scores))]
            r -= k[:, rows] @ np.linalg.solve(k[np.ix_(rows, rows)], r[rows])
        residuals.append(float((np.linalg.norm(r, axis=0) / np.linalg.norm(b, axis=0)).mean()))
    return residuals


@needs_data
def test_the_authors_schedule_on_sgemm_gives_the_residuals_of_dense_numpy():
    from benchmarks.published_sgemm import EPOCHS, residuals, system

    sgemm = system(n=730)
    ours = residuals(sgemm, "end-of-epoch", 100, apviz.Recorder())
    expected = authors_schedule(dense(sgemm), sgemm.b.double().numpy(), 100, EPOCHS)
    assert ours == pytest.approx(expected, rel=2e-3)


@needs_data
def test_the_published_trace_is_the_one_after_the_hyperparameters():
    """Hyperparameters of a record are those after its step, residuals those before: step 48 goes with step 49."""
    published = apviz.datasets.published_hyperparameters("sgemm", step=48)
    assert published.hyperparameters.noise == pytest.approx(0.0065478129)
    assert apviz.datasets.published_residuals("sgemm", step=49)[0] == pytest.approx(0.9364203)
