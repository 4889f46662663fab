"""The folder of runs: what is listed, names that stay inside, notes, the trash, import and export."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard import runs_folder
from apviz.dashboard.runs_folder import RunsFolder

SOLVES_FOREVER = """
import sys, torch, apviz
x = torch.rand(60, 2)
system = apviz.KernelSystem(x, x[:, :1], apviz.Matern52(0.5), 0.01, operator="dense", dataset="made")
solver = apviz.AlternatingProjection(6, tol=1e-300, max_epochs=10**7, check_every=10**6)
apviz.solve(system, solver, hooks=[apviz.Recorder(sys.argv[1])])
"""


def entry(runs, name):
    return next(each for each in runs.entries() if each.name == name)


def rewrite(path, change):
    """Changes the root attributes of a trace on disk."""
    root = json.loads((path / "zarr.json").read_text())
    change(root["attributes"])
    (path / "zarr.json").write_text(json.dumps(root))


def cut_off(path, age=3600.0):
    """The trace as a kill some seconds ago would have left it."""

    def change(attributes):
        attributes["status"] = "interrupted"
        for name in ("stop_reason", "stop_message", "residual", "epochs", "work", "seconds"):
            attributes.pop(name, None)

    rewrite(path, change)
    os.utime(path / "zarr.json", (time.time() - age,) * 2)


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def exported(runs, *names):
    file = io.BytesIO()
    runs.export(names, file)
    return file.getvalue()


# --- the list ---------------------------------------------------------------------------------------------------------


def test_every_solve_and_training_is_listed_with_what_its_root_attributes_say(folder):
    runs = RunsFolder(folder)
    assert {each.name for each in runs.entries()} == {"cg", "ap", "cut", "fit"} == set(runs.names())
    trace = apviz.open_trace(folder / "ap.zarr")
    listed = entry(runs, "ap")
    assert (listed.kind, listed.method, listed.dataset, listed.n) == ("solve", trace.label, "made", 60)
    assert listed.epochs == int(trace["epoch"]["epoch"][-1]) and listed.work == trace.attrs["work"]
    assert listed.ending == "converged" and listed.finished
    assert entry(runs, "cut").ending == "not converged (max_epochs)"
    assert (entry(runs, "fit").kind, entry(runs, "fit").epochs, entry(runs, "fit").ending) == (
        "training",
        2,
        "finished",
    )


def test_the_list_needs_no_data_of_a_trace(folder):
    for path in folder.glob("*.zarr"):
        for data in path.rglob("c"):
            shutil.rmtree(data) if data.is_dir() else data.unlink()
    assert len(RunsFolder(folder).names()) == 4


def test_a_trace_is_read_again_only_when_it_has_changed(folder, monkeypatch):
    read = []
    real = runs_folder.read_entry
    monkeypatch.setattr(runs_folder, "read_entry", lambda name, *rest: read.append(name) or real(name, *rest))
    runs = RunsFolder(folder)
    runs.entries()
    assert len(read) == 4
    assert runs.entries() == runs.entries() and len(read) == 4
    rewrite(folder / "cg.zarr", lambda attributes: attributes.update(method="another"))
    assert entry(runs, "cg").method == "another" and read[4:] == ["cg"]


def test_the_newest_run_is_the_first(folder):
    rewrite(folder / "ap.zarr", lambda attributes: attributes.update(created="2999-01-01T00:00:00+00:00"))
    rewrite(folder / "cg.zarr", lambda attributes: attributes.update(created="1999-01-01T00:00:00+00:00"))
    names = RunsFolder(folder).names()
    assert (names[0], names[-1]) == ("ap", "cg")


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda path: (path / "zarr.json").write_text("{bad"), "its zarr.json cannot be read"),
        (lambda path: (path / "zarr.json").unlink(), "it has no zarr.json"),
        (lambda path: (path / "zarr.json").write_text("[1]"), "not that of an apviz trace"),
        (lambda path: rewrite(path, lambda a: a.clear()), "it has no schema_version"),
        (lambda path: rewrite(path, lambda a: a.update(schema_version=99)), "has schema 99, this apviz reads up to 1"),
        (lambda path: rewrite(path, lambda a: a.update(work=[])), "not that of an apviz trace"),
    ],
)
def test_a_broken_trace_is_listed_last_with_the_reason_and_the_others_as_ever(folder, break_it, why):
    break_it(folder / "ap.zarr")
    runs = RunsFolder(folder)
    assert why in runs.entries()[-1].problem and runs.entries()[-1].name == "ap"
    assert set(runs.names()) == {"cg", "cut", "fit"}
    assert runs.open("cg").label == "CG"


def test_a_run_that_was_killed_with_its_process_is_listed_as_interrupted_after_a_restart(tmp_path):
    path = tmp_path / "killed.zarr"
    process = subprocess.Popen(
        [sys.executable, "-c", SOLVES_FOREVER, str(path)], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        while not path.exists():
            assert process.poll() is None
            time.sleep(0.01)
        running = entry(RunsFolder(tmp_path), "killed")
        assert running.ended(time.time()) == "interrupted, or still running"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    runs = RunsFolder(tmp_path)
    killed = entry(runs, "killed")
    assert not killed.finished and not killed.problem and killed.epochs is not None
    assert killed.ended(time.time() + 3600) == "interrupted"
    assert not runs.open("killed").finished


def test_a_solve_that_ended_in_an_error_says_which(folder):
    cut_off(folder / "ap.zarr")
    rewrite(folder / "ap.zarr", lambda a: a.update(stop_message="interrupted by KeyboardInterrupt"))
    assert entry(RunsFolder(folder), "ap").ended(time.time()) == "interrupted by KeyboardInterrupt"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", {"cg", "ap", "cut", "fit"}), ("AP made", {"ap", "cut"}), ("not converged", {"cut"}),
        ("training", {"fit"}), ("lecture", {"cg"}), ("nothing like it", set()),
    ],
)  # fmt: skip
def test_a_filter_is_words_of_name_method_data_ending_and_note(folder, words, found):
    runs = RunsFolder(folder)
    runs.write_note("cg", "for the lecture")
    assert {each.name for each in runs.entries() if each.matches(words)} == found


# --- opening ----------------------------------------------------------------------------------------------------------


def test_an_opened_trace_is_kept_until_it_changes_on_disk(folder):
    runs = RunsFolder(folder)
    first = runs.open("cg")
    assert runs.open("cg") is first
    rewrite(folder / "cg.zarr", lambda attributes: attributes.update(seed=7))
    assert runs.open("cg").attrs["seed"] == 7


def test_only_so_many_opened_traces_are_kept(folder, monkeypatch):
    monkeypatch.setattr(runs_folder, "KEPT_TRACES", 2)
    runs = RunsFolder(folder)
    first, second = runs.open("cg"), runs.open("ap")
    runs.open("cut")
    assert runs.open("ap") is second and runs.open("cg") is not first


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../runs/cg", "a/b", "/etc/passwd", "a\\b", ".hidden", "a\x00b", "a\nb", "x" * 300]
)
def test_no_name_leads_out_of_the_folder(folder, name):
    runs = RunsFolder(folder)
    for what in (runs.open, runs.delete, runs.path_of, lambda name: runs.export([name], io.BytesIO())):
        with pytest.raises(ValueError, match="no name of a run"):
            what(name)
    with pytest.raises(ValueError, match="no name of a run"):
        runs.write_note(name, "note")
    before = files(folder.parent)
    with pytest.raises(ValueError):
        runs.rename("cg", name)
    assert files(folder.parent) == before


def test_a_name_that_is_not_there_is_said(folder):
    with pytest.raises(FileNotFoundError, match="there is no run nothing in runs"):
        RunsFolder(folder).open("nothing")


# --- names and notes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["other", "with spaces (2)", "Größe=0.5 +10%"])
def test_a_renamed_run_is_the_same_run_with_its_note_and_checkpoint(folder, name):
    runs = RunsFolder(folder)
    runs.write_note("fit", "a note")
    before = files(folder / "fit.zarr")
    assert runs.rename("fit", f" {name} ") == name
    assert files(folder / f"{name}.zarr") == before and not (folder / "fit.zarr").exists()
    assert entry(runs, name).note == "a note" and "fit" not in runs.names()
    assert (folder / f"{name}.checkpoint.npz").exists() and not (folder / "fit.checkpoint.npz").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ap", "there is a run ap already"),
        ("a,b", "has a comma, which separates the runs in an address"),
        ("   ", "a run needs a name"),
        ("x" * 101, "101 characters; up to 100"),
        ("ü" * 100 + "x", "101 characters; up to 100"),
        ("漢" * 90, "90 characters"),
        (".hidden", "would be hidden"),
        ("a/b", "has '/'"),
        ("a\tb", "has '\\\\t'"),
        ("a<b>", "has '<' '>'"),
        ("a\u202eb", "letters, digits"),
        ("run.zarr", "ends in a dot or in .zarr"),
    ],
)
def test_a_bad_new_name_is_refused_with_the_reason_and_nothing_changes(folder, name, message):
    before = files(folder)
    with pytest.raises((ValueError, FileExistsError), match=message):
        RunsFolder(folder).rename("cg", name)
    assert files(folder) == before


def test_a_note_survives_a_restart_and_is_not_in_the_trace(folder):
    before = files(folder / "cg.zarr")
    assert RunsFolder(folder).write_note("cg", "  größer, <b>\nzwei  ") == "größer, <b>\nzwei"
    assert entry(RunsFolder(folder), "cg").note == "größer, <b>\nzwei"
    assert files(folder / "cg.zarr") == before


def test_an_empty_note_is_none_and_a_long_one_is_refused(folder):
    runs = RunsFolder(folder)
    runs.write_note("cg", "note")
    runs.write_note("cg", " ")
    assert entry(runs, "cg").note == ""
    with pytest.raises(ValueError, match="2,001 characters; up to 2,000"):
        runs.write_note("cg", "x" * 2001)


# --- the trash --------------------------------------------------------------------------------------------------------


def test_a_deleted_run_comes_back_whole(folder):
    runs = RunsFolder(folder)
    runs.write_note("fit", "a note")
    before = files(folder)
    deleted = runs.delete("fit")
    assert "fit" not in runs.names() and not (folder / "fit.zarr").exists()
    assert [each.name for each in RunsFolder(folder).deleted()] == ["fit"]
    assert runs.restore(deleted.key) == "fit"
    assert files(folder) == before and runs.deleted() == []


def test_a_run_comes_back_under_another_name_where_its_own_is_taken(folder):
    runs = RunsFolder(folder)
    runs.write_note("cg", "the first")
    deleted = runs.delete("cg")
    runs.rename("ap", "cg")
    assert runs.restore(deleted.key) == "cg-2"
    assert entry(runs, "cg-2").note == "the first" and entry(runs, "cg").note == ""
    with pytest.raises(FileNotFoundError, match="not in the trash any more"):
        runs.restore(deleted.key)


def test_the_trash_is_emptied_after_some_days(folder):
    runs = RunsFolder(folder)
    old, new = runs.delete("cg"), runs.delete("ap")
    (folder / ".trash" / old.key).rename(folder / ".trash" / str(int(old.key) - 8 * 86_400 * 10**9))
    assert [each.key for each in RunsFolder(folder).deleted()] == [new.key]


def test_a_run_that_may_still_be_written_is_neither_renamed_nor_deleted(folder):
    cut_off(folder / "ap.zarr", age=1)
    runs = RunsFolder(folder)
    for what in (lambda: runs.rename("ap", "other"), lambda: runs.delete("ap")):
        with pytest.raises(ValueError, match=r"ap was written to 1 s ago and may still run"):
            what()
    cut_off(folder / "ap.zarr", age=60)
    runs.rename("ap", "other")
    runs.delete("other")


# --- out and in -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cg", "ap", "fit"])
def test_an_exported_run_is_imported_as_it_was_under_a_free_name(folder, tmp_path, name):
    runs, other = RunsFolder(folder), RunsFolder(tmp_path / "other")
    content = exported(runs, name)
    assert runs.take_in(f"{name}.zarr.zip", content) == [f"{name}-2"]
    assert other.take_in(f"C:\\downloads\\{name}.zarr.zip", content) == [name]
    for found in (runs.open(f"{name}-2"), other.open(name)):
        assert found.tree.identical(runs.open(name).tree)
    assert not [path for path in folder.iterdir() if path.name.startswith(".importing")]


def test_several_runs_go_out_and_in_together(folder, tmp_path):
    runs, other = RunsFolder(folder), RunsFolder(tmp_path / "other")
    assert set(other.take_in("all.zip", exported(runs, "cg", "ap", "cut"))) == {"cg", "ap", "cut"}


@pytest.mark.parametrize(
    "filename", ["../../evil.zarr.zip", ".zarr.zip", "a,b<c>.zip", "x" * 300 + ".zip", "/etc/passwd"]
)
def test_an_import_gets_a_name_that_stays_inside(folder, tmp_path, filename):
    other = RunsFolder(tmp_path / "other")
    (name,) = other.take_in(filename, exported(RunsFolder(folder), "cg"))
    assert other.names() == [name] and "," not in name
    assert other.rename(name, f"{name}!".replace("!", "x")[:100])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda members: members.update({"../evil": b"x"}), "no file of a trace"),
        (lambda members: members.update({"zarr.json": b"{}"}), "describe no array"),
        (lambda members: members.pop("zarr.json"), "no zarr.json at its root"),
        (lambda members: members.clear(), "there is no trace in it"),
        (
            lambda members: members.update({
                "zarr.json": members["zarr.json"].replace(b'"schema_version": 1', b'"schema_version": 99')
            }),
            "has schema 99, this apviz reads up to 1",
        ),
        (
            lambda members: members.update({"zarr.json": members["zarr.json"].replace(b'"method"', b'"meth"')}),
            "no attribute method",
        ),
    ],
)  # fmt: skip
def test_a_refused_import_says_why_and_leaves_nothing_behind(folder, change, message):
    runs = RunsFolder(folder)
    with zipfile.ZipFile(io.BytesIO(exported(runs, "cg"))) as archive:
        members = {each.filename: archive.read(each) for each in archive.infolist()}
    change(members)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    before = files(folder.parent)
    with pytest.raises(ValueError, match=f"bad was not imported: .*{message}") as error:
        runs.take_in("bad.zarr.zip", file.getvalue())
    assert str(folder) not in str(error.value)
    assert files(folder.parent) == before and not list(folder.glob(".importing*"))


def test_an_import_that_is_too_large_is_refused(folder):
    runs = RunsFolder(folder)
    with pytest.raises(ValueError, match="cg was not imported: it unpacks to"):
        runs.take_in("cg.zarr.zip", exported(runs, "cg"), most_bytes=100)


def test_what_a_kill_left_of_an_import_goes_at_the_next_start(folder):
    (folder / ".importing-abc").mkdir()
    os.utime(folder / ".importing-abc", (0, 0))
    RunsFolder(folder)
    assert not (folder / ".importing-abc").exists()
