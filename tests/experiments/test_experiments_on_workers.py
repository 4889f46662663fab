"""Experiments on Dask workers give the same rows as one process, and cells run after those they need."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import apviz
from apviz.cluster import Cluster
from apviz.experiments import EXPERIMENTS, Options, run
from apviz.experiments.catalogue import rules
from apviz.experiments.running import folder_of
from tests.experiments.chained import Chained


@pytest.fixture(scope="module")
def workers_here():
    """Start workers in threads of this process, so that patches of tests apply to them."""
    distributed = pytest.importorskip("distributed")
    made = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, memory_limit=0, dashboard_address="127.0.0.1:0"
    )
    with made, Cluster(made.scheduler_address) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def workers_elsewhere():
    pytest.importorskip("distributed")
    with Cluster(workers=2) as cluster:
        yield cluster


def rows_on(cluster, experiment, options):
    return {cell.key: row for cell, row in run(experiment, options, cluster)}


def test_rows_and_traces_of_workers_equal_those_of_one_process_and_are_kept(finished, look, tmp_path, workers_here):
    options, rows, _ = finished("rules")
    options = replace(options, out=tmp_path, hooks=())
    found = rows_on(workers_here, EXPERIMENTS["rules"], options)
    assert {key: look.same_but_for_time(row) for key, row in found.items()} == {
        key: look.same_but_for_time(row) for key, row in rows.items()
    }
    folder = folder_of(EXPERIMENTS["rules"], options)
    assert all(apviz.open_trace(folder / f"{key}.zarr").finished for key in rows)
    before = look.files_of(folder)
    (folder / f"{next(iter(rows))}.json").unlink()
    assert rows_on(workers_here, EXPERIMENTS["rules"], options).keys() == rows.keys()
    after = look.files_of(folder)
    assert len([name for name in before if after[name] != before[name]]) == 1
    assert not list(tmp_path.glob(".apviz*"))


def test_a_cell_that_fails_does_not_end_the_others_and_is_named_at_the_end(
    finished, tmp_path, workers_here, monkeypatch
):
    options = replace(finished("rules")[0], out=tmp_path, hooks=())
    solve = rules._solve

    def fails(rule, *arguments):
        if rule == "gauss-southwell":
            raise ValueError("no")
        return solve(rule, *arguments)

    monkeypatch.setattr(rules, "_solve", fails)
    found = []
    with pytest.raises(RuntimeError, match="china-gauss-southwell-seed0: no"):
        found.extend(cell.key for cell, _ in run(EXPERIMENTS["rules"], options, workers_here))
    assert sorted(found) == ["china-cyclic-seed0", "china-random-seed0"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_a_cell_can_open_the_trace_of_an_earlier_one_even_on_workers_without_the_folder(tmp_path, workers_elsewhere):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    unseen = Options(200, "cpu", out=Path(f"/proc/self/fd/{descriptor}"))
    for options in (Options(200, "cpu", out=tmp_path / "seen"), unseen):
        folder = folder_of(Chained(), options)
        rows = rows_on(workers_elsewhere, Chained(), options)
        assert rows["second"]["residual of the first"] == rows["first"]["residual"]
        assert sorted(os.listdir(folder)) == ["first.json", "first.zarr", "second.json"]
        # kept results are sent to workers that need them
        (folder / "second.json").unlink()
        assert rows_on(workers_elsewhere, Chained(), options) == rows
        # an interrupted trace is moved away for the new one
        (folder / "first.json").unlink()
        assert rows_on(workers_elsewhere, Chained(), options) == rows
        names = ["first-interrupted.zarr", "first.json", "first.zarr", "second.json"]
        assert sorted(os.listdir(folder)) == names
    os.close(descriptor)
