"""Benchmarks at a size that a test can afford: the same code, against dense NumPy and SciPy."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import apviz

needs_data = pytest.mark.skipif("APVIZ_DATA" not in os.environ, reason="APVIZ_DATA is not set: no sgemm here")


def dense(system: apviz.KernelSystem) -> np.ndarray:
    x = system.x.double().numpy() / np.array(system.kernel.lengthscale)
    r = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None], axis=2)
    k = system.kernel.outputscale * (1 + r + r**2 / 3) * np.exp(-r)
    return k + system.noise * np.eye(system.n)


def authors_schedule(k: np.ndarray, b: np.ndarray, size: int, epochs: int) -> list[float]:
    """Choose full blocks by the mean norm over right-hand sides, and the short block at the end of every epoch."""
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
def test_the_authors_schedule_on_sgemm_agrees_with_dense_numpy():
    from benchmarks.published_sgemm import EPOCHS, residuals, system

    sgemm = system(n=730)
    ours = residuals(sgemm, "end-of-epoch", 100, apviz.Recorder())
    expected = authors_schedule(dense(sgemm), sgemm.b.double().numpy(), 100, EPOCHS)
    assert ours == pytest.approx(expected, rel=2e-3)


@needs_data
def test_the_published_trace_follows_its_hyperparameters():
    """Hyperparameters of a record are those after its step, residuals those before: step 48 belongs to step 49."""
    published = apviz.datasets.published_hyperparameters("sgemm", step=48)
    assert published.hyperparameters.noise == pytest.approx(0.0065478129)
    assert apviz.datasets.published_hyperparameters("sgemm", step=49).residual_trace[0] == pytest.approx(0.9364203)


@needs_data
def test_every_training_starts_like_gpytorch_and_takes_the_same_steps():
    from benchmarks.training import GPYTORCH, LESS, METHODS, REFERENCE, compare, less_work, measure

    # not KeOps, which would compile its kernel first
    cells = {m: measure("sgemm", 150, m, steps=2) for m in METHODS if GPYTORCH.get(m) != "keops"}
    for method, cell in cells.items():
        in_stages = LESS.get(method, {}).get("stages", False)
        assert cell["steps"] == cell["asked"] == len(cell["by step"]["seconds"]) == (4 if in_stages else 2), method
        assert cell["by step"]["noise"][0] == pytest.approx(math.log(2) + 1e-4, rel=1e-4), method
        assert in_stages or cell["hyperparameters"]["noise"] == pytest.approx(
            cells[REFERENCE]["hyperparameters"]["noise"], rel=0.02
        ), method
    judged = {row["method"]: set(row.get("goals", {}).values()) for row in compare(cells)}
    assert set(judged) == set(cells) - {REFERENCE}
    assert judged["AP overlapping, to 0.01"] == judged["AP, the paper's, to 0.01"] == {"reached"}
    assert judged["AP, the paper's, to 1"] == set()
    assert [row["method"] for row in less_work(cells)] == list(LESS)


@needs_data
def test_log_likelihood_and_rmse_of_a_training_agree_with_scipy():
    from benchmarks.training import exact, load

    data = load("airquality", 200).data.with_test_rows(500)
    h = apviz.datasets.card("airquality").hyperparameters
    system = apviz.KernelSystem(data.train_x, data.train_y, h.build_kernel(), noise=h.noise, dtype=data.train_x.dtype)
    k, y = dense(system), data.train_y.numpy() - h.mean
    likelihood, error = exact(data, h)
    assert likelihood == pytest.approx(multivariate_normal(cov=k).logpdf(y) / 200, rel=1e-9)
    r = np.sqrt(5) * np.linalg.norm(
        (data.test_x.numpy()[:, None] - data.train_x.numpy()[None]) / np.array(h.lengthscale), axis=2
    )
    mean = h.mean + h.outputscale * ((1 + r + r**2 / 3) * np.exp(-r)) @ np.linalg.solve(k, y)
    assert error == pytest.approx(np.sqrt(np.mean((data.test_y.numpy() - mean) ** 2)), rel=1e-9)


def test_a_wrong_training_fails_its_goals_by_name():
    from benchmarks.training import OVERLAPPING, REFERENCE, compare

    def found(noise: float, likelihood: float, rmse: float) -> dict:
        return {"hyperparameters": {"noise": noise}, "log likelihood": likelihood, "test RMSE": rmse}

    cells = {REFERENCE: found(0.01, 1.0, 0.1), OVERLAPPING: found(0.0112, 0.995, 0.0985)}
    assert compare(cells)[0]["goals"] == {"noise": "missed", "log likelihood": "reached", "test RMSE": "missed"}


def test_less_work_is_compared_with_overlapping_at_a_hundredth_and_may_find_more():
    from benchmarks.training import LESS, OVERLAPPING, less_work

    def found(work: float, likelihood: float, rmse: float) -> dict:
        return {"work": work, "log likelihood": likelihood, "test RMSE": rmse}

    one, other = list(LESS)[:2]
    rows = less_work(
        {OVERLAPPING: found(250.0, 0.4, 0.1), one: found(50.0, 0.6, 0.05), other: found(51.0, 0.394, 0.102)}
    )
    assert [set(row["goals"].values()) for row in rows] == [{"reached"}, {"missed"}]
    assert rows[0]["against overlapping"] == {"work": 5.0, "log likelihood": 0.2, "test RMSE": -0.5}


@needs_data
def test_an_unfinished_training_is_extrapolated_and_not_judged():
    from benchmarks.training import LIMITS, REFERENCE, compare, measure, whole

    cells = {
        method: measure("sgemm", 150, method, steps=10_000, limit=0.1) for method in LIMITS if "KeOps" not in method
    }
    for cell in cells.values():
        assert cell["steps"] < 10_000
        assert whole(cell) > cell["seconds"]
        assert "test RMSE" not in cell
    assert compare({REFERENCE: measure("sgemm", 150, REFERENCE, steps=1), **cells}) == []


@needs_data
@pytest.mark.slow
def test_an_existing_cell_of_the_trainings_is_not_run_again(tmp_path):
    path = tmp_path / "training.json"
    command = [sys.executable, "-m", "benchmarks.training", "sgemm", "--n", "200", "--steps", "1"]
    command += ["--results", str(path), "--only", "Cholesky"]

    def run() -> str:
        root = Path(__file__).parents[1]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout

    assert "Cholesky, float64: 1 steps in" in run()
    first = json.loads(path.read_text())
    assert "1 steps in" not in run()
    assert json.loads(path.read_text()) == first


def test_cells_of_a_system_are_kept_until_the_system_changes(tmp_path, capsys):
    from benchmarks.machine import describe
    from benchmarks.solvers import cells_of_this_system

    about, path = {"n": 4, "lengthscale": (0.5, 1.0), "noise": 0.1}, tmp_path / "one.json"
    cells = {"CG": {"seconds": 1.0, "machine": describe()}}
    assert cells_of_this_system(path, about) == {}
    path.write_text(json.dumps(about | {"auto": "Cholesky", "cells": cells}))
    assert cells_of_this_system(path, about) == cells
    assert cells_of_this_system(path, about | {"noise": 0.2}) == {}
    assert capsys.readouterr().out == "one.json: 1 cells of another system are dropped\n"


def test_cells_of_another_machine_are_dropped(tmp_path, capsys):
    from benchmarks.machine import describe
    from benchmarks.solvers import cells_of_this_system

    here, path = {"seconds": 1.0, "machine": describe()}, tmp_path / "one.json"
    elsewhere = {"seconds": 0.1, "machine": describe() | {"processor": "Z80"}}
    path.write_text(json.dumps({"n": 4, "cells": {"CG": here, "B": elsewhere}}))
    assert cells_of_this_system(path, {"n": 4}) == {"CG": here}
    assert capsys.readouterr().out == "one.json: 1 cells of another machine are dropped\n"


def test_a_row_with_cells_from_two_machines_is_rejected():
    from benchmarks.table import machine_of

    fast, slow = ({"machine": {"processor": name, "threads": 2, "gpu": None}} for name in ("EPYC", "Z80"))
    row = {"dataset": "china", "n": 54_000, "right-hand sides": 16, "cells": {"CG": fast, "AP, the paper's": fast}}
    assert machine_of(row) == "EPYC, 2 cores"
    row["cells"]["AP, the paper's"] = slow
    with pytest.raises(ValueError, match=r"china, n = 54,000, 16 .*: cells are of 2 machines \(EPYC, 2 cores; Z80"):
        machine_of(row)


def test_the_ratio_to_gpytorch_uses_its_solve_or_else_its_iterations_times_those_of_cg():
    from benchmarks.solvers import AUTO, GPYTORCH
    from benchmarks.table import OTHER_CG, gpytorch_ratio

    def cell(**reached: float) -> dict:
        return {"reached": {"0.01": reached} if reached else {}, "epochs": 40}

    peer = cell() | {"seconds an iteration": 2.0}
    cells = {AUTO: cell(seconds=1.0), "CG": cell(), OTHER_CG[2]: cell(epochs=5), GPYTORCH: peer}
    row = {"auto": "AlternatingProjection", "cells": cells}
    assert gpytorch_ratio(row) == "≥ 10×"
    peer["seconds an iteration"] = 1.999
    assert gpytorch_ratio(row) == "≥ 9.9×"  # a bound is never rounded up
    cells[OTHER_CG[2]] = cell()
    assert gpytorch_ratio(row) == "> 79×"
    peer["reached"] = {"0.01": {"seconds": 30.0}}
    assert gpytorch_ratio(row) == "30×"


def test_a_run_without_time_for_another_cell_lists_the_remaining_ones(tmp_path, capsys, monkeypatch):
    from benchmarks import solvers

    monkeypatch.setattr(solvers, "FOLDER", tmp_path)
    solvers.run("diabetes", None, 1, 40.0, [], stop_at=time.monotonic() + 1)
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["cells"] == {}
    said = capsys.readouterr().out
    assert "methods are left for another run: auto, AP, the paper's, A: AP," in said and solvers.GPYTORCH in said


def test_a_cell_has_a_solve_for_every_reached_tolerance():
    from benchmarks import solvers

    cell = solvers.measure("diabetes", None, 1, "CG", limit=40.0)
    reached = [cell["reached"][str(tol)] for tol in solvers.TOLERANCES]
    assert [one["epochs"] for one in reached] == sorted(one["epochs"] for one in reached)
    assert all(one["checked residual"] < tol for one, tol in zip(reached, solvers.TOLERANCES, strict=True))
    assert cell["epochs"] == reached[0]["epochs"]
    cut = solvers.measure("diabetes", None, 1, "CG", limit=1e-6)
    assert cut["reached"] == {} and cut["stop"] == "stopped" and cut["work"] > 0


def test_cholesky_is_measured_to_every_tolerance():
    from benchmarks import solvers

    cell = solvers.measure("diabetes", None, 1, solvers.CHOLESKY, limit=40.0)
    assert list(cell["reached"]) == [str(tol) for tol in solvers.TOLERANCES]


def test_the_product_of_plain_torch_equals_that_of_the_dense_matrix():
    from benchmarks.columns_matmul import CHUNK, plain_torch

    rng = np.random.default_rng(0)
    x, u = rng.standard_normal((CHUNK + 7, 3)), rng.standard_normal((20, 2))
    s = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None, :20], axis=2) / 0.7
    expected = ((1 + s + s**2 / 3) * np.exp(-s)) @ u
    assert np.allclose(plain_torch(torch.from_numpy(x), 0.7, torch.from_numpy(u)), expected)


def test_the_regret_of_auto_is_counted_with_and_without_cholesky():
    from benchmarks.chooser import CHOLESKY, summary

    cells = {"auto": (2.0, True), "CG": (1.9, True), CHOLESKY: (1.0, True), "PCG 100": (0.5, False)}
    methods = {name: {"seconds": seconds, "converged": done} for name, (seconds, done) in cells.items()}
    found = summary([{"regret": 2.0, "methods": methods}])
    assert found["every method"]["worst"] == 2.0 and found["every method"]["above 1.2"] == 1
    assert found["without Cholesky"]["worst"] == 1.05 and found["without Cholesky"]["above 1.2"] == 0


def test_the_table_of_small_systems_matches_the_results():
    from benchmarks.chooser import rows_kept, table
    from benchmarks.machine import RESULTS

    page = (RESULTS.parent / "README.md").read_text("utf-8")
    shown = page.partition("<!-- of results/chooser_small.json -->\n")[2].partition("\n\n")[0]
    assert shown.splitlines() == table(rows_kept("chooser_small"))


def test_the_table_of_systems_that_judge_matches_the_results_and_has_all_thirty():
    from benchmarks.chooser import judged, rows_kept
    from benchmarks.judging import JUDGES
    from benchmarks.machine import RESULTS

    rows = rows_kept("chooser_judging")
    page = (RESULTS.parent / "README.md").read_text("utf-8")
    shown = page.partition("<!-- of results/chooser_judging.json -->\n")[2].partition("\n\n")[0]
    assert shown.splitlines() == judged(rows)
    assert {row["system"] for row in rows} == {judge.name for judge in JUDGES} and len(JUDGES) == 30


def test_the_table_of_default_trainings_matches_the_results():
    from benchmarks.default_fit import ROWS, SETS, WAYS, table
    from benchmarks.machine import RESULTS

    cells = json.loads((RESULTS / "default_fit.json").read_text())["results"]
    page = (RESULTS.parent / "README.md").read_text("utf-8")
    shown = page.partition("<!-- of results/default_fit.json -->\n")[2].partition("\n\n")[0]
    assert shown.splitlines() == table(cells)
    assert set(cells) == {f"{name}, {n:,}: {way}" for name in SETS for n in ROWS for way in WAYS}


@pytest.mark.parametrize("part", ["prediction_seconds", "prediction_tables"])
def test_the_table_of_seconds_to_predictions_matches_the_results(part):
    from benchmarks.machine import RESULTS
    from benchmarks.prediction_seconds import table, table_of_tables

    cells = json.loads((RESULTS / f"{part}.json").read_text())["results"]
    page = (RESULTS.parent / "README.md").read_text("utf-8")
    shown = page.partition(f"<!-- of results/{part}.json -->\n")[2].partition("\n\n")[0]
    assert shown.splitlines() == {"prediction_seconds": table, "prediction_tables": table_of_tables}[part](cells)


def test_systems_that_judge_are_drawn_with_a_fixed_seed():
    from benchmarks.judging import JUDGES, draw

    smallest = min(JUDGES, key=lambda judge: judge.n)
    one, again = smallest.system(), draw(smallest.number).system()
    assert torch.equal(one.b, again.b) and torch.equal(one.operator.x, again.operator.x)


def test_the_seconds_of_a_botorch_step_match_the_results():
    from benchmarks.machine import RESULTS

    kept = json.loads((RESULTS / "botorch_step.json").read_text())["results"]
    page = (RESULTS.parent / "README.md").read_text()
    for name, cell in kept.items():
        rows, way = name.split(", ")
        assert f"| {rows} | {way} | {cell['fit']:.1f} | {cell['proposal']:.1f} | {cell['samples']:.1f} |" in page


def test_a_botorch_step_proposes_the_same_point_as_natively():
    from apviz.gpytorch import alternating_projection
    from benchmarks.botorch_step import step

    native, ours = step(60, nullcontext()), step(60, alternating_projection())
    np.testing.assert_allclose(ours["candidate"], native["candidate"], atol=1e-4)


def test_a_summary_of_advice_counts_right_forecasts_convergence_and_regret():
    from benchmarks.advisor import summary

    def method(forecast, took, chance=0.9, reason="converged"):
        band = (forecast, forecast, forecast)
        expected = {"seconds": band, "work": band, "chance": chance}
        return {"forecast": expected, "seconds": took, "work": took, "reason": reason}

    unfinished = method(1.0, 9.0, 0.9, "max_epochs")
    rows = [
        {"advised": "a", "advice seconds": 1.0, "methods": {"a": method(1.0, 1.4), "b": method(4.0, 2.1)}},
        {"advised": "a", "advice seconds": 0.5, "methods": {"a": method(2.0, 6.0), "b": method(3.0, 3.0, 0.2)}},
        {"advised": "b", "advice seconds": 0.0, "methods": {"a": unfinished, "b": method(1.0, 1.0)}},
    ]
    found = summary(rows)
    assert (found["cells"], found["seconds within 1.5"], found["seconds within 2"]) == (5, 0.6, 0.8)
    assert found["work within 2"] == 0.8
    assert (found["said not to converge, and did"], found["said to converge, and did not"]) == (1, 1)
    assert (found["the quickest was advised"], found["regret, median"]) == (2, 1.0)
    assert found["regret with the advice, median"] == pytest.approx(2.4 / 1.4, abs=1e-3)
    assert found["brief"] == {}
    usual = method(2.0, 2.0) | {"forecast": {"seconds": (2.0, 1.0, 8.0), "work": (2.0, 1.0, 8.0), "chance": 0.9}}
    rows[0]["methods"]["Automatic"] = usual
    rows[0]["brief"] = {"advised": "Automatic", "seconds": 0.07, "forecasts": {"Automatic": (2.0, 1.0, 8.0)}}
    rows[1]["brief"] = {"advised": "a", "seconds": 0.6, "forecasts": {"a": (2.0, 1.0, 4.0)}}
    brief = summary(rows)["brief"]
    assert (brief["systems"], brief["tested"], brief["at most a tenth"]) == (2, 1, 1)
    assert (brief["forecasts of tests"], brief["seconds within 2"], brief["seconds within their range"]) == (1, 0, 1)
    assert brief["its share of the quickest, median"] == pytest.approx((0.07 / 1.4 + 0.6 / 3.0) / 2, abs=1e-3)
    assert brief["regret, median"] == pytest.approx((2.0 / 1.4 + 2.0) / 2, abs=1e-3)
    assert summary(rows)["cells"] == 5


def test_the_table_of_brief_advice_has_the_figures_of_its_results():
    from benchmarks.machine import RESULTS

    summary = json.loads((RESULTS / "advisor_brief.json").read_text())["results"]["summary"]
    brief, page = summary["brief"], (RESULTS.parent / "README.md").read_text("utf-8")
    shown = page.partition("<!-- of results/advisor_brief.json -->\n")[2].partition("\n\n")[0]
    shares = [brief["its share of the quickest, median"], summary["the advice's own share of the quickest, median"]]
    assert "median | 0.1 | {:.2g} | {:.2g} |".format(*shares) in shown
    assert f"| {brief['tested']} of {brief['systems']} |" in shown
    assert f"| {brief['seconds within 1.5']} of {brief['forecasts of tests']} |" in shown
    both = [f"{each['regret, median']:.2f}, {each['regret, 95%']:.2f}" for each in (brief, summary)]
    assert f"| {both[0]} | {both[1]} |" in shown


# --- predictions next to rivals ---------------------------------------------------------------------------------------


def test_a_method_that_knows_the_depth_has_no_error_and_the_nats_of_the_noise(monkeypatch):
    from benchmarks import prediction_rivals as rivals

    def exact(x, y):
        return lambda z: (rivals.depth(z - rivals.OFFSET), np.full(len(z), rivals.NOISE))

    monkeypatch.setitem(rivals.METHODS, "exact", exact)
    found = rivals.cell("exact", 1_000)
    assert found["rmse"] < 1e-6 and found["coverage"] == pytest.approx(0.95, abs=0.02)
    assert found["nll"] == pytest.approx(0.5 * math.log(2 * math.pi * math.e * rivals.NOISE**2), abs=0.1)


def test_cells_of_rivals_that_take_too_long_end_and_larger_ones_are_not_tried(monkeypatch, tmp_path, capsys):
    from benchmarks import prediction_seconds as seconds

    asked = []

    def run(python, method, n, limit):
        asked.append((method, n))
        return {"unfinished": limit} if method == "PyKrige" else {"fit": 1.0}

    monkeypatch.setattr(seconds, "run", run)
    monkeypatch.setattr(seconds, "RESULTS", tmp_path)
    monkeypatch.setattr("benchmarks.machine.RESULTS", tmp_path)
    monkeypatch.setattr(seconds, "interpreter", lambda method: None if "GPBoost" in method else sys.executable)
    monkeypatch.setattr(sys, "argv", ["prediction_seconds", "--sizes", "1000", "2000", "20000"])
    seconds.main()
    assert [n for method, n in asked if method == "PyKrige"] == [1_000]
    assert [n for method, n in asked if method == "scikit-learn"] == [1_000, 2_000]
    assert not any("GPBoost" in method for method, _ in asked)
    done = len(asked)
    seconds.main()  # resumes: nothing is left
    assert len(asked) == done
    cells = json.loads((tmp_path / "prediction_seconds.json").read_text())["results"]
    assert "left_out" in cells["scikit-learn: n = 20,000"]


def test_the_range_of_a_forecast_held_for_19_of_20_recorded_solves():
    from apviz.advice.forecast import SPREAD
    from benchmarks.machine import RESULTS

    rows = json.loads((RESULTS / "advisor.json").read_text())["results"]["rows"]
    done = [each for row in rows for each in row["methods"].values() if each["reason"] == "converged"]
    done = [each for each in done if "forecast" in each]
    page = " ".join((RESULTS.parent / "README.md").read_text().split())
    for name in ("seconds", "work"):
        ratios = np.array([each[name] / each["forecast"][name][0] for each in done])
        held = float(((ratios >= 1 / SPREAD) & (ratios <= SPREAD)).mean())
        assert held >= 0.95 and "at least 95% of these seconds, and of the work, are within a factor of 2" in page
