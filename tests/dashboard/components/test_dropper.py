"""Dropped files are counted as they arrive, kept on disk, and deleted when their sender leaves."""

from __future__ import annotations

import shutil
import tracemalloc

import pytest

pytest.importorskip("panel")

from apviz.dashboard.components import dropper
from apviz.dashboard.components.dropper import MOST_AT_ONCE, MOST_OF_SERVER, PIECE_BYTES, Dropper
from tests.dashboard.dropping import drop, send, take_away


class Visitor:
    """A session with a dropper of 3 MB."""

    def __init__(self, folder):
        self.folder, self.files, self.refusals = folder, {}, []
        folder.mkdir()
        self.dropper = Dropper(folder, 3, self.files.__setitem__, lambda error: self.refusals.append(str(error)))

    def held(self):
        """Return the bytes on disk and those in the dropper."""
        assert not self.dropper.value and not self.dropper._file_buffer
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture(autouse=True)
def _of_no_other_test(monkeypatch):
    monkeypatch.setattr(dropper, "_unfinished", set())


@pytest.fixture
def visitor(tmp_path):
    return Visitor(tmp_path / "session")


def test_a_file_arrives_complete_for_any_pieces(visitor):
    content = bytes(range(256)) * 11_000
    for name, pieces in {"one.csv": 1, "two.csv": 2}.items():
        drop(visitor.dropper, name, content, pieces)
        assert visitor.files[name].read_bytes() == content
    drop(visitor.dropper, "empty.csv", b"")
    assert visitor.files["empty.csv"].read_bytes() == b"" and not visitor.refusals
    assert len({path.parent for path in visitor.files.values()}) == 3 and not dropper._unfinished


def test_a_file_at_the_limit_is_accepted_and_one_byte_more_is_rejected(visitor):
    drop(visitor.dropper, "most.csv", bytes(3_000_000), 2)
    assert visitor.files["most.csv"].stat().st_size == 3_000_000
    drop(visitor.dropper, "more.csv", bytes(3_000_001), 2)
    assert visitor.refusals == ["more.csv is too large; up to 3 MB are accepted"]
    assert visitor.held() == 3_000_000


def test_bytes_beyond_the_limit_are_rejected_on_arrival_with_one_message(visitor):
    # two pieces could be within the limit, but each is larger than those of a browser
    send(visitor.dropper, "x.csv", 1, 2, bytes(PIECE_BYTES))
    assert visitor.held() == PIECE_BYTES
    for number in range(2, 30):
        send(visitor.dropper, "x.csv", number, 2, bytes(PIECE_BYTES))
        assert visitor.held() == 0
    assert visitor.refusals == ["x.csv is too large; up to 3 MB are accepted"] and not dropper._unfinished


def test_memory_holds_at_most_one_piece(visitor):
    piece = bytes(PIECE_BYTES // 2)
    tracemalloc.start()
    try:
        for number in range(1, 200):
            send(visitor.dropper, f"{number % 7}.csv", 1, 3, piece)
            send(visitor.dropper, f"{number % 7}.csv", 2, 3, piece)
        current, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < PIECE_BYTES and current < 100_000
    assert visitor.held() <= MOST_AT_ONCE * PIECE_BYTES


@pytest.mark.parametrize(
    "piece",
    [(2, 2, b"x"), (1, 10**9, b"x"), (0, 1, b"x"), (-1, 1, b"x"), (1, 0, b"x"), (1, 2, b""), (1, "2", b"x"),
     (1, None, b"x"), (None, None, None), (1, 1, "text"), (1, 1, None), (1, 1, [1, 2]), ([1], 1, b"x"),
     (1, 2.5, b"x")],
)  # fmt: skip
def test_malformed_messages_are_rejected_with_a_reason_and_not_kept(visitor, piece):
    send(visitor.dropper, "x.csv", *piece)
    (said,) = visitor.refusals
    assert said.startswith("x.csv ") and not visitor.files and visitor.held() == 0 and not dropper._unfinished


@pytest.mark.parametrize("name", [None, 1, ["x"], {"x": 1}, b"x"])
def test_a_name_that_is_not_text_is_ignored(visitor, name):
    send(visitor.dropper, name, 1, 1, b"x")
    assert not visitor.files and not visitor.refusals and visitor.held() == 0


@pytest.mark.parametrize(("number", "pieces"), [(1, 3), (2, 3), (4, 3), (3, 2)])
def test_a_piece_out_of_order_ends_an_upload(visitor, number, pieces):
    send(visitor.dropper, "x.csv", 1, 3, b"a")
    send(visitor.dropper, "x.csv", 2, 3, b"b")
    send(visitor.dropper, "x.csv", number, pieces, b"c")
    assert not visitor.files and visitor.held() == (number == 1)


def test_a_removed_or_restarted_upload_leaves_nothing(visitor):
    send(visitor.dropper, "x.csv", 1, 2, b"abc")
    take_away(visitor.dropper, "x.csv")
    assert visitor.held() == 0
    send(visitor.dropper, "x.csv", 1, 2, b"abc")
    drop(visitor.dropper, "x.csv", b"other", 2)
    assert visitor.files["x.csv"].read_bytes() == b"other" and visitor.held() == 5


def test_a_session_keeps_only_the_last_few_unfinished_uploads(visitor):
    for number in range(50):
        send(visitor.dropper, f"{number}.csv", 1, 2, b"abc")
    assert visitor.held() == 3 * MOST_AT_ONCE == 3 * len(dropper._unfinished)
    send(visitor.dropper, "49.csv", 2, 2, b"d")
    assert visitor.files["49.csv"].read_bytes() == b"abcd" and not visitor.refusals


def fill(tmp_path):
    many = [Visitor(tmp_path / str(number)) for number in range(MOST_OF_SERVER // MOST_AT_ONCE)]
    for each in many:
        for number in range(MOST_AT_ONCE):
            send(each.dropper, f"{number}.csv", 1, 2, b"abc")
    return many


def test_a_server_limits_unfinished_uploads_of_all_sessions_with_a_message(visitor, tmp_path):
    fill(tmp_path)
    drop(visitor.dropper, "x.csv", b"abc", 2)
    assert visitor.refusals == [
        "x.csv cannot be uploaded yet: the server accepts 20 files at once; drop it again in a minute"
    ]
    assert not visitor.files and visitor.held() == 0


def test_uploads_of_closed_and_abandoned_tabs_free_their_slots_and_bytes(visitor, tmp_path, monkeypatch):
    many = fill(tmp_path)
    shutil.rmtree(many[0].folder)  # like the end of its session
    drop(visitor.dropper, "x.csv", b"abc", 2)
    assert "x.csv" in visitor.files
    send(many[0].dropper, "0.csv", 2, 2, b"abc")
    assert not many[0].files and not many[0].folder.exists()
    monkeypatch.setattr(dropper, "IDLE_SECONDS", -1.0)
    drop(visitor.dropper, "y.csv", b"abc")
    assert "y.csv" in visitor.files and not dropper._unfinished
    assert sum(each.held() for each in many[1:]) == 0


def test_the_message_about_a_full_disk_contains_no_path_of_the_server(visitor, monkeypatch):
    def full(*given, **more):
        raise OSError(28, "No space left on device", str(visitor.folder))

    monkeypatch.setattr(dropper.tempfile, "mkdtemp", full)
    drop(visitor.dropper, "x.csv", b"abc")
    assert visitor.refusals == ["x.csv No space left on device"]
