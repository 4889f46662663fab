"""`apviz fit`, as a user runs it: hyperparameters in the units of the table, what is said, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import Matern
from typer.testing import CliRunner

import apviz
from apviz import cli
from apviz.gp.estimator import fitting
from tests.cli.soundings import DEPTH, GIVEN, NEW, predict, run, said, soundings


def test_trained_hyperparameters_are_printed_in_the_units_of_the_table_and_predict_as_dense_algebra(tmp_path):
    DEPTH.to_csv(tmp_path / "depth.csv", index=False)
    done = run("fit", tmp_path / "depth.csv", "--target", "z", "--inputs", "east,north", "--out", tmp_path / "m.apviz")
    assert done.exit_code == 0, done.output
    gp = apviz.GaussianProcess.load(tmp_path / "m.apviz")
    h = gp.scaling_.to_raw(gp.hyperparameters_)
    text = said(done)
    for words in (
        "depth.csv: 120 rows, d = 2, target z", f"lengthscale of “east” {h.lengthscale[0]:.3g}", "signal sd",
        f"noise sd {h.noise**0.5:.3g} in units of z", "Leave-one-out on 120 rows", "nats a row", "95% interval",
    ):  # fmt: skip
        assert words in text
    NEW.to_csv(tmp_path / "new.csv", index=False)
    predict(tmp_path, tmp_path / "new.csv", out="p.csv")
    x, points = DEPTH[["east", "north"]].to_numpy(), NEW[["east", "north"]].to_numpy()
    kernel = h.outputscale * Matern(h.lengthscale, nu=2.5)
    weights = np.linalg.solve(kernel(x) + h.noise * np.eye(len(x)), DEPTH["z"] - h.mean)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["mean"], h.mean + kernel(points, x) @ weights, rtol=1e-6)


def test_fewer_rows_are_said_with_their_number(tmp_path):
    DEPTH.to_csv(tmp_path / "depth.csv", index=False)
    options = ("--target", "z", "--inputs", "east,north", "--n", "80", "--training-rows", "50", "--check", "30")
    done = run("fit", tmp_path / "depth.csv", *options, "--out", tmp_path / "m.apviz")
    assert done.exit_code == 0, done.output
    for words in (
        "depth.csv: 80 of 120 rows", "hyperparameters from 50 of 80 rows, at random",
        "Leave-one-out on 30 of 80 rows, at random",
    ):  # fmt: skip
        assert words in said(done)
    assert apviz.GaussianProcess.load(tmp_path / "m.apviz").posterior_.system.n == 80


def test_ctrl_c_during_a_fit_leaves_no_model(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    DEPTH.to_csv(tmp_path / "depth.csv", index=False)
    monkeypatch.setattr(fitting, "train", interrupted)
    done = run("fit", tmp_path / "depth.csv", "--target", "z", "--out", tmp_path / "m.apviz")
    assert done.exit_code == 130 and "interrupted: nothing was written" in said(done)
    assert [path.name for path in tmp_path.iterdir()] == ["depth.csv"]


def test_a_data_set_of_apviz_can_be_fitted(tmp_path):
    given = ("--lengthscale", "0.1", "--outputscale", "5000", "--noise", "3000", "--n", "100", "--check", "0")
    done = run("fit", "diabetes", "--out", tmp_path / "m.apviz", *given)
    assert done.exit_code == 0 and "100 of 442 rows, d = 10" in said(done), done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "say which column to predict with --target NAME"),
        (("--target", "depth"), "has no such column"),
        (("--target", "z", "--noise", "1"), "--lengthscale, --outputscale and --noise go together"),
        (("--target", "z", "--lengthscale", "1,2,3,4", "--outputscale", "1", "--noise", "1"), "--lengthscale takes 1"),
        (("--target", "z", "--lengthscale", "1", "--outputscale", "1", "--noise", "0"), "--noise is the variance"),
        (("--target", "z", "--kernel", "cosine"), "kernel must be one of"),
        (("--target", "z", "--n", "500"), "n must be at most that number"),
        (("--target", "z", "--missing", "guess"), "missing = 'guess'"),
    ],
)
def test_invalid_options_of_fit_are_refused_before_any_work(tmp_path, options, message):
    DEPTH.to_csv(tmp_path / "depth.csv", index=False)
    done = run("fit", tmp_path / "depth.csv", "--out", tmp_path / "m.apviz", *options)
    assert done.exit_code == 2 and message in said(done), done.output
    assert not (tmp_path / "m.apviz").exists()


def test_equal_inputs_are_merged_and_the_report_says_so(tmp_path):
    rng = np.random.default_rng(0)
    x = np.repeat(np.linspace(0, 1, 40), 5)
    pd.DataFrame({"x": x, "y": np.sin(6 * x) + 0.1 * rng.standard_normal(200)}).to_csv(tmp_path / "t.csv", index=False)
    command = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "t.apviz")]
    result = CliRunner().invoke(cli.app, command)
    said = " ".join(result.output.split())
    assert result.exit_code == 0, result.output
    assert "200 rows at 40 distinct inputs: solved as 40 rows" in said
    assert "Leave-one-out on 40 distinct inputs" in said


@pytest.mark.parametrize(("noise", "sentence"), [(0.49, ""), (0.01, "too narrow"), (40.0, "wider than they need")])
def test_intervals_that_do_not_suit_the_table_are_said(tmp_path, noise, sentence):
    soundings(300).to_csv(tmp_path / "depth.csv", index=False)
    model = [*GIVEN[: GIVEN.index("--noise")], "--noise", noise, *GIVEN[GIVEN.index("--noise") + 2 :]]
    table = ("fit", tmp_path / "depth.csv", "--target", "z", "--inputs", "east,north")
    done = run(*table, "--out", tmp_path / "m", *model)
    assert "within their 95% interval" in said(done)
    assert ("intervals are" in said(done)) == bool(sentence) and sentence in said(done)


def test_the_floor_of_the_noise_is_a_share_of_the_targets_variance(tmp_path):
    east = np.linspace(0, 900, 60)
    pd.DataFrame({"east": east, "z": 50 * np.sin(east / 100)}).to_csv(tmp_path / "smooth.csv", index=False)
    words = ("--target", "z", "--out", tmp_path / "m.apviz", "--noise-floor", "0.001")
    done = run("fit", tmp_path / "smooth.csv", *words)
    assert done.exit_code == 0, done.output
    gp = apviz.GaussianProcess.load(tmp_path / "m.apviz")
    assert gp.hyperparameters_.noise == pytest.approx(0.001, rel=0.01)
    assert "noise_floor = 0.001" in said(done)
    assert run("fit", tmp_path / "smooth.csv", *words[:-1], "-1", "--force").exit_code == 2
