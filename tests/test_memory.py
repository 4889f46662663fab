"""The free memory of this process: on the machine, in its control groups, and in its address space."""

import ctypes
import re
import subprocess
import sys

import numpy as np
import psutil
import pytest
import torch

import apviz
from apviz.memory import explained, free_memory, keep_below, require_memory

CPU = torch.device("cpu")
MIB = 2**20


def group(root, path, *, limit, used, cache=0, version=2):
    """Write a control group below `root`, as the kernel shows it."""
    mount, names = {
        1: ("sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")),
        2: ("sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")),
    }[version]
    folder = root / mount / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon {used - cache}\n{names[2]} {cache}\nactive_file 77\n")


def belongs(root, text):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(text)


def test_the_tightest_of_nested_control_groups_decides(tmp_path):
    belongs(tmp_path, "0::/jobs/one/step\n")
    group(tmp_path, "jobs/one/step", limit="max", used=10 * MIB)
    group(tmp_path, "jobs/one", limit=90 * MIB, used=20 * MIB)
    group(tmp_path, "jobs", limit=100 * MIB, used=60 * MIB)
    group(tmp_path, "jobs/another", limit=1, used=1)
    assert free_memory(CPU, root=tmp_path) == 40 * MIB


def test_reclaimable_file_cache_counts_as_free(tmp_path):
    belongs(tmp_path, "0::/jobs\n")
    group(tmp_path, "jobs", limit=100 * MIB, used=99 * MIB, cache=30 * MIB)
    assert free_memory(CPU, root=tmp_path) == 31 * MIB


def test_a_container_sees_its_own_limit_at_the_mount_whatever_its_path_on_the_host(tmp_path):
    belongs(tmp_path, "0::/kubepods/pod7/container9\n")
    group(tmp_path, "", limit=50 * MIB, used=20 * MIB)
    assert free_memory(CPU, root=tmp_path) == 30 * MIB


def test_a_path_outside_the_mount_is_not_followed(tmp_path):
    belongs(tmp_path, "0::/../other\n")
    group(tmp_path, "", limit=50 * MIB, used=20 * MIB)
    group(tmp_path, "../other", limit=5 * MIB, used=0)
    assert free_memory(CPU, root=tmp_path) == 30 * MIB


def test_version_one_of_control_groups_has_other_names_and_a_huge_number_for_no_limit(tmp_path):
    belongs(tmp_path, "5:cpu,cpuacct:/\n4:hugetlb,memory:/jobs/one\n1:name=systemd:/jobs\n0::/\n")
    group(tmp_path, "jobs/one", limit=60 * MIB, used=50 * MIB, cache=15 * MIB, version=1)
    group(tmp_path, "", limit=9223372036854771712, used=80 * MIB, version=1)
    assert free_memory(CPU, root=tmp_path) == 25 * MIB


def test_a_group_above_its_limit_leaves_nothing(tmp_path):
    belongs(tmp_path, "0::/jobs\n")
    group(tmp_path, "jobs", limit=10 * MIB, used=11 * MIB)
    assert free_memory(CPU, root=tmp_path) == 0


def test_without_a_limit_the_memory_of_the_machine_is_free(tmp_path):
    belongs(tmp_path, "0::/jobs\n")
    group(tmp_path, "jobs", limit="max", used=10 * MIB)
    assert free_memory(CPU, root=tmp_path) == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_without_statistics_all_used_memory_counts(tmp_path):
    belongs(tmp_path, "0::/jobs\n")
    group(tmp_path, "jobs", limit=40 * MIB, used=15 * MIB, cache=10 * MIB)
    (tmp_path / "sys/fs/cgroup/jobs/memory.stat").unlink()
    assert free_memory(CPU, root=tmp_path) == 25 * MIB


LIMITED = """
import resource, sys
import psutil, torch
from apviz.memory import free_memory
room = int(sys.argv[1])
before = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (before + room, resource.RLIM_INFINITY))
free = free_memory(torch.device("cpu"))
try:
    torch.empty(int(1.1 * room), dtype=torch.uint8)
    print("more than the limit was given")
except RuntimeError:
    torch.empty(int(0.8 * free), dtype=torch.uint8)
    print(free)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_AS"), reason="this system has no limit of address space")
def test_a_limit_of_address_space_determines_the_free_memory():
    room = 200 * MIB
    done = subprocess.run([sys.executable, "-c", LIMITED, str(room)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip().isdigit(), done.stdout + done.stderr
    assert 0.8 * room < int(done.stdout) <= room


def test_without_any_limits_the_available_memory_is_free(tmp_path, monkeypatch):
    monkeypatch.delattr(psutil, "RLIMIT_AS", raising=False)
    assert free_memory(CPU, root=tmp_path) == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_limit_for_this_process_includes_the_memory_it_already_uses():
    held = psutil.Process().memory_info().rss
    keep_below(held + 100 * MIB)
    try:
        assert free_memory(CPU) <= 100 * MIB + held / 2
        with pytest.raises(MemoryError, match="a basis needs 0.4 GiB, 0.1 GiB are free; take a smaller one"):
            require_memory(400 * MIB, CPU, "a basis needs", "take a smaller one")
        keep_below(held // 2)
        assert free_memory(CPU) == 0
    finally:
        keep_below(None)
    assert free_memory(CPU) > 100 * MIB


SMALL_AND_FREED = """
import threading
import numpy as np, psutil
from apviz.memory import give_back

def megabytes():
    return psutil.Process().memory_info().rss / 1e6

def work():
    arrays = [np.ones(8_000) for _ in range(1_000)]  # 64 MB of arrays too small to be returned one by one
    kept.append(arrays[::50])

kept, before = [], megabytes()
threads = [threading.Thread(target=work) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
held = megabytes()
give_back()
print(held - before, megabytes() - before, all((array == 1).all() for arrays in kept for array in arrays))
"""


@pytest.mark.skipif(
    sys.platform == "win32" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the allocator is not glibc's"
)
def test_memory_freed_in_threads_is_returned_to_the_system():
    done = subprocess.run([sys.executable, "-c", SMALL_AND_FREED], capture_output=True, text=True, timeout=120)
    held, left, is_whole = done.stdout.split()
    assert is_whole == "True" and float(held) > 100 and float(left) < 0.2 * float(held)


def test_a_need_above_nine_tenths_of_the_free_memory_is_rejected_with_both_sizes(monkeypatch):
    monkeypatch.setattr("apviz.memory.free_memory", lambda device: 10 * 2**30)
    require_memory(9 * 2**30, CPU, "a basis needs", "take less")
    with pytest.raises(MemoryError, match="a basis needs 9.5 GiB, 10.0 GiB are free; take less"):
        require_memory(9.5 * 2**30, CPU, "a basis needs", "take less")


ALLOCATORS = {
    "PyTorch": lambda: torch.empty(2**55, dtype=torch.uint8),
    "NumPy": lambda: np.empty(2**55, dtype=np.uint8),
    "Python": lambda: bytearray(2**62),
}


@pytest.mark.parametrize("allocate", ALLOCATORS.values(), ids=ALLOCATORS)
def test_an_error_of_an_allocator_becomes_a_message_with_the_needed_and_free_memory(allocate):
    with pytest.raises(MemoryError) as raised, explained("a basis", "take less"):
        allocate()
    needed = "more memory" if allocate is ALLOCATORS["Python"] else r"33,554,432.0 GiB at once"
    assert re.fullmatch(rf"a basis needs {needed}, [\d,.]+ [MG]iB are free; take less", str(raised.value))
    assert raised.value.__cause__ is not None


def test_an_error_of_a_gpu_is_recognised_and_states_the_free_memory_of_the_gpu(monkeypatch):
    devices = []
    monkeypatch.setattr("apviz.memory.free_memory", lambda device: devices.append(device.type) or 3 * 2**30)
    words = "^a basis needs 2.5 GiB at once, 3.0 GiB are free; take less$"
    with pytest.raises(MemoryError, match=words), explained("a basis", "take less"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity")
    assert devices == ["cuda"]


@pytest.mark.parametrize("reason", ["failed to map segment from shared object", "Cannot allocate memory"])
def test_a_library_that_a_limit_of_address_space_does_not_load_is_reported_as_missing_memory(reason):
    words = r"^a solve needs more memory, [\d,.]+ [MG]iB are free; take less$"
    with pytest.raises(MemoryError, match=words), explained("a solve", "take less"):
        raise ImportError(f"/lib/numcodecs/blosc.so: {reason}")


def test_a_process_that_cannot_even_measure_its_free_memory_says_so(monkeypatch):
    def exhausted(device):
        raise MemoryError

    monkeypatch.setattr("apviz.memory.free_memory", exhausted)
    with (
        pytest.raises(
            MemoryError, match="a solve needs more memory, too few bytes to measure them are free; take less"
        ),
        explained("a solve", "take less"),
    ):
        raise MemoryError


@pytest.mark.parametrize(
    "error",
    [RuntimeError("singular"), MemoryError("9 GiB, 1 GiB are free"), ValueError("n"), ImportError("No module named x")],
)
def test_other_errors_and_those_that_state_the_free_memory_are_not_changed(error):
    with pytest.raises(type(error)) as raised, explained("a basis", "take less"):
        raise error
    assert raised.value is error


def test_a_solve_that_runs_out_of_memory_records_it_and_the_system_stays_usable():
    x = torch.linspace(0, 1, 60, dtype=torch.float64)
    system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.RBF(lengthscale=0.1), noise=0.1, device="cpu")

    class Hungry(apviz.Hook):
        def on_epoch(self, epoch):
            torch.empty(2**55, dtype=torch.uint8)

    solver, recorder = apviz.AlternatingProjection(block_size=20, tol=1e-6), apviz.Recorder()
    weights = apviz.solve(system, solver).weights
    with pytest.raises(
        MemoryError, match=r"Alternating projection .* needs .* GiB at once, .* are free; take fewer right-hand sides"
    ):
        apviz.solve(system, solver, [recorder, Hungry()])
    assert "GiB are free" in recorder.trace.attrs["stop_message"] and not recorder.trace.finished
    assert torch.equal(apviz.solve(system, solver).weights, weights)
