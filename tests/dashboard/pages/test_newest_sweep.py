"""The newest sweep of a folder."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

import torch

import apviz
from apviz.dashboard.pages.sweeps import sweep_page
from apviz.dashboard.pages.sweeps.sweep_page import newest_sweep
from apviz.dashboard.store.runs_folder import RunsFolder


@pytest.fixture
def runs(tmp_path):
    return RunsFolder(tmp_path)


def solve(runs, name, block_size, noise=0.1, max_epochs=50, seed=0, dataset="made"):
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    system = apviz.KernelSystem(
        x, x[:, :1], apviz.Matern52(lengthscale=0.5), noise=noise, operator="dense", dataset=dataset, seed=seed
    )
    solver = apviz.AlternatingProjection(block_size=block_size, max_epochs=max_epochs)
    apviz.solve(system, solver, hooks=[apviz.Recorder(runs.path_of(name))])


def test_a_sweep_is_sorted_by_its_setting_and_has_the_last_of_equal_runs(runs):
    for name, block_size in {"a": 30, "b": 10, "c": 10}.items():
        solve(runs, name, block_size)
    assert newest_sweep(runs, "block_size") == ["c", "a"]
    assert newest_sweep(runs, "noise") == []


def test_one_value_is_not_a_sweep_and_another_system_or_limit_is_another_sweep(runs):
    solve(runs, "a", 10)
    solve(runs, "b", 20, noise=0.5)
    solve(runs, "c", 30, max_epochs=60)
    assert newest_sweep(runs, "block_size") == []
    solve(runs, "d", 40)
    assert newest_sweep(runs, "block_size") == ["a", "d"]


def test_unreadable_traces_and_trainings_are_left_out(folder):
    (folder / "broken.zarr").mkdir()
    (folder / "broken.zarr" / "zarr.json").write_text("[]")
    assert newest_sweep(RunsFolder(folder), "block_size") == []


def test_of_a_long_sweep_every_second_or_third_run_is_shown(runs, monkeypatch):
    monkeypatch.setattr(sweep_page, "MAX_RUNS", 2)
    for size in (10, 20, 30, 40, 50):
        solve(runs, f"b{size}", size, max_epochs=1)
    assert newest_sweep(runs, "block_size") == ["b10", "b40"]


def test_examples_of_another_machine_are_no_part_of_a_sweep_made_here(runs):
    solve(runs, "example a", 10)
    solve(runs, "example b", 20)
    solve(runs, "here", 30)
    assert newest_sweep(runs, "block_size") == ["example a", "example b"]
    solve(runs, "here too", 40)
    assert newest_sweep(runs, "block_size") == ["here", "here too"]


def test_a_sweep_has_all_seeds_of_a_value(runs):
    for seed in (1, 0, 2):
        solve(runs, f"b10 seed {seed}", 10, seed=seed)
    solve(runs, "b20", 20)
    assert newest_sweep(runs, "block_size") == ["b10 seed 0", "b10 seed 1", "b10 seed 2", "b20"]


def test_a_sweep_of_a_removed_table_is_shown_only_if_there_is_no_other(runs):
    for name, dataset in {"a": "china", "b": "china", "c": "mine.csv", "d": "mine.csv"}.items():
        solve(runs, name, 10 + 10 * (name in "bd"), dataset=dataset)
    assert newest_sweep(runs, "block_size") == ["c", "d"]
    assert newest_sweep(runs, "block_size", lambda dataset: dataset == "china") == ["a", "b"]
    assert newest_sweep(runs, "block_size", lambda dataset: False) == ["c", "d"]
