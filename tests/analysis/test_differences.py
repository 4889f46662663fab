"""Settings of runs side by side."""

from __future__ import annotations

import torch

import apviz
from apviz.analysis.sweeps import settings_table


def recorded(solver, noise=0.1):
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    system = apviz.KernelSystem(x, x[:, :1], apviz.Matern52(lengthscale=0.5), noise=noise, operator="dense")
    recorder = apviz.Recorder()
    apviz.solve(system, solver, hooks=[recorder])
    return recorder.trace


def test_only_the_settings_that_differ_are_shown_and_no_results():
    runs = [
        recorded(apviz.AlternatingProjection(block_size=20)),
        recorded(apviz.AlternatingProjection(block_size=30, tol=1e-3)),
    ]
    table = settings_table(runs, only_differences=True)
    assert table["block size"] == ["20", "30"] and table["tol"] == ["0.01", "0.001"]
    assert set(table) == {"method", "block size", "tol"}


def test_a_setting_that_a_run_does_not_have_is_a_dash():
    table = settings_table(
        [recorded(apviz.AlternatingProjection(block_size=20)), recorded(apviz.ConjugateGradient(), 0.2)]
    )
    assert table["block size"] == ["20", "–"]
    assert table["noise"] == ["0.1", "0.2"]
    assert table["kernel"] == ["matern52", "matern52"]
