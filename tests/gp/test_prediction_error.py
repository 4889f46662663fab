"""The recorded error of predictions is that of dense algebra, in posterior standard deviations."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import apviz
from tests.device import DEVICE
from tests.gp.test_accuracy_of_predictions import LENGTHSCALE, dense
from tests.textbook import CORRELATIONS


class Means(apviz.Hook):
    """Keeps the means at some points after every epoch, by NumPy."""

    def __init__(self, p):
        self.p, self.found = p, []

    def measure(self, run):
        distance = np.linalg.norm(self.p.x[:, None] - self.p.z[None], axis=2) / LENGTHSCALE
        self.found.append(CORRELATIONS["matern32"](distance).T @ run.weights[:, 0].cpu().numpy())
        return {}


def solved(p, solver, every=1, system=None):
    posterior = apviz.Posterior(p.x, p.y, p.h, device=DEVICE)
    means, recorder = Means(p), apviz.Recorder()
    hook = apviz.PredictionErrorHook(posterior, p.z, every=every)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        apviz.solve(system or posterior.system, solver, hooks=[hook, means, recorder])
    off = np.abs(np.array(means.found) - p.mean) / p.sd
    return recorder.trace["epoch"]["prediction_error"].values, np.quantile(off, 0.95, axis=1, method="inverted_cdf")


@pytest.mark.parametrize(
    "solver", [apviz.ConjugateGradient(max_epochs=20), apviz.AlternatingProjection(block_size=60, max_epochs=5)]
)
def test_it_is_the_quantile_of_the_errors_after_each_epoch(solver):
    recorded, exact = solved(dense(300, 0.1, "matern32"), solver)
    assert len(recorded) > 5
    np.testing.assert_allclose(recorded, exact, rtol=1e-4, atol=1e-6)


def test_in_float32_it_is_that_of_the_weights_too():
    p = dense(150, 0.1, "matern32")
    system = apviz.KernelSystem(
        p.x, p.y, p.h.build_kernel(), noise=p.h.noise, dtype=torch.float32, device=DEVICE
    )  # fmt: skip
    recorded, exact = solved(p, apviz.ConjugateGradient(tol=1e-5, max_epochs=40), system=system)
    np.testing.assert_allclose(recorded, exact, rtol=1e-4, atol=1e-6)


def test_epochs_between_evaluations_have_none():
    recorded, exact = solved(dense(200, 0.1, "matern32"), apviz.ConjugateGradient(max_epochs=7), every=3)
    assert np.isfinite(recorded).tolist() == [number % 3 == 0 for number in range(len(recorded))]
    np.testing.assert_allclose(recorded[::3], exact[::3], rtol=1e-4, atol=1e-6)


def test_the_posterior_of_other_targets_is_refused():
    p = dense(60, 0.1, "matern32")
    other = apviz.KernelSystem(p.x, p.y + 1e-3, p.h.build_kernel(), noise=p.h.noise, dtype=torch.float64, device=DEVICE)
    with pytest.raises(ValueError, match="the posterior of the system that is solved"):
        solved(p, apviz.ConjugateGradient(), system=other)


@pytest.mark.parametrize("change", ["kernel", "noise", "rows"])
def test_the_posterior_of_another_model_or_of_other_rows_is_refused(change):
    p = dense(60, 0.1, "matern32")
    kernel = p.h.build_kernel() if change != "kernel" else apviz.Matern32(lengthscale=2 * LENGTHSCALE)
    x = p.x if change != "rows" else p.x + 0.1 * p.x**2
    noise = p.h.noise * (1.1 if change == "noise" else 1.0)
    other = apviz.KernelSystem(x, p.y, kernel, noise=noise, dtype=torch.float64, device=DEVICE)
    with pytest.raises(ValueError, match="the posterior of the system that is solved"):
        solved(p, apviz.ConjugateGradient(), system=other)


def test_without_test_points_there_is_no_error():
    p = dense(60, 0.1, "matern32")
    with pytest.raises(ValueError, match="at least one test point"):
        apviz.PredictionErrorHook(apviz.Posterior(p.x, p.y, p.h, device=DEVICE), np.zeros((0, 2)))


def test_the_figure_has_it_above_the_residual():
    p = dense(100, 0.1, "matern32")
    posterior, recorder = apviz.Posterior(p.x, p.y, p.h, device=DEVICE), apviz.Recorder()
    apviz.solve(posterior.system, apviz.ConjugateGradient(), hooks=[recorder])
    with pytest.raises(ValueError, match="PredictionErrorHook"):
        apviz.plots.prediction_error(recorder.trace)
    hook = apviz.PredictionErrorHook(posterior, p.z)
    apviz.solve(posterior.system, apviz.ConjugateGradient(), hooks=[hook, recorder])
    figure = apviz.plots.prediction_error(recorder.traces, accuracy=0.1)
    upper = [each for each in figure.data if each.yaxis in (None, "y")]
    drawn = np.concatenate([np.asarray(each.y, dtype=float) for each in upper])
    recorded = recorder.traces[1]["epoch"]["prediction_error"].values
    assert np.isin(drawn, recorded).all() and recorded[-1] in drawn
    assert {shape.y0 for shape in figure.layout.shapes} == {0.1, 0.01}
    assert "1 of 2 runs recorded no error of predictions" in figure.layout.title.text
