"""A trace survives a kill, Ctrl-C, a full disk and another hook's error."""

import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch
import xarray as xr

import apviz

NEVER = 1e-300
#: a solve of many epochs; the same seed as `uninterrupted`
PROGRAM = """
import signal, sys, resource, numpy as np, torch, apviz, apviz.tracing.recorder
torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
x, b = np.random.default_rng(0).uniform(size=(60, 2)), np.random.default_rng(1).standard_normal((60, 2))
system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.01, dtype=torch.float64, device="cpu")
solver = apviz.AlternatingProjection(block_size=6, rule="random", tol=1e-300, max_epochs=EPOCHS, check_every=10**6)
recorder = apviz.Recorder(sys.argv[1])
# flushes after every epoch, so that interruptions fall inside flushes
apviz.tracing.recorder.FLUSH_SHARE = 0
"""


def start(tmp_path, rest, epochs=10**6):
    program = PROGRAM.replace("EPOCHS", str(epochs)) + rest
    return subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "a.zarr")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)


def check_opens_whole(path):
    """xarray refuses a group whose variables differ in length, and warns where the consolidated metadata are gone."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        tree = xr.open_datatree(path).load()
    assert tree.attrs["status"] == "interrupted" and "stop_reason" not in tree.attrs
    return tree


@pytest.fixture(scope="module")
def uninterrupted():
    x, b = np.random.default_rng(0).uniform(size=(60, 2)), np.random.default_rng(1).standard_normal((60, 2))
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.01, dtype=torch.float64, device="cpu")
    recorder = apviz.Recorder()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    solver = apviz.AlternatingProjection(block_size=6, rule="random", tol=NEVER, max_epochs=400, check_every=10**6)
    apviz.solve(system, solver, [recorder])
    torch.set_num_threads(threads)
    return recorder.trace


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_beginning_of_the_uninterrupted_trace(tmp_path, uninterrupted):
    lengths = []
    for k, delay in enumerate(np.random.default_rng(0).uniform(0, 0.8, 10)):
        folder = tmp_path / str(k)
        folder.mkdir()
        process = start(folder, "apviz.solve(system, solver, [recorder])")
        wait_for(folder / "a.zarr", process)
        time.sleep(delay)
        process.kill()
        process.communicate()
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


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3])
def test_ctrl_c_loses_nothing_that_was_recorded(tmp_path, delay):
    count = """
class Count(apviz.Hook):
    seen = 0
    def on_update(self, update):
        self.seen = update.number
count = Count()
try:
    apviz.solve(system, solver, [recorder, count])
except KeyboardInterrupt:
    print(count.seen)
"""
    process = start(tmp_path, count)
    wait_for(tmp_path / "a.zarr", process)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    tree = check_opens_whole(tmp_path / "a.zarr")
    on_disk = tree["update"].sizes["update"] if "update" in tree else 0
    # Ctrl-C may fall between the two hooks: then the recorder, told first, has one more
    assert on_disk - int(out) in (0, 1), err
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


@pytest.mark.parametrize("first", range(1, 13))
def test_ctrl_c_at_any_line_of_the_recorder_loses_nothing_and_leaves_a_whole_trace(first):
    x, b = np.random.default_rng(0).uniform(size=(20, 2)), np.random.default_rng(1).standard_normal((20, 2))
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.01, dtype=torch.float64, device="cpu")
    solver = apviz.AlternatingProjection(block_size=5, rule="cyclic", tol=NEVER, max_epochs=50)

    class Arm(apviz.Hook):
        seen = 0

        def on_start(self, run):
            sys.settrace(Interrupt(k))

        def on_update(self, update):
            self.seen = update.number

    for k in range(first, 1000, 12 * 3):
        recorder, last, before = apviz.Recorder(), Arm(), sys.gettrace()
        try:
            with pytest.raises(KeyboardInterrupt):
                apviz.solve(system, solver, [recorder, last])
        finally:
            sys.settrace(before)
        trace = recorder.trace  # xarray refuses variables of different lengths
        updates = trace["update"]["update"].values if "update" in trace else np.empty(0)
        np.testing.assert_array_equal(updates, np.arange(1, len(updates) + 1))
        assert len(updates) - last.seen in (0, 1), f"interrupted at line {k}"
        epochs = trace["epoch"]["epoch"].values if "epoch" in trace else np.empty(0)
        np.testing.assert_array_equal(epochs, np.arange(len(epochs)))


@pytest.mark.parametrize(
    "limits",
    [
        {0: 3000},  # from the start
        {10: 3000},
        {10: 40_000},
        {10: 12_000, 15: 900},  # the consolidated metadata fail first, then the chunks
    ],
    ids=str,
)
def test_a_full_disk_is_warned_about_once_and_the_solve_goes_on(tmp_path, limits):
    full = f"""
import warnings
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
class Full(apviz.Hook):
    def on_epoch(self, epoch):
        limit = {limits}.get(epoch.number)
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    solution = apviz.solve(system, solver, [Full(), recorder])
written = [str(w.message) for w in caught if "could not be written" in str(w.message)]
print(solution.stop_reason, len(written), recorder.trace["update"].sizes["update"], recorder.trace.attrs["status"])
"""
    process = start(tmp_path, full, epochs=20)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    stop_reason, warned, updates, status = out.split()
    # 40,000 bytes are enough for a trace this short
    assert (stop_reason, warned, updates, status) == ("max_epochs", str(int(limits != {10: 40_000})), "200", "finished")
    if 0 in limits:
        assert os.listdir(tmp_path) == []  # nothing half-made is left
    elif int(warned):
        check_opens_whole(tmp_path / "a.zarr")
    else:
        assert apviz.open_trace(tmp_path / "a.zarr").finished


def test_an_error_in_another_hook_is_passed_on_and_the_trace_is_kept(tmp_path):
    class Broken(apviz.Hook):
        def on_update(self, update):
            if update.number == 17:
                raise ZeroDivisionError("mine")

    x, b = np.random.default_rng(0).uniform(size=(60, 2)), np.random.default_rng(1).standard_normal(60)
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.1, device="cpu")
    recorder = apviz.Recorder(tmp_path / "a.zarr")
    with pytest.raises(ZeroDivisionError, match="mine"):
        apviz.solve(system, apviz.AlternatingProjection(block_size=6, tol=NEVER), [recorder, Broken()])
    tree = check_opens_whole(tmp_path / "a.zarr")
    assert tree["update"].sizes["update"] == 17 and tree["epoch"].sizes["epoch"] == 2
    assert tree.attrs["stop_message"] == "interrupted by ZeroDivisionError: mine"
    assert recorder.trace.tree.identical(tree)


def test_a_solve_that_fails_in_its_set_up_leaves_earlier_traces_as_they_were(tmp_path):
    class Broken(apviz.Hook):
        def on_update(self, update):
            raise ZeroDivisionError("mine")

    recorder = apviz.Recorder(tmp_path / "a.zarr")
    x = torch.linspace(0, 1, 30)
    system = apviz.KernelSystem(x, torch.ones(30), apviz.RBF(lengthscale=0.1), noise=0.1, device="cpu")
    with pytest.raises(ZeroDivisionError):
        apviz.solve(system, apviz.AlternatingProjection(block_size=6), [recorder, Broken()])
    kept = recorder.trace
    (tmp_path / "a-2.zarr").mkdir()
    with pytest.raises(FileExistsError):
        apviz.solve(system, apviz.AlternatingProjection(block_size=6), [recorder])
    assert len(recorder.traces) == 1 and recorder.trace.tree.identical(kept.tree)
