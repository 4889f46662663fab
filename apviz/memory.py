"""Memory: how much is free where the numbers are, and whether what is about to be made fits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    import torch

#: of the free memory, what one thing may take
SHARE: Final = 0.9


def free_memory(device: torch.device) -> int:
    """Counts the bytes that are free on the GPU, or for the processor."""
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return int(psutil.virtual_memory().available)


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
        raise MemoryError(f"{what} {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free; {instead}")


def numbers_held(sizes: Iterable[int]) -> int:
    """Counts the numbers in the factors of blocks of these many solved rows: a square for every two of one size."""
    return sum(math.ceil(several / 2) * size**2 for size, several in Counter(sizes).items())
