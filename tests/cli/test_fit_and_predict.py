"""`apviz fit` and `apviz predict`, as a user runs them; scikit-learn is the oracle for means and deviations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from typer.testing import CliRunner, Result

import apviz
from apviz import cli
from apviz.datasets.tables import batches
from apviz.gp.estimator import fitting
from apviz.table_models import grids, predicting

#: hyperparameters in the units of the table
EAST, NORTH, OUTPUTSCALE, NOISE = 300.0, 150.0, 90.0, 0.5
GIVEN = ("--lengthscale", f"{EAST},{NORTH}", "--outputscale", str(OUTPUTSCALE), "--noise", str(NOISE))


def soundings(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    east, north = rng.uniform(0, 900, n).round(1), rng.uniform(5000, 5400, n).round(1)
    z = -40 + 8 * np.sin(east / 200) * np.cos(north / 90) + 0.7 * rng.standard_normal(n)
    return pd.DataFrame({"north": north, "z": z, "east": east, "boat": rng.choice(["Gro", "Bo"], n)})


DEPTH = soundings(120)
NEW = soundings(90, seed=1).drop(columns="z").assign(id=np.arange(90))


def scikit_learn() -> tuple[GaussianProcessRegressor, float]:
    """Return the posterior of f at the given hyperparameters, for targets minus their mean, and this mean."""
    kernel = ConstantKernel(OUTPUTSCALE) * Matern([EAST, NORTH], nu=2.5)
    mean = DEPTH["z"].mean()
    gp = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None)
    return gp.fit(DEPTH[["east", "north"]].to_numpy(), DEPTH["z"].to_numpy() - mean), mean


def expected(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gp, mean = scikit_learn()
    found, sd = gp.predict(points, return_std=True)
    return found + mean, sd


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a table, a fitted model and rows to predict."""
    folder = tmp_path_factory.mktemp("soundings")
    DEPTH.to_csv(folder / "depth.csv", index=False)
    NEW.to_csv(folder / "new.csv", index=False)
    done = run(
        "fit", folder / "depth.csv", "--target", "z", "--inputs", "east,north", "--out", folder / "m.apviz", *GIVEN
    )
    assert done.exit_code == 0, done.output
    return folder


def run(*words: object) -> Result:
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def said(done: Result) -> str:
    return " ".join(done.output.split())


def predict(folder: Path, *words: object, out: str, code: int = 0) -> str:
    done = run("predict", folder / "m.apviz", *words, "--out", folder / out)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return said(done)


# --- numbers ----------------------------------------------------------------------------------------------------------


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


# --- columns ----------------------------------------------------------------------------------------------------------


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


def test_dates_of_a_grid_are_dates_in_a_table_and_in_netcdf(tmp_path):
    days = pd.date_range("2020-02-01 06:30", periods=50, freq="D")
    pd.DataFrame({"day": days, "v": np.sin(np.arange(50) / 5)}).to_csv(tmp_path / "t.csv", index=False)
    given = ("--lengthscale", "10", "--outputscale", "1", "--noise", "0.1", "--check", "0")
    assert run("fit", tmp_path / "t.csv", "--target", "v", "--out", tmp_path / "m.apviz", *given).exit_code == 0
    predict(tmp_path, "--grid", "7", out="g.csv")
    predict(tmp_path, "--grid", "7", out="g.nc")
    predict(tmp_path, tmp_path / "g.csv", out="again.csv")
    grid, again = pd.read_csv(tmp_path / "g.csv", parse_dates=["day"]), pd.read_csv(tmp_path / "again.csv")
    assert grid["day"].tolist() == days[::7].tolist()
    assert xr.load_dataset(tmp_path / "g.nc")["day"].values.tolist() == days[::7].as_unit("ns").to_numpy().tolist()
    np.testing.assert_allclose(again["mean"], grid["mean"], rtol=1e-9)


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


# --- grids ------------------------------------------------------------------------------------------------------------


def test_a_grid_starts_at_the_smallest_training_value_and_has_coordinates_named_by_the_inputs(folder):
    text = predict(folder, "--grid", "100,80", out="map.nc")
    found = xr.load_dataset(folder / "map.nc")
    low, high = DEPTH[["east", "north"]].min(), DEPTH[["east", "north"]].max()
    for name, step in (("east", 100), ("north", 80)):
        values = found[name].values
        np.testing.assert_allclose(values, low[name] + step * np.arange(len(values)))
        assert values[-1] <= high[name] < values[-1] + step
    points = np.stack(np.meshgrid(found["east"], found["north"], indexing="ij"), -1)
    mean, sd = expected(points.reshape(-1, 2))
    np.testing.assert_allclose(found["mean"].values.ravel(), mean, rtol=1e-8)
    np.testing.assert_allclose(found["sd"].values.ravel(), sd, rtol=1e-6)
    assert found["mean"].dims == ("east", "north") and found["mean"].attrs["long_name"] == "posterior mean of z"
    assert found["sd"].attrs["units"] == "unknown" and "below a millionth" in found.attrs["accuracy"]
    assert "matern52, lengthscale 300, 150, outputscale 90, noise variance 0.5" in found.attrs["model"]
    assert found.attrs["prediction_of"] == "the function f, without noise"
    assert f"picture in {folder}/map.html".replace(" ", "") in text.replace(" ", "")
    assert "Posterior mean of z." in (folder / "map.html").read_text("utf-8")


def test_a_grid_can_be_zarr_or_a_table_and_needs_no_standard_deviation(folder):
    predict(folder, "--grid", "100,80", out="grid.nc")
    predict(folder, "--grid", "100,80", out="grid.zarr")
    predict(folder, "--grid", "100,80", "--no-sd", out="grid.csv")
    netcdf, table = xr.load_dataset(folder / "grid.nc"), pd.read_csv(folder / "grid.csv")
    zarr = xr.open_zarr(folder / "grid.zarr", consolidated=False).load()
    xr.testing.assert_allclose(netcdf, zarr, rtol=1e-12)
    assert list(table.columns) == ["east", "north", "mean"]
    np.testing.assert_allclose(table["mean"], netcdf["mean"].values.ravel(), rtol=1e-10)
    refused = predict(folder, "--grid", "100,80", out="grid.zarr", code=2)
    assert "grid.zarr exists; replace it with --force" in refused
    predict(folder, "--grid", "200,80", "--force", out="grid.zarr")
    assert xr.open_zarr(folder / "grid.zarr", consolidated=False).sizes["east"] < netcdf.sizes["east"]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("0.1", "points, at most 5,000,000 are predicted at once; use --grid 0."),
        ("500", "the step 500 is larger than the range of north"),
        ("1,2,3", "--grid takes one step, or one for each of east, north; got '1,2,3'"),
        ("-1", "--grid takes positive steps, got '-1'"),
        ("wide", "--grid takes numbers separated by commas"),
    ],
)
def test_a_grid_that_cannot_be_made_is_refused_with_what_to_do(folder, steps, message):
    assert message in predict(folder, f"--grid={steps}", out="never.nc", code=2)
    assert not (folder / "never.nc").exists()


def test_the_step_that_a_refusal_recommends_is_accepted(folder, monkeypatch):
    monkeypatch.setattr(grids, "MOST_POINTS", 100)
    text = predict(folder, "--grid", "20", out="small.csv", code=2)
    predict(folder, "--grid", text.rpartition("--grid ")[2], "--no-sd", out="small.csv")
    assert len(pd.read_csv(folder / "small.csv")) <= 100


@pytest.mark.parametrize("d", [1, 3, 4])
def test_grids_have_one_to_three_inputs_and_pictures_one_or_two(tmp_path, d):
    x = np.random.default_rng(0).uniform(0, 1, (40, d))
    names = [f"x{place}" for place in range(d)]
    pd.DataFrame(x, columns=names).assign(y=x.sum(axis=1)).to_csv(tmp_path / "t.csv", index=False)
    given = ("--lengthscale", "1", "--outputscale", "1", "--noise", "0.1")
    assert run("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m.apviz", *given).exit_code == 0
    text = predict(tmp_path, "--grid", "0.3", out="g.nc", code=0 if d < 4 else 2)
    if d == 4:
        assert "--grid takes up to 3 inputs, the model has 4; predict a table" in text
    else:
        assert list(xr.load_dataset(tmp_path / "g.nc")["mean"].dims) == names
        assert (tmp_path / "g.html").exists() == (d < 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("g/l", "NetCDF and Zarr allow no / in a name such as g/l; write .csv or .parquet"),
        ("sd", "the input sd has the name of a predicted column"),
    ],
)
def test_a_grid_whose_inputs_have_names_that_the_file_cannot_hold_is_refused(tmp_path, name, message):
    pd.DataFrame({name: np.arange(20.0), "y": np.arange(20) % 7}).to_csv(tmp_path / "t.csv", index=False)
    given = ("--lengthscale", "3", "--outputscale", "1", "--noise", "0.1", "--check", "0")
    assert run("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m.apviz", *given).exit_code == 0
    for out in ("g.nc", "g.zarr"):
        assert message in predict(tmp_path, "--grid", "1", out=out, code=2)


# --- files ------------------------------------------------------------------------------------------------------------


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


# --- fit --------------------------------------------------------------------------------------------------------------


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
