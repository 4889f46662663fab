"""Figure 4 and its appendix version: as σ² falls in training, CG needs more iterations, and AP does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from apviz import datasets
from apviz.experiments import published
from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, cell_key, duration, grouped, spread
from apviz.experiments.measuring import machines, steps_of, traces_of, train, training_chart
from apviz.experiments.published import published_traces
from apviz.experiments.sources import load, pairs, training_solver
from apviz.gp.training.settings import TrainingSettings

#: Data sets of the main figure, then of the appendix.
DATASETS = ("airquality", "sgemm", "3droad", "song", "buzz")
#: Number of data sets at a reduced n, which keeps the run to minutes.
REDUCED_DATASETS = 2
METHODS = (published.AP, published.CG)
#: Steps at which a table shows the epochs, as shares of all steps, and steps after which it shows σ².
EPOCH_PARTS, NOISE_PARTS = (0.02, 0.2, 0.6, 1.0), (0.2, 0.6, 1.0)


class Conditioning(Experiment):
    """Training by each method with the paper's settings (section 5.2)."""

    name = "conditioning"
    title = "The noise in training, and what each solve takes"
    source = "Figure 4, and its appendix version"

    def cells(self, options: Options) -> list[Cell]:
        return [
            Cell(cell_key(name, method, seed=seed), partial(_train, name, method, seed, options))
            for name in _names(options)
            for seed in range(options.seeds)
            for method in METHODS
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        return [_table(name, own, options) for name, own in grouped(rows.values(), "dataset").items()]

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        charts = []
        for name, data in {row["dataset"]: row["data"] for row in rows.values()}.items():
            text = "As σ² falls, κ grows: what that does to iterations, and to epochs. A cross: not converged."
            if own := traces_of(rows, folder, dataset=name):
                charts.append(training_chart(data, text, own))
            if traces := published_traces(name):
                text = "The same of the authors' own trainings, on all training rows; κ was not published."
                heading = f"{name} as published, n = {published.full_rows(name):,}"
                charts.append(training_chart(heading, text, traces))
        return charts


def _names(options: Options) -> list[str]:
    """Return the data set of `options`, or the available ones of the paper, only the first two at a reduced n."""
    if options.dataset is not None:
        names = [options.dataset]
    else:
        here = [name for name in DATASETS if datasets.is_here(name)] or list(DATASETS[:1])
        names = here if options.n is None else here[:REDUCED_DATASETS]
    for name in names:
        pairs([(name, name)], options)
    return names


def _train(name: str, method: str, seed: int, options: Options, trace: Path) -> Row:
    source = load(name, name, options, seed)
    settings = TrainingSettings(
        solver=training_solver(method, source), steps=steps_of(name), seed=seed, spectrum=True
    )  # fmt: skip
    training = train(source, settings, options, trace)
    steps = training.trace["step"]
    return {
        "dataset": name, "data": source.heading, "kind": method, "seed": seed, "method": training.trace.method_name,
        # after each step
        "noise": [*steps["noise"].values[1:].tolist(), training.hyperparameters.noise],
        "epochs": steps["epochs"].values.tolist(),
        "unconverged": int((steps["converged"].values == 0).sum()),
        "seconds": float(steps["seconds"].values.sum()),
    }  # fmt: skip


def _table(name: str, own: Sequence[Row], options: Options) -> Table:
    count = steps_of(name)
    after, solves = ([max(1, round(part * count)) for part in parts] for parts in (NOISE_PARTS, EPOCH_PARTS))
    body = []
    for done in grouped(own, "kind").values():
        cells = [spread([row["noise"][step - 1] for row in done]) for step in after]
        cells += [spread([row["epochs"][step - 1] for row in done], 0) for step in solves]
        cells += [spread([sum(row["epochs"]) for row in done], 0), str(sum(row["unconverged"] for row in done))]
        body.append([done[0]["method"], *cells, duration(sum(row["seconds"] for row in done) / len(done))])
    theirs = [row for method in METHODS if (row := _published_row(name, method, after, solves))]
    note = f"{machines(own)}. Epochs of alternating projection or iterations of CG of a step's solve, at least 11."
    if theirs:
        note += (
            f" Paper: n = {published.full_rows(name):,}; all steps and time are of Table 1, single steps of the run "
            "its authors published."
        )
    left_out = [other for other in DATASETS if other not in _names(options)]
    if left_out and options.dataset is None:
        note += f" Not computed: {', '.join(left_out)}, not on this machine or left to the full size."
    headings = ["method", *(f"σ² after step {step}" for step in after)]
    headings += [*(f"epochs or iterations, step {step}" for step in solves), "all steps", "not converged", "time"]
    return Table(f"{own[0]['data']}: {count} Adam steps", headings, [*body, *theirs], note)


def _published_row(name: str, method: str, after: Sequence[int], solves: Sequence[int]) -> list[str]:
    """Return the row of the paper; empty if the paper lacks the data set."""
    total = published.TRAINING["matern52"].get(name, {}).get(method)
    if total is None:
        return []
    steps = published.training_of(name, method)
    cells = [spread([steps[step - 1].noise]) if steps else "–" for step in after]
    cells += [str(len(steps[step - 1].residual_trace)) if steps else "–" for step in solves]
    failed = str(sum(run.residual_trace[-1] >= 1.0 for run in steps)) if steps else "–"
    return [f"paper: {method}", *cells, total.solves, failed, total.time]
