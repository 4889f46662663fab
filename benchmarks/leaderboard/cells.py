"""Cells: one entrant on one system, in a process of its own, checked from outside of it."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.leaderboard.checking import residual
from benchmarks.leaderboard.entrants import entrant
from benchmarks.leaderboard.problem import Problem
from benchmarks.leaderboard.systems import SYSTEMS, small

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-6)
# what rounding may leave of a residual above its tolerance
ROUNDING = 1.05
# to start a process, compile, and warm up
START_SECONDS = 120.0


def work_through(name: str, system: str, n: int, seed: int, pipe: Connection) -> None:
    """The child: solves to one tolerance after another as it is asked, and sends weights, seconds and work."""
    warnings.simplefilter("ignore")
    given = SYSTEMS[system](n, seed)
    warm = entrant(name)
    trial = small(given)
    warm.prepare(Problem(trial))
    warm.solve(trial.b, 0.5)
    pipe.send("ready")
    while (tol := pipe.recv()) is not None:
        problem, one = Problem(given), entrant(name)
        started = time.perf_counter()
        try:
            one.prepare(problem)
            weights = one.solve(given.b.copy(), tol)
        except Exception as error:  # its words are the result
            pipe.send({"error": f"{type(error).__name__}: {error}"[:200]})
            continue
        seconds = time.perf_counter() - started
        work = getattr(one, "work", problem.work) if getattr(one, "counts_work", True) else None
        pipe.send({"weights": weights, "seconds": seconds, "work": work, "label": getattr(one, "label", "")})


def measure(name: str, system: str, n: int, seed: int, limit: float) -> dict[str, Any]:
    """One cell: every tolerance that was reached, and how it ended."""
    given = SYSTEMS[system](n, seed)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=work_through, args=(name, system, n, seed, theirs), daemon=True)
    child.start()
    theirs.close()
    cell: dict[str, Any] = {"rows": len(given.x), "reached": {}}
    try:
        if not ours.poll(START_SECONDS):
            return cell | {"failure": "error: it did not start"}
        ours.recv()
        for tol in TOLERANCES:
            ours.send(tol)
            if not ours.poll(limit + 5.0):
                return cell | {"failure": "limit"}
            found = ours.recv()
            if "error" in found:
                return cell | {"failure": f"error: {found['error']}"}
            checked = residual(given, found["weights"])
            cell["label"] = found["label"]
            if found["seconds"] > limit:
                return cell | {"failure": "limit"}
            if not checked <= ROUNDING * tol:
                return cell | {"failure": f"not there: {checked:.2g} where {tol:g} was asked for"}
            cell["reached"][f"{tol:g}"] = {
                "seconds": round(found["seconds"], 4), "residual": checked,
                "work": None if found["work"] is None else round(found["work"], 3),
            }  # fmt: skip
    except EOFError:
        return cell | {"failure": "error: the process ended, as for want of memory"}
    finally:
        if child.is_alive():
            child.kill()
        child.join()
    return cell
