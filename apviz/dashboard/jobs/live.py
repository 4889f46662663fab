"""What a page sees of a solve that runs: its trace so far, never more often than costs a few hundredths of its time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from apviz.solvers.base import Epoch, Hook, Run, Update
from apviz.solvers.outcome import Solution
from apviz.tracing import Recorder, Trace

#: a look at the trace may take one part in this many of the solve's time, and there are at most so many a second
SHARE, PER_SECOND = 30, 8.0


class LiveHook(Hook):
    """Takes the trace out of the recorder among the hooks of a solve, in the thread that solves.

    Args:
        changed: called after every look.

    Attributes:
        trace: of the running solve, after its last epoch that was looked at; None before the first.
        text: where it is now, to the update; said anew after every epoch, and a few times a second between them.
        progress: of the residual towards the tolerance, on a log scale, from 0 to 1.
        seconds_left: until the tolerance is reached if it goes on as it did; NaN where nothing can be said.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.trace: Trace | None = None
        self.text, self.progress, self.seconds_left = "", 0.0, math.nan
        #: said after the name of the solver
        self.where = ""

    def on_start(self, run: Run) -> None:
        self._run, self._recorder = run, next(hook for hook in run.hooks if isinstance(hook, Recorder))
        self._tol = float(getattr(run.solver, "tol", 0.0))
        self._label = run.solver.label + self.where
        self._next = self._next_text = 0.0
        self.progress, self.seconds_left = 0.0, math.nan

    def on_update(self, update: Update) -> None:
        now = time.perf_counter()
        if now < self._next_text:
            return
        self._next_text = now + 1 / PER_SECOND
        blocks = "" if self._run.partition is None else f", block {update.block + 1} of {len(self._run.partition)}"
        self.text = f"{self._label}: update {update.number:,}{blocks}, residual {self._run.residual:.2e}"

    def on_epoch(self, epoch: Epoch) -> None:
        self.text = f"{self._label}: epoch {epoch.number:,}, residual {epoch.residual:.2e}, work {epoch.work:.1f}"
        self._forecast(epoch)
        started = time.perf_counter()
        if started < self._next:
            return
        self.trace = self._recorder.trace
        self._changed()
        now = time.perf_counter()
        self._next = now + max(SHARE * (now - started), 1 / PER_SECOND)

    def on_stop(self, solution: Solution) -> None:
        self.trace = None

    def on_abandon(self, error: BaseException) -> None:
        self.trace = None

    def _forecast(self, epoch: Epoch) -> None:
        if not (0 < epoch.residual < 1 and 0 < self._tol < 1):
            return
        self.progress = min(1.0, math.log(epoch.residual) / math.log(self._tol))
        spent = epoch.seconds - self._run.setup_seconds
        self.seconds_left = spent * (1 - self.progress) / self.progress
