"""Files are complete or absent, and moves are all or nothing, on a disk that fails at each of its calls."""

import errno
import os
from contextlib import suppress

import pytest

from apviz.files import file_made_whole, move_together
from tests.trust.disk import FailingDisk


def write(path, text, durable=False):
    with file_made_whole(path, durable=durable) as file:
        file.write(text.encode())


def calls_of(root, do):
    with FailingDisk(root) as disk:
        do()
    return disk.calls


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("lasting", [False, True])
def test_whichever_call_fails_either_the_old_or_the_new_file_exists_and_nothing_else(tmp_path, durable, lasting):
    path, failed = tmp_path / "a.txt", 0
    write(path, "old")
    for k in range(1, 1 + calls_of(tmp_path, lambda: write(path, "old", durable))):
        with FailingDisk(tmp_path, lambda call, k=k: call == k or (lasting and call > k), errno.ENOSPC) as disk:
            try:
                write(path, "new" * 10, durable)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # the first error, not one during clean-up
                failed += 1
        assert path.read_text() in ("old", "new" * 10)
        visible = [name for name in os.listdir(tmp_path) if not name.startswith(".")]
        assert visible == ["a.txt"] and (lasting or os.listdir(tmp_path) == ["a.txt"]), disk.failed
        write(path, "old")
    assert failed >= 3


def test_a_durable_file_is_synced_before_it_is_moved_into_place_and_its_folder_afterwards(tmp_path, monkeypatch):
    done, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append("replace"), replace(old, new)))
    write(tmp_path / "a.txt", "kept", durable=True)
    assert len(done) == 3 and ".a.txt." in done[0] and done[1:] == ["replace", str(tmp_path)]
    assert fsync is not os.fsync


@pytest.mark.parametrize("lasting", [False, True])
def test_files_that_belong_together_move_together_or_not_at_all(tmp_path, lasting):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    names = ["note", "tags"]

    def place():
        (tmp_path / "here" / "run").mkdir()
        (tmp_path / "here" / "run" / "numbers").write_text("1 2 3")
        for name in names:
            (tmp_path / "here" / name).write_text(name)

    def move():
        here, there = tmp_path / "here", tmp_path / "there"
        move_together((here / "run", there / "run"), [(here / name, there / name) for name in names])

    def move_back():
        for each in (tmp_path / "there").iterdir():
            if each.name.startswith("."):  # a temporary file that a broken disk kept
                each.unlink()
            else:
                each.rename(tmp_path / "here" / each.name)
        for each in (tmp_path / "here").glob(".*"):
            each.unlink()

    place()
    many = calls_of(tmp_path, move)
    move_back()
    outcomes = set()
    for k in range(1, many + 1):
        disk = FailingDisk(tmp_path, lambda call, k=k: call == k or (lasting and call > k), errno.EIO)
        with disk, suppress(OSError):
            move()
        there = (tmp_path / "there" / "run").exists()
        folder = tmp_path / ("there" if there else "here")
        assert (folder / "run" / "numbers").read_text() == "1 2 3"
        assert [(folder / name).read_text() for name in names] == names
        outcomes.add(there)
        move_back()
    assert outcomes == {False, True}
