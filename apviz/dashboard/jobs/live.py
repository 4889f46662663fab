"""Live view of a running solve: its trace so far, read in at most a few percent of the solve's time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from apviz.advice.progress import Progress
from apviz.solvers.interface import Epoch, Hook, Solution, Update
from apviz.solvers.run import Run
from apviz.tracing import Recorder, Trace
from apviz.tracing.trace import residual_words

#: Least ratio of the solve time between two reads of the trace to the duration of a read; most reads a second.
TIME_PER_LOOK, LOOKS_PER_SECOND = 30, 8.0
#: First epoch with a forecast; largest allowed ratio of two forecasts of the remaining time.
PACED_EPOCHS, APART = 4, 1.5


class LiveHook(Hook):
    """Hook that copies the trace of the recorder among the same hooks, in the solving thread.

    Args:
        changed: Called after every read of the trace.
        progress: Progress of the solve against its forecast, if there is one; it precedes this hook among the hooks.

    Attributes:
        trace: Trace of the running solve at the last epoch that was read; None before the first.
        text: Current epoch or update in words, renewed after every epoch and a few times a second in between.
        progress: Progress of the residual towards the tolerance, on a log scale, or of the epochs towards their limit,
            whichever is larger; from 0 to 1.
        seconds_left: Remaining seconds to the tolerance at the pace of the later half of the epochs, or to the epoch
            limit if that comes first. NaN in the first epochs, and if the paces of the later half and of the quarter
            before it give times that differ by a factor above `APART`. With a forecast, the value from `progress`.
        until_cap: Whether the epoch limit comes first.
    """

    def __init__(self, changed: Callable[[], None], progress: Progress | None = None) -> None:
        self._changed, self._progress = changed, progress
        self.trace: Trace | None = None
        self.text, self.progress, self.seconds_left, self.until_cap = "", 0.0, math.nan, False
        self._logs: list[float] = []
        #: Text after the name of the solver.
        self.where = ""

    @property
    def growing(self) -> dict[str, Trace]:
        """Return the trace of the running solve by its name in the folder; empty before its first epoch."""
        return {} if self.trace is None else self._named(self.trace)

    def _named(self, trace: Trace) -> dict[str, Trace]:
        path = self._recorder.path
        return {} if path is None else {path.stem: trace}

    def on_start(self, run: Run) -> None:
        self._run, self._recorder = run, next(hook for hook in run.hooks if isinstance(hook, Recorder))
        self._tol = run.stopping.tol
        self._label = run.solver.method.name + self.where
        self._next = self._next_text = 0.0
        self._cap = float(run.stopping.max_epochs)
        self.progress, self.seconds_left, self.until_cap, self._logs = 0.0, math.nan, False, []

    def on_update(self, update: Update) -> None:
        now = time.perf_counter()
        if now < self._next_text:
            return
        self._next_text = now + 1 / LOOKS_PER_SECOND
        blocks = ""
        if self._run.partition is not None:
            blocks = f", block {update.block + 1} of {len(self._run.partition)}" if update.block >= 0 else ", CG"
        residual = residual_words(self._run.residual, self._run.residual_is_measured, ".3g")
        self.text = f"{self._label}: update {update.number:,}{blocks}, residual {residual}"

    def on_epoch(self, epoch: Epoch) -> None:
        residual = residual_words(epoch.residual, self._run.residual_is_measured, ".3g")
        self.text = f"{self._label}: epoch {epoch.number:,}, residual {residual}, work {epoch.work:.1f}"
        self._forecast(epoch)
        started = time.perf_counter()
        if started < self._next:
            return
        self.trace = self._recorder.trace
        self._changed()
        now = time.perf_counter()
        self._next = now + max(TIME_PER_LOOK * (now - started), 1 / LOOKS_PER_SECOND)

    def on_stop(self, solution: Solution) -> None:
        self.trace = None

    def on_abandon(self, error: BaseException) -> None:
        self.trace = None

    def _forecast(self, epoch: Epoch) -> None:
        if not (0 < epoch.residual < math.inf and 0 < self._tol < 1):
            return
        self._logs.append(math.log(epoch.residual))
        towards_tol = min(1.0, max(0.0, self._logs[-1] / math.log(self._tol)))
        self.progress = max(towards_tol, min(1.0, epoch.number / self._cap))
        if self._progress is not None:
            self.seconds_left = self._progress.left.likely
            return
        if epoch.number < PACED_EPOCHS:
            return
        count, to_cap = len(self._logs), self._cap - epoch.number
        to_go, before = self._epochs_to_tol(count // 2, count - 1), self._epochs_to_tol(count // 4, count // 2)
        shorter, longer = sorted(min(each, to_cap) for each in (to_go, before))
        self.until_cap = to_go > to_cap
        epochs = min(to_go, to_cap) if longer <= APART * shorter else math.inf
        seconds = epochs * (epoch.seconds - self._run.setup_seconds) / epoch.number
        self.seconds_left = seconds if math.isfinite(seconds) else math.nan

    def _epochs_to_tol(self, first: int, last: int) -> float:
        """Return the number of epochs until the tolerance, at the pace between the epochs `first` and `last`."""
        fallen = (self._logs[first] - self._logs[last]) / (last - first)
        return max(0.0, self._logs[-1] - math.log(self._tol)) / fallen if fallen > 0 else math.inf


def duration(seconds: float) -> str:
    """Return a duration in words: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
