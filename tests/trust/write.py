"""Every write fails once: the disk is full, read-only, broken or gone at the k-th call that changes something.

A case is its seed: what is done, which call fails, how, and for how many calls. Solves and trainings continue, with
one warning if the disk has less than they know. Earlier files are unchanged; what is saved is there whole or not at
all. Some solves run on a small file system that really is full, if one can be mounted.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

import apviz
import apviz.tracing.recorder
from apviz.comparison import compare
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.experiments import Options, run
from apviz.experiments.running import folder_of
from apviz.gp import saved
from apviz.report.page import find_traces, write_report
from apviz.solvers import attempt
from tests.processes import FRESH
from tests.trust.disk import ERRORS, FailingDisk
from tests.trust.kill import Small
from tests.trust.verdicts import Verdict, judged

ROWS, STEPS = 30, 4
#: the single warning of a solve or a training about a failing disk
WARNED = "could not be written"
AP = apviz.AlternatingProjection(block_size=10, rule="cyclic", tol=1e-300, max_epochs=4)


@functools.cache
def _system() -> apviz.KernelSystem:
    x, b = np.random.default_rng(0).uniform(size=(ROWS, 2)), np.random.default_rng(1).standard_normal(ROWS)
    kernel = apviz.Matern32(lengthscale=0.5)
    return apviz.KernelSystem(x, b, kernel, noise=0.1, dtype=torch.float64, operator="dense", device="cpu")


def _training(path: Path | None, steps: int = STEPS) -> apviz.Training:
    settings = apviz.TrainingSettings(solver=apviz.Cholesky(), steps=steps, probes=2)
    return apviz.Training(_system().x, _system().b[:, 0], settings, path=path, device="cpu", operator="dense")


def _numbers(trace: Any) -> dict[str, xr.Dataset]:
    """Return the recorded numbers, except times."""
    groups = trace.tree.children
    return {name: trace[name].drop_vars("seconds", errors="ignore").drop_attrs() for name in groups}


def _same(one: Any, other: Any) -> bool:
    a, b = _numbers(one), _numbers(other)
    return a.keys() == b.keys() and all(a[name].identical(b[name]) for name in a)


def _contents(path: Path) -> dict[str, bytes]:
    """Return the visible content below a path, byte for byte."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
    shown = (each for each in files if not any(part.startswith(".") for part in each.relative_to(path.parent).parts))
    return {each.relative_to(path.parent).as_posix(): each.read_bytes() for each in shown if each.is_file()}


# --- what is done -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """Something that writes.

    Args:
        begin: prepares an empty folder.
        do: the action; its result goes to `end`.
        end: asserts on the folder, and on the result, error and warnings of `do`.
        goes: the folder that may be removed during the action.
    """

    begin: Callable[[Path], object]
    do: Callable[[Path], Any]
    end: Callable[[Path, Any, OSError | None, list[str]], object]
    goes: str | None = None


def _nothing(folder: Path) -> None:
    (folder / "runs").mkdir()


def _solve(folder: Path) -> Any:
    recorder = apviz.Recorder(folder / "runs" / "a.zarr", rows=True, snapshots=range(5))
    return recorder, attempt(_system(), AP, [recorder]).weights


@functools.cache
def _undisturbed_solve() -> Any:
    recorder = apviz.Recorder(rows=True, snapshots=range(5))
    return attempt(_system(), AP, [recorder]).weights, recorder.trace


def _solved(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    assert error is None, f"the solve did not continue: {error}"
    weights, trace = _undisturbed_solve()
    recorder, found = result
    assert torch.equal(found, weights) and _same(recorder.trace, trace), "the disk changed a number"
    _written_or_warned(folder / "runs", recorder.trace, said)


def _written_or_warned(runs: Path, trace: Any, said: list[str]) -> None:
    warned = sum(WARNED in each for each in said)
    assert warned <= 1, f"{warned} warnings"
    visible = list(runs.glob("[!.]*")) if runs.exists() else []
    assert {each.name for each in visible} <= {"a.zarr", "a-continued.zarr"}, f"left behind: {visible}"
    whole = []
    for path in visible:
        try:
            opened = apviz.open_trace(path)
        except ValueError:
            continue  # rejected, so it does not look complete
        if opened.finished:
            assert _same(opened, trace), f"{path.name} looks whole, and is not"
            whole.append(path)
    assert whole or warned == 1, "less is on disk than is known, and no warning says so"


def _trained(folder: Path) -> Any:
    training = _training(folder / "runs" / "a.zarr")
    training.run()
    return training


@functools.cache
def _undisturbed_training() -> Any:
    training = _training(None)
    training.run()
    return training.trace


def _half_trained(folder: Path) -> None:
    _nothing(folder)
    _training(folder / "runs" / "a.zarr", STEPS // 2).run()


def _has_trained(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    assert error is None, f"the training did not continue: {error}"
    assert _same(result.trace, _undisturbed_training()), "the disk changed a number"
    path = folder / "runs" / "a.zarr"
    warned = sum(WARNED in each for each in said)
    assert warned <= 1, f"{warned} warnings"
    assert not list((folder / "runs").glob("*continued*")), f"it continued elsewhere though its place was free: {said}"
    done = path.exists() and apviz.open_trace(path).finished
    assert done or warned == 1, "less is on disk than is known, and no warning says so"
    again = _training(path)
    again.run()
    assert _same(again.trace, _undisturbed_training()), "what is left on disk leads elsewhere"
    assert _same(apviz.open_trace(path), _undisturbed_training())


def _recorded() -> Any:
    return _undisturbed_solve()[1]


def _saved(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    path = folder / "runs" / "a.zarr"
    assert error is not None or path.exists(), "nothing was saved, and nothing was said"
    if path.exists():
        assert apviz.open_trace(path).tree.identical(_recorded().tree), "what is saved is not the trace"
    assert {each.name for each in (folder / "runs").glob("[!.]*")} <= {"a.zarr"}


@functools.cache
def _model(rows: int) -> apviz.GaussianProcess:
    x, y = _system().x.numpy()[:rows], _system().b[:rows, 0].numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two steps are few
        return apviz.GaussianProcess(max_steps=2, solver=apviz.Cholesky(), device="cpu").fit(x, y)


def _model_saved(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    rows = len(saved.read(folder / "runs" / "m.npz").x)
    assert rows == ROWS or (error is not None and rows == ROWS - 5), "the model there is neither"


def _experiment(folder: Path) -> Any:
    return {cell.key: row for cell, row in run(Small(), Options(out=folder / "runs", device="cpu"))}


@functools.cache
def _undisturbed_rows() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as folder:
        return _experiment(Path(folder))


def _experimented(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    assert result is None or result == _undisturbed_rows()
    assert _experiment(folder) == _undisturbed_rows(), "run again it finds other rows"
    for path in folder_of(Small(), Options(out=folder / "runs", device="cpu")).glob("[!.]*.zarr"):
        apviz.open_trace(path)


def _compare(folder: Path) -> Any:
    return list(compare(_system(), [AP, apviz.ConjugateGradient(tol=1e-3)], folder / "runs"))


def _compared(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    assert error is None and not any(each.error for each in result), "a solver did not continue"
    assert sum(WARNED in each for each in said) <= 2
    for each in result:
        if each.path.exists() and apviz.open_trace(each.path).finished:
            assert _same(apviz.open_trace(each.path), each.trace)
        else:
            assert any(str(each.path) in words for words in said), "less is on disk, and no warning says so"


def _two_runs(folder: Path) -> None:
    for name in ("a", "b"):
        _recorded().save(folder / "runs" / f"{name}.zarr")
    runs = RunsFolder(folder / "runs")
    runs.write_note("a", "before")
    runs.write_tags("a", ["one"])


def _report(folder: Path) -> Any:
    return write_report(find_traces(folder / "runs"), folder / "runs" / "report.html")


def _reported(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    path = folder / "runs" / "report.html"
    page = path.read_text().rstrip()
    assert page.endswith("</html>") and (error is not None or page.count("(cyclic") > 1), "the page is not whole"


def _with_report(folder: Path) -> None:
    _two_runs(folder)
    _report(folder)


def _run_of(runs: Path, name: str) -> tuple[str, tuple[str, ...]] | None:
    """Return a complete run with its note and tags; None if there is no run."""
    found = [entry for entry in RunsFolder(runs).entries() if entry.name == name]
    assert not any(entry.problem for entry in found)
    if found:
        assert apviz.open_trace(runs / f"{name}.zarr").tree.identical(_recorded().tree)
    return (found[0].note, found[0].tags) if found else None


def _either(*states: dict[str, Any]) -> Callable[..., None]:
    """Check that runs are either unchanged or as intended, and that no part of a run is lost."""

    def end(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
        found = {name: _run_of(folder / "runs", name) for name in ("a", "b", "c")}
        wanted = [{"b": ("", ()), "a": None, "c": None} | state for state in states]
        assert found in (wanted if error is not None else wanted[-1:]), f"{found} after {error}"

    return end


BEFORE = ("before", ("one",))


def _restorable(folder: Path) -> None:
    _two_runs(folder)
    RunsFolder(folder / "runs").delete("a")


def _of_runs(do: Callable[[RunsFolder], Any]) -> Callable[[Path], Any]:
    return lambda folder: do(RunsFolder(folder / "runs"))


SCENARIOS: dict[str, Scenario] = {
    "solve": Scenario(_nothing, _solve, _solved, "runs"),
    "solve, trace goes": Scenario(_nothing, _solve, _solved, "runs/a.zarr"),
    "training": Scenario(_nothing, _trained, _has_trained, "runs"),
    "training resumes": Scenario(_half_trained, _trained, _has_trained),
    "save a trace": Scenario(_nothing, lambda folder: _recorded().save(folder / "runs" / "a.zarr"), _saved),
    "save a model": Scenario(
        lambda folder: (_nothing(folder), _model(ROWS - 5).save(folder / "runs" / "m.npz")),
        lambda folder: _model(ROWS).save(folder / "runs" / "m.npz"), _model_saved,
    ),
    "experiment": Scenario(_nothing, _experiment, _experimented),
    "compare": Scenario(_nothing, _compare, _compared, "runs"),
    "report": Scenario(_with_report, _report, _reported),
    "note": Scenario(
        _two_runs, _of_runs(lambda runs: runs.write_note("a", "after")),
        _either({"a": BEFORE}, {"a": ("after", ("one",))}),
    ),
    "rename": Scenario(_two_runs, _of_runs(lambda runs: runs.rename("a", "c")), _either({"a": BEFORE}, {"c": BEFORE})),
    "delete": Scenario(_two_runs, _of_runs(lambda runs: runs.delete("a")), _either({"a": BEFORE}, {})),
    "restore": Scenario(
        _restorable, _of_runs(lambda runs: runs.restore(runs.deleted()[0].key)), _either({}, {"a": BEFORE})
    ),
}  # fmt: skip


# --- how it is judged ---------------------------------------------------------------------------------------------


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
    _recorded().save(folder / "earlier" / "e.zarr")
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
        before, last = _contents(folder / "earlier"), made.first + made.several
        goes = folder / scenario.goes if scenario.goes else None
        disk = FailingDisk(folder, lambda call: made.first <= call < last, made.number, goes)
        result, error, said = _tried(scenario, folder, disk)
        try:
            scenario.end(folder, result, error, said)
            assert _contents(folder / "earlier") == before, "what was there before has changed"
        except AssertionError as wrong:
            return Verdict("false", f"{wrong} ({disk.failed.replace(temporary, '')})")
        except Exception as problem:
            return Verdict("error", f"{type(problem).__name__}: {problem} ({disk.failed.replace(temporary, '')})")
    warned = any(WARNED in each or "something else has come" in each for each in said)
    return Verdict("raised, nothing half" if error else "continued, warned" if warned else "continued")


# --- a file system that is full -----------------------------------------------------------------------------------

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
        _solved(folder, result, error, said)
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
