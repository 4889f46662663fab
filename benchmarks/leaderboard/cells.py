"""Measure cells: one entrant on one system, in a separate process on one core, checked from outside."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

import psutil

from benchmarks.leaderboard.checking import check
from benchmarks.leaderboard.systems import SYSTEMS, Given, small

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-6)
# wall-clock: to start a process, compile, and warm up; and, against a hang, a multiple of the limit and a constant
START_SECONDS, HANG_TIMES, HANG_SECONDS = 300.0, 20.0, 60.0
# interval at which the parent reads the processor clock
LOOK_SECONDS = 0.2
# packages that a process has when it starts
LOADED = ("torch", "scipy.spatial", "pandas", "xarray", "sklearn")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def processor_seconds() -> float:
    """Return user and system time of this process, all threads, and of its child processes that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def default_core() -> int:
    """Return the last core that this process may use: other processes tend to run on the first ones."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


def pin(core: int) -> None:
    """Pin this process to one core, if the system supports that, and to one thread."""
    import torch

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)


def context() -> ForkServerContext:
    """Return a context of processes that start with the large libraries loaded, share nothing, and find our apviz."""
    os.environ.update(ONE_THREAD)
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(list(LOADED))
    return made


def work_through(name: str, given: Given, core: int, pipe: Connection) -> None:
    """Solve in the child to each requested tolerance, and send weights, seconds and work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    warnings.simplefilter("ignore")
    pin(core)
    from benchmarks.leaderboard.entrants import entrant
    from benchmarks.leaderboard.problem import Problem

    warm = entrant(name)
    trial = small(given)
    try:
        warm.prepare(Problem(trial))
        warm.solve(trial.b.copy(), 0.5)
    except Exception as error:
        pipe.send({"error": f"while it warmed up on {len(trial.x)} rows, {_words(error)}"})
        return
    pipe.send("ready")
    while (tol := pipe.recv()) is not None:
        problem, one = Problem(given), entrant(name)
        began, began_wall = processor_seconds(), time.perf_counter()
        try:
            one.prepare(problem)
            weights = one.solve(given.b.copy(), tol)
        except Exception as error:  # its words are the result
            pipe.send({"error": _words(error)})
            continue
        seconds, wall = processor_seconds() - began, time.perf_counter() - began_wall
        work = getattr(one, "work", problem.work) if getattr(one, "counts_work", True) else None
        pipe.send(
            {"weights": weights, "seconds": seconds, "wall": wall, "work": work, "label": getattr(one, "label", "")}
        )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def measure(
    name: str, system: str | Given, n: int, seed: int, limit: float, *, core: int | None = None,
    tolerances: Sequence[float] = TOLERANCES, hang: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Measure one cell: every tolerance that was reached, and how it ended.

    Args:
        system: its name, or the system itself if it is built already.
        limit: processor seconds of one task.
        core: core of the cell; by default the last that this process may use.
        tolerances: the requested ones, in this order.
        hang: wall-clock seconds after which a task is stopped; by default generous, for a machine that is shared.
    """
    given = SYSTEMS[system](n, seed) if isinstance(system, str) else system
    core = default_core() if core is None else core
    hang = HANG_TIMES * limit + HANG_SECONDS if hang is None else hang
    cell: dict[str, Any] = {"rows": len(given.x), "limit": limit, "reached": {}}
    ours, theirs = context().Pipe()
    child = context().Process(target=work_through, args=(name, given, core, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        if not ours.poll(START_SECONDS):
            return cell | {"failure": "error: it did not start"}
        begun = ours.recv()
        if begun != "ready":
            return cell | {"failure": f"error: {begun['error']}"}
        clock = psutil.Process(child.pid)
        for tol in tolerances:
            ours.send(tol)
            ended = _wait(ours, clock, limit, hang)
            if ended:
                return cell | {"failure": ended}
            found = ours.recv()
            if "error" in found:
                return cell | {"failure": f"error: {found['error']}"}
            checked = check(given, found["weights"])
            cell["label"] = found["label"]
            if found["seconds"] > limit:
                return cell | {"failure": "limit"}
            if not checked.reaches(tol):
                return cell | {"failure": f"not there: {checked} where {tol:g} was asked for"}
            cell["reached"][f"{tol:g}"] = {
                "seconds": round(found["seconds"], 4), "wall": round(found["wall"], 4), **checked.record(),
                "work": None if found["work"] is None else round(found["work"], 3),
            }  # fmt: skip
    except (EOFError, ConnectionResetError):
        return cell | {"failure": "error: the process ended, as for want of memory"}
    finally:
        child.kill()
        child.join()
    return cell


def _wait(pipe: Connection, clock: psutil.Process, limit: float, hang: float) -> str:
    """Wait for a result; return the reason if there is none, or an empty string."""
    began, began_wall = sum(clock.cpu_times()[:2]), time.monotonic()
    while not pipe.poll(LOOK_SECONDS):
        try:
            used = sum(clock.cpu_times()[:2]) - began
        except psutil.NoSuchProcess:
            return "" if pipe.poll() else "error: the process ended, as for want of memory"
        # the child's own, finer clock finds a smaller excess
        if used > limit + LOOK_SECONDS:
            return "limit"
        if time.monotonic() - began_wall > hang:
            return f"hang: {used:.1f} s of the processor in {hang:.0f} s"
    return ""
