"""What writes files: how each scenario begins, what it does, and what must hold after its disk failed."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Callable
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
from apviz.report.page import find_traces, write_report
from apviz.solvers import attempt
from tests.trust.kill import Small

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


def contents(path: Path) -> dict[str, bytes]:
    """Return the visible content below a path, byte for byte."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
    shown = (each for each in files if not any(part.startswith(".") for part in each.relative_to(path.parent).parts))
    return {each.relative_to(path.parent).as_posix(): each.read_bytes() for each in shown if each.is_file()}


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


def check_solve(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
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


def recorded_trace() -> Any:
    return _undisturbed_solve()[1]


def _saved(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    path = folder / "runs" / "a.zarr"
    assert error is not None or path.exists(), "nothing was saved, and nothing was said"
    if path.exists():
        assert apviz.open_trace(path).tree.identical(recorded_trace().tree), "what is saved is not the trace"
    assert {each.name for each in (folder / "runs").glob("[!.]*")} <= {"a.zarr"}


@functools.cache
def _model(rows: int) -> apviz.GaussianProcess:
    x, y = _system().x.numpy()[:rows], _system().b[:rows, 0].numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two steps are few
        return apviz.GaussianProcess(max_steps=2, solver=apviz.Cholesky(), device="cpu").fit(x, y)


def _model_saved(folder: Path, result: Any, error: OSError | None, said: list[str]) -> None:
    rows = len(apviz.GaussianProcess.load(folder / "runs" / "m.npz").rows_.x)
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
        recorded_trace().save(folder / "runs" / f"{name}.zarr")
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
        assert apviz.open_trace(runs / f"{name}.zarr").tree.identical(recorded_trace().tree)
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
    "solve": Scenario(_nothing, _solve, check_solve, "runs"),
    "solve, trace goes": Scenario(_nothing, _solve, check_solve, "runs/a.zarr"),
    "training": Scenario(_nothing, _trained, _has_trained, "runs"),
    "training resumes": Scenario(_half_trained, _trained, _has_trained),
    "save a trace": Scenario(_nothing, lambda folder: recorded_trace().save(folder / "runs" / "a.zarr"), _saved),
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
