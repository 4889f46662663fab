"""Memory: how much is free to this process where the numbers are, whether what is to be made fits, and giving back."""

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

#: of the free memory, what one thing may take
SHARE: Final = 0.9


class _Files(NamedTuple):
    """What a version of cgroups calls its files, and the entry of memory.stat for cache that can be given back."""

    limit: str
    used: str
    reclaimable: str


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Files("memory.max", "memory.current", "inactive_file")


# bytes that this process may hold, where it is told so
_ceiling: int | None = None


def keep_below(ceiling: int | None) -> None:
    """Lets this process hold so many bytes and no more, as the worker of a cluster may; None: as many as there are."""
    global _ceiling  # noqa: PLW0603  # a process has one
    _ceiling = ceiling


def free_memory(device: torch.device, *, root: Path = Path("/")) -> int:
    """Counts the bytes that this process can still take on the GPU, or for the processor.

    For the processor they are the least of what is available on the machine, what the limits of its control groups
    leave (containers, batch systems, systemd), what its limit of address space leaves (`ulimit -v`), and what is left
    of what it may hold (`keep_below`). Where a system has none of these they do not count. Ranks of a job on one
    machine share alike.

    Args:
        root: where `proc` and `sys` are.
    """
    if device.type == "cuda":
        import torch

        # what PyTorch keeps for this process's next arrays is free to it too
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    available = int(psutil.virtual_memory().available)
    shared = [available, *_left_by_control_groups(root)]
    # torchrun says how many processes of a job are on this machine
    of_one = min(shared) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(0, min([of_one, *_left_of_address_space(), *_left_below_ceiling()]))


def _left_below_ceiling() -> Iterator[int]:
    if _ceiling:
        yield _ceiling - int(psutil.Process().memory_info().rss)


def _left_of_address_space() -> Iterator[int]:
    if not hasattr(psutil, "RLIMIT_AS"):  # Linux and FreeBSD have it; macOS does not keep to it
        return
    process = psutil.Process()
    limit, _ = process.rlimit(psutil.RLIMIT_AS)
    if limit != psutil.RLIM_INFINITY:
        yield limit - process.memory_info().vms


def _left_by_control_groups(root: Path) -> Iterator[int]:
    """What the limits on the group of this process, and on every group around it, leave; v1 and v2 may be mixed."""
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
    if ".." in path.parts:  # it is above what this container sees
        path = PurePosixPath()
    for each in (path, *path.parents):
        folder = mount / each
        try:
            limit, used = int((folder / files.limit).read_text()), int((folder / files.used).read_text())
        except (OSError, ValueError):
            continue  # not seen from this container, without control of memory, or without a limit: `max`
        yield limit - max(0, used - _reclaimable(folder, files.reclaimable))


def _reclaimable(folder: Path, entry: str) -> int:
    """Returns the bytes of file cache that a group gives back when they are needed."""
    try:
        entries = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
        return int(entries[entry])
    except (OSError, ValueError, KeyError):
        return 0


def give_back() -> None:
    """Hands pages that are free back to the system; takes milliseconds.

    glibc's allocator keeps them for this process, so a server would stay as large as its busiest minute. Where there is
    another allocator nothing is done.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def require_memory(needed: float, device: torch.device, what: str, instead: str) -> None:
    """Checks that something fits before it is made.

    Args:
        needed: bytes.
        what: takes them, with its verb: `a basis of rank 10 needs`.
        instead: what to do.

    Raises:
        MemoryError: it needs more than nine tenths of the free memory.
    """
    free = free_memory(device)
    if needed > SHARE * free:
        raise MemoryError(f"{what} {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB {_FREE}; {instead}")


@contextmanager
def explained(what: str, instead: str) -> Iterator[None]:
    """Says how much memory was needed and how much is free, where an allocation fails inside a `with`.

    Allocators have words of their own, of PyTorch's for the processor, CUDA's and NumPy's; what was checked before
    (`require_memory`) passes as it is. It may be put onto a function, too.

    Args:
        what: was done.
        instead: what to do.

    Raises:
        MemoryError: in place of what an allocator raised.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # Python's and NumPy's; PyTorch's
        said = str(error)
        needed = _NEEDED.search(said)
        if _FREE in said or not (needed or said in _WORDLESS):
            raise
        lacking = f"{_amount(float(needed[1]) * _BYTES[needed[2]])} at once" if needed else "more memory"
        free = _free_where(error)
        raise MemoryError(f"{what} needs {lacking}, {_amount(free)} {_FREE}; {instead}") from error


_FREE = "are free"
_NEEDED = re.compile(r"(?:[Tt]ried to|Unable to) allocate ([\d.]+) ?(bytes|KiB|MiB|GiB|TiB|PiB)")
# of Python and C++
_WORDLESS = ("", "std::bad_alloc", "bad allocation")
_BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def _amount(nbytes: float) -> str:
    return f"{nbytes / 2**30:,.1f} GiB" if nbytes >= 2**30 / 10 else f"{nbytes / 2**20:.1f} MiB"


def _free_where(error: Exception) -> int:
    import torch

    return free_memory(torch.device("cuda" if isinstance(error, torch.OutOfMemoryError) else "cpu"))


def numbers_held(sizes: Iterable[int]) -> int:
    """Counts the numbers in the factors of blocks of these many solved rows: a square for every two of one size."""
    return sum(math.ceil(several / 2) * size**2 for size, several in Counter(sizes).items())
