"""Seconds of a product on a device, by CUDA events on a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import torch

#: seconds of repeats, and how often at least and at most
WINDOW, LEAST, MOST = 0.4, 3, 50


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def once(job: Callable[[], object], device: str) -> float:
    """Return the seconds of one call, waiting for the device."""
    if device == "cuda":
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        job()
        ended.record()
        ended.synchronize()
        return float(began.elapsed_time(ended)) / 1e3
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def median_seconds(job: Callable[[], object], device: str, *, window: float = WINDOW) -> float:
    """Return the median seconds of a call, after two to warm up."""
    job()
    synchronize(device)
    estimate = once(job, device)
    repeats = min(MOST, max(LEAST, int(window / max(estimate, 1e-9))))
    return statistics.median(once(job, device) for _ in range(repeats))


def why_no_keops() -> str:
    """Return why KeOps cannot be used, or nothing; the import itself may compile."""
    if find_spec("pykeops") is None:
        return "pykeops is not installed"
    try:
        import pykeops.torch  # noqa: F401
    except Exception as error:
        return f"pykeops does not import: {type(error).__name__}: {str(error)[:300]}"
    return ""
