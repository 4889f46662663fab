"""A slice of every campaign that kills, interrupts or starves apviz, and faults that these campaigns find."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

import apviz
from tests.trust import install, interrupt, journey, kill, long, memory, write
from tests.trust.slices import first_of


# of two solves at once, `tests/tracing/test_locks.py` shows in every run that one raises
@pytest.mark.parametrize(
    "kind", ["solve", *(pytest.param(k, marks=pytest.mark.slow) for k in ("training", "two solves"))]
)
def test_a_killed_run_keeps_flushed_rows_and_resumes_and_one_of_two_raises(kind):
    verdict = kill.judge(first_of(kill, kind))
    assert not verdict.is_wrong, verdict.said


def test_the_campaign_finds_resources_left_by_visitors_and_growing_memory():
    gone = long.Left(threads=9, files=12, sockets=0, children=0, folders=1, mb=900.0)
    assert not long.Course([gone] * 12).fault()
    assert (
        long.Course([gone] * 4 + [replace(gone, sockets=2)]).fault() == "2 sockets, 0 at most after the first 4 rounds"
    )
    growing = [replace(gone, mb=900.0 + 15 * k) for k in range(12)]
    assert (
        long.Course(growing).growth == pytest.approx(105) and long.Course(growing).fault() == "105 MB more in 8 rounds"
    )
    # a single peak is not growth
    assert not long.Course([*[gone] * 9, replace(gone, mb=2000.0), gone, gone]).fault()


def test_a_few_rounds_include_every_kind_of_visitor_and_of_leaving():
    visits = [visit for seed in range(3) for visit in long.case(seed)]
    assert {each.does for each in visits} == set(long.DOES) and {each.leaves for each in visits} == set(long.LEAVES)
    assert len(visits) == 3 * long.VISITORS


@pytest.mark.slow
def test_a_few_visitors_leave_no_resources_behind(monkeypatch):
    monkeypatch.setattr(long, "VISITORS", 4)
    verdict = long.judge(1)
    left = long.dashboard().course.rounds[-1]
    assert not verdict.is_wrong and (left.sockets, left.children) == (0, 0) and left.folders <= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["experiment", "comparison", "two trainings"])
def test_killed_experiments_and_jobs_keep_flushed_rows_too(kind):
    verdict = kill.judge(first_of(kill, kind))
    assert not verdict.is_wrong, verdict.said


def test_the_campaign_finds_flushed_rows_that_were_lost(monkeypatch, tmp_path):
    monkeypatch.setattr(kill, "_whole", lambda kind, solver: kill.tempfile.TemporaryDirectory(dir=tmp_path))
    recorder = apviz.Recorder(tmp_path / "a.zarr")
    system, solver = kill._system(), kill.SOLVERS[0](tol=kill.NEVER, max_epochs=5)
    apviz.solve(system, solver, [recorder])
    assert kill.check_beginning(tmp_path / "a.zarr", tmp_path / "a.zarr", 6, "epoch") == 6
    with pytest.raises(AssertionError, match="6 epochs on disk, 7 were flushed"):
        kill.check_beginning(tmp_path / "a.zarr", tmp_path / "a.zarr", 7, "epoch")


QUICK = ("solve", "training resumes", "note", "save a model")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in write.SCENARIOS]
)
def test_whatever_write_fails_a_solve_continues_and_no_partial_file_looks_complete(name):
    seeds = [seed for seed in range(300) if seed % len(write.SCENARIOS) == list(write.SCENARIOS).index(name)]
    for seed in seeds[1:2] if name in QUICK else seeds[1:3]:
        verdict = write.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_the_campaign_finds_disk_failures_without_a_warning(monkeypatch):
    monkeypatch.setattr(apviz.Recorder, "flush", lambda self: None)
    assert write.judge(0).how == "false"


@pytest.mark.parametrize("name", ["solve by overlapping", "training", "predict", "a system"])
def test_too_little_memory_gives_a_message_and_objects_stay_usable(name):
    of_it = [seed for seed in range(600) if memory.case(seed) == (name, 0)]
    for seed in of_it[:8:4]:
        verdict = memory.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_a_solve_under_a_limit_of_address_space_ends_with_a_message_or_continues():
    verdict = memory.judge(next(seed for seed in range(600) if 0 < memory.case(seed)[1] < 10))
    assert not verdict.is_wrong, verdict.said


def test_the_campaign_finds_raw_errors_of_an_allocator(monkeypatch):
    for name in ("solve", "interface"):  # the package has a function `solve`
        module = importlib.import_module(f"apviz.solvers.{name}")
        monkeypatch.setattr(module, "explained", lambda what, instead: nullcontext())
    seed = next(seed for seed in range(600) if memory.case(seed) == ("solve by gauss-southwell", 0) and seed > 200)
    assert memory.judge(seed).how == "false"


@pytest.mark.parametrize("what", ["line", "timer", "raising hook", "writing hook", "threads"])
def test_whatever_disturbs_a_solve_the_next_equals_that_of_a_fresh_process(what):
    of_it = [seed for seed in range(200) if interrupt.case(seed).what == what and not interrupt.case(seed).trains]
    for seed in of_it[:1]:
        verdict = interrupt.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_the_campaign_finds_a_setting_that_a_solve_leaves_changed(monkeypatch):
    solved = interrupt.solved

    def leaving_a_trace(*arguments):
        torch.rand(1)
        return solved(*arguments)

    monkeypatch.setattr(interrupt, "solved", leaving_a_trace)
    assert "torch's generator" in interrupt.judge(first_of(interrupt, "writing hook", lambda case: case.what)).said


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in install.PLACES if "Python" not in each])
def test_apviz_works_in_other_environments(name):
    verdict = install.judge(list(install.PLACES).index(name))
    if verdict.how == "not here":
        pytest.skip(verdict.said)
    assert not verdict.is_wrong, verdict.said


@pytest.mark.slow
def test_the_campaign_finds_a_module_that_cannot_be_imported_and_missing_places(monkeypatch, tmp_path):
    def broken(at):
        (at / "sitecustomize.py").write_text("import sys; sys.modules['apviz.spectrum'] = None")
        return install.Place(at / "work", env={"PYTHONPATH": str(at)})

    monkeypatch.setitem(install.PLACES, "no compiler", broken)
    verdict = install.judge(0)
    assert verdict.how == "error" and "apviz.spectrum" in verdict.said
    assert install.measured()["places"]["no compiler"].startswith("error: ")
    monkeypatch.setattr(install.shutil, "which", lambda name: None)
    name = "Python 3.12, the newest versions"
    assert install.judge(list(install.PLACES).index(name)).said == "there is no python3.12 on this machine"
    monkeypatch.setattr(install, "_went", {})


@pytest.mark.parametrize("names", [["a:b"], ["aux.txt"], ["ends."], ["A.zarr", "a.zarr"], ["x" * 130]])
def test_the_campaign_finds_file_names_invalid_on_other_systems(monkeypatch, tmp_path, names):
    monkeypatch.chdir(tmp_path)
    journey.every_name_is_one_on_windows_and_macos()
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(AssertionError):
        journey.every_name_is_one_on_windows_and_macos()
