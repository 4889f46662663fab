"""What is kept next to the traces: notes, and deleted runs for some days."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("panel")

from apviz.dashboard.store.runs_folder import RunsFolder
from tests.dashboard.store.on_disk import entry, files, leave_as_killed
from tests.trust.disk import FailingDisk


def test_a_note_survives_a_restart_and_is_not_in_the_trace(folder):
    before = files(folder / "cg.zarr")
    assert RunsFolder(folder).write_note("cg", "  größer, <b>\nzwei  ") == "größer, <b>\nzwei"
    assert entry(RunsFolder(folder), "cg").note == "größer, <b>\nzwei"
    assert files(folder / "cg.zarr") == before


def test_an_empty_note_is_no_note_and_a_long_one_is_rejected(folder):
    runs = RunsFolder(folder)
    runs.write_note("cg", "note")
    runs.write_note("cg", " ")
    assert entry(runs, "cg").note == ""
    with pytest.raises(ValueError, match="2,001 characters; up to 2,000"):
        runs.write_note("cg", "x" * 2001)


def test_a_deleted_run_is_restored_completely(folder):
    runs = RunsFolder(folder)
    runs.write_note("fit", "a note")
    before = files(folder)
    deleted = runs.delete("fit")
    assert "fit" not in runs.names() and not (folder / "fit.zarr").exists()
    assert [each.name for each in RunsFolder(folder).deleted()] == ["fit"]
    assert runs.restore(deleted.key) == "fit"
    assert files(folder) == before and runs.deleted() == []


def test_a_run_is_restored_under_another_name_if_its_own_is_taken(folder):
    runs = RunsFolder(folder)
    runs.write_note("cg", "the first")
    deleted = runs.delete("cg")
    runs.rename("ap", "cg")
    assert runs.restore(deleted.key) == "cg-2"
    assert entry(runs, "cg-2").note == "the first" and entry(runs, "cg").note == ""
    with pytest.raises(FileNotFoundError, match="no longer in the trash"):
        runs.restore(deleted.key)


@pytest.mark.parametrize("do", ["rename", "delete"])
def test_a_run_whose_note_cannot_be_moved_stays_complete_at_its_place(folder, do):
    runs = RunsFolder(folder)
    runs.write_note("cg", "a note")
    runs.write_tags("cg", ["one"])
    before = files(folder)

    def act():
        runs.rename("cg", "new") if do == "rename" else runs.delete("cg")

    with FailingDisk(folder, lambda call: call == 5) as disk, pytest.raises(OSError, match="Input/output error"):
        act()
    assert disk.failed and files(folder) == before and runs.deleted() == []
    act()
    assert "cg" not in runs.names()


def test_the_trash_is_emptied_after_some_days(folder):
    runs = RunsFolder(folder)
    old, new = runs.delete("cg"), runs.delete("ap")
    (folder / ".trash" / old.key).rename(folder / ".trash" / str(int(old.key) - 8 * 86_400 * 10**9))
    assert [each.key for each in RunsFolder(folder).deleted()] == [new.key]


def test_a_run_that_may_still_be_written_is_neither_renamed_nor_deleted(folder):
    leave_as_killed(folder / "ap.zarr", age=1)
    runs = RunsFolder(folder)
    for what in (lambda: runs.rename("ap", "other"), lambda: runs.delete("ap")):
        with pytest.raises(ValueError, match=r"ap was written to 1 s ago and may still run"):
            what()
    leave_as_killed(folder / "ap.zarr", age=60)
    runs.rename("ap", "other")
    runs.delete("other")


def test_foreign_files_are_never_removed_or_replaced(folder):
    """Foreign folders and files have names almost like those of apviz."""
    mine = {
        folder / ".trash" / "2023" / "old.zarr" / "thesis.tex",
        folder / ".trash" / "letters" / "old.zarr" / "thesis.tex",
        folder / ".importing-photos" / "1.jpg",
        folder / ".importing-old" / "0.zarr.jpg",
        folder / "new.zarr.checkpoint.npz",
        folder / ".notes" / "third.txt",
    }
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("years of work")
        for place in path.relative_to(folder).parents:
            os.utime(folder / place, (0, 0))
    runs = RunsFolder(folder)
    for name in ("new", "third"):
        with pytest.raises(FileExistsError, match="already, which would then belong to"):
            runs.rename("cg", name)
    deleted = runs.delete("cg")
    (folder / ".notes" / "cg.txt").write_text("years of work")
    assert runs.restore(deleted.key) == "cg-2"
    assert {path.read_text() for path in (*mine, folder / ".notes" / "cg.txt")} == {"years of work"}
