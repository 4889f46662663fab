"""What version 0.1 wrote, before a trace had its method as data, opens and goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import apviz
from apviz import partitions, rules
from apviz.analysis.diagnosis import diagnose
from apviz.method import Method
from apviz.report import write_report
from apviz.solvers.serialization import from_plain
from apviz.tracing.opening import attributes_of, check_complete
from tests.device import DEVICE

PIVOTED = apviz.PivotedCholesky(rank=5)
SOLVERS = {
    "ap": apviz.AlternatingProjection(
        block_size=6, rule=rules.Random(seed=3), partition=partitions.ShuffledRows(seed=2), overlap=0.5, max_epochs=4
    ),
    "tree": apviz.AlternatingProjection(block_size=6, partition="kd-tree", history=2, coarse_rank=3, max_epochs=4),
    "cg": apviz.ConjugateGradient(max_epochs=9),
    "pcg": apviz.ConjugateGradient(preconditioner=PIVOTED, max_epochs=9, min_epochs=2),
    "schwarz": apviz.ConjugateGradient(
        preconditioner=apviz.TwoLevelSchwarz(block_size=6, overlap=0.5, coarse_rank=4)
    ),
    "cholesky": apviz.Cholesky(),
}  # fmt: skip
TRAINED_WITH = apviz.ConjugateGradient(preconditioner=PIVOTED, max_epochs=30)


@pytest.fixture(scope="module")
def former(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("former")
    # tarfile's own filters are not in Python 3.11.2, which Debian 12 has
    shutil.unpack_archive(Path(__file__).with_name("schema-1.tar.xz"), folder)
    return folder


def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(24, 2, generator=generator, dtype=torch.float64)
    return x, torch.sin(4 * x[:, 0]) + 0.1 * torch.randn(24, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_trace_says_which_method_as_data_and_its_solver_can_be_made_again(former, name):
    trace = apviz.open_trace(former / f"{name}.zarr")
    check_complete(trace)
    assert trace.method == SOLVERS[name].method
    assert from_plain(json.loads(trace.attrs["solver_settings"])) == SOLVERS[name]
    assert attributes_of(former / f"{name}.zarr")["method"] == trace.attrs["method"]


@pytest.mark.parametrize("name", SOLVERS)
def test_the_same_solve_today_has_the_same_iterates(former, name):
    before, recorder = apviz.open_trace(former / f"{name}.zarr"), apviz.Recorder()
    system = apviz.KernelSystem(*data(), apviz.Matern52(lengthscale=0.4), noise=0.1, dtype=torch.float64, device=DEVICE)
    apviz.solve(system, SOLVERS[name], hooks=[recorder])
    for group in ("update", "epoch"):
        for variable in ("work", "residual"):
            expected, found = before[group][variable].values.copy(), recorder.trace[group][variable].values
            if group == "epoch" and variable == "work" and before.outcome == "max_epochs":
                expected[-1] += 1  # a solve that is cut ends with a pass now, which measures its residual
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-14)


def test_conjugate_gradients_of_gpytorch_say_that_they_are(former):
    trace = apviz.open_trace(former / "linear-cg.zarr")
    check_complete(trace)
    assert trace.method == Method(family="conjugate-gradient", source="gpytorch")
    assert diagnose(trace) is not None


def test_a_training_goes_on_from_its_checkpoint(former):
    settings = apviz.TrainingSettings(solver=TRAINED_WITH, steps=3, probes=2)
    training = apviz.Training(*data(), settings, path=former / "training.zarr", dtype=torch.float64)
    assert training.steps_done == 2
    training.run()
    trace = apviz.open_trace(former / "training.zarr")
    assert trace["step"].sizes["step"] == 3 and trace.method == TRAINED_WITH.method


def test_a_saved_model_predicts_what_it_did(former):
    model = apviz.GaussianProcess.load(former / "model.npz")
    # in float32, whose sums another order of factors rounds otherwise
    np.testing.assert_allclose(model.predict(data()[0].numpy()), np.load(former / "mean.npy"), rtol=1e-6, atol=2e-7)


def test_former_traces_are_in_a_report_and_the_diagnosis_speaks_of_them(former, tmp_path):
    traces = [apviz.open_trace(former / f"{name}.zarr") for name in SOLVERS]
    page = write_report(traces, tmp_path / "report.html").read_text("utf-8")
    assert all(trace.label in page for trace in traces)
    assert all(diagnose(trace, traces) is not None for trace in traces)
