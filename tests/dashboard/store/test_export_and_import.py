"""Export of runs from the folder, and import into it."""

from __future__ import annotations

import io
import os
import zipfile

import pytest

pytest.importorskip("panel")

from apviz.dashboard.store.runs_folder import RunsFolder
from tests.dashboard.store.on_disk import exported, files


@pytest.mark.parametrize("name", ["cg", "ap", "fit"])
def test_an_exported_run_is_imported_unchanged_under_a_free_name(folder, tmp_path, name):
    runs, other = RunsFolder(folder), RunsFolder(tmp_path / "other")
    content = exported(runs, name)
    assert runs.import_zip(f"{name}.zarr.zip", io.BytesIO(content)) == [f"{name}-2"]
    assert other.import_zip(f"C:\\downloads\\{name}.zarr.zip", io.BytesIO(content)) == [name]
    for found in (runs.open(f"{name}-2"), other.open(name)):
        assert found.tree.identical(runs.open(name).tree)
    assert not [path for path in folder.iterdir() if path.name.startswith(".importing")]


def test_several_runs_are_exported_and_imported_together(folder, tmp_path):
    runs, other = RunsFolder(folder), RunsFolder(tmp_path / "other")
    assert set(other.import_zip("all.zip", io.BytesIO(exported(runs, "cg", "ap", "cut")))) == {"cg", "ap", "cut"}


@pytest.mark.parametrize(
    "filename", ["../../evil.zarr.zip", ".zarr.zip", "a,b<c>.zip", "x" * 300 + ".zip", "/etc/passwd"]
)
def test_an_import_gets_a_name_inside_the_folder(folder, tmp_path, filename):
    other = RunsFolder(tmp_path / "other")
    (name,) = other.import_zip(filename, io.BytesIO(exported(RunsFolder(folder), "cg")))
    assert other.names() == [name] and "," not in name
    assert other.rename(name, f"{name}!".replace("!", "x")[:100])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda members: members.update({"../evil": b"x"}), "not a file of a trace"),
        (lambda members: members.update({"zarr.json": b"{}"}), "describe no array"),
        (lambda members: members.pop("zarr.json"), "no zarr.json at its root"),
        (lambda members: members.clear(), "there is no trace in it"),
        (
            lambda members: members.update({
                "zarr.json": members["zarr.json"].replace(b'"schema_version": 5', b'"schema_version": 99')
            }),
            "has schema 99, this apviz reads schema 5: record it again",
        ),
        (
            lambda members: members.update({"zarr.json": members["zarr.json"].replace(b'"method"', b'"meth"')}),
            "no attribute method",
        ),
    ],
)  # fmt: skip
def test_a_rejected_import_states_the_reason_and_leaves_nothing_behind(folder, change, message):
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
        runs.import_zip("bad.zarr.zip", file)
    assert str(folder) not in str(error.value)
    assert files(folder.parent) == before and not list(folder.glob(".importing*"))


def test_an_import_that_is_too_large_is_rejected(folder):
    runs = RunsFolder(folder)
    with pytest.raises(ValueError, match="cg was not imported: it unpacks to"):
        runs.import_zip("cg.zarr.zip", io.BytesIO(exported(runs, "cg")), most_bytes=100)


def test_remains_of_a_killed_import_are_removed_at_the_next_start(folder):
    (folder / ".importing-abc").mkdir()
    os.utime(folder / ".importing-abc", (0, 0))
    RunsFolder(folder)
    assert not (folder / ".importing-abc").exists()
