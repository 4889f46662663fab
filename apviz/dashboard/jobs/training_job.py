"""The job of a training: one solve per step, with trace and checkpoint in the folder of runs."""

from __future__ import annotations

import math
import threading
import time
import weakref
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import ClassVar

from apviz.comparison import lock_free_path
from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.jobs.live import LOOKS_PER_SECOND, TIME_PER_LOOK, LiveHook, duration
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import DTYPES, SystemSpec
from apviz.dashboard.store.trainings import Trainings
from apviz.gp.training.checkpoint import can_resume, check_data
from apviz.gp.training.settings import Step, TrainingHook, TrainingSettings
from apviz.gp.training.training import Training, TrainingError
from apviz.solvers.run import Run
from apviz.tracing import Recorder, Trace, TrainingTrace
from apviz.tracing.store import Record

#: Number of latest solves kept for display, each of a few hundred kilobytes.
MOST_SOLVES = 300
#: Rows for the estimate of κ of a step. Few suffice: a step may take 0.1 s, and its κ is only a hint.
SPECTRUM_ROWS = 300
#: A training written within this multiple of its longest step, or this many seconds, may still run in another process.
QUIET_STEPS, QUIET_SECONDS = 3, 10

# All training jobs of this server, over all visitors, because no two jobs may write the same training.
_jobs: weakref.WeakSet[TrainingJob] = weakref.WeakSet()
_claiming = threading.Lock()
# Times of the last writes to the trainings that ended in this server.
_last_written: dict[Path, float] = {}


class TrainingJob(Job):
    """Job that starts a training, or resumes one of the folder.

    Args:
        name: Name of the training to resume; None starts a new one.

    Attributes:
        name: Name of the training.
        trace: Trace of the steps so far; None before the first.
        live: Hook on the running solve.

    Raises:
        ValueError: The training cannot be resumed, or another job or process is writing it.
    """

    title: ClassVar[str] = "A training"

    def __init__(
        self,
        queue: JobQueue,
        limits: Limits,
        trainings: Trainings,
        spec: SystemSpec,
        settings: TrainingSettings,
        name: str | None = None,
    ) -> None:
        super().__init__(queue)
        self._limits, self._spec, self.settings, self.dataset = limits, spec, settings, spec.dataset
        self.trace: TrainingTrace | None = None
        self.live = _LiveStepHook(self._grew)
        self._solves: dict[int, Record] = {}
        self._recorder = Recorder(spectrum="subsample", spectrum_rows=SPECTRUM_ROWS, only_last=True)
        self._begun = self._next_look = 0.0
        self._done = self._done_before = 0
        with _claiming:
            if name is None:
                self.path = _new_path(
                    trainings.folder, f"{spec.dataset}-n{spec.n} training {settings.solver.method.name}"
                )
            else:
                self.path = trainings.path_of(name)
                _refuse_unless_free(self.path, trainings.open(name), trainings.changed(name))
            _jobs.add(self)
        self.name = self.path.relative_to(trainings.folder).with_suffix("").as_posix()

    @property
    def status(self) -> str:
        """Return a sentence on the step and its solve, with the estimated remaining time."""
        if self.state != "running" or not self._begun:
            return super().status
        taken = self._done - self._done_before
        left = (time.perf_counter() - self._begun) / taken * (self.settings.steps - self._done) if taken else math.nan
        about = f" · about {duration(left)} left (estimate)" if left >= 1 else ""
        stopping = "stopping · " if self.stopping else ""
        return f"{stopping}step {self._done + 1} of {self.settings.steps} · {self.live.text or 'setting up'}{about}"

    @property
    def fraction_done(self) -> float:
        return self._done / self.settings.steps

    def solve(self, step: int) -> Trace | None:
        """Return the trace of a step's solve; None if this job did not take the step or no longer keeps it."""
        record = self._solves.get(step)
        return None if record is None else record.to_trace()

    def work(self) -> None:
        self.message = "loading the data"
        self._spec.check(self._limits)
        data = self._spec.load()
        x, y, s = data.train_x, data.train_y, self.settings
        refused = self._limits.why_too_large(s.solver, x)
        if refused:
            raise ValueError(refused)
        check_data(self.path, x, y)
        training = Training(
            x, y, s, path=self.path, dtype=DTYPES[self._spec.dtype], dataset=data.card.name,
            preparation=data.preparation,
        )  # fmt: skip
        self._done = self._done_before = training.steps_done
        self._look(training)
        self._begun = time.perf_counter()
        try:
            training.run([self._recorder, self.stop_hook, self.live, _StepHook(self, training)])
        except TrainingError as error:
            # Do not show visitors where the server keeps its folder.
            raise ValueError(str(error).replace(str(self.path), self.name)) from error
        finally:
            self._look(training)
            with suppress(OSError):  # no step was done, or the file was removed
                _last_written[self.path] = (self.path / "zarr.json").stat().st_mtime
        noise = training.hyperparameters.noise
        self.message = f"{self._done} of {s.steps} steps, σ² = {noise:.3g}; kept as {self.name}"
        if not self._done:
            self.message = "ended before the first step was finished; nothing was recorded"

    def step_done(self, step: Step, training: Training) -> None:
        """Keep the solve of a finished step, and read the training's trace if a read is due."""
        self._solves[step.number] = self._recorder.take()
        self._solves.pop(step.number - MOST_SOLVES, None)
        self._done = step.number
        started = time.perf_counter()
        if started >= self._next_look:
            self._look(training)
            now = time.perf_counter()
            self._next_look = now + max(TIME_PER_LOOK * (now - started), 1 / LOOKS_PER_SECOND)

    def _look(self, training: Training) -> None:
        if training.steps_done:
            self.trace = training.trace
            self.version += 1

    def _grew(self) -> None:
        self.version += 1


class _LiveStepHook(LiveHook):
    """Hook whose pace carries over from solve to solve, because a step may take less time than ten reads."""

    def on_start(self, run: Run) -> None:
        due = getattr(self, "_next", 0.0)
        super().on_start(run)
        self._next = due


class _StepHook(TrainingHook):
    """Hook that reports steps to a job, and stops the next solve if the job was stopped between two solves."""

    def __init__(self, job: TrainingJob, training: Training) -> None:
        self._job, self._training = job, training

    def on_start(self, run: Run) -> None:
        if self._job.stopping:
            run.request_stop("requested in the dashboard")

    def on_step(self, step: Step, settings: TrainingSettings) -> None:
        self._job.step_done(step, self._training)


def is_written_here(path: Path) -> bool:
    """Return whether a job of this server, in any session, is writing a training."""
    return any(job.is_active and job.path == path for job in _jobs)


def _new_path(folder: Path, name: str) -> Path:
    """Return a path without a trace, without the checkpoint of a deleted trace, and without a job that writes there."""
    for each in chain([name], (f"{name} run{k}" for k in count(2))):
        with lock_free_path(folder, each) as free:
            if not (can_resume(free.path) or is_written_here(free.path)):
                return free.path
    raise AssertionError("there are always more names")


def _refuse_unless_free(path: Path, trace: TrainingTrace, changed: float) -> None:
    if is_written_here(path):
        raise ValueError("this training is already running, here or in another window of this server")
    if not can_resume(path):
        raise ValueError(f"there is no checkpoint next to {path.stem}, so it cannot resume; start a new one")
    quiet = max(QUIET_SECONDS, QUIET_STEPS * float(trace["step"]["seconds"].max()))
    ago = time.time() - changed
    if not trace.finished and _last_written.get(path) != changed and ago < quiet:
        raise ValueError(
            f"{path.stem} was written {ago:.0f} s ago, so another process may still train it; wait until nothing has "
            f"written to it for {quiet:.0f} s"
        )
