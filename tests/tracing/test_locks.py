"""A path has one writer among threads and processes, which writes only to the files of its trace."""

import fcntl
import os
import shutil
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import apviz
from apviz.comparison import compare
from apviz.tracing import opening
from apviz.tracing.lock import Lock
from tests.device import DEVICE
from tests.processes import FRESH

SOLVER = apviz.AlternatingProjection(block_size=10, rule="cyclic", tol=1e-300, max_epochs=20)


def a_system(n=60):
    x, b = np.random.default_rng(0).uniform(size=(n, 2)), np.random.default_rng(1).standard_normal(n)
    return apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.1, device=DEVICE)


def contents(folder):
    """Return the bytes and the time of modification of every file, by name."""
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns) if path.is_file() else None
        for path in sorted(Path(folder).rglob("*"))
    }


def foreign_folder(path):
    (path / "thesis").mkdir(parents=True)
    (path / "thesis" / "chapter.tex").write_text("years of work")
    (path / "zarr.json").write_text('{"attributes": {"mine": true}}')
    return contents(path)


def record(path, results, start):
    """Record a solve, in one of several processes that start at the same time."""
    start.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            apviz.solve(a_system(), SOLVER, [apviz.Recorder(path)])
            results.put("written")
        except FileExistsError as error:
            results.put(str(error))


def in_processes(do, count, *arguments):
    results, start = FRESH.Queue(), FRESH.Barrier(count)
    processes = [FRESH.Process(target=do, args=(*arguments, results, start)) for _ in range(count)]
    for process in processes:
        process.start()
    said = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    return said


def test_of_several_processes_that_record_to_one_path_one_writes_and_the_others_raise(tmp_path):
    path = tmp_path / "a.zarr"
    said = in_processes(record, 3, str(path))
    assert said.count("written") == 1
    assert all("is being written by" in word or "exists" in word for word in said if word != "written")
    assert apviz.open_trace(path)["epoch"].sizes["epoch"] == 21
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_of_several_threads_that_record_to_one_path_one_writes_and_the_others_raise(tmp_path):
    path, said, barrier = tmp_path / "a.zarr", [], threading.Barrier(12)

    def solve():
        recorder = apviz.Recorder(path)
        barrier.wait()
        try:
            apviz.solve(a_system(), SOLVER, [recorder])
            said.append("written")
        except FileExistsError as error:
            said.append(str(error))

    threads = [threading.Thread(target=solve) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 12 and said.count("written") == 1
    assert apviz.open_trace(path)["epoch"].sizes["epoch"] == 21
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.slow
def test_comparisons_in_several_threads_with_one_folder_lose_no_trace(tmp_path):
    outcomes, barrier = [], threading.Barrier(10)

    def run():
        barrier.wait()
        outcomes.extend(compare(a_system(), [SOLVER], tmp_path))

    threads = [threading.Thread(target=run) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 10 and not any(outcome.error for outcome in outcomes)
    assert len({outcome.path for outcome in outcomes}) == 10
    for outcome in outcomes:
        assert apviz.open_trace(outcome.path).tree.identical(outcome.trace.tree)
    assert len(os.listdir(tmp_path)) == 10


def hold(path, held):
    with Lock(path):
        held.set()
        time.sleep(600)


def test_the_lock_of_a_killed_process_is_free_again(tmp_path):
    path, held = tmp_path / "a.zarr", FRESH.Event()
    holder = FRESH.Process(target=hold, args=(path, held))
    holder.start()
    assert held.wait(60)
    with pytest.raises(FileExistsError, match=f"a.zarr is being written by process {holder.pid}; wait for its end, or"):
        Lock(path)
    holder.kill()
    holder.join()
    with Lock(path):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "holder"),
    [
        (b"apviz lock of process 4321\n", "process 4321"), (b"", "another process"), (b"mine", "another process"),
        (b"apviz lock of process 43", "another process"),
    ],
)  # fmt: skip
def test_a_locked_path_is_rejected_whatever_the_lock_file_says_about_its_holder(tmp_path, content, holder):
    (tmp_path / ".a.zarr.lock").write_bytes(content)
    descriptor = os.open(tmp_path / ".a.zarr.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(FileExistsError, match=f"written by {holder};"):
        Lock(tmp_path / "a.zarr")
    os.close(descriptor)


def test_a_solve_that_fails_before_anything_is_recorded_leaves_the_path_free(tmp_path):
    class Broken(apviz.Hook):
        def on_start(self, run):
            raise ZeroDivisionError("mine")

    recorder = apviz.Recorder(tmp_path / "a.zarr", eigenvalues=True)
    with pytest.raises(ValueError, match="4,000"):
        apviz.solve(a_system(4_100), SOLVER, [recorder])
    other = apviz.Recorder(tmp_path / "a.zarr")
    with pytest.raises(ZeroDivisionError):
        apviz.solve(a_system(), SOLVER, [other, Broken()])
    assert other.traces and not os.path.exists(tmp_path / ".a.zarr.lock")
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_a_file_with_the_name_of_a_lock_and_other_content_stays_unchanged(tmp_path):
    (tmp_path / ".a.zarr.lock").write_text("mine")
    apviz.solve(a_system(), SOLVER, [apviz.Recorder(tmp_path / "a.zarr")])
    assert (tmp_path / ".a.zarr.lock").read_text() == "mine" and apviz.open_trace(tmp_path / "a.zarr").finished


class Replace(apviz.Hook):
    """Moves the trace away during the run, and puts another folder in its place."""

    def __init__(self, path):
        self.path, self.before = path, None

    def on_epoch(self, epoch):
        if epoch.number == 5:
            self.path.rename(self.path.with_name("moved.zarr"))
            self.before = foreign_folder(self.path)


def test_a_trace_replaced_during_a_run_continues_under_another_name_and_the_other_folder_is_unchanged(tmp_path):
    path = tmp_path / "a.zarr"
    recorder, replace = apviz.Recorder(path), Replace(path)
    with pytest.warns(UserWarning, match=r"something else has replaced .*a.zarr.* in .*a-continued.zarr") as said:
        apviz.solve(a_system(), SOLVER, [recorder, replace])
    assert len([each for each in said if "something else" in str(each.message)]) == 1
    assert contents(path) == replace.before
    assert apviz.open_trace(tmp_path / "a-continued.zarr").tree.identical(recorder.trace.tree)
    assert recorder.trace["epoch"].sizes["epoch"] == 21


def test_a_trace_deleted_during_a_run_is_written_again_completely(tmp_path):
    class Delete(apviz.Hook):
        def on_epoch(self, epoch):
            if epoch.number == 5:
                (tmp_path / "a.zarr").rename(tmp_path / "gone.zarr")

    recorder = apviz.Recorder(tmp_path / "a.zarr")
    apviz.solve(a_system(), SOLVER, [recorder, Delete()])
    assert apviz.open_trace(tmp_path / "a.zarr").tree.identical(recorder.trace.tree)


def test_a_trace_is_saved_completely_or_not_at_all_and_overwrites_nothing(tmp_path, monkeypatch):
    recorder = apviz.Recorder()
    apviz.solve(a_system(), SOLVER, [recorder])
    before = foreign_folder(tmp_path / "mine")
    with pytest.raises(FileExistsError):
        recorder.trace.save(tmp_path / "mine")
    assert contents(tmp_path / "mine") == before

    replace, left = Path.replace, iter(range(20))

    def full(self, target):
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        recorder.trace.save(tmp_path / "b.zarr")
    assert os.listdir(tmp_path) == ["mine"]


def test_an_error_about_a_read_only_place_does_not_call_the_disk_full(tmp_path):
    (tmp_path / "file").write_text("")
    recorder = apviz.Recorder(tmp_path / "file" / "a.zarr")
    with pytest.warns(UserWarning, match="make its folder writable") as said:
        apviz.solve(a_system(), SOLVER, [recorder])
    assert not any("free some space" in str(each.message) for each in said) and recorder.trace.finished


def test_a_lock_is_released_when_its_process_ends_not_when_a_child_ends(tmp_path):
    lock = Lock(tmp_path / "a.zarr")
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(FileExistsError, match="another solve or training of this process"):
        Lock(tmp_path / "a.zarr")
    lock.release()
    Lock(tmp_path / "a.zarr").release()


@pytest.mark.parametrize("saved", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["as recorded", "as saved"])
def test_opening_a_trace_with_a_lost_chunk_names_it_and_never_gives_other_numbers(tmp_path, saved):
    path, recorder = tmp_path / "a.zarr", apviz.Recorder(tmp_path / "r.zarr", rows=True, snapshots=range(3))
    apviz.solve(a_system(), SOLVER, [recorder])
    if saved:
        recorder.trace.save(path)
    else:
        (tmp_path / "r.zarr").rename(path)
    chunks = [each for each in path.rglob("*") if each.is_file() and each.name != "zarr.json"]
    assert len(chunks) > 30 and apviz.open_trace(path).tree.identical(recorder.trace.tree)
    for chunk in chunks if saved else sorted(chunks)[::6]:
        held = chunk.read_bytes()
        chunk.unlink()
        with pytest.raises(ValueError, match=f"lacks {chunk.relative_to(path).as_posix()}, a part of its data"):
            apviz.open_trace(path)
        chunk.write_bytes(held)


def test_a_trace_with_a_truncated_chunk_is_rejected_when_it_is_opened_not_when_it_is_drawn(tmp_path):
    """Coordinates without an index stayed on disk: such a trace opened, and broke the report of its folder."""
    path = tmp_path / "a.zarr"
    apviz.solve(a_system(), SOLVER, [apviz.Recorder(path)])
    chunk = path / "update" / "block" / "c" / "0"
    held = chunk.read_bytes()
    chunk.write_bytes(held[:1063])
    with pytest.raises(ValueError, match="does not open as a Zarr trace"):
        apviz.open_trace(path)
    chunk.write_bytes(held)
    apviz.open_trace(path)


@pytest.fixture(scope="module")
def two_traces(tmp_path_factory):
    """Return a folder with the traces `a.zarr` and `b.zarr` of two systems, and that of the second in memory."""
    folder, recorder = tmp_path_factory.mktemp("two"), None
    for name, n in (("a", 60), ("b", 50)):
        recorder = apviz.Recorder(folder / f"{name}.zarr")
        apviz.solve(a_system(n), SOLVER, [recorder])
    return folder, recorder.trace


@pytest.mark.parametrize("at", ["while it is loaded", "while it is looked over"])
@pytest.mark.parametrize("another_comes", [False, True])
@pytest.mark.parametrize("goes", ["moved", "deleted"])
def test_a_trace_moved_away_while_it_is_read_never_opens_with_numbers_of_another(
    tmp_path, monkeypatch, two_traces, at, another_comes, goes
):
    """A resumed experiment replaces the trace of an interrupted solve, which a reader then saw as damaged."""
    shutil.copytree(two_traces[0], tmp_path, dirs_exist_ok=True)
    path, other = tmp_path / "a.zarr", tmp_path / "b.zarr"
    module, name = (opening.xr, "open_datatree") if at == "while it is loaded" else (opening, "require_every_chunk")
    whole, gone = getattr(module, name), []

    def moved_meanwhile(*arguments, **settings):
        found = whole(*arguments, **settings) if at == "while it is loaded" else None
        if not gone:
            gone.append(path)
            if goes == "deleted":
                shutil.rmtree(path)
            else:
                path.rename(tmp_path / "aside.zarr")
            if another_comes and goes == "deleted":  # its folder may get the inode number of the deleted one
                shutil.copytree(other, path)
            elif another_comes:
                other.rename(path)
        return found or whole(*arguments, **settings)

    monkeypatch.setattr(module, name, moved_meanwhile)
    if another_comes:
        assert apviz.open_trace(path).tree.identical(two_traces[1].tree)
    else:
        with pytest.raises(FileNotFoundError, match="no trace at"):
            apviz.open_trace(path)


def test_reading_gives_up_with_one_sentence_if_the_files_never_stay_the_same(tmp_path, monkeypatch):
    """Some file systems give a folder another number at every look."""
    path, numbers = tmp_path / "a.zarr", iter(range(1000))
    apviz.solve(a_system(), SOLVER, [apviz.Recorder(path)])
    monkeypatch.setattr(opening, "_identity", lambda place: (0, next(numbers)))
    with pytest.raises(OSError, match="changed while it was read, 5 times in a row; copy it"):
        apviz.open_trace(path)
