"""Measurements of cells: a solve until a residual is reached; a training; a Gaussian process, trained and tested.

Also tables and charts of their rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apviz import datasets, plots
from apviz.experiments import published
from apviz.experiments.base import Cell, Chart, Options, Row, duration, spread
from apviz.experiments.sources import (
    OVERLAP,
    TEST_TOL,
    Source,
    lanczos_rank,
    load,
    name_of,
    prediction_solver,
    training_solver,
)
from apviz.gp.metrics import negative_log_likelihood, rmse
from apviz.gp.prediction.posterior import Posterior
from apviz.gp.training.settings import TrainingSettings
from apviz.gp.training.training import Training
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS
from apviz.solvers import Solver, attempt
from apviz.system import KernelSystem
from apviz.tracing import Recorder, Trace, TrainingTrace, open_trace
from apviz.tracing.trace import status_words

#: Number of Adam steps in the paper (section 5.1), and on its two largest sets.
STEPS = 50
MORE_STEPS = {"houseelectric": 100, "gassensors": 100}


# --- solves -----------------------------------------------------------------------------------------------------------


def solved(system: KernelSystem, solver: Solver, path: Path, options: Options, levels: Sequence[float]) -> Row:
    """Solve, with a trace at `path`; return its outcome and when its residual first fell below each level."""
    system.operator.prepare(system.b.shape[1])  # a solve's time excludes compilation
    recorder = Recorder(path)
    solution = attempt(system, solver, [recorder, *options.hooks])
    trace = recorder.trace
    seconds = _seconds(trace)
    return {
        "method": trace.method_name, "settings": json.loads(trace.attrs["solver_settings"]),
        "outcome": str(solution.stop_reason), "residual": solution.residual, "epochs": solution.epochs,
        "work": solution.work, "seconds": float(seconds[-1]), "setup_seconds": solution.setup_seconds,
        "epoch_seconds": float(seconds[-1] - seconds[0]) / max(1, len(seconds) - 1),
        "reached": {f"{level:g}": reached(trace, level) for level in levels},
    }  # fmt: skip


def reached(trace: Trace, level: float) -> dict[str, float] | None:
    """Return epochs, work and seconds after the first epoch with a residual below `level`; None if there is none."""
    epoch = trace["epoch"]
    # epoch 0, before any update, has residual 1 up to rounding
    below = 1 + np.flatnonzero(epoch["residual"].values[1:] < level)
    if not len(below):
        return None
    found = {"epochs": epoch["epoch"].values, "work": epoch["work"].values, "seconds": _seconds(trace)}
    return {name: float(values[below[0]]) for name, values in found.items()}


def _seconds(trace: Trace) -> NDArray[np.float64]:
    """Return the time after every epoch, with set-up, without the recorder's work before the first update."""
    seconds = trace["epoch"]["seconds"].values
    return np.asarray(seconds - seconds[0] + trace.attrs["setup_seconds"], dtype=np.float64)


# --- trainings --------------------------------------------------------------------------------------------------------


def steps_of(name: str) -> int:
    """Return the number of Adam steps that the paper takes on a data set."""
    return MORE_STEPS.get(name, STEPS)


def train(source: Source, settings: TrainingSettings, options: Options, trace: Path) -> Training:
    """Train with a trace at a path; resume a training that was interrupted there."""
    training = Training(
        source.data.train_x, source.data.train_y, settings, path=trace, device=options.device, dataset=source.name
    )
    training.run(options.hooks)
    return training


def training_cells(pair: tuple[str, str], seed: int, options: Options) -> list[Cell]:
    """Return a cell that trains by alternating projection, if the card has no hyperparameters; otherwise none."""
    name = name_of(*pair, options)
    if datasets.card(name).hyperparameters is not None:
        return []
    return [Cell(_key(name, seed), partial(_train, pair, seed, options))]


def hyperparameters(name: str, seed: int, folder: Path) -> Hyperparameters:
    """Return the hyperparameters of the card, or of the training cell in the experiment's folder."""
    card = datasets.card(name).hyperparameters
    if card is not None:
        return card
    trained = open_trace(folder / f"{_key(name, seed)}.zarr")
    assert isinstance(trained, TrainingTrace)
    return trained.hyperparameters


def _key(name: str, seed: int) -> str:
    return f"{name}-training-seed{seed}"


def _train(pair: tuple[str, str], seed: int, options: Options, trace: Path) -> Row:
    source = load(*pair, options, seed)
    settings = TrainingSettings(solver=training_solver(published.AP, source), steps=steps_of(source.name), seed=seed)
    noise = train(source, settings, options, trace).hyperparameters.noise
    return {"dataset": source.name, "data": source.heading, "seed": seed, "noise": noise}


def train_and_test(
    method: str, source: Source, kernel: str, noise_floor: float, seed: int, options: Options, path: Path
) -> Row:
    """Train, and predict the test rows: the mean by the same method, the variance by Lanczos.

    An interrupted training resumes from the checkpoint next to its trace at `path`.
    """
    settings = TrainingSettings(
        kernel=kernel, solver=training_solver(method, source), steps=steps_of(source.stands_in_for or source.name),
        noise_floor=noise_floor, seed=seed,
    )  # fmt: skip
    data = source.data
    like = KernelSystem(data.train_x, data.train_y, KERNELS[kernel](), noise=1.0, device=options.device)
    like.operator.prepare(1 + settings.probes)  # a training's time excludes compilation
    training = train(source, settings, options, path)
    found, trained = training.hyperparameters, training.trace
    posterior = Posterior(
        data.train_x, data.train_y, found, prediction_solver(method, source), hooks=options.hooks,
        device=options.device, dataset=source.name,
    )  # fmt: skip
    rank = lanczos_rank(source)
    mean = posterior.mean(data.test_x)
    variance = posterior.variance(data.test_x, "lanczos", rank, include_noise=True)
    assert posterior.solution is not None  # because no weights were given
    return {
        "method": method, "kernel": kernel, "noise_floor": noise_floor, "seed": seed, "dataset": source.name,
        "data": source.heading, "rmse": rmse(mean, data.test_y),
        "nll": negative_log_likelihood(mean, variance, data.test_y), "mean_converged": posterior.solution.converged,
        "epochs": int(trained["step"]["epochs"].sum()), "converged": trained.converged, "seconds": trained.seconds,
        "work": trained.work, "settings": settings.solver.method.name, "lanczos_rank": rank,
        "hyperparameters": found.as_plain(),
    }  # fmt: skip


# --- in tables and charts ---------------------------------------------------------------------------------------------


def when(rows: Sequence[Row], level: float, what: str) -> str:
    """Return for a table the mean of `what` when the solves of rows reached a residual.

    `what` is `epochs`, `work` or `seconds`. `> 500`: none reached it; `120 (1 of 2)`: some did.
    """
    found = [row["reached"][f"{level:g}"] for row in rows]
    there = [place[what] for place in found if place is not None]
    if not there:
        return f"> {_shown([max(row[what] for row in rows)], what)}"
    return _shown(there, what) + (f" ({len(there)} of {len(found)})" if len(there) < len(found) else "")


def _shown(values: Sequence[float], what: str) -> str:
    if what == "seconds":
        return duration(float(np.mean(values)))
    return spread(values, 0 if what == "epochs" else 1)


def ending(rows: Sequence[Row]) -> str:
    """Return the stop reasons of solves in words, including any that did not converge."""
    return "; ".join(map(status_words, dict.fromkeys(row["outcome"] for row in rows)))


def machines(rows: Iterable[Row]) -> str:
    """Return the machines of the measurements, in words."""
    return "; ".join(dict.fromkeys(row["machine"] for row in rows))


def traces_of(rows: Mapping[str, Row], folder: Path, **wanted: object) -> list[Trace]:
    """Return the traces of the cells whose rows have these values; the seed is 0 by default."""
    chosen = {"seed": 0} | wanted
    keys = [key for key, row in rows.items() if all(row.get(name) == value for name, value in chosen.items())]
    return [open_trace(folder / f"{key}.zarr") for key in keys if (folder / f"{key}.zarr").exists()]


def residual_charts(headings: Mapping[str, str], text: str, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
    """Return a chart of the residuals by epoch for each data set with traces; headings are by data set."""
    found = {name: traces_of(rows, folder, dataset=name) for name in headings}
    return [residual_chart(headings[name], text, traces) for name, traces in found.items() if traces]


def residual_chart(heading: str, text: str, traces: Sequence[Trace]) -> Chart:
    """Return a chart of residuals by epoch."""
    return Chart(heading, text, partial(plots.residuals, traces, x="epochs"))


def training_chart(heading: str, text: str, traces: Sequence[Trace]) -> Chart:
    """Return a chart of trainings by step."""
    return Chart(heading, text, partial(plots.training, traces))


def scaling(rows: Sequence[Row]) -> str:
    """Return a sentence on the batch sizes and ranks of each data set, including ours."""
    by_set: dict[str, dict[str, None]] = {}
    overlapping = False
    for row in rows:
        if row["method"] == OVERLAP:
            overlapping = True
        else:
            by_set.setdefault(row["dataset"], {})[row["settings"]] = None
    words = [f"{name}: {', '.join(settings)}." for name, settings in by_set.items()]
    if overlapping:
        words.append(f"{OVERLAP}: ours, to {TEST_TOL:g} throughout, its sizes chosen from n and d.")
    return " ".join(words)


def variances(rows: Sequence[Row]) -> str:
    """Return a sentence on the ranks of the variances of the test NLL."""
    ranks = sorted({row["lanczos_rank"] for row in rows if "lanczos_rank" in row})
    own = "; SVGP has its own" if any("lanczos_rank" not in row for row in rows) else ""
    return f"Test NLL with Lanczos variances of rank {' and '.join(map(str, ranks))}{own}."
