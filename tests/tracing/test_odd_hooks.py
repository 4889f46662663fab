"""Odd traces, limits and test data: each is used, or rejected with its name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from tests.device import DEVICE

X = torch.rand(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = torch.sin(5 * X).sum(1)


@pytest.fixture(scope="module")
def trace():
    system = apviz.KernelSystem(X, Y, apviz.Matern52(lengthscale=0.5), noise=0.1, device=DEVICE)
    recorder = apviz.Recorder()
    apviz.solve(system, apviz.AlternatingProjection(block_size=10), hooks=[recorder])
    return recorder.trace


@pytest.mark.parametrize("odd", [3, "runs/ap.zarr", ["ap"], None, torch.tensor(0.5), {"ap": 1}])
def test_figures_and_diagnoses_reject_objects_that_are_not_traces(trace, odd):
    plots = apviz.plots
    for draw in (
        plots.residuals,
        plots.block_timeline,
        plots.batch_sizes,
        plots.training,
        plots.k_norm_error,
        plots.noise_sweep,
    ):
        with pytest.raises(TypeError, match="traces must be an apviz.Trace"):
            draw(odd)
    for draw in (
        plots.residual_image,
        plots.ResidualMap,
        plots.FittedFunction,
    ):
        with pytest.raises(TypeError, match="trace must be an apviz.Trace"):
            draw(odd)
    with pytest.raises(TypeError, match="others must be an apviz.Trace"):
        apviz.diagnose(trace, others=odd)


@pytest.mark.parametrize("limit", [-0.5, np.nan, "much", np.zeros(2)])
def test_an_invalid_memory_limit_is_rejected_by_name(trace, limit):
    with pytest.raises(ValueError, match="memory_limit must be a positive number of bytes"):
        apviz.plots.batch_size_sweep(trace, memory_limit=limit)


@pytest.mark.parametrize("name", ["max_seconds", "max_work"])
@pytest.mark.parametrize("odd", [np.nan, -1, "1", None, torch.tensor(1.0)])
def test_a_limit_that_would_never_stop_a_solve_is_rejected(name, odd):
    with pytest.raises(ValueError, match=f"{name} must be a number, at least 0"):
        apviz.StopHook(**{name: odd})


def test_test_data_may_be_arrays_and_invalid_ones_are_rejected_by_name():
    hook = apviz.PredictionHook(X.numpy(), Y.numpy())
    system = apviz.KernelSystem(X, Y, apviz.Matern52(lengthscale=0.5), noise=0.1, device=DEVICE)
    recorder = apviz.Recorder()
    apviz.solve(system, apviz.Automatic(), hooks=[hook, recorder])
    assert float(recorder.trace["epoch"]["test_rmse"][-1]) < 0.5
    for odd, name in ((({}, Y), "test_x"), ((X * torch.nan, Y), "test_x"), ((X, Y * torch.inf), "test_y")):
        with pytest.raises((TypeError, ValueError), match=name):
            apviz.PredictionHook(*odd)
    with pytest.raises(ValueError, match="mean must be a finite number"):
        apviz.PredictionHook(X, Y, mean=1 + 2j)


def test_an_invalid_console_is_rejected_by_name():
    with pytest.raises(TypeError, match="console must be a rich.console.Console"):
        apviz.ProgressHook("stderr")


def test_test_inputs_of_another_width_or_too_far_away_are_rejected_before_the_solve():
    system = apviz.KernelSystem(X, Y, apviz.Matern52(lengthscale=0.5), noise=0.1, device=DEVICE)
    for odd, message in ((X[:, :1], "test_x has 1 columns, the system 2"), (X * 1e200, "test_x spans .* lengthscales")):
        with pytest.raises(ValueError, match=message):
            apviz.solve(system, apviz.Cholesky(), hooks=[apviz.PredictionHook(odd, Y)])
    with pytest.raises(ValueError, match="m and d at least 1"):
        apviz.PredictionHook(X[:0], Y[:0])
