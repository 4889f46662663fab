"""One number of a trace on disk, without opening the trace."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

import apviz
from apviz.tracing.opening import last_number
from tests.device import DEVICE


def recorded(folder, **settings):
    x = torch.linspace(0, 1, 60, dtype=torch.float64)[:, None]
    system = apviz.KernelSystem(x, torch.sin(6 * x[:, 0]), apviz.Matern52(lengthscale=0.2), noise=1e-3, device=DEVICE)
    hooks = [apviz.PredictionHook(x[:7], torch.sin(6 * x[:7, 0])), apviz.Recorder(folder / "run.zarr")]
    apviz.solve(system, apviz.AlternatingProjection(block_size=20, **settings), hooks=hooks, throw=False)
    return folder / "run.zarr"


def read(path, name):
    root = json.loads((path / "zarr.json").read_bytes())
    return last_number(path, root["consolidated_metadata"]["metadata"], name)


def test_the_last_number_of_every_array_equals_that_of_the_opened_trace(tmp_path):
    path = recorded(tmp_path)
    trace = apviz.open_trace(path)
    for group, name in (("epoch", "residual"), ("epoch", "test_rmse"), ("spectrum", "kappa"), ("update", "work")):
        assert read(path, f"{group}/{name}") == float(np.atleast_1d(trace[group][name].values)[-1])


@pytest.mark.slow
def test_it_is_found_in_the_last_of_several_chunks(tmp_path):
    path = recorded(tmp_path, tol=1e-12, max_epochs=3000)
    updates = apviz.open_trace(path)["update"]["work"].values
    assert len(updates) > 2**15 // 8
    assert read(path, "update/work") == updates[-1]


def test_it_is_the_same_in_a_saved_copy(tmp_path):
    trace = apviz.open_trace(recorded(tmp_path))
    trace.save(tmp_path / "copy.zarr")
    assert read(tmp_path / "copy.zarr", "epoch/test_rmse") == float(trace["epoch"]["test_rmse"][-1])


def test_a_missing_or_differently_stored_number_is_nan(tmp_path):
    path = recorded(tmp_path)
    assert math.isnan(read(path, "epoch/nosuch")) and math.isnan(read(path, "epoch/residual_per_rhs"))
    assert math.isnan(read(path, "epoch/epoch"))
    for chunk in (path / "spectrum" / "kappa").iterdir():
        if chunk.name == "c":
            chunk.write_bytes(b"cut")
    assert math.isnan(read(path, "spectrum/kappa"))
    assert math.isnan(last_number(path, {"epoch/work": {"shape": "many"}}, "epoch/work"))
