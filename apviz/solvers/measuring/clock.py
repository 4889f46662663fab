"""The clock of a solve, which excludes the time of hooks and does not wait for a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Clock:
    """Seconds since the start. On a GPU marks are events on the stream, so that a mark does not wait."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._paused = 0.0
        self._start, _ = self.mark()

    def mark(self) -> tuple[Any, float]:
        """Mark this point in time; return the mark and the seconds paused before it."""
        if not self._on_gpu:
            return time.perf_counter(), self._paused
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event, self._paused

    def seconds(self, mark: tuple[Any, float]) -> float:
        """Return the seconds from the start to a mark, excluding pauses; on a GPU wait for the mark."""
        at, paused = mark
        if not self._on_gpu:
            return float(at - self._start - paused)
        at.synchronize()
        return float(self._start.elapsed_time(at) / 1000 - paused)

    def add(self, seconds: float) -> None:
        """Add seconds that passed before the start."""
        self._paused -= seconds

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop counting inside a `with`."""
        before = self.seconds(self.mark())
        yield
        self._paused += self.seconds(self.mark()) - before
