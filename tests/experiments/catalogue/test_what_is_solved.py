"""Each experiment solves the systems of the paper, and its table marks solves that did not converge."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg

import apviz
from apviz.experiments import EXPERIMENTS, Options, measuring, run, sources
from apviz.experiments.catalogue import batch_size, convergence, lanczos_rank, test_time
from apviz.experiments.catalogue.training import GAS_SENSORS_SCHEDULE


def run_small(name, folder, **options):
    chosen = Options(200, "cpu", out=folder, dataset="china", **options)
    with warnings.catch_warnings(record=True):  # trainings that do not converge warn
        rows = {cell.key: row for cell, row in run(EXPERIMENTS[name], chosen)}
    return EXPERIMENTS[name].tables(rows, chosen)


def test_the_nll_by_solves_and_at_full_rank_equals_that_of_the_exact_gp(small, monkeypatch, tmp_path):
    monkeypatch.setattr(lanczos_rank, "OURS", replace(sources.OURS, tol=1e-4))
    monkeypatch.setattr(lanczos_rank, "TOL", 1e-4)
    (table,) = run_small("lanczos-rank", tmp_path)
    data, h = apviz.datasets.load("china", n=200).with_test_rows(40), apviz.datasets.card("china").hyperparameters
    assert h.kernel == "matern52"
    x, z = (t.double().numpy() / np.array(h.lengthscale) for t in (data.train_x, data.test_x))
    y, test_y = data.train_y.double().numpy(), data.test_y.double().numpy()

    def k(a, b):
        r = math.sqrt(5) * np.linalg.norm(a[:, None] - b[None], axis=2)
        return h.outputscale * (1 + r + r**2 / 3) * np.exp(-r)

    factor = scipy.linalg.cho_factor(k(x, x) + h.noise * np.eye(200))
    mean = h.mean + k(z, x) @ scipy.linalg.cho_solve(factor, y - h.mean)
    variance = h.outputscale - (k(z, x).T * scipy.linalg.cho_solve(factor, k(x, z))).sum(0) + h.noise
    nll = np.mean(0.5 * np.log(2 * np.pi * variance) + (mean - test_y) ** 2 / (2 * variance))
    (row,) = table.rows
    assert table.headings[1:] == ["rank 10", "rank 20", "rank 50", "rank 100", "rank 200", "by solves"]
    assert float(row[-1]) == pytest.approx(nll, abs=5e-3) and float(row[-2]) == pytest.approx(nll, abs=5e-3)
    assert "40 test rows" in table.note


@pytest.mark.parametrize(
    ("name", "module", "setting"),
    [
        ("convergence", convergence, "REDUCED_MAX_EPOCHS"),
        ("batch-size", batch_size, "MAX_EPOCHS"),
        ("test-time", test_time, "REDUCED_MAX_EPOCHS"),
    ],
)
def test_the_row_of_a_solve_that_hits_its_limit_is_marked(small, look, monkeypatch, tmp_path, name, module, setting):
    monkeypatch.setattr(module, setting, 1)
    (table,) = run_small(name, tmp_path)
    ended = look.column(table, "ended")
    assert "Not converged: epoch limit" in ended
    for row, how in zip(table.rows, ended, strict=True):
        assert any(cell == "> 1" for cell in row) == (how != "Converged")


def test_a_predictive_mean_that_did_not_converge_has_a_star_with_its_footnote(small, look, monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "REDUCED_MAX_TEST_EPOCHS", 1)
    (table,) = run_small("predictive-mean", tmp_path)
    stars = dict(zip(look.column(table, "method"), look.column(table, "CG iterations or AP epochs"), strict=True))
    assert stars["CG"] == stars["AP"] == "1*" and not stars["AP overlapping"].endswith("*")
    assert "did not reach their tolerance" in table.note


def test_variances_by_solves_that_did_not_converge_have_a_star(small, look, monkeypatch, tmp_path):
    monkeypatch.setattr(lanczos_rank, "OURS", replace(sources.OURS, tol=1e-6, max_epochs=1))
    (table,) = run_small("lanczos-rank", tmp_path)
    assert look.column(table, "by solves")[0].endswith("*") and "*: not all solves converged" in table.note


def test_steps_of_a_training_whose_solves_did_not_converge_are_counted(small, look, monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "TRAINING_TOL", 1e-6)
    monkeypatch.setattr(sources, "MAX_TRAINING_EPOCHS", 11)
    (table,) = run_small("conditioning", tmp_path)
    assert look.column(table, "not converged") == [str(measuring.STEPS)] * 2
    assert look.column(table, "all steps") == [str(11 * measuring.STEPS)] * 2


def test_svgp_on_gas_sensors_uses_the_epochs_of_the_appendix():
    assert GAS_SENSORS_SCHEDULE == ((50, 0.01), (350, 0.001))
