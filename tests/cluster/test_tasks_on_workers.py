"""Tasks on workers: results, memory, retries, lost workers, and invalid settings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from importlib import metadata

import pytest

from apviz.cluster import Cluster, Task, client
from tests.cluster import small_solves as small
from tests.ports import free_port


def results(done):
    return {each.task.name: each.result for each in done}


@pytest.mark.slow
def test_ctrl_c_during_the_handling_of_a_result_waits_for_the_next_one_and_a_second_acts_at_once(two_workers, tmp_path):
    tasks = [Task("who", small.whoami), Task("sleeps", partial(small.sleeps, 2.0))]
    done = two_workers.run(tasks, tmp_path)
    assert next(done).task.name == "who"
    signal.raise_signal(signal.SIGINT)  # nothing is lost
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        list(done)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # it is also raised if no further results are requested
    done = two_workers.run(tasks, tmp_path)
    next(done)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        done.close()


class Patient:
    """Kills the process of the first running task, once."""

    def __init__(self, folder):
        self.folder, self.killed = folder, None
        self.thread = threading.Thread(target=self._kill)
        self.thread.start()

    def _kill(self):
        while not (begun := [*self.folder.glob("*.begun")]):
            time.sleep(0.01)
        self.killed = int(begun[0].stem)
        os.kill(self.killed, signal.SIGKILL)


@pytest.mark.slow
def test_the_task_of_a_worker_that_is_killed_runs_again_on_another(two_workers, tmp_path):
    patient = Patient(tmp_path)
    done = [*two_workers.run([Task(f"sleeps {k}", partial(small.sleeps, 1.0)) for k in range(2)], tmp_path)]
    patient.thread.join()
    assert [each.error for each in done] == ["", ""]
    assert patient.killed not in results(done).values() and (tmp_path / f"{patient.killed}.begun").exists()


# --- other schedulers and workers -------------------------------------------------------------------------------------


class Commands:
    """Starts `dask scheduler` and `dask worker` like a user."""

    def __init__(self):
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.processes = []
        port = self.address.rpartition(":")[2]
        self.scheduler = self.start("scheduler", "--port", port, "--no-dashboard", "--host", "127.0.0.1")

    def start(self, *words):
        command = [sys.executable, "-m", "dask", *words]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def worker(self, *words):
        return self.start("worker", self.address, "--nthreads", "1", "--no-dashboard", *words)

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)


@pytest.fixture
def commands(monkeypatch):
    monkeypatch.setattr(client, "ANSWER_SECONDS", 120.0)
    monkeypatch.setattr(client, "FIRST_WORKER_SECONDS", 120.0)
    started = Commands()
    yield started
    started.end()


@pytest.mark.slow
def test_a_task_too_large_for_a_worker_goes_to_a_larger_one_or_states_the_available_memory(commands, tmp_path):
    commands.worker("--memory-limit", "2GiB", "--name", "small")
    commands.worker("--memory-limit", "6GiB", "--name", "large")
    with Cluster(commands.address) as cluster:
        while len(cluster.workers()) < 2:
            time.sleep(0.1)
        (large,) = [each for each, about in cluster.workers().items() if about["name"] == "large"]
        tasks = [Task(f"holds {k}", partial(small.holds, 3.0)) for k in range(4)]
        done = [*cluster.run([*tasks, Task("too much", partial(small.holds, 50.0))], tmp_path)]
    *fit, beyond = sorted(done, key=lambda each: each.task.name)
    assert [each.error for each in fit] == [""] * 4 and {each.worker for each in fit} == {large}
    assert beyond.error.startswith("50.0 GiB of factors need 50.0 GiB") and "take smaller blocks" in beyond.error
    assert beyond.error.endswith("; the largest worker may hold 6.0 GiB")


@pytest.mark.slow
def test_without_remaining_workers_nothing_waits_and_finished_results_are_kept(commands, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "NO_WORKER_SECONDS", 3.0)
    worker = commands.worker("--no-nanny")
    with Cluster(commands.address) as cluster:
        patient = Patient(tmp_path)
        with pytest.raises(OSError, match="there has been no worker for 3 s; finished tasks are kept"):
            list(cluster.run([Task("sleeps", partial(small.sleeps, 60.0))], tmp_path))
        patient.thread.join()
        worker.wait(60)
        # also if there never was a worker
    monkeypatch.setattr(client, "FIRST_WORKER_SECONDS", 1.0)
    with pytest.raises(OSError, match=f"has no worker: start some with `dask worker {commands.address} --nthreads 1`"):
        Cluster(commands.address)


@pytest.mark.slow
def test_a_worker_lost_during_a_long_handling_of_a_result_is_noticed(commands, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "NO_WORKER_SECONDS", 30.0)
    worker = commands.worker("--no-nanny")
    with Cluster(commands.address) as cluster:
        done = cluster.run([Task("who", small.whoami), Task("sleeps", partial(small.sleeps, 60.0))], tmp_path)
        assert next(done).task.name == "who"
        time.sleep(31)  # longer than the limit without workers, though there always was one
        worker.kill()
        time.sleep(2)  # the scheduler notices it
        threading.Timer(5, commands.worker).start()
        assert next(done).task.name == "sleeps"


@pytest.mark.slow
def test_without_a_scheduler_nothing_waits(commands, tmp_path):
    commands.worker()
    with Cluster(commands.address) as cluster:
        done = cluster.run([Task("who", small.whoami), Task("sleeps", partial(small.sleeps, 60.0))], tmp_path)
        assert next(done).task.name == "who"
        commands.scheduler.kill()
        with pytest.raises(OSError, match="the scheduler has ended, or cancelled the tasks; finished tasks are kept"):
            while next(done).error:
                pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either the address of a scheduler or a number of local workers"),
        (
            {"scheduler": "tcp://127.0.0.1:1", "workers": 2},
            "either the address of a scheduler or a number of local workers",
        ),
        ({"workers": 0}, "workers must be at least 1, got 0"),
    ],
)
def test_invalid_clusters_are_rejected(given, message):
    with pytest.raises(ValueError, match=message):
        Cluster(**given)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "127.0.0.1"])
def test_an_error_about_a_silent_address_says_how_to_start_a_scheduler(address, monkeypatch):
    monkeypatch.setattr(client, "ANSWER_SECONDS", 1.0)
    with pytest.raises(OSError, match=f"no Dask scheduler answers at {address}: start one with `dask scheduler`"):
        Cluster(address)


def test_workers_with_several_threads_cause_a_warning():
    import distributed

    made = distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, memory_limit=0, dashboard_address="127.0.0.1:0"
    )
    with made, pytest.warns(UserWarning, match="a worker has 2 threads, so 2 solves share its memory.*--nthreads 1"):
        Cluster(made.scheduler_address).close()


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'apviz\[cluster\]'"):
        Cluster(workers=2)


@pytest.mark.slow
def test_workers_of_another_version_are_rejected_with_both_versions(two_workers, monkeypatch):
    here, known = client.versions(), metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "9.9" if name == "apviz" else known(name))
    with pytest.raises(ValueError, match=rf"has apviz {re.escape(here['apviz'])}, here 9.9: install the same on both"):
        two_workers._check_workers()
    # the first task of a worker that joins later finds it
    (done,) = two_workers.run([Task("who", small.whoami)])
    assert "here 9.9: install the same on both" in done.error
