"""Every write fails once: the disk is full, read-only, broken or gone at the k-th call that changes something.

A case is its seed: what is done, which call fails, how, and for how many calls. Solves and trainings continue, with
one warning if the disk has less than they know. Earlier files are unchanged; what is saved exists whole or not at
all. Some solves run on a small file system that really is full, if one can be mounted.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import apviz
import apviz.tracing.recorder
from tests.processes import FRESH
from tests.trust.disk import ERRORS, FailingDisk
from tests.trust.verdicts import Verdict, judged
from tests.trust.write_scenarios import SCENARIOS, WARNED, Scenario, check_solve, contents, recorded_trace


@contextmanager
def flushed_at_every_epoch() -> Iterator[None]:
    """Flush at every epoch, so that there are many calls that can fail."""
    before, apviz.tracing.recorder.FLUSH_SHARE = apviz.tracing.recorder.FLUSH_SHARE, 0
    try:
        yield
    finally:
        apviz.tracing.recorder.FLUSH_SHARE = before


def _tried(scenario: Scenario, folder: Path, disk: FailingDisk) -> tuple[Any, OSError | None, list[str]]:
    result, error = None, None
    with flushed_at_every_epoch(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with disk:
                result = scenario.do(folder)
        except OSError as raised:
            error = raised
            assert str(error), "an error without a word"
    return result, error, [str(each.message) for each in caught]


@functools.cache
def _begun(name: str) -> tempfile.TemporaryDirectory[str]:
    """Return a folder prepared for a scenario, next to an earlier trace that nothing touches."""
    made = tempfile.TemporaryDirectory(prefix="apviz-trust-")
    folder = Path(made.name)
    (folder / "earlier").mkdir()
    recorded_trace().save(folder / "earlier" / "e.zarr")
    SCENARIOS[name].begin(folder)
    return made


def _as_begun(name: str, folder: Path) -> None:
    """Copy the prepared folder of a scenario."""
    shutil.copytree(_begun(name).name, folder, dirs_exist_ok=True)


@functools.cache
def calls_of(name: str) -> int:
    """Return the number of calls of an undisturbed run."""
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as temporary:
        folder = Path(temporary)
        _as_begun(name, folder)
        disk = FailingDisk(folder)
        result = _tried(SCENARIOS[name], folder, disk)
        SCENARIOS[name].end(folder, *result)
        assert result[1] is None
        return disk.calls


@dataclass(frozen=True)
class Case:
    """A scenario, its first failing call, their number and error; or, if not 0, the kilobytes of a small disk."""

    scenario: str
    first: int
    several: float
    number: int | None
    kilobytes: int


def case(seed: int) -> Case:
    """Return the case of a seed; all calls of a scenario take turns."""
    rng = np.random.default_rng(seed)
    kilobytes = int(rng.integers(4, 600)) if rng.random() < 0.05 else 0
    names = list(SCENARIOS)
    name = "solve" if kilobytes else names[seed % len(names)]
    first = 1 + (seed // len(names) * 7) % calls_of(name)  # steps of 7, so that a few cases cover all parts of a run
    several = (1, 1, 1, 3, np.inf)[rng.integers(5)]
    number = None if SCENARIOS[name].goes and rng.random() < 0.15 else ERRORS[rng.integers(len(ERRORS))]
    return Case(name, first, several, number, kilobytes)


@judged()
def judge(seed: int) -> Verdict:
    """Run the case of a seed on a failing disk."""
    made = case(seed)
    return _small(made) if made.kilobytes else _injected(made)


def _injected(made: Case) -> Verdict:
    scenario = SCENARIOS[made.scenario]
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as temporary:
        folder = Path(temporary)
        _as_begun(made.scenario, folder)
        before, last = contents(folder / "earlier"), made.first + made.several
        goes = folder / scenario.goes if scenario.goes else None
        disk = FailingDisk(folder, lambda call: made.first <= call < last, made.number, goes)
        result, error, said = _tried(scenario, folder, disk)
        try:
            scenario.end(folder, result, error, said)
            assert contents(folder / "earlier") == before, "what was there before has changed"
        except AssertionError as wrong:
            return Verdict("false", f"{wrong} ({disk.failed.replace(temporary, '')})")
        except Exception as problem:
            return Verdict("error", f"{type(problem).__name__}: {problem} ({disk.failed.replace(temporary, '')})")
    warned = any(WARNED in each or "something else has come" in each for each in said)
    return Verdict("raised, nothing half" if error else "continued, warned" if warned else "continued")


NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000


def _solve_on_a_small_disk(folder: Path, kilobytes: int, told: Any) -> None:
    torch.set_num_threads(1)
    libc = ctypes.CDLL(None, use_errno=True)
    (folder / "runs").mkdir()
    options = f"size={kilobytes}k".encode()
    alone = libc.unshare(NEW_MOUNTS) == 0 or libc.unshare(NEW_USER | NEW_MOUNTS) == 0
    # 1 << 18: mounts are visible to this process only
    alone = alone and libc.mount(None, b"/", None, (1 << 18) | (1 << 14), None) == 0
    if not alone or libc.mount(b"tmpfs", os.fsencode(folder / "runs"), b"tmpfs", 0, options):
        told.send("not allowed")
        return
    try:
        result, error, said = _tried(SCENARIOS["solve"], folder, FailingDisk(folder))
        check_solve(folder, result, error, said)
        shutil.rmtree(folder / "runs" / "a.zarr", ignore_errors=True)
        told.send("continued, warned" if any(WARNED in each for each in said) else "continued")
    except Exception as problem:
        told.send(f"{type(problem).__name__}: {problem}")


def _small(made: Case) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as temporary:
        heard, told = FRESH.Pipe(duplex=False)
        process = FRESH.Process(target=_solve_on_a_small_disk, args=(Path(temporary), made.kilobytes, told))
        process.start()
        said = heard.recv() if heard.poll(120) else "it did not end"
        process.kill()
        process.join()
    if said == "not allowed":
        return Verdict("small disk not allowed here")
    return Verdict(f"small disk: {said}") if said.startswith("continued") else Verdict("false", said)


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = case(seed)
    how = "the folder goes" if made.number is None else os.strerror(made.number)
    disk = {"disk": f"{made.kilobytes} kB"} if made.kilobytes else {}
    return {"scenario": made.scenario, "call": f"{made.first} and {made.several - 1:.0f} more", "how": how} | disk
