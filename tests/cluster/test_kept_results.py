"""Workers keep results in a shared folder as JSON, so planted files never run."""

from __future__ import annotations

import json
import os
import pickle
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed")

import distributed

from apviz.cluster.tasks import Task
from apviz.cluster.worker import MARKER, Job, run_task, versions


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def counts(out, hooks, shared):
    with (out / "ran").open("a") as file:
        file.write("x")
    return ("calls so far", (out / "ran").stat().st_size)


def returns_an_object(out, hooks, shared):
    return Evil("nowhere")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a task on a worker with access to the folder."""
    worker = SimpleNamespace(address="tcp://here", memory_manager=SimpleNamespace(memory_limit=None))
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    monkeypatch.setattr("apviz.cluster.worker.StopIfCancelled", object)

    def run(marker="first run", task=counts):
        (tmp_path / marker).mkdir(exist_ok=True)
        (tmp_path / marker / MARKER).touch()
        return run_task(Job(str(tmp_path), marker, versions()), Task("a/task", task), None)

    return run


def test_a_kept_result_is_returned_for_the_same_task_of_the_same_run_only(run):
    assert run() == run()
    assert run().result == ["calls so far", 1]
    assert run(marker="second run").result == ["calls so far", 2]


def planted(tmp_path):
    pickled = pickle.dumps(Evil(tmp_path / "evil"))
    return {"a pickle": pickled, "a pickle as text": repr(pickled).encode(), "truncated": b'["calls', "empty": b""}


@pytest.mark.parametrize("what", ["a pickle", "a pickle as text", "truncated", "empty"])
def test_a_file_that_is_not_json_is_ignored_and_nothing_in_it_runs(run, tmp_path, what):
    (tmp_path / "first run").mkdir()
    (tmp_path / "first run" / "a-task.json").write_bytes(planted(tmp_path)[what])
    assert run().result == ["calls so far", 1]
    assert not (tmp_path / "evil").exists()


def test_the_planted_pickle_would_run_if_it_were_loaded(tmp_path):
    pickle.loads(planted(tmp_path)["a pickle"])
    assert (tmp_path / "evil").exists()


def test_kept_results_are_json_and_others_raise(run, tmp_path):
    run()
    assert json.loads((tmp_path / "first run" / "a-task.json").read_text()) == ["calls so far", 1]
    answer = run(marker="second run", task=returns_an_object)
    assert answer.result is None and "not JSON serializable" in answer.error
