"""Systems and tasks that workers import."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import torch

import apviz
from apviz import datasets, memory

#: an unreachable tolerance, so that all epochs run
NEVER = 1e-300


def a_system(n: int = 60, d: int = 1) -> apviz.KernelSystem:
    rng = np.random.default_rng(0)
    x, b = rng.uniform(size=(n, d)), rng.standard_normal((n, 2))
    return apviz.KernelSystem(
        x, b, apviz.Matern32(lengthscale=0.5), noise=0.01, dtype=torch.float64, device="cpu", dataset="made-up"
    )  # fmt: skip


def ap(epochs: int, block_size: int = 6, rule: str = "gauss-southwell") -> apviz.AlternatingProjection:
    return apviz.AlternatingProjection(
        block_size=block_size, rule=rule, tol=NEVER, max_epochs=epochs, check_every=10**6, partition="sequential"
    )  # fmt: skip


class Impossible(apviz.Cholesky):
    """A solver that fails before anything is recorded."""

    def build(self, operator, columns):
        raise ValueError("this solver needs more rows")


def whoami(out, hooks, shared) -> tuple[int, object]:
    return os.getpid(), shared


def threads(out, hooks, shared) -> int:
    return torch.get_num_threads()


def holds(gib: float, out, hooks, shared) -> int:
    """Require memory like a solve, without allocating it."""
    memory.require_memory(gib * 2**30, torch.device("cpu"), f"{gib} GiB of factors need", "take smaller blocks")
    return os.getpid()


def reads(name: str, out, hooks, shared) -> int:
    return len(datasets.load(name).train_x)


def fails_at_first(out: Path, hooks, shared) -> str:
    mark = out / "tried"
    if not mark.exists():
        mark.touch()
        raise OSError("the network was away")
    return "done"


def fails(out, hooks, shared) -> None:
    raise ValueError("blocks must be smaller")


def sleeps(seconds: float, out: Path, hooks, shared) -> int:
    """Write a file at the start, and sleep."""
    if out is not None:
        (out / f"{os.getpid()}.begun").touch()
    time.sleep(seconds)
    return os.getpid()


def writes(name: str, text: str, out: Path, hooks, shared) -> str:
    (out / name).write_text(text)
    return name


def reads_file(name: str, out: Path, hooks, shared) -> str:
    return (out / name).read_text()
