"""The time of a solve, without what hooks take of it, and without waiting for a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Clock:
    """Counts seconds since the start; on a GPU marks are events on the stream, so that taking one waits for nothing."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._paused = 0.0
        self._start, _ = self.mark()

    def mark(self) -> tuple[Any, float]:
        """Marks this point in time; returns it with the seconds before it that were paused."""
        if not self._on_gpu:
            return time.perf_counter(), self._paused
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event, self._paused

    def seconds(self, mark: tuple[Any, float]) -> float:
        """Counts the seconds from the start to a mark, but for those paused; on a GPU it waits for the mark."""
        at, paused = mark
        if not self._on_gpu:
            return float(at - self._start - paused)
        at.synchronize()
        return float(self._start.elapsed_time(at) / 1000 - paused)

    def add(self, seconds: float) -> None:
        """Counts seconds that came before the start."""
        self._paused -= seconds

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stops counting inside a `with`."""
        before = self.seconds(self.mark())
        yield
        self._paused += self.seconds(self.mark()) - before
