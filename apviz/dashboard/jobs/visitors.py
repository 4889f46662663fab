"""Visitors: a visitor is a browser, which may open several tabs and return later. Its jobs outlive its tabs."""

from __future__ import annotations

import re
import threading
import time

from apviz.dashboard.jobs.job import Job

#: Format of a browser's token, which is random so that no one can guess it.
_TOKEN = re.compile(r"[0-9a-f]{32}")


class Visitor:
    """Visitor with the jobs started in any of its tabs.

    Args:
        keep_seconds: Seconds that its jobs keep running after the last tab was closed.

    Attributes:
        jobs: Active jobs, and the last ended job of each page.
    """

    def __init__(self, keep_seconds: float = 0.0) -> None:
        self.jobs: list[Job] = []
        self._keep, self._tabs, self._lock = keep_seconds, 1, threading.Lock()
        self._leaving: threading.Timer | None = None
        self._left = 0.0

    @property
    def is_here(self) -> bool:
        """Return whether a tab is open, a job is active, or the last tab with jobs was closed recently."""
        if self._tabs > 0 or any(job.is_active for job in self.jobs):
            return True
        return bool(self.jobs) and time.monotonic() - self._left < 2 * self._keep

    def start(self, job: Job) -> None:
        """Start a job."""
        with self._lock:
            self.jobs = [each for each in self.jobs if each.is_active or each.page != job.page]
            self.jobs.append(job)
        job.start()

    def take_over(self, other: Visitor) -> None:
        """Take over the jobs of a tab that had not yet sent the token of this visitor."""
        with self._lock:
            self.jobs += [job for job in other.jobs if job not in self.jobs]
        other.jobs = []

    def come(self) -> None:
        """Count an opened tab, and keep the jobs running."""
        with self._lock:
            self._tabs += 1
            if self._leaving is not None:
                self._leaving.cancel()
                self._leaving = None

    def leave(self) -> None:
        """Count a closed tab; after the last one, stop the jobs with a delay."""
        with self._lock:
            self._tabs -= 1
            if self._tabs > 0:
                return
            # The visitor has seen the ended jobs. Jobs that end from now on are kept until the visitor returns.
            self.jobs, self._left = [job for job in self.jobs if job.is_active], time.monotonic()
            if not self.jobs:
                return
            if self._keep:
                self._leaving = threading.Timer(self._keep, self._end)
                self._leaving.daemon = True
                self._leaving.start()
                return
        self._end()

    def _end(self) -> None:
        if self._tabs <= 0:
            for job in self.jobs:
                job.stop()


class Visitors:
    """All visitors of a server, by the tokens of their browsers.

    Args:
        keep_seconds: Seconds that a visitor's jobs keep running after the last tab was closed.
    """

    def __init__(self, keep_seconds: float) -> None:
        self._keep, self._known, self._lock = keep_seconds, dict[str, Visitor](), threading.Lock()

    def find(self, token: str) -> Visitor | None:
        """Return the visitor of a token and count an opened tab; None for an invalid token."""
        if not _TOKEN.fullmatch(token):
            return None
        with self._lock:
            # Forget visitors that have left for good.
            self._known = {key: each for key, each in self._known.items() if key == token or each.is_here}
            if token in self._known:
                self._known[token].come()
            else:
                self._known[token] = Visitor(self._keep)
            return self._known[token]
