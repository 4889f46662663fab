"""Jobs in threads: so many at once for the server, the others wait in a queue.

A thread never touches a page. It puts what there is to see into its job, and the page looks there a few times a
second: bokeh's documents belong to the server's own thread.
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

#: how long the end of the server waits for jobs; an update of a large system takes a while
CLOSING_SECONDS = 20.0


class Stopped(Exception):
    """Signal that a job was asked to stop before there was anything to keep."""


class JobQueue:
    """Queue of jobs, of which so many run at once: first come, first served.

    Args:
        slots: jobs that may run at once.
    """

    def __init__(self, slots: int) -> None:
        self._slots = self._free = slots
        self._waiting: deque[Job] = deque()
        self._running: set[Job] = set()
        self._changed = threading.Condition()

    def position(self, job: Job) -> int:
        """Place among the jobs that wait, from 1; 0 for one that does not wait."""
        with self._changed:
            return self._waiting.index(job) + 1 if job in self._waiting else 0

    @property
    def is_busy(self) -> bool:
        """Whether any job runs or waits."""
        return bool(self._waiting) or self._free < self._slots

    @contextmanager
    def slot(self, job: Job) -> Iterator[None]:
        """Waits until it is the turn of a job, and holds a slot for it meanwhile.

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
        """Stops every job, and waits until what they have recorded is on disk; called when the server ends.

        Args:
            timeout: the most that is waited, in seconds.
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
        message: what it is doing, or what went wrong.
        progress: part of it that is done, from 0 to 1; an estimate.
        version: grows when there is something new to draw.
        failures: of parts of it, one sentence each.
        stop_hook: to be among the hooks of its solves, which `stop` ends.
        page: name of the page that shows it; empty for none.
        ended: when it did, by `time.monotonic`; infinite while it has not.
        seen: whether a page has shown its end.
    """

    #: what it is, where it is not on its own page
    title: ClassVar[str] = "A solve"

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        self.state, self.message, self.progress, self.version = "queued", "", 0.0, 0
        self.stopping, self.page = False, ""
        self.ended, self.seen = math.inf, False
        self.failures: list[str] = []
        self.stop_hook = StopHook()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Does the work, in the thread.

        Raises:
            Stopped: there is nothing to keep; what `FAILURES` lists is shown as a message.
        """

    #: what a person can do something about; anything else is a defect, and goes to the log as well
    FAILURES: tuple[type[Exception], ...] = (ValueError, OSError, MemoryError, RuntimeError, ImportError)

    @property
    def is_active(self) -> bool:
        """Whether it waits or runs."""
        return self.state in ("queued", "running")

    @property
    def queue_position(self) -> int:
        """Place among the jobs that wait, from 1; 0 for one that does not wait."""
        return self._queue.position(self) if self.state == "queued" else 0

    @property
    def status(self) -> str:
        """Sentence on what it is doing, or what came of it."""
        if self.state == "queued":
            return f"number {self.queue_position} of those that wait for a free solver"
        return self.message

    @property
    def fraction_done(self) -> float:
        """Part of it that is done, from 0 to 1; an estimate."""
        return self.progress

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Asks it to end, which a solve does within one update."""
        self.stopping = True
        self.stop_hook.request("asked for in the dashboard")

    def join(self, timeout: float | None = None) -> None:
        """Waits for the end, at most `timeout` seconds."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            with self._queue.slot(self):
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
            self.ended = time.monotonic()
            self.version += 1
            # a solve leaves its matrices in cycles, which Python would find only much later
            gc.collect()
            give_back()
