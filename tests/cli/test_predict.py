"""`apviz predict`, as a user runs it; scikit-learn is the oracle for means and deviations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm

import apviz
from apviz.datasets.tables import batches
from apviz.table_models import predicting
from tests.cli.soundings import DEPTH, GIVEN, NEW, NOISE, expected, predict, run, said


def test_mean_sd_and_interval_of_the_function_equal_those_of_scikit_learn(folder):
    text = predict(folder, folder / "new.csv", out="f.csv")
    found = pd.read_csv(folder / "f.csv")
    mean, sd = expected(NEW[["east", "north"]].to_numpy())
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-8)
    np.testing.assert_allclose(found["sd"], sd, rtol=1e-6)
    np.testing.assert_allclose(found["lower"], mean + norm.ppf(0.025) * sd, rtol=1e-6)
    np.testing.assert_allclose(found["upper"], mean + norm.ppf(0.975) * sd, rtol=1e-6)
    assert "sd and 95% interval of the function f, without noise; in units of z" in text
    assert "below a millionth of the uncertainty" in text and "90 rows in" in text


def test_an_observation_has_the_variance_of_the_function_plus_that_of_the_noise(folder):
    text = predict(folder, folder / "new.csv", "--observation", "--level", "0.5", out="y.csv")
    found = pd.read_csv(folder / "y.csv")
    mean, sd = expected(NEW[["east", "north"]].to_numpy())
    np.testing.assert_allclose(found["sd"] ** 2, sd**2 + NOISE, rtol=1e-6)
    np.testing.assert_allclose(found["upper"], mean + norm.ppf(0.75) * np.sqrt(sd**2 + NOISE), rtol=1e-6)
    assert "50% interval of a new observation y, noise included" in text


def test_slices_change_no_prediction_and_only_the_mean_can_be_asked_for(folder, monkeypatch):
    predict(folder, folder / "new.csv", out="whole.parquet")
    whole = pd.read_parquet(folder / "whole.parquet")
    for module, name, size in ((predicting, "MAX_BATCH", 7), (predicting, "MOST_ERRORS", 20), (batches, "BATCH", 20)):
        monkeypatch.setattr(module, name, size)
    for ending, read in (("parquet", pd.read_parquet), ("csv", pd.read_csv)):
        predict(folder, folder / "new.csv", out=f"sliced.{ending}")
        sliced = read(folder / f"sliced.{ending}")
        pd.testing.assert_frame_equal(sliced[["mean", "sd"]], whole[["mean", "sd"]], rtol=1e-9)
        assert sliced["id"].tolist() == list(range(90)) and sliced["boat"].tolist() == NEW["boat"].tolist()
    predict(folder, folder / "new.csv", "--no-sd", out="mean.csv")
    mean = pd.read_csv(folder / "mean.csv")
    np.testing.assert_allclose(mean["mean"], whole["mean"], rtol=1e-12)
    assert list(mean.columns) == [*NEW.columns, "mean"]


def test_a_bad_value_in_the_last_batch_is_said_before_anything_is_predicted(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 20)
    monkeypatch.setattr(apviz.GaussianProcess, "predict", None)  # it would fail
    NEW.astype({"east": str}).replace({"east": {str(NEW["east"].iloc[-1]): "far"}}).to_csv(tmp_path / "t.csv")
    text = predict(folder, tmp_path / "t.csv", out="never.csv", code=2)
    assert "1 values of east are not numbers (“far”) and count as missing" in text
    assert "east has no value in row 90; 1 of 90 rows lack a value" in text
    assert not list(folder.glob("*never*"))


def test_columns_are_found_by_name_and_others_are_copied(folder):
    predict(folder, folder / "new.csv", out="a.csv")
    a = pd.read_csv(folder / "a.csv")
    assert list(a.columns) == [*NEW.columns, "mean", "sd", "lower", "upper"]
    table = NEW[["id", "east", "boat", "north"]].assign(mean=1.0, tracks=[[1, 2]] * len(NEW))
    table.to_parquet(folder / "other.parquet")
    text = predict(folder, folder / "other.parquet", out="b.parquet")
    b = pd.read_parquet(folder / "b.parquet")
    pd.testing.assert_frame_equal(a[["id", "mean", "sd"]], b[["id", "mean", "sd"]], rtol=1e-10)
    assert "columns that are not copied: tracks, mean" in text and "tracks" not in b


def test_a_missing_column_is_named_with_those_of_the_file(folder):
    NEW.rename(columns={"east": "East"}).to_csv(folder / "renamed.csv", index=False)
    text = predict(folder, folder / "renamed.csv", out="none.csv", code=2)
    assert "has no column east, which the model needs; it has north, East, boat, id. Add or rename the column" in text
    NEW.assign(east="far").to_csv(folder / "far.csv", index=False)
    assert "but numbers in the training rows" in predict(folder, folder / "far.csv", out="none.csv", code=2)
    assert not (folder / "none.csv").exists()


def test_rows_with_missing_inputs_are_refused_or_stay_in_their_place_with_empty_predictions(folder):
    NEW.assign(east=NEW["east"].where(NEW["id"] != 6)).to_csv(folder / "gap.csv", index=False)
    text = predict(folder, folder / "gap.csv", out="gap-out.csv", code=2)
    assert "east has no value in row 7; 1 of 90 rows lack a value" in text and "--missing empty" in text
    assert not (folder / "gap-out.csv").exists()
    predict(folder, folder / "new.csv", out="full.csv")
    full = pd.read_csv(folder / "full.csv")
    for ending, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        predict(folder, folder / "gap.csv", "--missing", "empty", out=f"gap-out.{ending}")
        found = read(folder / f"gap-out.{ending}")
        assert found["id"].tolist() == list(range(90)) and found.loc[6, ["mean", "sd"]].isna().all()
        np.testing.assert_allclose(found["mean"].drop(6), full["mean"].drop(6), rtol=1e-10)


def test_texts_dates_and_filled_values_mean_in_new_rows_what_they_meant_in_the_training_rows(tmp_path):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({
        "day": pd.date_range("2020-02-01 06:30", periods=100, freq="D"),
        "town": rng.choice(["Oslo", "Bergen", "Moss"], 100),
        "wind": np.where(rng.uniform(size=100) < 0.1, np.nan, rng.uniform(0, 9, 100)),
        "price": rng.standard_normal(100),
    })  # fmt: skip
    table.to_csv(tmp_path / "all.csv", index=False)
    options = ("--target", "price", "--missing", "fill", "--lengthscale", "20", "--outputscale", "1", "--noise", "0.2")
    done = run("fit", tmp_path / "all.csv", *options, "--out", tmp_path / "m.apviz")
    assert done.exit_code == 0, done.output
    predict(tmp_path, tmp_path / "all.csv", out="p-all.csv")
    whole = pd.read_csv(tmp_path / "p-all.csv")
    for some in (table.iloc[[40]], table[table["town"] == "Moss"], table.iloc[60:].sample(frac=1, random_state=0)):
        some.drop(columns="price").to_csv(tmp_path / "some.csv", index=False)
        predict(tmp_path, tmp_path / "some.csv", "--force", out="p-some.csv")
        found = pd.read_csv(tmp_path / "p-some.csv")
        np.testing.assert_allclose(found["mean"], whole["mean"].to_numpy()[some.index], rtol=1e-9)
    table.replace({"town": {"Moss": "Paris"}}).to_csv(tmp_path / "paris.csv", index=False)
    text = predict(tmp_path, tmp_path / "paris.csv", out="p-paris.csv", code=2)
    row = int((table["town"] == "Moss").to_numpy().argmax()) + 1
    assert "texts that no training row had count as missing: town (Paris)" in text
    assert f"town has no value in row {row}; {(table['town'] == 'Moss').sum()} of 100 rows" in text


def test_predicted_dates_are_days_since_a_moment_that_every_output_names(tmp_path):
    days = pd.Series(np.random.default_rng(0).permutation(40) / 2)
    first = pd.Timestamp("2020-02-01 06:30")
    table = pd.DataFrame({"v": days, "ripe": first + pd.to_timedelta(days, unit="D")})
    table.to_csv(tmp_path / "t.csv", index=False)
    given = ("--lengthscale", "10", "--outputscale", "100", "--noise", "1e-4", "--check", "0")
    fitted = run("fit", tmp_path / "t.csv", "--target", "ripe", "--out", tmp_path / "m.apviz", *given)
    predicted = predict(tmp_path, "--grid", "5", out="g.nc")
    grid = xr.load_dataset(tmp_path / "g.nc")
    # at v the date is v days after the first, of which all outputs must give the time of day
    np.testing.assert_allclose(grid["mean"], grid["v"], atol=0.1)
    for output in (said(fitted), predicted, grid["mean"].attrs["long_name"], grid.attrs["title"]):
        assert "days since 2020-02-01 06:30:00" in " ".join(output.split())


def test_existing_files_are_replaced_only_on_request_and_never_if_they_are_something_else(folder):
    before = (folder / "m.apviz").read_bytes()
    fit = ("fit", folder / "depth.csv", "--target", "z", "--inputs", "east,north", *GIVEN, "--check", "0")
    done = run(*fit, "--out", folder / "m.apviz")
    assert done.exit_code == 2 and "exists; replace it with --force" in said(done)
    done = run(*fit, "--out", folder / "depth.csv", "--force")
    assert done.exit_code == 2 and "depth.csv exists and is not a model of apviz" in said(done)
    assert (folder / "m.apviz").read_bytes() == before and "Leave-one-out" not in done.output
    assert run(*fit, "--out", folder / "m.apviz", "--force").exit_code == 0
    predict(folder, folder / "new.csv", out="once.csv")
    assert "once.csv exists; replace it with --force" in predict(folder, folder / "new.csv", out="once.csv", code=2)
    predict(folder, folder / "new.csv", "--no-sd", "--force", out="once.csv")
    assert "sd" not in pd.read_csv(folder / "once.csv")
    assert "is the file to read" in predict(folder, folder / "new.csv", "--force", out="new.csv", code=2)


def damaged(path: Path, how: str) -> None:
    whole = path.read_bytes()
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "a table":
        path.write_text("a,b\n1,2\n")
    else:
        with np.load(path) as archive:
            entries = dict(archive)
        description = json.loads(str(entries["description"]))
        if how == "another version":
            description["version"] = 1
        else:
            description["columns"][0]["kind"] = "picture"
        with path.open("wb") as file:
            np.savez(file, **(entries | {"description": np.array(json.dumps(description))}))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated", "or is truncated"),
        ("a table", "it is not a NumPy archive"),
        ("another version", "it has format version 1"),
        ("an invalid column", "kind of a column is invalid: 'picture'"),
    ],
)
def test_a_wrong_model_is_refused_in_one_sentence(folder, tmp_path, how, message):
    path = tmp_path / "m.apviz"
    path.write_bytes((folder / "m.apviz").read_bytes())
    damaged(path, how)
    text = predict(tmp_path, folder / "new.csv", out="p.csv", code=2)
    assert text.startswith("error: ") and message in text and "cannot be read as a Gaussian process" in text
    assert not (tmp_path / "p.csv").exists()


def test_a_model_of_an_array_and_a_missing_model_are_refused(tmp_path, folder):
    text = predict(tmp_path, folder / "new.csv", out="p.csv", code=2)
    assert "No such file" in text and "apviz fit DATASET" in text
    h = apviz.Hyperparameters("rbf", (1.0,), 1.0, 0.1)
    apviz.GaussianProcess(hyperparameters=h).fit(np.eye(5), np.arange(5.0)).save(tmp_path / "m.apviz")
    assert "whose columns have no names" in predict(tmp_path, folder / "new.csv", out="p.csv", code=2)


def test_a_model_of_a_frame_fitted_in_python_predicts_too(tmp_path, folder):
    h = apviz.Hyperparameters("rbf", (0.5,), 1.0, 0.1)
    gp = apviz.GaussianProcess(hyperparameters=h).fit(DEPTH[["east", "north"]], DEPTH["z"])
    gp.save(tmp_path / "m.apviz")
    assert "z: mean, sd" in predict(tmp_path, folder / "new.csv", out="p.csv")
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["mean"], gp.predict(NEW[["east", "north"]]), rtol=1e-9)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_ctrl_c_leaves_no_file(folder, monkeypatch, ending):
    monkeypatch.setattr(predicting, "MAX_BATCH", 40)
    predicted, calls = apviz.GaussianProcess.predict, []

    def interrupted(gp, *args, **how):
        calls.append(0)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return predicted(gp, *args, **how)

    monkeypatch.setattr(apviz.GaussianProcess, "predict", interrupted)
    before = set(folder.iterdir())
    text = predict(folder, folder / "new.csv", out=f"cut.{ending}", code=130)
    assert "interrupted: nothing was written" in text and set(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("new.csv", "--level", "1"), "--level must be between 0 and 1, got 1"),
        (("new.csv", "--missing", "drop"), "--missing must be refuse or empty, got 'drop'"),
        ((), "give either a table of rows to predict, or --grid STEP"),
        (("new.csv", "--grid", "5"), "give either a table of rows to predict, or --grid STEP"),
    ],
)
def test_invalid_options_of_predict_are_refused_before_any_work(folder, words, message):
    paths = [folder / word if word == "new.csv" else word for word in words]
    assert message in predict(folder, *paths, out="never.csv", code=2)


def test_the_ending_says_the_format(folder):
    assert "--out must end in .csv, .parquet, got" in predict(folder, folder / "new.csv", out="p.nc", code=2)
    assert "--out must end in .csv, .parquet, .nc, .zarr" in predict(folder, "--grid", "9", out="p.txt", code=2)
