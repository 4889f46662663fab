"""Run one entrant on one task in a process of its own, which is stopped at its budget."""

from __future__ import annotations

import resource
import signal
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import psutil

from benchmarks.leaderboard.cells import (
    HANG_SECONDS,
    HANG_TIMES,
    LOADED,
    LOOK_SECONDS,
    START_SECONDS,
    context,
    default_core,
    pin,
)
from benchmarks.referee.task import Clock, DoesNotApply, Prediction, Task

#: budget of a warm-up, in seconds
WARM_UP = 5.0
#: packages that a process has when it starts, where they are installed
PRELOADED = ("apviz", "sklearn.gaussian_process", "sklearn.linear_model", "gpytorch", "gpboost", "lightgbm")
#: bytes in a unit of `ru_maxrss`, on Linux
KIB = 1024


@dataclass(frozen=True, eq=False)
class Ended:
    """How a run ended.

    Args:
        outcome: `done`, or why there is no prediction.
        prediction: the last one within the budget; None without one.
        seconds, wall: when it was finished, by the processor's and the wall's clock.
        memory: largest memory of the process until then, in bytes, beyond its largest in the warm-up.
        is_complete: more seconds would not have changed it.
        note: why no later prediction counts; empty if the entrant ended by itself.
    """

    outcome: str
    prediction: Prediction | None = None
    seconds: float | None = None
    wall: float | None = None
    memory: int | None = None
    is_complete: bool = False
    note: str = ""


def work(name: str, task: Task, budget: float, core: int, pipe: Connection) -> None:
    """Predict in the child, and send each prediction with its seconds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    warnings.simplefilter("ignore")
    pin(core)
    from benchmarks.referee.entrants import entrant

    try:
        one = entrant(name)
        next(one.predict(task.small(), Clock(WARM_UP)))
    except DoesNotApply as reason:
        pipe.send({"outcome": f"does not apply: {reason}"})
        return
    except Exception as error:
        pipe.send({"outcome": f"error: in the warm-up, {_words(error)}"})
        return
    before = _peak()
    pipe.send("ready")
    pipe.recv()
    clock = Clock(budget)
    try:
        for prediction in one.predict(task, clock):
            seconds, wall = clock.used(), clock.wall()
            pipe.send({"prediction": prediction, "seconds": seconds, "wall": wall, "memory": _peak() - before})
    except Exception as error:  # its words are the result
        pipe.send({"outcome": f"error: {_words(error)}"})
        return
    pipe.send({"ended": True, "is_complete": not clock.has_cut})


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def run(name: str, task: Task, budget: float, *, core: int | None = None, hang: float | None = None) -> Ended:
    """Run an entrant, and stop it at its budget.

    Args:
        name: name of an entrant, or `file.py:ClassName`.
        task: the task.
        budget: processor seconds.
        core: core of the process; None: the last that this process may use.
        hang: wall-clock seconds after which a process that uses no processor is stopped; None: generous.
    """
    core = default_core() if core is None else core
    hang = HANG_TIMES * budget + HANG_SECONDS if hang is None else hang
    processes = context()
    processes.set_forkserver_preload([*LOADED, *PRELOADED])
    ours, theirs = processes.Pipe()
    child = processes.Process(target=work, args=(name, task, budget, core, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        if not ours.poll(START_SECONDS):
            return Ended("error: it did not start")
        begun = ours.recv()
        if begun != "ready":
            return Ended(begun["outcome"])
        ours.send("go")
        return watch(ours, psutil.Process(child.pid), budget, hang)
    except (EOFError, ConnectionResetError):
        return Ended("error: the process ended, as for want of memory")
    finally:
        child.kill()
        child.join()


def watch(pipe: Connection, process: psutil.Process, budget: float, hang: float) -> Ended:
    """Collect predictions until the entrant ends or its budget is used."""
    began, began_wall = sum(process.cpu_times()[:2]), time.monotonic()
    last: dict[str, Any] = {}
    while True:
        try:
            while pipe.poll(LOOK_SECONDS):
                got = pipe.recv()
                if "outcome" in got:
                    return _ended(last, got["outcome"])
                if "ended" in got:
                    return _ended(last, "", is_complete=got["is_complete"])
                if got["seconds"] > budget:
                    return _ended(last, f"not finished: the next prediction took {got['seconds']:.1f} of {budget:g} s")
                last = got
            used = sum(process.cpu_times()[:2]) - began
        except (EOFError, ConnectionResetError, psutil.NoSuchProcess):
            return _ended(last, "error: the process ended, as for want of memory")
        # the child's own, finer clock finds a smaller excess
        if used > budget + LOOK_SECONDS:
            return _ended(last, f"not finished: stopped after {used:.1f} of {budget:g} s")
        if time.monotonic() - began_wall > hang:
            return _ended(last, f"not finished: hung, {used:.1f} s of the processor in {hang:.0f} s")


def _ended(last: dict[str, Any], note: str, *, is_complete: bool = False) -> Ended:
    if not last:
        return Ended(note or "error: it made no prediction")
    return Ended("done", **last, is_complete=is_complete, note=note)
