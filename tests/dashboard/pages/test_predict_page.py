"""The page Predict without a browser: a fit and its check, predictions of tables and grids, and what is kept."""

from __future__ import annotations

import shutil
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

pytest.importorskip("panel")

from apviz.dashboard import address
from apviz.dashboard.jobs import prediction_job
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages.predict.page import Predict
from apviz.dashboard.store.own_data import OwnData, check, look_into
from apviz.datasets.tables.table import TableChoices
from apviz.table_models import predicting
from tests.dashboard.dense_gp import predictions
from tests.dashboard.dropping import drop
from tests.dashboard.store.on_disk import files as contents
from tests.dashboard.visiting import drawn, visitor

RNG = np.random.default_rng(5)
TABLE = pd.DataFrame({"east": RNG.uniform(0, 9, 60), "north": RNG.uniform(100, 180, 60), "boat": ["a"] * 60})
TABLE["z"] = 20 + 5 * np.sin(TABLE["east"]) + TABLE["north"] / 20 + RNG.normal(0, 0.3, 60)
NEW = pd.DataFrame({"id": range(25), "north": RNG.uniform(100, 180, 25), "east": RNG.uniform(0, 9, 25)})


def opened(folder, *, inputs=("east", "north"), table=TABLE, **more):
    """Return the page of a visitor who uses their own table."""
    path = folder / "depth.csv"
    folder.mkdir(exist_ok=True)
    table.to_csv(path, index=False)
    page = Predict(visitor(folder, own=OwnData(folder / ".data"), **more))
    page.shared.system.use_own(check(look_into(path, 1), TableChoices(target="z", inputs=inputs)))
    return shown(page)


def shown(page):
    page.settings()
    page.main()
    page.open()
    return drawn(page)


def finished(page, seconds=120):
    """Wait for the job, and draw its results."""
    end = time.monotonic() + seconds
    while page.job.is_active:
        assert time.monotonic() < end
        page.tick()
        time.sleep(0.01)
    page.tick()
    return drawn(page)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return a folder with a model of two inputs."""
    folder = tmp_path_factory.mktemp("fitted")
    page = opened(folder)
    page.fit()
    assert finished(page).job.state == "done", page.job.message
    page.shared.end()
    return folder


@pytest.fixture
def page(fitted, tmp_path):
    page = shown(Predict(visitor(shutil.copytree(fitted, tmp_path / "runs"))))
    yield page
    page.shared.end()


def files(page):
    """Return the folder of the last predictions, and their record."""
    return page.kept.predictions(page.choice.model)


def test_an_empty_folder_says_what_to_do(tmp_path):
    page = shown(Predict(visitor(tmp_path)))
    assert page._nothing.visible and not page.model.view.visible and not page._asked.visible


def test_the_example_of_an_empty_folder_is_a_marked_model_whose_curve_equals_dense_algebra(tmp_path):
    page = shown(Predict(visitor(tmp_path, limits=Limits(max_n=60))))
    page.fit_example()
    assert finished(page).job.state == "done", page.job.message
    name, (folder, said) = page.choice.model, files(page)
    assert name == "example china-profile-n60 matern52" and page._example.visible and not page._nothing.visible
    record, curve = page.kept.record(name), xr.load_dataset(folder / "predictions.nc")
    x, y = (np.array(each) for each in record.data)
    mean, sd = predictions(page.kept.path_of(name), x[:, None], y, curve["column"].values[:, None])
    np.testing.assert_allclose(curve["mean"], mean, rtol=1e-6)
    np.testing.assert_allclose(curve["upper"] - curve["mean"], 1.959964 * sd, rtol=1e-4)
    assert "the solver's error is negligible" in said.accuracy and said.source == "Grid of 400"
    assert '"data"' in page.predictions.charts["mean"].chart.base
    page.delete()
    assert drawn(page)._nothing.visible and not page._example.visible
    page.shared.end()


def test_a_fit_says_how_well_it_predicts_rows_that_it_left_out_and_survives_a_reload(page):
    words, record = page.model.words.object, page.kept.record(page.choice.model)
    assert "Matérn-5/2, fitted to all 60 rows of **depth.csv**" in words
    observed, mean, sd = (np.array(record.checked[name]) for name in ("target", "mean", "std"))
    np.testing.assert_allclose(observed, TABLE["z"], rtol=1e-12)
    assert f"off by **{np.sqrt(np.mean((observed - mean) ** 2)):.3g}**" in words
    assert f"**{np.mean(np.abs(observed - mean) <= 1.959964 * sd):.1%}**" in words
    assert "error of the means is negligible" in words and "lengthscale of “east”" in str(page.model.table[0].object)
    assert page.model.chart.chart.base and page.choice.model == "depth.csv-n60 matern52"


def test_rows_left_out_are_predicted_as_by_a_fit_to_all_others(page):
    path, record = page.kept.path_of(page.choice.model), page.kept.record(page.choice.model)
    x, y = TABLE[["east", "north"]].to_numpy(), TABLE["z"].to_numpy()
    for row in (0, 17):
        others = np.arange(60) != row
        mean, _ = predictions(path, x[others], y[others], x[[row]])
        assert record.checked["mean"][row] == pytest.approx(float(mean[0]), rel=1e-6)


def test_a_dropped_table_is_predicted_in_slices_as_by_dense_algebra(page, monkeypatch):
    for name, size in (("MAX_BATCH", 7), ("WRITTEN", 10)):
        monkeypatch.setattr(predicting, name, size)
    drop(page.drop, "new.csv", NEW.to_csv(index=False).encode())
    assert finished(page).job.state == "done", page.job.message
    folder, _ = files(page)
    csv, parquet = pd.read_csv(folder / "predictions.csv"), pd.read_parquet(folder / "predictions.parquet")
    pd.testing.assert_frame_equal(csv, parquet, rtol=1e-14)
    assert list(csv.columns) == [*NEW.columns, "mean", "sd", "lower", "upper"] and page.job.fraction_done == 1
    x, y = TABLE[["east", "north"]].to_numpy(), TABLE["z"].to_numpy()
    mean, sd = predictions(page.kept.path_of(page.choice.model), x, y, NEW[["east", "north"]].to_numpy())
    np.testing.assert_allclose(csv["mean"], mean, rtol=1e-7)
    np.testing.assert_allclose(csv["sd"], sd, rtol=1e-5)
    np.testing.assert_allclose(csv["upper"], mean + 1.959964 * sd, rtol=1e-6)
    assert "the solver's error is negligible" in page.predictions.words.object and "**new.csv**, 25 points" in (
        page.predictions.words.object
    )
    assert 'href="models/depth.csv-n60%20matern52/' in page.predictions.download.object
    assert page.predictions.charts["sd"].view.visible and "first 8 of 25 rows" in (page.predictions.table[0].object)


def test_a_grid_of_two_inputs_is_two_maps_and_its_files_agree(page):
    page.choice.points = 12
    page.predict_grid()
    assert finished(page).job.state == "done", page.job.message
    folder, record = files(page)
    grid, table = xr.load_dataset(folder / "predictions.nc"), pd.read_csv(folder / "predictions.csv")
    assert grid.sizes == {"east": 12, "north": 12} and record.source == "Grid of 12 × 12"
    np.testing.assert_allclose(grid["east"][[0, -1]], [TABLE["east"].min(), TABLE["east"].max()], rtol=1e-12)
    np.testing.assert_allclose(grid["sd"].values.ravel(), table["sd"], rtol=1e-12)
    assert all('"heatmap"' in card.chart.base for card in page.predictions.charts.values())
    again = shown(Predict(visitor(page.shared.runs)))
    assert again.predictions.words.object == page.predictions.words.object
    assert address.apply(address.to_query(page.models), again.models) == [] and again.choice.points == 12


def test_one_input_is_a_curve_with_its_interval_over_the_data_and_more_than_two_are_a_table(tmp_path):
    page = opened(tmp_path / "one", inputs=("east",))
    page.fit()
    finished(page).predict_grid()
    finished(page)
    base = page.predictions.charts["mean"].chart.base
    assert all(words in base for words in ("95% interval", '"data"', "posterior mean of z"))
    assert not page.predictions.charts["sd"].view.visible
    drop(page.drop, "line.csv", NEW.iloc[::-1].to_csv(index=False).encode())
    finished(page)
    curve = xr.load_dataset(files(page)[0] / "picture.nc")
    np.testing.assert_array_equal(curve["east"], np.sort(NEW["east"]))
    page.shared.end()
    wide = opened(tmp_path / "four", inputs=("a", "b", "c", "d"), table=_wide())
    wide.fit()
    finished(wide).predict_grid()
    finished(wide)
    assert "a grid takes up to 3 inputs, the model has 4" in wide._bar._text.object
    drop(wide.drop, "again.csv", _wide().to_csv(index=False).encode())
    finished(wide)
    assert not wide.predictions.charts["mean"].view.visible and len(wide.predictions.table) == 2
    wide.shared.end()


def _wide():
    return pd.DataFrame(RNG.uniform(size=(30, 5)), columns=[*"abcd", "z"])


def test_a_text_that_a_spreadsheet_would_run_is_harmless_in_the_csv_and_gaps_are_said(page):
    table = NEW.assign(name="=cmd()", east=NEW["east"].where(NEW["id"] != 3))
    drop(page.drop, "odd.csv", table.to_csv(index=False).encode())
    finished(page)
    folder, _ = files(page)
    assert pd.read_csv(folder / "predictions.csv")["name"].tolist() == ["'=cmd()"] * 25
    assert pd.read_parquet(folder / "predictions.parquet")["mean"].isna().sum() == 1
    assert "1 of 25 rows lack a value: their predictions are empty" in page.predictions.words.object


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("new.csv", NEW.rename(columns={"east": "East"}), "new.csv has no column east, which the model needs"),
        ("new.csv", NEW.assign(north="<img>"), "new.csv: north holds texts"),
        ("new.doc", NEW, "files ending in"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_without_the_path_on_the_server(page, name, table, message):
    drop(page.drop, name, table.to_csv(index=False).encode())
    if page.job is not None:
        finished(page)
    said = page._bar._text.object.replace("\\", "")
    assert message in said and "/tmp" not in said and "<img" not in said and files(page) is None


def test_limits_are_enforced_and_named(page, tmp_path):
    page.choice.points = 1_001
    page.predict_grid()
    assert "1,002,001 points, at most 1,000,000 are predicted; take 1,000 or fewer" in finished(page)._bar._text.object
    few = opened(tmp_path / "few", limits=Limits(max_n=40))
    few.fit()
    finished(few)
    assert few.kept.record(few.choice.model).rows == 40 and "40 of 60 rows" in few.model.words.object
    few.shared.end()


def test_a_stopped_job_keeps_nothing_and_only_one_runs(page, monkeypatch):
    monkeypatch.setattr(prediction_job, "load_model", lambda *_: time.sleep(0.3) or pytest.fail("never"))
    before = sorted(page.kept.folder.rglob("*"))
    with page.shared.queue.slot(object()):
        page.predict_grid()
        page.fit()
        assert "a prediction is running; wait for it, or stop it first" in page._bar._text.object
        page.stop()
        finished(page)
    assert page.job.state == "stopped" and sorted(page.kept.folder.rglob("*")) == before


def test_warnings_of_a_job_are_shown_and_kept(page, monkeypatch):
    load = prediction_job.load_model

    def warning(*given):
        warnings.warn("the sd of *some* rows may be too large", stacklevel=1)
        return load(*given)

    monkeypatch.setattr(prediction_job, "load_model", warning)
    page.choice.points = 5
    page.predict_grid()
    finished(page)
    assert page.predictions.warnings.visible
    assert page.predictions.warnings.object == "The sd of \\*some\\* rows may be too large"


def test_a_deleted_model_is_gone_with_its_predictions_until_it_is_brought_back(page):
    page.predict_grid()
    finished(page)
    name, before = page.choice.model, contents(page.kept.folder)
    page.delete()
    drawn(page)
    assert page.kept.names() == [] and page._nothing.visible and not page.model.view.visible
    assert list(page.deleted.list.options) == [f"{name} (just now)"] and page.deleted.button.visible
    page.deleted.button.clicks += 1
    drawn(page)
    assert page.choice.model == name and page.model.view.visible and page.predictions.view.visible
    assert contents(page.kept.folder) == before and not page.deleted.list.visible
    page.bring_back("gone")
    assert "no longer in the trash" in page._bar._text.object


def test_a_model_that_is_not_there_is_refused(page):
    page.choice.model = "../depth"
    drawn(page)
    assert "is not a run name" in page._bar._text.object
