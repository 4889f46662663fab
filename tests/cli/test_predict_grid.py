"""Grids of `apviz predict`: files, tables and pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from apviz.table_models import grids
from tests.cli.soundings import DEPTH, expected, predict, run


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
