"""What workers keep for one another in a shared folder runs nothing that somebody else put there."""

from __future__ import annotations

import os
import pickle
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed")

import distributed

from apviz.cluster.tasks import Task
from apviz.cluster.worker import HERE, Job, Returned, on_worker, signed, signed_by, versions

KEY = b"k" * 32


class Evil:
    """What runs when it is unpickled: makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def counts(out, hooks, shared):
    with (out / "ran").open("a") as file:
        return file.write("x") and (out / "ran").stat().st_size


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the task on a worker that sees the folder."""
    worker = SimpleNamespace(address="tcp://here", memory_manager=SimpleNamespace(memory_limit=None))
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    monkeypatch.setattr("apviz.cluster.worker.Awaited", object)
    (tmp_path / "meeting").mkdir()
    (tmp_path / "meeting" / HERE).touch()

    def run(name="a task", key=KEY):
        done = on_worker(Job(str(tmp_path), "meeting", versions(), key), Task(name, counts), None)
        assert not done.error
        return (tmp_path / "ran").read_text().count("x") if (tmp_path / "ran").exists() else 0

    return run


def test_a_result_that_was_kept_is_taken_by_the_worker_that_gets_the_task_again(run, tmp_path):
    assert run() == 1 and run() == 1
    assert not any(KEY in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    # of another run, whose key is another
    assert run(key=b"o" * 32) == 2


def planted(tmp_path):
    evil = Evil(tmp_path / "evil")
    return {
        "a pickle": pickle.dumps(evil),
        "no signature": bytes(32) + pickle.dumps(evil),
        "one by another key": signed(b"o" * 32, "a task", evil),
        "of another task": signed(KEY, "another task", Returned("wrong")),
        "cut off": signed(KEY, "a task", Returned("right"))[:-1],
        "too short": b"x",
        "empty": b"",
    }


@pytest.mark.parametrize("what", [
    "a pickle", "no signature", "one by another key", "of another task", "cut off", "too short", "empty"])  # fmt: skip
def test_what_was_put_there_by_somebody_else_is_never_unpickled_and_the_task_runs(run, tmp_path, what):
    (tmp_path / "meeting" / "a task.done").write_bytes(planted(tmp_path)[what])
    assert run() == 1
    assert not (tmp_path / "evil").exists()


def test_the_evil_one_would_have_run(tmp_path):
    pickle.loads(planted(tmp_path)["a pickle"])
    assert (tmp_path / "evil").exists()


def test_what_was_signed_comes_out_as_it_went_in():
    value = Returned({"a": 1.5}, worker="w")
    assert signed_by(KEY, "t", signed(KEY, "t", value)) == value
    assert signed_by(KEY, "u", signed(KEY, "t", value)) is None
