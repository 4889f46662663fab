"""The description of inputs and targets in a trace, and the sign before its condition number."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.report import find_traces, write_report
from apviz.tracing.trace import common_sign, sign_of
from tests.device import DEVICE


def traced(x, y, kernel, noise, **settings):
    system = apviz.KernelSystem(x, y, kernel, noise=noise, device=DEVICE, **settings)
    recorder = apviz.Recorder()
    apviz.solve(system, apviz.ConjugateGradient(tol=0.5), [recorder])
    return recorder.trace


def matern52(x, lengthscale):
    scaled = math.sqrt(5) * cdist(x, x) / lengthscale
    return (1 + scaled + scaled**2 / 3) * np.exp(-scaled)


def test_duplicate_rows_are_counted_whatever_the_sign_of_a_zero():
    x = np.random.default_rng(0).standard_normal((50, 3))
    x[0] = [0.0, 1.0, -0.0]
    again = np.concatenate([x, x[:20] * 1.0, [[-0.0, 1.0, 0.0]]])
    assert traced(again, np.ones(71), apviz.RBF(), 0.1).attrs["distinct_rows"] == 50
    assert traced(x, np.ones(50), apviz.RBF(), 0.1).attrs["distinct_rows"] == 50


def test_a_spread_is_a_deviation_in_lengthscales_and_zero_for_inputs_that_the_kernel_ignores():
    x = np.random.default_rng(0).standard_normal((400, 3)) * [2.0, 30.0, 5.0]
    kernel = apviz.Matern52(lengthscale=0.5).on([0]) + apviz.RBF(lengthscale=3.0).on([0, 1])
    spreads = traced(x, np.ones(400), kernel, 0.1).attrs["input_spreads"]
    assert spreads == pytest.approx([x[:, 0].std() / 0.5, x[:, 1].std() / 3.0, 0.0])


def test_zero_right_hand_sides_are_listed():
    x, b = np.linspace(0, 1, 40)[:, None], np.ones((40, 3))
    b[:, [0, 2]] = 0.0
    assert traced(x, b, apviz.RBF(), 0.1).attrs["zero_right_hand_sides"] == [0, 2]


def test_kappa_of_distinct_rows_equals_that_of_the_merged_system():
    x = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    trace = traced(np.tile(x, (3, 1)), np.ones(240), apviz.Matern52(lengthscale=0.2), 0.01)
    values = np.linalg.eigvalsh(matern52(x, 0.2) + 0.01 / 3 * np.eye(80))
    assert trace["spectrum"].attrs["kappa_of_distinct_rows"] == pytest.approx(values[-1] / values[0], rel=1e-6)
    assert "kappa_of_distinct_rows" not in traced(x, np.ones(80), apviz.RBF(), 0.1)["spectrum"].attrs


def test_outliers_equal_columns_and_row_numbers_are_recorded_and_shown_in_the_report(tmp_path):
    x = np.random.default_rng(0).uniform(size=(120, 4))
    x[:, 1], x[:, 2], x[5, 3] = x[:, 0], np.arange(120), 1e6
    y = np.sin(x[:, 0])
    y[7] = -1e4
    trace = traced(x, y, apviz.RBF(), 0.1)
    assert [each["kind"] for each in trace.attrs["oddities"]] == [
        "outlier in inputs", "outlier in targets", "equal columns", "ID-like column",
    ]  # fmt: skip
    assert trace.oddities[0].startswith("column 4 is 1e+06 in row 6, ")
    trace.save(tmp_path / "run.zarr")
    page = write_report(find_traces(tmp_path), tmp_path / "report.html").read_text("utf-8")
    assert "About the data: column 4 is 1e+06 in row 6" in page and "column 1 and column 2 are equal" in page


def test_healthy_data_have_no_oddities():
    x = np.random.default_rng(0).uniform(size=(120, 3))
    assert traced(x, np.sin(5 * x[:, 0]), apviz.RBF(), 0.1).attrs["oddities"] == []


def test_the_description_of_the_data_is_read_back_from_disk(tmp_path):
    x = np.tile(np.random.default_rng(0).uniform(-1, 1, (30, 2)), (2, 1))
    trace = traced(x, np.zeros(60), apviz.RBF(), 0.1)
    trace.save(tmp_path / "run.zarr")
    read = apviz.open_trace(tmp_path / "run.zarr")
    for name in ("distinct_rows", "input_spreads", "zero_right_hand_sides", "oddities"):
        assert read.attrs[name] == trace.attrs[name]
    assert read["spectrum"].attrs == trace["spectrum"].attrs


@pytest.mark.parametrize(
    ("n", "noise", "kernel", "sign"),
    [
        (100, 0.1, apviz.Matern52(lengthscale=0.2), "="),
        (100, 1e-15, apviz.RBF(lengthscale=1.0), "≤"),
        (1_100, 0.1, apviz.Matern52(lengthscale=0.2), "≈"),
    ],
)
def test_kappa_is_marked_as_exact_bound_or_estimate(n, noise, kernel, sign):
    x = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    trace = traced(x, np.sin(5 * x[:, 0]), kernel, noise, dtype=torch.float64)
    assert trace.condition().startswith(f"κ {sign} ")
    if sign == "≤":  # rounding hides λmin, which is at least σ²
        assert float(trace["spectrum"]["kappa"]) == pytest.approx(float(trace["spectrum"]["lambda_max"]) / noise)
        assert sign_of(trace["spectrum"], "lambda_min") == "≥" and sign_of(trace["spectrum"], "lambda_max") == "="


def test_several_numbers_together_get_the_weakest_of_their_signs():
    assert [common_sign(each) for each in ("=", "==", "=≤", "≤≤", "=≈", "≤≈", "≤≥", "")] == [*"==≤≤≈≈≈="]
