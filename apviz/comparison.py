"""Comparison of many solvers on one system: the job of `apviz compare`."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from apviz.cluster import Cluster, Task
from apviz.datasets import Dataset
from apviz.distributed import records
from apviz.duplicates import count_distinct, merged
from apviz.gp.training.settings import TrainingSettings
from apviz.gp.training.training import Training
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel
from apviz.methods import METHODS, MethodEntry
from apviz.operators import Noise
from apviz.partitions import with_overlap
from apviz.places import P, Place, is_there, place_of
from apviz.preconditioners import PRECONDITIONERS
from apviz.settings import require, require_number
from apviz.solvers import SOLVERS, Cholesky, Hook, Solver, attempt
from apviz.system import KernelSystem
from apviz.tracing import PredictionHook, Recorder, Trace, open_trace
from apviz.tracing.lock import Lock

log = logging.getLogger("apviz")

#: what to do with training rows that have equal inputs
Duplicates = Literal["keep", "merge"]
DUPLICATES: tuple[Duplicates, ...] = ("keep", "merge")

# A fit takes two to four seconds on two cores, most of it in 1,000 × 1,000 Cholesky factors.
FIT_ROWS, FIT_STEPS, FIT_STEP_SIZE = 1_000, 40, 0.2


@dataclass(frozen=True)
class Outcome:
    """Result of one solver on the system: its trace and the place of the trace, or an error."""

    solver: Solver
    trace: Trace | None
    error: str = ""
    path: Place | None = None
    is_beyond_memory: bool = False


def choose_hyperparameters(
    data: Dataset,
    kernel: str | Kernel | None = None,
    lengthscale: Sequence[float] | None = None,
    outputscale: float | None = None,
    noise: float | None = None,
    *,
    fit: bool = False,
    hooks: Sequence[Hook] = (),
) -> Hyperparameters:
    """Return the hyperparameters of the data set's card, replaced by given values; `provenance` names their sources.

    Without a card they are fitted in seconds, to at most 1,000 training rows. If lengthscale, outputscale and noise are
    all given, there is no fit. `fit` fits them even if the card has some; `hooks` observe every solve of a fit. A
    kernel object, unlike a name, has its own scales and requires a given noise.

    Raises:
        ValueError: A value that is invalid for every system of these data; raised before any fit.
    """
    if isinstance(kernel, Kernel):
        return _with_kernel(data, kernel, noise)
    given = {"kernel": kernel, "lengthscale": lengthscale, "outputscale": outputscale, "noise": noise}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if "lengthscale" in changes:
        changes["lengthscale"] = tuple(changes["lengthscale"])
    chosen = None if fit else data.card.hyperparameters
    if chosen is None:
        mean = float(data.train_y.mean())
        chosen = Hyperparameters("matern52", (1.0,), 1.0, 1.0, mean, "mean of the training targets")
        trial = replace(chosen, **changes)
        KernelSystem(data.train_x[:2], data.train_y[:2], trial.build_kernel(), noise=trial.noise, operator="tiled")
        if not {"lengthscale", "outputscale", "noise"} <= set(changes):
            assert isinstance(trial.kernel, str)  # only names reach this line
            chosen = _fit(data, trial.kernel, hooks)
    elif {"lengthscale", "outputscale", "noise"} <= set(changes):
        # only this part of the card's fit remains
        left = "mean" if "kernel" in changes else "kernel and mean"
        chosen = replace(chosen, provenance=f"{left} of the data set's card")
    if changes:
        changes["provenance"] = f"{chosen.provenance}; {', '.join(changes)} as given"
    return replace(chosen, **changes)


def _with_kernel(data: Dataset, kernel: Kernel, noise: float | None) -> Hyperparameters:
    require_number("noise", noise, 0.0, "a positive number, which a kernel object needs too", strictly=True)
    assert noise is not None
    KernelSystem(data.train_x[:2], data.train_y[:2], kernel, noise=noise, operator="tiled")  # rejects other columns
    card = data.card.hyperparameters
    mean, whose = (card.mean, "the data set's card") if card else (float(data.train_y.mean()), "the training targets")
    return Hyperparameters.of(kernel, noise, mean, f"mean of {whose}; kernel, noise as given")


def _fit(data: Dataset, kernel: str, hooks: Sequence[Hook]) -> Hyperparameters:
    """Train briefly on the first rows, which are random because the rows of a `Dataset` are shuffled."""
    n, m = len(data.train_x), min(len(data.train_x), FIT_ROWS)
    log.info("fitting hyperparameters to %s of %s training rows, because the data set has none", f"{m:,}", f"{n:,}")
    settings = TrainingSettings(kernel=kernel, solver=Cholesky(), steps=FIT_STEPS, step_size=FIT_STEP_SIZE)
    training = Training(data.train_x[:m], data.train_y[:m], settings, dtype=torch.float64)
    fitted = training.run(hooks)
    return replace(fitted, provenance=f"fitted here: {training.steps_done} steps on {m:,} of {n:,} rows")


def build_system(
    data: Dataset,
    hyperparameters: Hyperparameters,
    *,
    rhs: int = 16,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: str = "auto",
    operator: str = "auto",
    duplicates: Duplicates = "keep",
) -> KernelSystem:
    """Build the system K W = B of the training rows; B: targets minus mean, rhs − 1 Rademacher probes (paper, 5.1).

    Args:
        duplicates: `keep` every row, for a K that equals others' and published ones; or `merge` rows with equal inputs
            into one with the mean of their targets and noise σ² ÷ their number: another, smaller K, which gives the
            same predictions.
    """
    if rhs < 1:
        raise ValueError(f"rhs must be at least 1 (the targets), got {rhs}")
    require(duplicates in DUPLICATES, "duplicates", duplicates, " or ".join(DUPLICATES))
    x, y, merged_rows = data.train_x, data.train_y, None
    noise: Noise = hyperparameters.noise
    if duplicates == "merge" and (rows := merged(x, y)).are_merged:
        x, y, noise, merged_rows = rows.x, rows.y, rows.noises(hyperparameters.noise), rows.n
    generator = torch.Generator().manual_seed(int(seed))
    probes = 2.0 * torch.randint(2, (len(x), rhs - 1), generator=generator) - 1.0
    b = torch.cat([(y - hyperparameters.mean)[:, None], probes.to(y)], dim=1)
    return KernelSystem(
        x, b, hyperparameters.build_kernel(), noise=noise, operator=operator, dtype=dtype, device=device,
        dataset=data.card.name, seed=seed, preparation=data.preparation, merged_rows=merged_rows,
    )  # fmt: skip


def duplicates_in_words(data: Dataset, system: KernelSystem) -> str:
    """Return a sentence on training rows with equal inputs, and whether the system has them merged; empty if none."""
    rows, distinct = len(data.train_x), count_distinct(data.train_x)
    if distinct == rows:
        return ""
    is_kept = system.merged_rows is None
    how = f"kept; {distinct:,} merged rows predict the same" if is_kept else f"merged, solved as {system.n:,} rows"
    return f"{rows:,} training rows at {distinct:,} distinct inputs: {how}"


def choose_solvers(
    methods: Sequence[str],
    *,
    rules: Sequence[str] = ("gauss-southwell", "cyclic", "random"),
    block_sizes: Sequence[int] = (200, 1000),
    partitions: Sequence[str] = ("sequential",),
    overlap: float = 0.0,
    ranks: Sequence[int] = (100,),
    tol: float = 1e-2,
    max_epochs: int = 100,
    seed: int = 0,
) -> list[Solver]:
    """Return the solvers of the named methods, in the order of `apviz.methods.METHODS`, which describes them.

    A method has one solver for every combination of those rules, block sizes, partitions and ranks that it has;
    `overlap` is that of the blocks of `ap`. ValueError for an unknown method, or a setting that the solver rejects.
    """
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise ValueError(f"methods must be among {', '.join(METHODS)}, got {', '.join(unknown)}")
    swept = {"rule": rules, "block_size": block_sizes, "partition": partitions, "rank": ranks}
    common = {"overlap": overlap, "tol": tol, "max_epochs": max_epochs, "seed": seed}
    return [solver for name in METHODS if name in methods for solver in _solvers_of(METHODS[name], swept, common)]


def _solvers_of(entry: MethodEntry, swept: Mapping[str, Sequence[Any]], common: dict[str, Any]) -> Iterator[Solver]:
    """Yield one solver for every combination of a method's swept settings."""
    for values in itertools.product(*(swept[name] for name in entry.sweeps)):
        own = dict(zip(entry.sweeps, values, strict=True))
        settings = with_overlap({**common, **own, **entry.fixed})
        if entry.preconditioner is not None:
            settings["preconditioner"] = PRECONDITIONERS.make(entry.preconditioner, **own, seed=common["seed"])
        yield SOLVERS.make(entry.family, **settings)


def by_gauss_southwell(solver: Solver) -> bool:
    """Test whether a solver is alternating projection with the gauss-southwell rule."""
    return solver.method.rule == "gauss-southwell"


def choose_block_sizes(n: int) -> list[int]:
    """Return block sizes to sweep: n/2, n/4, … n/64, rounded to two digits, in increasing order."""
    return sorted({max(1, int(float(f"{n / 2**power:.1e}"))) for power in range(1, 7)})


@dataclass(frozen=True)
class Recording:
    """What every solve of a comparison records.

    It compares solvers on the system as it is. So rows with equal inputs stay, unless `build_system` merged them.

    Args:
        data: Data whose test RMSE is evaluated after every epoch.
        mean: Prior mean that was subtracted from the targets.
        pictures: Number of first updates or iterations whose residual is recorded, for `apviz.plots.ResidualMap` and,
            if d = 2, `residual_image`; if d = 1 also the weights, for `apviz.plots.FittedFunction`.
        pictured: Function that returns whether a solver has pictures.
        eigenvalues: Record all eigenvalues of K and of P⁻¹K, for `apviz.plots.eigenvalues`; small n only.
    """

    data: Dataset | None = None
    mean: float = 0.0
    pictures: int = 0
    pictured: Callable[[Solver], bool] = by_gauss_southwell
    eigenvalues: bool = False


def compare(
    system: KernelSystem,
    solvers: Iterable[Solver],
    out: str | Place,
    recording: Recording | None = None,
    hooks: Sequence[Hook] = (),
) -> Iterator[Outcome]:
    """Run one solver after another, each with a trace in `out`; a failed solver does not end the others.

    Yield one outcome per solver. On Ctrl-C that of the interrupted solver comes before the exception.
    """
    system.operator.prepare()
    for solver in solvers:
        outcome, interrupt = recorded_solve(system, solver, out, recording or Recording(), hooks)
        if outcome.trace is not None or interrupt is None:
            yield outcome
        if interrupt is not None:
            raise interrupt


def compare_on(
    cluster: Cluster,
    build: Callable[[], KernelSystem],
    solvers: Sequence[Solver],
    out: Place,
    recording: Recording | None = None,
) -> Iterator[Outcome]:
    """Run solvers on the workers of a cluster, each with a trace in `out`; a failed solver does not end the others.

    Yield outcomes in order of completion. On Ctrl-C those so far come before the exception; interrupted traces are in
    `out` if workers can write there. `build` makes the system on every worker, such as a `partial` of `build_system`.
    """
    # duplicate solvers are separate tasks
    tasks = [
        Task(f"{number} {solver.method.name}", partial(_solve, solver)) for number, solver in enumerate(solvers, 1)
    ]
    of = dict(zip((task.name for task in tasks), solvers, strict=True))
    with contextlib.closing(cluster.run(tasks, out, (build, recording or Recording()))) as run:
        for done in run:
            solver = of[done.task.name]
            if done.result is None:
                yield Outcome(solver, None, done.error)
                continue
            name, error = done.result
            path = out / name if done.came_back is None else brought(done.came_back / name, out)
            try:
                yield Outcome(solver, open_trace(path), error, path)
            except (OSError, ValueError) as problem:
                yield Outcome(solver, None, f"its trace does not open here: {problem}", path)


def _solve(
    solver: Solver, out: Place, hooks: Sequence[Hook], shared: tuple[Callable[[], KernelSystem], Recording]
) -> tuple[str, str]:
    """Run a worker's part of a comparison; return the name of the trace, and the error if any."""
    build, recording = shared
    system = build()
    system.operator.prepare()
    outcome, interrupt = recorded_solve(system, solver, out, recording, hooks)
    if interrupt is not None:
        raise interrupt
    if outcome.is_beyond_memory:
        raise MemoryError(outcome.error)
    if outcome.path is None:
        raise RuntimeError(outcome.error)
    return outcome.path.name, outcome.error


def brought(trace: Path, out: Place) -> Place:
    """Move a complete trace from a neighbouring folder into `out`, or copy it to a URL; return its new place."""
    with lock_free_path(out, trace.stem) as lock:
        place: Place = lock.path
        if isinstance(place, Path):
            trace.rename(place)
        else:
            files = [path for path in trace.rglob("*") if path.is_file() and path != trace / "zarr.json"]
            place.put((path.relative_to(trace).as_posix(), path.read_bytes()) for path in files)
            (place / "zarr.json").write_bytes((trace / "zarr.json").read_bytes())
    return place


def recorded_solve(
    system: KernelSystem, solver: Solver, out: str | Place, recording: Recording, hooks: Sequence[Hook] = ()
) -> tuple[Outcome, KeyboardInterrupt | None]:
    """Solve with a trace in `out`; return the outcome, and the Ctrl-C that ended the solve, if any."""
    data = recording.data
    prediction = [] if data is None else [PredictionHook(data.test_x, data.test_y, mean=recording.mean)]
    with_pictures = recording.pictures > 0 and recording.pictured(solver)
    name = f"{system.dataset}-n{system.n} {solver.method.name}"
    lock: Lock[Any] | None = lock_free_path(place_of(out), name) if records() else None
    recorder = Recorder(
        lock, rows=with_pictures, snapshots=range(recording.pictures + 1) if with_pictures else (),
        weights=with_pictures and system.d == 1, eigenvalues=recording.eigenvalues,
    )  # fmt: skip
    error, interrupt, is_beyond_memory = "", None, False
    try:
        attempt(system, solver, [*prediction, recorder, *hooks])
    except KeyboardInterrupt as signal:
        interrupt = signal
    except (ValueError, MemoryError, RuntimeError) as problem:
        error, is_beyond_memory = str(problem), isinstance(problem, MemoryError)
    finally:
        if lock is not None:
            lock.release()
    if not recorder.traces:
        return Outcome(solver, None, error, None, is_beyond_memory), interrupt
    path = None if lock is None else lock.path
    return Outcome(solver, recorder.trace, error, path, is_beyond_memory), interrupt


def lock_free_path(folder: P, name: str) -> Lock[P]:
    """Lock a free path in `folder`, named after a run, so that no other process takes it before it is released."""
    plain = unicodedata.normalize("NFKD", name.lower()).encode("ascii", "ignore").decode()
    slug: str = re.sub(r"[^a-z0-9.]+", "-", plain).strip("-")
    for each in (f"{slug}.zarr", *(f"{slug}-run{k}.zarr" for k in range(2, 10_000))):
        path = folder / each
        if is_there(path):
            continue
        try:
            lock = Lock(path)
        except FileExistsError:
            continue
        # a process that held the lock a moment ago may have written there
        if not is_there(path):
            return lock
        lock.release()
    raise FileExistsError(f"{folder} has 10,000 runs called {slug}; choose another folder")
