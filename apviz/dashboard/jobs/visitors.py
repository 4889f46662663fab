"""Visitors: a visitor is a browser, which may have several tabs, and come back. Their jobs outlive the tabs."""

from __future__ import annotations

import re
import threading
import time

from apviz.dashboard.jobs.job import Job

#: what a browser calls itself: random, so that nobody guesses another's
_TOKEN = re.compile(r"[0-9a-f]{32}")


class Visitor:
    """Visitor, with the jobs that were started in any tab.

    Args:
        keep_seconds: how long they go on when the last tab has gone.

    Attributes:
        jobs: those that go on, and the last ended one of each page.
    """

    def __init__(self, keep_seconds: float = 0.0) -> None:
        self.jobs: list[Job] = []
        self._keep, self._tabs, self._lock = keep_seconds, 1, threading.Lock()
        self._leaving: threading.Timer | None = None
        self._left = 0.0

    @property
    def is_here(self) -> bool:
        """Whether a tab is open, or a job goes on, or has ended a short while ago."""
        if self._tabs > 0 or any(job.is_active for job in self.jobs):
            return True
        return bool(self.jobs) and time.monotonic() - self._left < 2 * self._keep

    def start(self, job: Job) -> None:
        """Starts a job."""
        with self._lock:
            self.jobs = [each for each in self.jobs if each.is_active or each.page != job.page]
            self.jobs.append(job)
        job.start()

    def take_over(self, other: Visitor) -> None:
        """Takes the jobs of another, who is the same: the tab had not said who it is."""
        with self._lock:
            self.jobs += [job for job in other.jobs if job not in self.jobs]
        other.jobs = []

    def come(self) -> None:
        """Opens a tab."""
        with self._lock:
            self._tabs += 1
            if self._leaving is not None:
                self._leaving.cancel()
                self._leaving = None

    def leave(self) -> None:
        """Closes a tab; with the last, the jobs end after a while."""
        with self._lock:
            self._tabs -= 1
            if self._tabs > 0:
                return
            # what has ended was seen; what ends from now on is there for who comes back
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
    """All visitors of a server, by what their browsers call themselves.

    Args:
        keep_seconds: how long their jobs go on when the last tab has gone.
    """

    def __init__(self, keep_seconds: float) -> None:
        self._keep, self._known, self._lock = keep_seconds, dict[str, Visitor](), threading.Lock()

    def find(self, token: str) -> Visitor | None:
        """Visitor of a token, who has opened a tab; None for what is no token."""
        if not _TOKEN.fullmatch(token):
            return None
        with self._lock:
            # of those who have gone for good nothing is kept
            self._known = {key: each for key, each in self._known.items() if key == token or each.is_here}
            if token in self._known:
                self._known[token].come()
            else:
                self._known[token] = Visitor(self._keep)
            return self._known[token]
