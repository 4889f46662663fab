"""Training and testing a Gaussian process as in the tables of the paper."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg

import apviz
from apviz.experiments import EXPERIMENTS, Options, measuring, run, sources
from apviz.experiments.running import folder_of
from apviz.experiments.sources import load


def dense_prediction(source, h):
    """Return mean and variance of y at the test rows by a Cholesky factor in float64."""
    x, z = (t.double().numpy() / np.array(h["lengthscale"]) for t in (source.data.train_x, source.data.test_x))

    def k(a, b):
        r = math.sqrt(5) * np.linalg.norm(a[:, None] - b[None], axis=2)
        return h["outputscale"] * (1 + r + r**2 / 3) * np.exp(-r)

    factor = scipy.linalg.cho_factor(k(x, x) + h["noise"] * np.eye(len(x)))
    mean = h["mean"] + k(z, x) @ scipy.linalg.cho_solve(factor, source.data.train_y.double().numpy() - h["mean"])
    variance = h["outputscale"] - (k(z, x).T * scipy.linalg.cho_solve(factor, k(x, z))).sum(0) + h["noise"]
    return mean, variance


@pytest.mark.parametrize("method", ["CG", "AP", "AP overlapping"])
def test_rmse_and_nll_equal_those_of_the_exact_gp_with_the_trained_hyperparameters(
    small, method, monkeypatch, tmp_path
):
    monkeypatch.setattr(sources, "TEST_TOL", 1e-4)
    monkeypatch.setattr(sources, "OURS", replace(sources.OURS, tol=1e-4))
    monkeypatch.setattr(sources, "REDUCED_MAX_TEST_EPOCHS", 400)
    monkeypatch.setattr(sources, "MIN_LANCZOS_RANK", 200)
    options = Options(200, "cpu", dataset="china")
    source = load("sgemm", "china", options)
    row = measuring.train_and_test(method, source, "matern52", 1e-4, 0, options, tmp_path / "a.zarr")
    mean, variance = dense_prediction(source, row["hyperparameters"])
    y = source.data.test_y.double().numpy()
    assert row["mean_converged"] and row["lanczos_rank"] == 200
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)), rel=1e-3)
    nll = np.mean(0.5 * np.log(2 * np.pi * variance) + (mean - y) ** 2 / (2 * variance))
    assert row["nll"] == pytest.approx(nll, rel=1e-2)


def test_the_noise_floor_of_a_training_is_kept(finished):
    _, rows, _ = finished("noise-floor")
    floors = {row["noise_floor"]: row["hyperparameters"]["noise"] for row in rows.values()}
    assert set(floors) == {0.1, 1e-4} and all(noise > floor for floor, noise in floors.items())


def test_an_interrupted_training_resumes_from_its_last_step(finished, look, tmp_path):
    """The interrupted solve is the third of the training; the first two are not repeated."""
    experiment = EXPERIMENTS["training"]
    options, uncut, _ = finished("training")
    options = replace(options, out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        list(run(experiment, replace(options, hooks=[look.Cut(solve=3, update=5)])))
    folder = folder_of(experiment, options)
    key = experiment.cells(options)[0].key
    assert not list(folder.glob("*.json"))
    assert len(apviz.open_trace(folder / f"{key}.zarr")["step"]["step"]) == 2
    hook = look.Cut()
    cells = run(experiment, replace(options, hooks=[hook]))
    _, row = next(cells)
    cells.close()
    assert hook.started == 1 + 1  # the third step, and the predictive mean
    assert look.same_but_for_time(row) == look.same_but_for_time(uncut[key])


def test_a_data_set_without_hyperparameters_is_trained_first_and_once(small, look, monkeypatch, tmp_path):
    entry = apviz.datasets.registry["china"]
    bare = replace(entry, card=replace(entry.card, hyperparameters=None))
    monkeypatch.setitem(apviz.datasets.registry, "china", bare)
    hook = look.Cut()
    experiment, options = EXPERIMENTS["test-time"], Options(200, "cpu", out=tmp_path, dataset="china", hooks=[hook])
    rows = {cell.key: row for cell, row in run(experiment, options)}
    assert list(rows) == ["china-training-seed0", "china-ap-seed0", "china-cg-seed0"]
    assert hook.started == measuring.STEPS + 2
    trace = apviz.open_trace(folder_of(experiment, options) / "china-training-seed0.zarr")
    noise = json.loads(trace.attrs["hyperparameters"])["noise"]
    solves = [apviz.open_trace(folder_of(experiment, options) / f"china-{m}-seed0.zarr") for m in ("ap", "cg")]
    assert [solve.attrs["noise"] for solve in solves] == pytest.approx([noise, noise])
    (table,) = experiment.tables(rows, options)
    assert f"{measuring.STEPS} Adam steps with Alternating projection (greedy, b = 50) on 200 rows" in table.note


def test_solves_of_a_training_that_did_not_converge_are_marked_in_the_table(small, monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "TRAINING_TOL", 1e-6)
    monkeypatch.setattr(sources, "MAX_TRAINING_EPOCHS", 11)
    monkeypatch.setattr(sources, "REDUCED_MAX_TEST_EPOCHS", 1)
    monkeypatch.setattr(sources, "TEST_TOL", 1e-6)
    experiment, options = EXPERIMENTS["training"], Options(200, "cpu", out=tmp_path, dataset="china")
    with warnings.catch_warnings(record=True):
        key, row = next((cell.key, row) for cell, row in run(experiment, options))
    assert not row["converged"] and not row["mean_converged"]
    (table,) = experiment.tables({key: row}, options)
    assert [cell.endswith("*") for cell in table.rows[0][2:]] == [True, False, False, False, True, False, True] + [
        False
    ] * 3
    assert "*: by solves that did not reach their tolerance." in table.note
