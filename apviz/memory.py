"""Memory: free bytes for this process on a device, checks before allocation, and release to the system."""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

import psutil

if TYPE_CHECKING:
    import torch

#: Share of the free memory that one allocation may take.
SHARE: Final = 0.9


class _Files(NamedTuple):
    """The file names of a cgroups version, and its entry of memory.stat for reclaimable cache."""

    limit: str
    used: str
    reclaimable: str


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Files("memory.max", "memory.current", "inactive_file")


# limit in bytes for this process, if one is set
_ceiling: int | None = None


def keep_below(ceiling: int | None) -> None:
    """Limit the bytes of this process, for example of a cluster's worker; None removes the limit."""
    global _ceiling  # noqa: PLW0603  # a process has one
    _ceiling = ceiling


def free_memory(device: torch.device, *, root: Path = Path("/")) -> int:
    """Return the bytes that this process can still allocate on the GPU, or on the processor.

    On the processor this is the smallest of: the memory available on the machine; the rest of the limits of its control
    groups (containers, batch systems, systemd) and of its address space (`ulimit -v`); and the rest of its own limit
    (`keep_below`). Limits that a system does not have are ignored. Ranks of a job on one machine have equal shares.

    Args:
        root: Folder of `proc` and `sys`.
    """
    if device.type == "cuda":
        import torch

        # PyTorch's cached memory is also free to this process
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    available = int(psutil.virtual_memory().available)
    shared = [available, *_left_by_control_groups(root)]
    # torchrun sets the number of processes of a job on this machine
    of_one = min(shared) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(0, min([of_one, *_left_of_address_space(), *_left_below_ceiling()]))


def _left_below_ceiling() -> Iterator[int]:
    if _ceiling:
        yield _ceiling - int(psutil.Process().memory_info().rss)


def _left_of_address_space() -> Iterator[int]:
    if not hasattr(psutil, "RLIMIT_AS"):  # exists on Linux and FreeBSD; macOS does not enforce it
        return
    process = psutil.Process()
    limit, _ = process.rlimit(psutil.RLIMIT_AS)
    if limit != psutil.RLIM_INFINITY:
        yield limit - process.memory_info().vms


def _left_by_control_groups(root: Path) -> Iterator[int]:
    """Yield the rest of the limits of this process's group and of its parent groups; v1 and v2 may be mixed."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in lines:
        number, controllers, group = line.split(":", 2)
        if number == "0" and not controllers:
            yield from _left_by_groups(mount, group, _V2)
        elif "memory" in controllers.split(","):
            yield from _left_by_groups(mount / "memory", group, _V1)


def _left_by_groups(mount: Path, group: str, files: _Files) -> Iterator[int]:
    path = PurePosixPath(group.lstrip("/"))
    if ".." in path.parts:  # the group is outside of this container's view
        path = PurePosixPath()
    for each in (path, *path.parents):
        folder = mount / each
        try:
            limit, used = int((folder / files.limit).read_text()), int((folder / files.used).read_text())
        except (OSError, ValueError):
            continue  # invisible from this container, without memory control, or without a limit: `max`
        yield limit - max(0, used - _reclaimable(folder, files.reclaimable))


def _reclaimable(folder: Path, entry: str) -> int:
    """Return the bytes of file cache that a group releases when they are needed."""
    try:
        entries = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
        return int(entries[entry])
    except (OSError, ValueError, KeyError):
        return 0


def give_back() -> None:
    """Return free pages to the system; takes milliseconds.

    glibc's allocator keeps free pages for this process, so a server would stay as large as at its busiest time. With
    another allocator, nothing happens.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def require_memory(needed: float, device: torch.device, what: str, instead: str) -> None:
    """Check that an allocation of some bytes, with a purpose such as `a basis needs`, fits; else name the remedy."""
    free = free_memory(device)
    if needed > SHARE * free:
        raise MemoryError(f"{what} {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB {_FREE}; {instead}")


@contextmanager
def explained(what: str, instead: str) -> Iterator[None]:
    """Report needed and free memory if an allocation for `what` fails inside a `with`; also a decorator.

    The allocators for the processor, CUDA and NumPy have different messages; those of `require_memory` pass unchanged.
    A limit of address space may also fail the first import of a library. The MemoryError ends with what to do instead.
    """
    try:
        yield
    except (MemoryError, RuntimeError, ImportError) as error:  # Python's and NumPy's; PyTorch's; the dynamic loader's
        message = str(error)
        needed = _NEEDED.search(message)
        if _FREE in message or not (needed or message in _WORDLESS or message.endswith(_UNLOADABLE)):
            raise
        lacking = f"{_amount(float(needed[1]) * _BYTES[needed[2]])} at once" if needed else "more memory"
        raise MemoryError(f"{what} needs {lacking}, {_free_after(error)} {_FREE}; {instead}") from error


_FREE = "are free"
_NEEDED = re.compile(r"(?:[Tt]ried to|Unable to) allocate ([\d.]+) ?(bytes|KiB|MiB|GiB|TiB|PiB)")
# messages of Python and C++ without numbers
_WORDLESS = ("", "std::bad_alloc", "bad allocation")
# messages of glibc's dynamic loader about a shared library without space
_UNLOADABLE = ("failed to map segment from shared object", "cannot allocate memory", "Cannot allocate memory")
_BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def _amount(nbytes: float) -> str:
    return f"{nbytes / 2**30:,.1f} GiB" if nbytes >= 2**30 / 10 else f"{nbytes / 2**20:.1f} MiB"


def _free_after(error: Exception) -> str:
    import torch

    try:
        return _amount(free_memory(torch.device("cuda" if isinstance(error, torch.OutOfMemoryError) else "cpu")))
    except (MemoryError, OSError):  # to ask takes memory, too
        return "too few bytes to measure them"


def numbers_held(sizes: Iterable[int]) -> int:
    """Count the numbers in the factors of blocks with these solved rows: one square per two blocks of one size."""
    return sum(math.ceil(several / 2) * size**2 for size, several in Counter(sizes).items())
