"""The folder of runs: listing, opening, and names that stay inside."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard.store import runs_folder
from apviz.dashboard.store.runs_folder import RunsFolder
from tests.dashboard.store.on_disk import entry, files, leave_as_killed, rewrite

SOLVES_FOREVER = """
import sys, torch, apviz
x = torch.rand(60, 2)
system = apviz.KernelSystem(x, x[:, :1], apviz.Matern52(lengthscale=0.5), noise=0.01, operator="dense", dataset="made")
solver = apviz.AlternatingProjection(block_size=6, tol=1e-300, max_epochs=10**7, check_every=10**6)
apviz.solve(system, solver, hooks=[apviz.Recorder(sys.argv[1])])
"""


# --- the list ---------------------------------------------------------------------------------------------------------


def test_every_solve_and_training_is_listed_with_its_root_attributes(folder):
    runs = RunsFolder(folder)
    assert {each.name for each in runs.entries()} == {"cg", "ap", "cut", "fit"} == set(runs.names())
    trace = apviz.open_trace(folder / "ap.zarr")
    listed = entry(runs, "ap")
    assert (listed.kind, listed.method, listed.dataset, listed.n) == ("solve", trace.method_name, "made", 60)
    assert listed.epochs == int(trace["epoch"]["epoch"][-1]) and listed.work == trace.attrs["work"]
    # as tables and charts of the solve have them
    assert listed.seconds == float(trace["epoch"]["seconds"][-1])
    assert listed.ending == "Converged" and listed.finished
    assert entry(runs, "cut").ending == "Not converged: epoch limit"
    assert (entry(runs, "fit").kind, entry(runs, "fit").epochs, entry(runs, "fit").ending) == (
        "training",
        2,
        "Finished",
    )


def test_the_list_does_not_read_the_data_of_a_trace(folder, monkeypatch):
    chunks = [each for each in folder.rglob("*") if each.is_file() and each.name != "zarr.json"]
    read, real = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or real(path))
    assert len(RunsFolder(folder).names()) == 4
    # the last test error and κ of each solve
    assert len(set(read) & set(chunks)) <= 3 * 4


@pytest.mark.parametrize("name", ["ap", "cg", "fit"])
def test_a_trace_that_lost_numbers_of_any_variable_is_never_listed_as_converged(folder, name):
    path = folder / f"{name}.zarr"
    for other in {*folder.glob("*.zarr")} - {path}:  # which would be listed as often
        shutil.rmtree(other)
    chunks = [each for each in path.rglob("*") if each.is_file() and each.name != "zarr.json"]
    variables = {each.relative_to(path).parts[:2] for each in chunks}
    assert len(variables) > 8 or name == "fit"
    for chunk in chunks:
        whole = chunk.read_bytes()
        for left in (None, b"", whole[: len(whole) // 2]):
            chunk.unlink(missing_ok=True)
            if left is not None:
                chunk.write_bytes(left)
            found = entry(RunsFolder(folder), name)
            assert found.ending == "damaged" and not found.finished
            assert found.problem.startswith(f"it lacks {chunk.relative_to(path).as_posix()}")
        chunk.write_bytes(whole)
    assert entry(RunsFolder(folder), name).finished


@pytest.mark.parametrize(
    ("break_it", "ending"),
    [
        (lambda path: (path / "zarr.json").write_bytes(b"\x00\xff{"), "damaged"),
        (lambda path: (path / "zarr.json").unlink(), "damaged"),
        (lambda path: (path / "epoch" / "residual" / "c" / "0").write_bytes(b"half"), "damaged"),
        (lambda path: rewrite(path, lambda a: a.update(schema_version=99)), "cannot be read"),
    ],
)
def test_a_damaged_trace_says_damaged_and_one_of_another_version_does_not(folder, break_it, ending):
    break_it(folder / "ap.zarr")
    found = entry(RunsFolder(folder), "ap")
    assert found.ending == ending and found.ended(time.time()) == ending.capitalize() and found.problem


def test_damage_that_only_opening_finds_is_listed_until_the_trace_changes(folder):
    runs, path = RunsFolder(folder), folder / "ap.zarr"
    assert entry(runs, "ap").ending == "Converged"
    chunk = path / "epoch" / "work" / "c" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(b"half")  # the list looks at zarr.json alone
    with pytest.raises(ValueError, match="ap does not open as a Zarr trace"):
        runs.open("ap")
    found = entry(runs, "ap")
    assert found.ending == "damaged" and found.problem.startswith("it does not open") and not found.finished
    assert set(runs.names()) == {"cg", "cut", "fit"}
    chunk.write_bytes(whole)
    rewrite(path, lambda attributes: attributes.update(seed=1))
    assert entry(runs, "ap").ending == "Converged"


def test_a_trace_is_read_again_only_after_a_change(folder, monkeypatch):
    read = []
    real = runs_folder.read_entry
    monkeypatch.setattr(runs_folder, "read_entry", lambda name, *rest: read.append(name) or real(name, *rest))
    runs = RunsFolder(folder)
    runs.entries()
    assert len(read) == 4
    assert runs.entries() == runs.entries() and len(read) == 4
    rewrite(folder / "cg.zarr", lambda attributes: attributes.update(method_name="another"))
    assert entry(runs, "cg").method == "another" and read[4:] == ["cg"]


def test_numbers_that_a_run_lacks_do_not_make_its_entry_differ_from_a_copy():
    one, other = (runs_folder.RunEntry("ap", 1.0, rmse=float("nan")) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert one != runs_folder.RunEntry("ap", 1.0, rmse=0.1) and one != "ap"


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
        (lambda path: rewrite(path, lambda a: a.update(schema_version=99)), "has schema 99, this apviz reads schema 5"),
        (lambda path: rewrite(path, lambda a: a.update(schema_version=1)), "has schema 1, this apviz reads schema 5"),
        (lambda path: rewrite(path, lambda a: a.update(work=[])), "not that of an apviz trace"),
    ],
)
def test_a_broken_trace_is_listed_last_with_the_reason_and_does_not_affect_others(folder, break_it, why):
    break_it(folder / "ap.zarr")
    runs = RunsFolder(folder)
    assert why in runs.entries()[-1].problem and runs.entries()[-1].name == "ap"
    assert set(runs.names()) == {"cg", "cut", "fit"}
    assert runs.open("cg").method_name == "CG"


@pytest.mark.slow
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
        assert running.ended(time.time()) == "Interrupted, or still running"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    runs = RunsFolder(tmp_path)
    killed = entry(runs, "killed")
    assert not killed.finished and not killed.problem and killed.epochs is not None
    assert killed.ended(time.time() + 3600) == "Interrupted"
    assert not runs.open("killed").finished


def test_a_solve_that_ended_in_an_error_states_it(folder):
    leave_as_killed(folder / "ap.zarr")
    rewrite(folder / "ap.zarr", lambda a: a.update(stop_message="interrupted by KeyboardInterrupt"))
    assert entry(RunsFolder(folder), "ap").ended(time.time()) == "Interrupted by KeyboardInterrupt"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", {"cg", "ap", "cut", "fit"}), ("projection made", {"ap", "cut"}), ("not converged", {"cut"}),
        ("training", {"fit"}), ("lecture", {"cg"}), ("nothing like it", set()),
    ],
)  # fmt: skip
def test_a_filter_matches_words_of_name_method_data_outcome_and_note(folder, words, found):
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


def test_the_number_of_open_traces_is_limited(folder, monkeypatch):
    monkeypatch.setattr(runs_folder, "CACHED_TRACES", 2)
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
        with pytest.raises(ValueError, match="not a run name"):
            what(name)
    with pytest.raises(ValueError, match="not a run name"):
        runs.write_note(name, "note")
    before = files(folder.parent)
    with pytest.raises(ValueError):
        runs.rename("cg", name)
    assert files(folder.parent) == before


def test_a_missing_name_raises(folder):
    with pytest.raises(FileNotFoundError, match="there is no run nothing in runs"):
        RunsFolder(folder).open("nothing")


# --- names and notes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["other", "with spaces (2)", "Größe=0.5 +10%"])
def test_a_renamed_run_keeps_its_note_and_checkpoint(folder, name):
    runs = RunsFolder(folder)
    runs.write_note("fit", "a note")
    before = files(folder / "fit.zarr")
    assert runs.rename("fit", f" {name} ") == name
    assert files(folder / f"{name}.zarr") == before and not (folder / "fit.zarr").exists()
    assert entry(runs, name).note == "a note" and "fit" not in runs.names()
    assert (folder / f"{name}.zarr.checkpoint.npz").exists() and not (folder / "fit.zarr.checkpoint.npz").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ap", "there is a run ap already"),
        ("a,b", "has a comma, which separates runs in an address"),
        ("   ", "a run needs a name"),
        ("x" * 101, "101 characters; up to 100"),
        ("ü" * 100 + "x", "101 characters; up to 100"),
        ("漢" * 90, "90 characters"),
        (".hidden", "would be hidden"),
        ("a/b", "has '/'"),
        ("a\tb", "has '\\\\t'"),
        ("a<b>", "has '<' '>'"),
        ("a\u202eb", "letters, digits"),
        ("run.zarr", "must not end in a dot or in .zarr"),
    ],
)
def test_a_bad_new_name_is_rejected_with_the_reason_and_nothing_changes(folder, name, message):
    before = files(folder)
    with pytest.raises((ValueError, FileExistsError), match=message):
        RunsFolder(folder).rename("cg", name)
    assert files(folder) == before
