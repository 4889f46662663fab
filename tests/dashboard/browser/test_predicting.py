"""Your own table, from a fit to a downloaded file of predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from tests.dashboard.browser.server import SHOWN, Server
from tests.dashboard.browser.test_own_table import offer
from tests.dashboard.dense_gp import predictions

RNG = np.random.default_rng(2)
TABLE = pd.DataFrame({"east": RNG.uniform(0, 9, 60), "north": RNG.uniform(0, 5, 60)})
TABLE["z"] = np.sin(TABLE["east"]) + TABLE["north"] + RNG.normal(0, 0.1, 60)
NEW = pd.DataFrame({"north": RNG.uniform(0, 5, 30), "east": RNG.uniform(0, 9, 30), "id": range(30)})


@pytest.mark.slow
def test_a_fit_predicts_a_dropped_table_and_a_grid_and_the_downloads_equal_dense_algebra(visit, tmp_path):
    someone = visit().go(page="predict")
    someone.edit("Use my data")
    offer(someone, tmp_path, "depth.csv", TABLE.to_csv(index=False))
    someone.says("48 to train on")
    someone.press("Use this table")
    someone.edit("Data set").says("Your table: 48 rows to train on. Target: z.")
    someone.press("Fit")
    someone.says("Each of 60 rows was predicted from the other 59")
    someone.chart("Predicted against observed")

    NEW.to_csv(tmp_path / "new.csv", index=False)
    someone.tab.locator(".main input[type=file]").last.set_input_files(tmp_path / "new.csv")
    someone.says("30 points predicted")
    someone.chart("Predicted standard deviation")
    found = {name: read(download(someone, name, tmp_path)) for name, read in READERS.items()}
    x, y, points = (table.to_numpy() for table in (TABLE[["east", "north"]], TABLE["z"], NEW[["east", "north"]]))
    (model,) = someone.server.runs.glob(".models/depth.csv*/model.apviz")
    mean, sd = predictions(model, x, y, points)
    for table in found.values():
        assert table["id"].tolist() == list(range(30))
        np.testing.assert_allclose(table["mean"], mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(table["sd"], sd, rtol=1e-5)
        np.testing.assert_allclose(table["lower"], mean - 1.959964 * sd, rtol=1e-5, atol=1e-6)

    someone.field("Points along each input").fill("20")
    someone.press("Predict a grid")
    someone.says("Grid of 20 × 20")
    grid = xr.load_dataset(download(someone, "NetCDF", tmp_path))
    points = np.stack(np.meshgrid(grid["east"], grid["north"], indexing="ij"), -1).reshape(-1, 2)
    mean, sd = predictions(model, x, y, points)
    np.testing.assert_allclose(grid["mean"].values.ravel(), mean, rtol=1e-6, atol=1e-7)

    someone.tab.reload()
    someone.look().says("Grid of 20 × 20")


@pytest.mark.slow
def test_without_a_model_one_press_opens_a_marked_example_with_its_curve_and_its_files(visit, tmp_path):
    empty = Server(tmp_path / "runs")
    try:
        someone = visit(390, 844, to=empty).go(page="predict")
        someone.press("Try the example")
        someone.says("This model is an example")
        curve = someone.chart("Predicted mean")
        names = curve.evaluate("chart => chart.data.map(each => each.name)")
        assert {"data", "95% interval", "mean"} <= set(names)
        someone.says("the solver's error is negligible")
        table = pd.read_csv(download(someone, "CSV", tmp_path))
        assert len(table) == 400 and (table["upper"] > table["lower"]).all()
        assert someone.tab.get_by_role("button", name="Try the example").locator(SHOWN).count() == 0
        someone.tab.reload()
        someone.look().says("This model is an example")
    finally:
        empty.kill()


READERS = {"CSV": pd.read_csv, "Parquet": pd.read_parquet}


def download(visitor, name, folder):
    with visitor.tab.expect_download() as downloading:
        visitor.tab.get_by_role("link", name=name, exact=True).click()
    path = folder / downloading.value.suggested_filename
    downloading.value.save_as(path)
    stems = ("new", "depth.csv-n60 matern52", "example china-profile-n100 matern52")
    assert path.name.startswith(tuple(f"{stem} predicted." for stem in stems))
    return path
