"""The memory that is free to this process: of the machine, in its control groups, in its address space."""

import subprocess
import sys

import psutil
import pytest
import torch

from apviz.memory import free_memory, keep_below, require_memory

CPU = torch.device("cpu")
MIB = 2**20


def group(root, path, *, limit, used, cache=0, version=2):
    """A control group below `root`, as the kernel shows it."""
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


def test_of_a_group_and_those_around_it_the_one_that_leaves_least_decides(tmp_path):
    belongs(tmp_path, "0::/jobs/one/step\n")
    group(tmp_path, "jobs/one/step", limit="max", used=10 * MIB)
    group(tmp_path, "jobs/one", limit=90 * MIB, used=20 * MIB)
    group(tmp_path, "jobs", limit=100 * MIB, used=60 * MIB)
    group(tmp_path, "jobs/another", limit=1, used=1)
    assert free_memory(CPU, root=tmp_path) == 40 * MIB


def test_cache_of_files_that_can_be_given_back_is_free(tmp_path):
    belongs(tmp_path, "0::/jobs\n")
    group(tmp_path, "jobs", limit=100 * MIB, used=99 * MIB, cache=30 * MIB)
    assert free_memory(CPU, root=tmp_path) == 31 * MIB


def test_a_container_sees_its_own_limit_at_the_mount_whatever_its_path_on_the_host(tmp_path):
    belongs(tmp_path, "0::/kubepods/pod7/container9\n")
    group(tmp_path, "", limit=50 * MIB, used=20 * MIB)
    assert free_memory(CPU, root=tmp_path) == 30 * MIB


def test_a_path_out_of_the_mount_is_not_followed(tmp_path):
    belongs(tmp_path, "0::/../other\n")
    group(tmp_path, "", limit=50 * MIB, used=20 * MIB)
    group(tmp_path, "../other", limit=5 * MIB, used=0)
    assert free_memory(CPU, root=tmp_path) == 30 * MIB


def test_version_one_has_other_names_and_a_huge_number_for_no_limit(tmp_path):
    belongs(tmp_path, "5:cpu,cpuacct:/\n4:hugetlb,memory:/jobs/one\n1:name=systemd:/jobs\n0::/\n")
    group(tmp_path, "jobs/one", limit=60 * MIB, used=50 * MIB, cache=15 * MIB, version=1)
    group(tmp_path, "", limit=9223372036854771712, used=80 * MIB, version=1)
    assert free_memory(CPU, root=tmp_path) == 25 * MIB


def test_a_group_above_its_limit_leaves_nothing(tmp_path):
    belongs(tmp_path, "0::/jobs\n")
    group(tmp_path, "jobs", limit=10 * MIB, used=11 * MIB)
    assert free_memory(CPU, root=tmp_path) == 0


def test_no_limit_leaves_what_the_machine_has(tmp_path):
    belongs(tmp_path, "0::/jobs\n")
    group(tmp_path, "jobs", limit="max", used=10 * MIB)
    assert free_memory(CPU, root=tmp_path) == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_without_statistics_all_that_is_used_counts(tmp_path):
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


@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_AS"), reason="this system has no limit of address space")
def test_a_limit_of_address_space_leaves_what_can_be_allocated():
    room = 200 * MIB
    done = subprocess.run([sys.executable, "-c", LIMITED, str(room)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip().isdigit(), done.stdout + done.stderr
    assert 0.8 * room < int(done.stdout) <= room


def test_a_system_without_any_of_these_has_what_is_available(tmp_path, monkeypatch):
    monkeypatch.delattr(psutil, "RLIMIT_AS", raising=False)
    assert free_memory(CPU, root=tmp_path) == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_what_this_process_may_hold_counts_what_it_holds_already():
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


def test_what_needs_more_than_nine_tenths_is_refused_with_both_sizes(monkeypatch):
    monkeypatch.setattr("apviz.memory.free_memory", lambda device: 10 * 2**30)
    require_memory(9 * 2**30, CPU, "a basis needs", "take less")
    with pytest.raises(MemoryError, match="a basis needs 9.5 GiB, 10.0 GiB are free; take less"):
        require_memory(9.5 * 2**30, CPU, "a basis needs", "take less")
