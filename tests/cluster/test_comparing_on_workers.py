"""Tasks and comparisons on two workers: the same results and traces as in one process, whatever is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import fsspec
import numpy as np
import psutil
import pytest
import torch
import xarray as xr

import apviz
from apviz import comparison
from apviz.cluster import Here, Task
from apviz.comparison import Recording, compare, compare_on
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.memory import keep_below
from apviz.places import place_of
from tests.cluster import small_solves as small

# --- tasks ------------------------------------------------------------------------------------------------------------


def results(done):
    return {each.task.name: each.result for each in done}


def test_tasks_run_in_parallel_processes_with_shared_data_and_their_share_of_threads(two_workers):
    tasks = [Task(f"sleeps {k}", partial(small.sleeps, 0.3)) for k in range(4)]
    assert len(set(results(two_workers.run(tasks)).values()) - {os.getpid()}) == 2
    (done,) = two_workers.run([Task("who", small.whoami)], shared={"of": "all"})
    assert done.result[0] != os.getpid() and done.result[1] == {"of": "all"} and done.worker.startswith("tcp://")
    (done,) = two_workers.run([Task("threads", small.threads)])
    assert done.result == 1  # OMP_NUM_THREADS of the tests


def test_an_error_of_one_task_does_not_end_the_others_locally_and_on_workers(two_workers):
    for place in (Here(), two_workers):
        done = {each.task.name: each for each in place.run([Task("fails", small.fails), Task("who", small.whoami)])}
        assert done["fails"].error == "blocks must be smaller" and done["fails"].result is None
        assert done["who"].result is not None and not done["who"].error


def test_network_failures_are_retried(two_workers, tmp_path):
    (done,) = two_workers.run([Task("fails at first", small.fails_at_first)], tmp_path)
    assert (done.result, done.error) == ("done", "")
    assert os.listdir(tmp_path) == ["tried"]


@pytest.fixture
def unseen(tmp_path):
    """Return a folder under a name that other processes cannot open."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield Path(f"/proc/self/fd/{descriptor}")
    os.close(descriptor)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_files_of_workers_without_the_folder_are_sent_back_and_to_tasks_that_need_them(two_workers, unseen):
    tasks = [
        Task("writes", partial(small.writes, "a.txt", "of the first")),
        Task("reads", partial(small.reads_file, "a.txt"), needs=("writes",)),
    ]
    for done in two_workers.run(tasks, unseen):
        if done.task.name == "writes":
            assert (done.came_back / "a.txt").read_text() == "of the first"
        else:
            # the given file is not sent back again
            assert done.result == "of the first" and not done.came_back
    assert os.listdir(unseen) == []


def test_a_task_whose_dependency_failed_reports_it(two_workers, tmp_path):
    tasks = [Task("fails", small.fails), Task("reads", partial(small.reads_file, "a"), needs=("fails",))]
    done = {each.task.name: each.error for each in two_workers.run(tasks, tmp_path)}
    assert done["reads"] == "a task that it needs failed: blocks must be smaller"


def test_an_error_about_a_missing_data_file_on_a_worker_states_where_it_searched(two_workers, tmp_path):
    (done,) = two_workers.run([Task("reads", partial(small.reads, "3droad"))], tmp_path)
    assert f"the worker {done.worker} does not see the file of its data (APVIZ_DATA is " in done.error


def test_a_store_that_workers_cannot_reach_is_written_by_the_client(two_workers):
    (done,) = two_workers.run([Task("writes", partial(small.writes, "a.txt", "text"))], place_of("memory://asked/runs"))
    assert done.result == "a.txt" and not fsspec.filesystem("memory").find("/asked")


# --- comparisons ------------------------------------------------------------------------------------------------------

SOLVERS = [small.ap(20), small.ap(20, rule="random"), apviz.ConjugateGradient(tol=1e-8), apviz.Cholesky()]


def same_but_for_time(trace, other):
    """Test whether all numbers except times are the same to the last bit."""
    for group in trace.tree.children:
        mine, theirs = (each[group].drop_vars("seconds", errors="ignore") for each in (trace, other))
        xr.testing.assert_identical(mine.drop_attrs(), theirs.drop_attrs())
    kept = {"created", "trace_id", "seconds", "setup_seconds", "versions"}
    alike = [{name: value for name, value in each.attrs.items() if name not in kept} for each in (trace, other)]
    assert alike[0] == alike[1]


def test_traces_and_weights_of_workers_equal_those_of_one_process_bit_for_bit(two_workers, tmp_path):
    recording = Recording(pictures=20)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = [*compare(small.a_system(), SOLVERS, tmp_path / "alone", recording)]
    torch.set_num_threads(threads)
    outcomes = [*compare_on(two_workers, small.a_system, SOLVERS, tmp_path / "on workers", recording)]
    assert [each.error for each in outcomes] == [""] * 4
    by_label = {each.solver.method.name: each for each in outcomes}
    for each in alone:
        other = by_label[each.solver.method.name]
        assert other.path.parent == tmp_path / "on workers" and other.path.name == each.path.name
        same_but_for_time(each.trace, other.trace)
    pictured = by_label[SOLVERS[0].method.name].trace
    assert np.isfinite(pictured["snapshot"]["weights"].values).all()
    assert sorted(os.listdir(tmp_path / "on workers")) == sorted(os.listdir(tmp_path / "alone"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_traces_of_workers_without_the_folder_are_sent_back_under_free_names(two_workers, tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    unseen = Path(f"/proc/self/fd/{descriptor}")
    for _ in range(2):
        for each in compare_on(two_workers, small.a_system, SOLVERS[:2], unseen):
            assert each.trace.finished and apviz.open_trace(each.path).tree.identical(each.trace.tree)
    os.close(descriptor)
    assert len([name for name in os.listdir(tmp_path) if name.endswith("-run2.zarr")]) == 2
    assert len(os.listdir(tmp_path)) == 4


def test_traces_are_written_to_a_store_that_workers_cannot_reach(two_workers):
    place = place_of("memory://compared/runs")
    for each in compare_on(two_workers, small.a_system, SOLVERS, place):
        assert each.trace.finished and str(each.path).startswith("memory://compared/runs/made-up-n60-")
    assert len({name.partition("/")[0] for name in place.files()}) == 4  # and no hidden file
    fsspec.filesystem("memory").rm("/compared", recursive=True)


def test_a_failing_solver_reports_its_error_and_the_others_finish(two_workers, tmp_path):
    impossible = small.Impossible()
    done = {each.solver: each for each in compare_on(two_workers, small.a_system, [impossible, *SOLVERS[:1]], tmp_path)}
    assert done[impossible].error == "this solver needs more rows" and done[impossible].trace is None
    assert done[SOLVERS[0]].trace.finished


def test_a_solve_beyond_the_memory_of_its_worker_goes_to_a_larger_one(tmp_path):
    keep_below(psutil.Process().memory_info().rss // 2)
    try:
        with pytest.raises(MemoryError, match="use an iterative solver"):
            comparison._solve(apviz.Cholesky(), tmp_path, (), (small.a_system, Recording()))
    finally:
        keep_below(None)
    assert os.listdir(tmp_path) == []


class Killer(threading.Thread):
    """Kills, after each of `delays`, a worker that is solving."""

    def __init__(self, cluster, folder, delays):
        super().__init__()
        self.cluster, self.folder, self.delays, self.killed = cluster, folder, list(delays), 0
        self.over = threading.Event()
        self.start()

    def run(self):
        for delay in self.delays:
            before = set(self.folder.glob("*.zarr"))
            while not self.over.is_set() and set(self.folder.glob("*.zarr")) <= before:
                time.sleep(0.01)
            if self.over.wait(delay):
                return
            busy = [
                pid
                for pid, keys in self.cluster._client.run(processing, on_error="ignore").values()
                if keys
            ]  # fmt: skip
            if busy:
                os.kill(busy[0], signal.SIGKILL)
                self.killed += 1


def processing(dask_worker):
    """Return the process of a worker and its current task."""
    return os.getpid(), [task.key for task in dask_worker.state.executing]


# CPU seconds, long enough for a kill in the middle of a solve
LONG = [small.ap(1500, rule="random"), small.ap(1500)]


def check_every_trace(folder, solvers, outcomes):
    """Check that all traces open, one of each solver is complete, and others are marked as interrupted."""
    opened = [apviz.open_trace(path) for path in folder.glob("*.zarr")]
    for solver in solvers:
        mine = [trace for trace in opened if trace.method_name == solver.method.name]
        whole = [trace for trace in mine if trace.finished]
        assert len(whole) == 1 and whole[0]["epoch"].sizes["epoch"] == solver.max_epochs + 1
        assert all(trace.outcome == "interrupted" for trace in mine if trace is not whole[0])
        (outcome,) = [each for each in outcomes if each.solver == solver]
        assert outcome.trace.finished and not outcome.error
    return opened


@pytest.mark.slow
def test_a_solve_whose_worker_is_killed_is_repeated_and_its_beginning_is_marked_as_interrupted(two_workers, tmp_path):
    killer = Killer(two_workers, tmp_path, [0.3])
    outcomes = [*compare_on(two_workers, partial(small.a_system, 120), LONG, tmp_path)]
    killer.over.set()
    killer.join()
    assert killer.killed == 1
    opened = check_every_trace(tmp_path, LONG, outcomes)
    assert len(opened) == len(LONG) + 1
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".apviz")]


@pytest.mark.slow
def test_ten_kills_of_workers_at_random_moments_never_hang_and_every_trace_opens(two_workers, tmp_path):
    delays = np.random.default_rng(0).uniform(0, 0.8, 10)
    solvers = [small.ap(1500 + k, rule="random") for k in range(8)]
    killer = Killer(two_workers, tmp_path, delays)
    outcomes = [*compare_on(two_workers, partial(small.a_system, 120), solvers, tmp_path)]
    killer.over.set()
    killer.join()
    assert killer.killed >= 8
    assert len(outcomes) == len(solvers)
    # a solve fails after a dozen lost workers; there are ten kills in total
    assert not any(each.error for each in outcomes)
    opened = [apviz.open_trace(path) for path in tmp_path.glob("*.zarr")]
    whole = [trace for trace in opened if trace.finished]
    assert sorted(trace["epoch"].sizes["epoch"] - 1 for trace in whole) == [each.max_epochs for each in solvers]
    assert {trace.outcome for trace in opened if not trace.finished} == {"interrupted"}


@pytest.mark.slow
def test_runs_appear_in_the_folder_of_the_dashboard_while_they_are_computed(two_workers, tmp_path):
    runs, seen = RunsFolder(tmp_path), set()
    over = threading.Event()

    def look():
        while not over.wait(0.05):
            seen.update((entry.name, entry.ending) for entry in runs.entries())

    watcher = threading.Thread(target=look)
    watcher.start()
    list(compare_on(two_workers, partial(small.a_system, 120), LONG, tmp_path))
    over.set()
    watcher.join()
    names = {entry.name for entry in runs.entries()}
    assert len(names) == 2 and all(entry.finished for entry in runs.entries())
    # they were visible while they grew
    assert {(name, "interrupted") for name in names} <= seen


# --- the command line -------------------------------------------------------------------------------------------------


def started(folder, *words):
    """Start `apviz compare` on two workers in a new session, like a terminal; one of its solves never ends."""
    command = [
        sys.executable, "-m", "apviz", "compare", "--dataset", "diabetes", "--rhs", "2", "--workers", "2",
        "--out", str(folder / "runs"), "--device", "cpu", "--block-sizes", "5", "--rules", "random", "--tol", "1e-14",
        "--max-epochs", "1000000", "--dtype", "float64", *words,
    ]  # fmt: skip
    with (folder / "printed").open("w") as printed, (folder / "said").open("w") as said:
        return subprocess.Popen(
            command, stdout=printed, stderr=said, start_new_session=True, env={**os.environ, "COLUMNS": "160"}
        )  # fmt: skip


def until(command, folder, there):
    """Wait for files of a command, and return its descendants."""
    while not there():
        assert command.poll() is None, (folder / "said").read_text()
        time.sleep(0.05)
    return psutil.Process(command.pid).children(recursive=True)


@pytest.mark.slow
def test_after_ctrl_c_finished_traces_are_complete_and_others_are_marked_as_interrupted(tmp_path):
    runs, endless = tmp_path / "runs", tmp_path / "runs/diabetes-n353-alternating-projection-random-b-5.zarr"
    command = started(tmp_path, "--methods", "ap,cholesky")
    children = until(
        command, tmp_path, lambda: endless.exists() and "1 of 2: Cholesky" in (tmp_path / "said").read_text()
    )
    os.killpg(command.pid, signal.SIGINT)
    assert command.wait(120) == 130
    printed, said = ((tmp_path / name).read_text() for name in ("printed", "said"))
    assert "interrupted: the table so far" in said and "Cholesky" in printed and "report.html" in printed
    assert "Traceback" not in said + printed
    assert sorted(os.listdir(runs)) == [endless.name, "diabetes-n353-cholesky.zarr", "report.html"]
    assert apviz.open_trace(runs / "diabetes-n353-cholesky.zarr").finished
    trace = apviz.open_trace(endless)
    assert trace.outcome == "interrupted" and trace["epoch"].sizes["epoch"] > 1
    assert trace.attrs["stop_message"] == "interrupted by KeyboardInterrupt: the task was cancelled"
    assert len(children) > 2 and not psutil.wait_procs(children, timeout=30)[1]


@pytest.mark.slow
def test_if_the_client_is_killed_its_workers_end_and_every_trace_opens(tmp_path):
    command = started(tmp_path, "--methods", "ap")
    children = until(command, tmp_path, lambda: list((tmp_path / "runs").glob("*.zarr")))
    command.kill()
    command.wait()
    assert len(children) > 2 and not psutil.wait_procs(children, timeout=60)[1]
    assert [apviz.open_trace(path).outcome for path in (tmp_path / "runs").glob("*.zarr")] == ["interrupted"]


@pytest.mark.slow
def test_the_command_rejects_a_missing_cluster_in_one_sentence(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "apviz", "compare", "--dataset", "diabetes", "--workers", "0", "--out", tmp_path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and "error: workers must be at least 1, got 0" in done.stderr
    assert os.listdir(tmp_path) == []
