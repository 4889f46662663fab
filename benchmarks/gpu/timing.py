"""Seconds of a product on a device, by CUDA events on a GPU."""

from __future__ import annotations

import functools
import statistics
import subprocess
import sys
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


#: a product that KeOps compiles, in a process of its own: where it crashes, it takes the process with it
TRIAL = """
import sys, torch, apviz
from apviz.operators import OPERATORS
x = torch.rand(64, 3, device=sys.argv[1])
OPERATORS["keops"](x, apviz.Matern52(), 0.1).matmul(torch.ones(64, 1, device=sys.argv[1]))
"""
TRIAL_SECONDS = 60.0


@functools.cache
def why_no_keops(device: str) -> str:
    """Return why KeOps cannot be used on a device, or nothing."""
    if find_spec("pykeops") is None:
        return "pykeops is not installed"
    command = [sys.executable, "-X", "faulthandler", "-c", TRIAL, device]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_SECONDS)
    except subprocess.TimeoutExpired:
        return f"KeOps did not compile a product of 64 rows within {TRIAL_SECONDS:.0f} s"
    if done.returncode == 0:
        return ""
    return f"KeOps ended with status {done.returncode} on a product of 64 rows: {done.stderr.strip()[-1500:]}"
