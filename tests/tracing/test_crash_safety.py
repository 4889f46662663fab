"""A trace survives a kill, Ctrl-C, a full disk and another hook's error."""

import os
import resource
import signal
import sys
import time
import warnings

import numpy as np
import pytest
import torch
import xarray as xr

import apviz
import apviz.tracing.recorder
from tests.device import DEVICE
from tests.processes import FRESH

NEVER = 1e-300
EPOCHS_OF_UNINTERRUPTED = 400


def a_solve(path=None, epochs=10**6):
    """Return a system, a solver of many epochs and a recorder."""
    x, b = np.random.default_rng(0).uniform(size=(60, 2)), np.random.default_rng(1).standard_normal((60, 2))
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.01, dtype=torch.float64, device=DEVICE)
    solver = apviz.AlternatingProjection(block_size=6, rule="random", tol=NEVER, max_epochs=epochs, check_every=10**6)
    return system, solver, apviz.Recorder(path)


def start(target, path, *arguments):
    """Start a process, and return it with the connection on which it sends."""
    heard, said = FRESH.Pipe(duplex=False)
    process = FRESH.Process(target=target, args=(path, said, *arguments))
    process.start()
    said.close()
    return process, heard


def wait_for(path, process):
    while not path.exists():
        assert process.is_alive()
        time.sleep(0.005)


def flush_after_every_epoch():
    """Flush after every epoch, so that interruptions fall within flushes."""
    apviz.tracing.recorder.FLUSH_SHARE = 0


def check_opens_whole(path):
    """Open a trace; xarray rejects variables of different lengths, and warns if consolidated metadata are missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        tree = xr.open_datatree(path).load()
    assert tree.attrs["status"] == "interrupted" and "stop_reason" not in tree.attrs
    return tree


@pytest.fixture(scope="module")
def uninterrupted():
    system, solver, recorder = a_solve(epochs=EPOCHS_OF_UNINTERRUPTED)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    apviz.solve(system, solver, [recorder])
    torch.set_num_threads(threads)
    return recorder.trace


def solve_on_and_on(path, said):
    flush_after_every_epoch()
    torch.set_num_threads(1)
    system, solver, recorder = a_solve(path)
    apviz.solve(system, solver, [recorder])


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_beginning_of_the_uninterrupted_trace(tmp_path, uninterrupted):
    lengths = []
    for k, delay in enumerate(np.random.default_rng(0).uniform(0, 0.8, 10)):
        folder = tmp_path / str(k)
        folder.mkdir()
        process, _ = start(solve_on_and_on, folder / "a.zarr")
        wait_for(folder / "a.zarr", process)
        time.sleep(delay)
        process.kill()
        process.join()
        tree = check_opens_whole(folder / "a.zarr")
        lengths.append(tree["epoch"].sizes["epoch"])
        for group in ("update", "epoch"):
            if group not in tree:
                continue
            found = tree[group].to_dataset().drop_vars("seconds")
            length = min(found.sizes[group], uninterrupted[group].sizes[group])
            expected = uninterrupted[group].drop_vars("seconds").isel({group: slice(length)})
            xr.testing.assert_identical(found.isel({group: slice(length)}), expected)
        assert apviz.open_trace(folder / "a.zarr").outcome == "interrupted"
    assert max(lengths) > 1


class Count(apviz.Hook):
    seen = 0

    def on_update(self, update):
        self.seen = update.number


def solve_until_interrupted(path, said):
    flush_after_every_epoch()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    system, solver, recorder = a_solve(path)
    count = Count()
    try:
        apviz.solve(system, solver, [recorder, count])
    except KeyboardInterrupt:
        said.send(count.seen)


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3])
def test_ctrl_c_loses_nothing_that_was_recorded(tmp_path, delay):
    process, heard = start(solve_until_interrupted, tmp_path / "a.zarr")
    wait_for(tmp_path / "a.zarr", process)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGINT)
    seen = heard.recv()
    process.join()
    tree = check_opens_whole(tmp_path / "a.zarr")
    on_disk = tree["update"].sizes["update"] if "update" in tree else 0
    # after a Ctrl-C between the two hooks, the recorder, which is called first, has one more
    assert on_disk - seen in (0, 1)
    assert tree.attrs["stop_message"] == "interrupted by KeyboardInterrupt"


class Interrupt:
    """Raises KeyboardInterrupt at the k-th line run in the recorder's files, as Ctrl-C may."""

    def __init__(self, k):
        self.left = k

    def __call__(self, frame, event, argument):
        if "tracing" not in frame.f_code.co_filename or frame.f_code.co_name in ("on_abandon", "on_start"):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.parametrize(
    "first", [first if first % 3 == 1 else pytest.param(first, marks=pytest.mark.slow) for first in range(1, 13)]
)
def test_ctrl_c_at_any_line_of_the_recorder_loses_nothing_and_leaves_a_complete_trace(first):
    x, b = np.random.default_rng(0).uniform(size=(20, 2)), np.random.default_rng(1).standard_normal((20, 2))
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.01, dtype=torch.float64, device=DEVICE)
    solver = apviz.AlternatingProjection(block_size=5, rule="cyclic", tol=NEVER, max_epochs=50)

    class Arm(apviz.Hook):
        seen = 0

        def on_start(self, run):
            sys.settrace(Interrupt(k))

        def on_update(self, update):
            self.seen = update.number

    for k in range(first, 600, 12 * 3):
        recorder, last, before = apviz.Recorder(), Arm(), sys.gettrace()
        try:
            with pytest.raises(KeyboardInterrupt):
                apviz.solve(system, solver, [recorder, last])
        finally:
            sys.settrace(before)
        trace = recorder.trace  # xarray rejects variables of different lengths
        updates = trace["update"]["update"].values if "update" in trace else np.empty(0)
        np.testing.assert_array_equal(updates, np.arange(1, len(updates) + 1))
        assert len(updates) - last.seen in (0, 1), f"interrupted at line {k}"
        epochs = trace["epoch"]["epoch"].values if "epoch" in trace else np.empty(0)
        np.testing.assert_array_equal(epochs, np.arange(len(epochs)))


class LimitFiles(apviz.Hook):
    """Limits the size of files, in bytes, from given epochs on."""

    def __init__(self, limits):
        self.limits = limits

    def on_epoch(self, epoch):
        if epoch.number in self.limits:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limits[epoch.number], resource.RLIM_INFINITY))


def solve_on_a_full_disk(path, said, limits):
    flush_after_every_epoch()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    system, solver, recorder = a_solve(path, epochs=12)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = apviz.solve(system, solver, [LimitFiles(limits), recorder])
    warned = sum("could not be written" in str(warning.message) for warning in caught)
    trace = recorder.trace
    said.send((solution.stop_reason, warned, trace["update"].sizes["update"], trace.attrs["status"]))


@pytest.mark.parametrize(
    "limits",
    [
        {0: 3000},  # from the start
        {6: 3000},
        {6: 40_000},
        {6: 12_000, 9: 900},  # the consolidated metadata fail first, then the chunks
    ],
    ids=str,
)
def test_a_full_disk_causes_one_warning_and_the_solve_continues(tmp_path, limits):
    process, heard = start(solve_on_a_full_disk, tmp_path / "a.zarr", limits)
    stop_reason, warned, updates, status = heard.recv()
    process.join()
    # 40,000 bytes are enough for a trace this short
    assert (stop_reason, warned, updates, status) == (
        apviz.StopReason.MAX_EPOCHS, limits != {6: 40_000}, 120, "finished",
    )  # fmt: skip
    if 0 in limits:
        assert os.listdir(tmp_path) == []  # no partial trace is left
    elif warned:
        check_opens_whole(tmp_path / "a.zarr")
    else:
        assert apviz.open_trace(tmp_path / "a.zarr").finished


def test_an_error_in_another_hook_is_raised_again_and_the_trace_is_kept(tmp_path):
    class Broken(apviz.Hook):
        def on_update(self, update):
            if update.number == 17:
                raise ZeroDivisionError("mine")

    x, b = np.random.default_rng(0).uniform(size=(60, 2)), np.random.default_rng(1).standard_normal(60)
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.1, device=DEVICE)
    recorder = apviz.Recorder(tmp_path / "a.zarr")
    with pytest.raises(ZeroDivisionError, match="mine"):
        apviz.solve(system, apviz.AlternatingProjection(block_size=6, tol=NEVER), [recorder, Broken()])
    tree = check_opens_whole(tmp_path / "a.zarr")
    assert tree["update"].sizes["update"] == 17 and tree["epoch"].sizes["epoch"] == 2
    assert tree.attrs["stop_message"] == "interrupted by ZeroDivisionError: mine"
    assert recorder.trace.tree.identical(tree)


def test_a_solve_that_fails_in_its_set_up_does_not_change_earlier_traces(tmp_path):
    class Broken(apviz.Hook):
        def on_update(self, update):
            raise ZeroDivisionError("mine")

    recorder = apviz.Recorder(tmp_path / "a.zarr")
    x = torch.linspace(0, 1, 30)
    system = apviz.KernelSystem(x, torch.ones(30), apviz.RBF(lengthscale=0.1), noise=0.1, device=DEVICE)
    with pytest.raises(ZeroDivisionError):
        apviz.solve(system, apviz.AlternatingProjection(block_size=6), [recorder, Broken()])
    kept = recorder.trace
    (tmp_path / "a-2.zarr").mkdir()
    with pytest.raises(FileExistsError):
        apviz.solve(system, apviz.AlternatingProjection(block_size=6), [recorder])
    assert len(recorder.traces) == 1 and recorder.trace.tree.identical(kept.tree)
