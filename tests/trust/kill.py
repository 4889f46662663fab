"""Test SIGKILL at random moments of writing, during reads, and two processes that start on one path at once.

A case is its seed: the work of a separate process, and the time of its kill. Solves must leave the beginning of the
unkilled trace, with every flushed row. Trainings and experiments, killed up to three times, end bit for bit like those
without a kill. Of two processes on one path, one writes, and the other raises.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import xarray as xr

import apviz
import apviz.tracing.recorder
from apviz.comparison import choose_solvers
from apviz.experiments import Options, run
from apviz.experiments.base import Cell, Experiment, Row
from apviz.experiments.running import folder_of
from apviz.gp.training.checkpoint import can_resume
from apviz.gp.training.settings import TrainingHook
from apviz.operators import native
from apviz.partitions import KDTree
from apviz.solvers import attempt
from tests.processes import FRESH
from tests.trust.verdicts import judged

NEVER, ROWS, EPOCHS, STEPS = 1e-300, 48, 30, 15
#: seconds within which an unkilled process must end
ENDLESS = 120.0
KINDS = (
    "solve", "solve", "solve", "training", "training", "experiment", "comparison", "two solves", "two trainings",
)  # fmt: skip
SOLVERS: tuple[Callable[..., Any], ...] = (
    lambda **limits: apviz.AlternatingProjection(block_size=6, rule="random", check_every=10**6, **limits),
    lambda **limits: apviz.AlternatingProjection(block_size=9, partition=KDTree(overlap=0.5), **limits),
    lambda **limits: apviz.ConjugateGradient(**limits),
)


@dataclass(frozen=True)
class Case:
    """The work, its solver, and the seconds from its first file (or from its start) to each kill."""

    kind: str
    solver: int
    kills: tuple[float, ...]
    from_start: bool


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    kind = KINDS[rng.integers(len(KINDS))]
    again = kind in ("training", "experiment")
    kills = tuple(float(rng.uniform(0, 0.6)) for _ in range(int(rng.integers(1, 4)) if again else 1))
    return Case(kind, int(rng.integers(len(SOLVERS))), kills, bool(rng.random() < 0.2))


# --- what processes do --------------------------------------------------------------------------------------------


def _system() -> apviz.KernelSystem:
    x, b = np.random.default_rng(0).uniform(size=(ROWS, 2)), np.random.default_rng(1).standard_normal((ROWS, 2))
    return apviz.KernelSystem(
        x, b, apviz.Matern32(lengthscale=0.5), noise=0.01, dtype=torch.float64, operator="dense", device="cpu"
    )


class Said(TrainingHook):
    """Writes the number of rows reported to be on disk to a file that survives the process."""

    def __init__(self, path: Path) -> None:
        self.count = np.memmap(path, np.int64, "r+" if path.exists() else "w+", shape=(1,))

    def on_epoch(self, epoch: Any) -> None:
        self.count[0] = epoch.number + 1

    def on_step(self, step: Any, settings: Any) -> None:
        self.count[0] = step.number


class SaidOfSteps(Said):
    """The same for the steps of a training."""

    def on_epoch(self, epoch: Any) -> None: ...


def _training(path: Path | None, solver: int) -> apviz.Training:
    system = _system()
    made = SOLVERS[solver](tol=1e-2, max_epochs=40) if solver < 2 else apviz.Cholesky()
    settings = apviz.TrainingSettings(solver=made, steps=STEPS, probes=2)
    return apviz.Training(system.x, system.b[:, 0], settings, path=path, device="cpu", operator="dense")


class Small(Experiment):
    """An experiment with solves, a training, and a cell without a trace."""

    name, title, source = "small", "small", "nowhere"

    def cells(self, options: Options) -> list[Cell]:
        def solve(trace: Path, solver: int) -> Row:
            found = attempt(_system(), SOLVERS[solver](tol=NEVER, max_epochs=20), [apviz.Recorder(trace)])
            return {"residual": found.residual, "weight": float(found.weights[3, 1])}

        def train(trace: Path) -> Row:
            return _training(trace, 0).run().as_plain()

        solves = [Cell(f"solve-{k}", functools.partial(solve, solver=k)) for k in range(len(SOLVERS))]
        return [*solves, Cell("training", train), Cell("words", lambda trace: {"pi": 3.25})]

    def tables(self, rows: Any, options: Options) -> list[Any]:
        return []

    def charts(self, rows: Any, folder: Path) -> list[Any]:
        return []


def work(folder: Path, kind: str, solver: int, start: Any = None, told: Any = None) -> None:
    """Do the work of a process in a folder; two simultaneous ones wait for each other and report their outcomes."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    apviz.tracing.recorder.FLUSH_SHARE = 0  # so that kills fall within flushes
    if start is not None:
        start.wait()
    try:
        with _engine(folder, kind):
            said = _work(folder, kind, solver)
    except FileExistsError as error:
        said = str(error)
    if told is not None:
        told.send(said)


@contextmanager
def _engine(folder: Path, kind: str) -> Iterator[None]:
    """Make a new run compute with torch, and let a resumed one find the compiled engine as well."""
    if kind == "training" and can_resume(folder / "a.zarr"):
        with mock.patch.object(native, "is_built", lambda *_: True):
            yield
    else:
        with native.kept(False):
            yield


def _work(folder: Path, kind: str, solver: int) -> str:
    if "solve" in kind:
        hooks = [apviz.Recorder(folder / "a.zarr", rows=True, snapshots=range(0, 60, 7)), Said(folder / ".said")]
        apviz.solve(_system(), SOLVERS[solver](tol=NEVER, max_epochs=EPOCHS), hooks)
    elif "training" in kind:
        training = _training(folder / "a.zarr", solver)
        if training.finished:
            return "finished already"
        training.run([SaidOfSteps(folder / ".said")])
    elif kind == "experiment":
        list(run(Small(), Options(out=folder, device="cpu")))
    else:
        from apviz.dashboard.jobs.comparison_job import ComparisonJob
        from apviz.dashboard.jobs.job import JobQueue
        from apviz.dashboard.limits import Limits
        from apviz.dashboard.settings.systems import BY_HAND, SystemSpec
        from apviz.dashboard.store.runs_folder import RunsFolder

        solvers = choose_solvers(["ap", "cg", "auto"], block_sizes=(20, 50), tol=1e-5)
        spec = SystemSpec("china", 200, source=BY_HAND, rhs=2)
        job = ComparisonJob(JobQueue(1), Limits(), RunsFolder(folder), spec, solvers, noise_factors=[1, 0.1])
        job.start()
        job.join()
    return "written"


# --- how it is judged ---------------------------------------------------------------------------------------------


@functools.cache
def _whole(kind: str, solver: int) -> tempfile.TemporaryDirectory[str]:
    """Return the folder of the same work without a kill."""
    made = tempfile.TemporaryDirectory(prefix="apviz-trust-")
    process = FRESH.Process(target=work, args=(Path(made.name), kind, solver))
    process.start()
    process.join(ENDLESS)
    assert process.exitcode == 0, f"{kind} does not end by itself"
    return made


def _visible(folder: Path) -> list[Path]:
    """Return the traces in a folder and its subfolders; hidden ones are incomplete."""
    return sorted([*folder.glob("[!.]*.zarr"), *folder.glob("[!.]*/[!.]*.zarr")])


def _without_time(group: xr.Dataset) -> xr.Dataset:
    return group.drop_vars("seconds", errors="ignore")


def check_beginning(path: Path, whole: Path, rows: int, group: str) -> int:
    """Check a trace against that of an unkilled run; it must have at least `rows` rows. Return its number of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # xarray warns if consolidated metadata are missing
        found, reference = apviz.open_trace(path), apviz.open_trace(whole)
    length = found[group].sizes[group] if group in found else 0
    assert length >= rows, f"{length} {group}s on disk, {rows} were flushed"
    for each in {group, "update"} & set(found.tree.children):
        have, want = _without_time(found[each]), _without_time(reference[each])
        same = want.isel({each: slice(have.sizes[each])})
        names = {*have.variables, *same.variables}
        other = [n for n in names if n not in have or n not in same or not have[n].identical(same[n])]
        assert have.identical(same), f"{each} ({other}) is not the beginning of the trace without a kill"
    return length


@contextmanager
def started(folder: Path, made: Case, *told: Any) -> Iterator[Any]:
    """Yield a process that works in a folder, and has ended after the `with`."""
    process = FRESH.Process(target=work, args=(folder, made.kind, made.solver, *told))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def read_until(folder: Path, process: Any, made: Case, delay: float) -> None:
    """Read the folder repeatedly until the moment to kill, or until the process has ended."""
    began, first, lengths = time.monotonic(), 0.0 if made.from_start else None, dict[Path, int]()
    while process.is_alive() and time.monotonic() - began < ENDLESS:
        traces = _visible(folder)
        if first is None and traces:
            first = time.monotonic() - began
        if first is not None and time.monotonic() - began >= first + delay:
            return
        for path in traces:
            try:
                trace = apviz.open_trace(path)
            except FileNotFoundError:
                assert made.kind == "experiment", "a trace went away while it was read"
                continue  # moved away meanwhile
            group = "step" if "step" in trace else "epoch"
            length = trace[group].sizes[group] if group in trace else 0
            assert length >= lengths.get(path, 0) or made.kind == "experiment", "a reader saw rows, and then fewer"
            lengths[path] = length
        time.sleep(0.02)
    assert not process.is_alive(), "it did not end"


@judged()
def judge(seed: int) -> str:
    """Kill the process of a seed, and check its files."""
    made = case(seed)
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as temporary:
        folder = Path(temporary)
        return _two(folder, made) if made.kind.startswith("two") else _killed(folder, made)


def _killed(folder: Path, made: Case) -> str:
    whole = Path(_whole(made.kind, made.solver).name) if made.kind != "comparison" else folder
    path, how = folder / "a.zarr", "had ended"
    for delay in made.kills:
        with started(folder, made) as process:
            read_until(folder, process, made, delay)
            how = f"killed {made.kind}" if process.is_alive() else how
        for each in _visible(folder):
            apviz.open_trace(each)
        if made.kind in ("solve", "training"):
            rows = int(Said(folder / ".said").count[0]) if (folder / ".said").exists() else 0
            assert path.exists() or not rows, f"{rows} rows were flushed, and there is no trace"
            if path.exists():
                check_beginning(path, whole / "a.zarr", rows, "epoch" if made.kind == "solve" else "step")
    if made.kind in ("training", "experiment"):
        with started(folder, made) as process:
            process.join(ENDLESS)
            assert process.exitcode == 0, "it does not resume to its end"
    if made.kind == "training":
        assert check_beginning(path, whole / "a.zarr", STEPS, "step") == STEPS
        assert _state(folder) == _state(whole), "the end differs from that of a training without a kill"
    elif made.kind == "experiment":
        rows, want = (_rows(folder_of(Small(), Options(out=each, device="cpu"))) for each in (folder, whole))
        assert rows == want, "rows differ from those of an experiment without a kill"
    elif made.kind == "comparison":
        from apviz.dashboard.store.runs_folder import RunsFolder

        bad = [entry for entry in RunsFolder(folder).entries() if entry.problem]
        assert not bad, f"listed with a problem: {bad[0].name}: {bad[0].problem}" if bad else ""
    elif not path.exists():  # and the path is free
        shutil.rmtree(folder)
        folder.mkdir()
        apviz.solve(_system(), SOLVERS[0](tol=NEVER, max_epochs=2), [apviz.Recorder(path)])
    return how


def _state(folder: Path) -> dict[str, bytes]:
    """Return the state that a training resumes from, byte for byte, and the results in its attributes."""
    with np.load(folder / "a.zarr.checkpoint.npz") as archive:
        arrays = {name: archive[name].tobytes() for name in archive.files if name in ("raw", "weights")}
    said = apviz.open_trace(folder / "a.zarr").attrs
    return arrays | {name: str(said[name]).encode() for name in ("hyperparameters", "status", "stop_reason")}


def _rows(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}


def _two(folder: Path, made: Case) -> str:
    """Start two processes at once on one path."""
    start, ends = FRESH.Barrier(2), [FRESH.Pipe(duplex=False) for _ in range(2)]
    processes = [FRESH.Process(target=work, args=(folder, made.kind, made.solver, start, told)) for _, told in ends]
    for process in processes:
        process.start()
    said = [heard.recv() if heard.poll(ENDLESS) else "nothing" for heard, _ in ends]
    for process in processes:
        process.join()
    assert said.count("written") == 1, f"of two on one path: {said}"
    # a training created after the end of the other has nothing to do
    refusals = ("is being written by", "exists", "has written to", "finished already")
    assert any(words in "".join(said) for words in refusals), f"{said}"
    group = "epoch" if "solve" in made.kind else "step"
    whole = Path(_whole(made.kind.removeprefix("two ").removesuffix("s"), made.solver).name) / "a.zarr"
    check_beginning(folder / "a.zarr", whole, apviz.open_trace(whole)[group].sizes[group], group)
    return "two: one said so"


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    made = case(seed)
    return {name: str(getattr(made, name)) for name in ("kind", "solver", "kills", "from_start")}
