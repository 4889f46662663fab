"""Jobs in threads: the server runs a limited number at once, and the others wait in a queue.

A thread never touches a page, because Bokeh's documents belong to the server's own thread. It stores its results in
its job, and the page reads the job a few times a second.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from apviz.memory import give_back
from apviz.tracing import StopHook

#: Seconds that the closing server waits for jobs, because an update of a large system takes a while.
CLOSING_SECONDS = 20.0


class Stopped(Exception):
    """Signal that a job was asked to stop before it had a result to keep."""


class JobQueue:
    """Queue of jobs, first come, first served, with a limited number running at once.

    Args:
        slots: Most jobs that run at once.
    """

    def __init__(self, slots: int) -> None:
        self._slots = self._free = slots
        self._waiting: deque[Job] = deque()
        self._running: set[Job] = set()
        self._changed = threading.Condition()

    def position(self, job: Job) -> int:
        """Return the position of a job among the waiting jobs, from 1; 0 if it does not wait."""
        with self._changed:
            return self._waiting.index(job) + 1 if job in self._waiting else 0

    @contextmanager
    def slot(self, job: Job) -> Iterator[None]:
        """Wait for the turn of a job, and hold a slot for it within the context.

        Raises:
            Stopped: The job was asked to stop while it waited.
        """
        with self._changed:
            self._waiting.append(job)
            try:
                # Wake up regularly to check whether the job was stopped.
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

    @property
    def datasets(self) -> set[str]:
        """Return the names of the data sets of all jobs that wait or run."""
        with self._changed:
            return {job.dataset for job in (*self._waiting, *self._running)}

    def close(self, timeout: float = CLOSING_SECONDS) -> None:
        """Stop every job and wait until their records are on disk; called when the server ends.

        Args:
            timeout: Longest wait in seconds.
        """
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
    """Work in a thread: `start` returns at once, and a page reads the attributes.

    Attributes:
        state: `queued`, `running`, `done`, `stopped` or `failed`.
        message: Current activity, or the error.
        progress: Estimated fraction done, from 0 to 1.
        version: Counter that grows when there is something new to draw.
        failures: One sentence for each part of the job that failed.
        stop_hook: Hook by which `stop` ends a solve; `work` passes it to every solve.
        page: Name of the page that shows the job; empty for none.
        dataset: Name of its data set; empty for none.
        ended: Time of its end by `time.monotonic`; infinite before.
        seen: Whether a page has shown its end.
    """

    #: Name of the job outside its own page.
    title: ClassVar[str] = "A solve"

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        self.state, self.message, self.progress, self.version = "queued", "", 0.0, 0
        self.stopping, self.page, self.dataset = False, "", ""
        self.ended, self.seen = math.inf, False
        self.failures: list[str] = []
        self.stop_hook = StopHook()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Do the work, in the thread. Exceptions in `FAILURES` are shown as a message.

        Raises:
            Stopped: There is no result to keep.
        """

    #: Errors that a user can resolve. Any other exception is a defect, and goes to the log as well.
    FAILURES: tuple[type[Exception], ...] = (ValueError, OSError, MemoryError, RuntimeError, ImportError)

    @property
    def is_active(self) -> bool:
        """Return whether the job waits or runs."""
        return self.state in ("queued", "running")

    @property
    def queue_position(self) -> int:
        """Return the position among the waiting jobs, from 1; 0 if the job does not wait."""
        return self._queue.position(self) if self.state == "queued" else 0

    @property
    def status(self) -> str:
        """Return a sentence on the current activity or on the result."""
        if self.state == "queued":
            return f"number {self.queue_position} in line for a free solver"
        return self.message

    @property
    def fraction_done(self) -> float:
        """Return the estimated fraction done, from 0 to 1."""
        return self.progress

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the job to end; a solve ends within one update."""
        self.stopping = True
        self.stop_hook.request("requested in the dashboard")

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end, at most `timeout` seconds."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            with self._queue.slot(self):
                self.state = "running"
                self.work()
            self.state = "stopped" if self.stopping else "done"
        except Stopped:
            self.state, self.message = "stopped", "stopped before anything was recorded"
        except self.FAILURES as error:
            self.state, self.message = "failed", str(error) or type(error).__name__
        except BaseException as error:
            self.state, self.message = "failed", f"{type(error).__name__}: {error}"
            raise
        finally:
            self.ended = time.monotonic()
            self.version += 1
            # A solve leaves its matrices in reference cycles, which Python would collect only much later.
            gc.collect()
            give_back()
