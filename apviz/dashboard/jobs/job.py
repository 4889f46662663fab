"""Work in threads: one job at a time for a session, so many at once for the server, the others queue in order.

A thread never touches a page. It puts what there is to see into its job, and the page looks there a few times a
second: bokeh's documents belong to the server's own thread.
"""

from __future__ import annotations

import gc
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from apviz.tracing import StopHook

#: how long the end of the server waits for jobs; an update of a large system takes a while
CLOSING_SECONDS = 20.0


class Stopped(Exception):
    """The job was asked to stop before there was anything to keep."""


class Gate:
    """Lets so many jobs through at once, first come, first served."""

    def __init__(self, at_once: int) -> None:
        self._at_once = self._free = at_once
        self._waiting: deque[Job] = deque()
        self._running: set[Job] = set()
        self._changed = threading.Condition()

    def place(self, job: Job) -> int:
        """How many wait before this one and with it; 0: it does not wait."""
        with self._changed:
            return self._waiting.index(job) + 1 if job in self._waiting else 0

    @property
    def is_used(self) -> bool:
        """Whether a job is through, or waits."""
        return bool(self._waiting) or self._free < self._at_once

    @contextmanager
    def passage(self, job: Job) -> Iterator[None]:
        """Waits for its turn.

        Raises:
            Stopped: the job was asked to stop while it waited.
        """
        with self._changed:
            self._waiting.append(job)
            try:
                # now and then it looks whether it was stopped
                while not self._changed.wait_for(lambda: self._is_next(job), timeout=0.1):
                    if job.stopping:
                        raise Stopped
                self._free -= 1
                self._running.add(job)
            finally:
                self._waiting.remove(job)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._running.remove(job)
                self._changed.notify_all()

    def close(self, timeout: float = CLOSING_SECONDS) -> None:
        """The server ends: stops every job, and waits until what they have recorded is on disk."""
        with self._changed:
            jobs = [*self._waiting, *self._running]
        for job in jobs:
            job.stop()
        end = time.monotonic() + timeout
        for job in jobs:
            job.join(max(0.0, end - time.monotonic()))

    def _is_next(self, job: Job) -> bool:
        return self._free > 0 and self._waiting[0] is job


class Job(ABC):
    """Something that takes a while. `start` returns at once; a page reads the attributes.

    Attributes:
        state: `queued`, `running`, `done`, `stopped` or `failed`.
        message: what it is doing, or what went wrong.
        progress: from 0 to 1; an estimate.
        version: grows when there is something new to draw.
        failures: of parts of it, one sentence each.
        stop_hook: for the hooks of the solves.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.state, self.message, self.progress, self.version = "queued", "", 0.0, 0
        self.stopping = False
        self.failures: list[str] = []
        self.stop_hook = StopHook()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Does it, in the thread. May raise `Stopped`, and what `FAILURES` lists."""

    #: what a person can do something about; anything else is a defect, and goes to the log as well
    FAILURES: tuple[type[Exception], ...] = (ValueError, OSError, MemoryError, RuntimeError, ImportError)

    @property
    def is_active(self) -> bool:
        return self.state in ("queued", "running")

    @property
    def queue_place(self) -> int:
        """How many wait for their turn up to this one; 0: it does not wait."""
        return self._gate.place(self) if self.state == "queued" else 0

    @property
    def words(self) -> str:
        """What it is doing, for the page."""
        if self.state == "queued":
            return f"number {self.queue_place} of those that wait for a free solver"
        return self.message

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1; an estimate."""
        return self.progress

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks for the end: within one update of a solve."""
        self.stopping = True
        self.stop_hook.request("asked for in the dashboard")

    def join(self, timeout: float | None = None) -> None:
        """Waits for the end."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            with self._gate.passage(self):
                self.state = "running"
                self.work()
            self.state = "stopped" if self.stopping else "done"
        except Stopped:
            self.state, self.message = "stopped", "stopped before there was anything to record"
        except self.FAILURES as error:
            self.state, self.message = "failed", str(error) or type(error).__name__
        except BaseException as error:
            self.state, self.message = "failed", f"{type(error).__name__}: {error}"
            raise
        finally:
            self.version += 1
            # a solve leaves its matrices in cycles, which Python would find only much later
            gc.collect()
