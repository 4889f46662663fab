"""What a page sees of a solve that runs: its trace so far, never at more than a few hundredths of its time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from apviz.advice.progress import Progress
from apviz.solvers.interface import Epoch, Hook, Solution, Update
from apviz.solvers.run import Run
from apviz.tracing import Recorder, Trace
from apviz.tracing.trace import residual_words

#: so many times as long as a look at the trace takes is solved before the next, and there are at most so many a second
TIME_PER_LOOK, LOOKS_PER_SECOND = 30, 8.0
#: epochs from which a pace is told, and how far two forecasts of the time left may be apart
PACED_EPOCHS, APART = 4, 1.5


class LiveHook(Hook):
    """Hook that copies the trace of the recorder beside it, in the thread that solves.

    Args:
        changed: called after every look.
        progress: the progress of the solve against its forecast, if there is one; it comes first among the hooks.

    Attributes:
        trace: of the running solve, after its last epoch that was looked at; None before the first.
        text: where it is now, to the update; said anew after every epoch, and a few times a second between them.
        progress: of the residual towards the tolerance, on a log scale, or of the epochs towards their cap, whichever
            is nearer; from 0 to 1.
        seconds_left: until the tolerance is reached at the pace of the later half of its epochs, or the cap on them if
            that comes first; NaN where it cannot be known: in the first epochs, and where the pace of the later half
            and that of the quarter before it tell times that are apart by more than `APART`. Where there was a
            forecast, by its progress.
        until_cap: whether the cap comes first.
    """

    def __init__(self, changed: Callable[[], None], progress: Progress | None = None) -> None:
        self._changed, self._progress = changed, progress
        self.trace: Trace | None = None
        self.text, self.progress, self.seconds_left, self.until_cap = "", 0.0, math.nan, False
        self._logs: list[float] = []
        #: said after the name of the solver
        self.where = ""

    @property
    def growing(self) -> dict[str, Trace]:
        """The trace of the running solve, by the name that it has in the folder; empty before its first epoch."""
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
        residual = residual_words(self._run.residual, self._run.residual_is_measured)
        self.text = f"{self._label}: update {update.number:,}{blocks}, residual {residual}"

    def on_epoch(self, epoch: Epoch) -> None:
        residual = residual_words(epoch.residual, self._run.residual_is_measured)
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
        """Number of epochs until the tolerance, at the pace from one epoch to another."""
        fallen = (self._logs[first] - self._logs[last]) / (last - first)
        return max(0.0, self._logs[-1] - math.log(self._tol)) / fallen if fallen > 0 else math.inf


def duration(seconds: float) -> str:
    """Time that is left, in words: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
