"""Running: results of other data or sizes are never used for the current options."""

from __future__ import annotations

from dataclasses import replace

import pytest

import apviz
from apviz.experiments import EXPERIMENTS, Options, run
from apviz.experiments.running import folder_of
from apviz.tracing import Recorder
from apviz.tracing.lock import Lock

EXPERIMENT = EXPERIMENTS["predictive-mean"]


def rows_of(options):
    return {cell.key: row for cell, row in run(EXPERIMENT, options)}


def test_another_n_and_another_data_set_are_recomputed(finished, look, tmp_path):
    options = replace(finished("predictive-mean")[0], out=tmp_path)
    rows_of(options)
    for other in (replace(options, n=220), replace(options, dataset="diabetes")):
        hook = look.Cut()
        rows = rows_of(replace(other, hooks=[hook]))
        assert hook.started == len(rows) == 3
        assert {row["data"] for row in rows.values()} == {f"{other.dataset} (for sgemm), n = {other.n}"}


def test_more_seeds_keep_the_finished_ones(finished, look, tmp_path):
    options = replace(finished("predictive-mean")[0], out=tmp_path)
    first, hook = rows_of(options), look.Cut()
    both = rows_of(replace(options, seeds=2, hooks=[hook]))
    assert hook.started == 3 and len(both) == 6
    assert {key: both[key] for key in first} == first
    assert {row["seed"] for row in both.values()} == {0, 1}
    (table,) = EXPERIMENT.tables(both, replace(options, seeds=2))
    assert all(" ± " in cell for cell in look.column(table, "test RMSE"))


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize(
    "here", [{"sgemm", "airquality", "protein"}, set(apviz.datasets.registry)], ids=["few here", "all here"]
)
def test_results_of_a_stand_in_are_not_used_for_a_data_set_that_becomes_available(name, here, monkeypatch, tmp_path):
    """The folder does not depend on the available data, so the name of a cell includes its data set."""
    monkeypatch.setattr(apviz.datasets, "is_here", here.__contains__)
    keys = [cell.key for cell in EXPERIMENTS[name].cells(Options(n=200, out=tmp_path))]
    assert keys and len(set(keys)) == len(keys)
    assert all(key.split("-")[0] in here for key in keys)


def test_a_cell_with_an_interrupted_trace_restarts_and_keeps_the_trace_under_another_name(finished, look, tmp_path):
    options = replace(finished("convergence")[0], out=tmp_path)
    experiment = EXPERIMENTS["convergence"]
    with pytest.raises(KeyboardInterrupt):
        list(run(experiment, replace(options, hooks=[look.Cut(solve=1)])))
    folder = folder_of(experiment, options)
    key = experiment.cells(options)[0].key
    assert apviz.open_trace(folder / f"{key}.zarr").outcome == "interrupted"
    list(run(experiment, options))
    assert apviz.open_trace(folder / f"{key}.zarr").finished
    assert apviz.open_trace(folder / f"{key}-interrupted.zarr").outcome == "interrupted"


def test_nothing_is_written_for_an_unknown_data_set(tmp_path):
    for experiment in EXPERIMENTS.values():
        with pytest.raises(ValueError, match="No data set is called 'chinna'. Did you mean china"):
            list(run(experiment, Options(n=200, dataset="chinna", out=tmp_path)))
    assert not list(tmp_path.iterdir())


def test_hooks_are_called_for_the_solves_and_the_recorder_is_one_of_them(finished, tmp_path):
    options, _, solves = finished("convergence")
    recorder = Recorder()
    list(run(EXPERIMENTS["convergence"], replace(options, out=tmp_path, hooks=[recorder])))
    assert len(recorder.traces) == solves == 4


def test_a_foreign_folder_at_the_place_of_a_trace_is_not_changed(finished, tmp_path):
    options = replace(finished("convergence")[0], out=tmp_path)
    experiment = EXPERIMENTS["convergence"]
    mine = folder_of(experiment, options) / f"{experiment.cells(options)[0].key}.zarr" / "thesis.tex"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    with pytest.raises(
        FileExistsError, match="the experiment would write a trace there: move it away, or choose another --out"
    ):
        list(run(experiment, options))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]


def test_a_cell_computed_by_another_process_is_not_computed_again(finished, tmp_path):
    options = replace(finished("convergence")[0], out=tmp_path)
    experiment = EXPERIMENTS["convergence"]
    cells = experiment.cells(options)
    with (
        Lock(folder_of(experiment, options) / f"{cells[0].key}.json"),
        pytest.raises(FileExistsError, match=r"\.json is being written by another solve or training of this process"),
    ):
        list(run(experiment, options))
    assert len(list(run(experiment, options))) == len(cells)
