"""Table 1, and the appendix's for Matérn-3/2: Gaussian processes trained by CG, alternating projection and SVGP."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from apviz.experiments import sources
from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, cell_key
from apviz.experiments.measuring import machines, scaling, traces_of, train_and_test, training_chart, variances
from apviz.experiments.published import AP, CG, SVGP, TRAINING, comparison_headings, comparison_rows, footnotes
from apviz.experiments.sources import OVERLAP, Source
from apviz.gp.metrics import negative_log_likelihood, rmse
from apviz.kernels import KERNELS

METHODS: Final = (CG, AP, OVERLAP, SVGP)
COLUMNS: Final = ("rmse", "nll", "solves", "time", "speed_up")
NOISE_FLOOR: Final = 1e-4
MAIN_KERNEL: Final = "matern52"
#: SVGP at a reduced n. Number of Adam steps, a fifth of the paper's on sgemm, a quarter of them with its first step
#: size; least number of inducing points; least number of rows of a minibatch.
SVGP_STEPS, SVGP_MIN_INDUCING_POINTS, SVGP_MIN_BATCH_SIZE = 2_000, 64, 256
#: Schedule for all gas sensors (appendix); other data sets use that of `SVGPSettings`.
GAS_SENSORS_SCHEDULE: Final = ((50, 0.01), (350, 0.001))


class TrainingTable(Experiment):
    """Trainings by 50 Adam steps of 0.1 (100 on house electric and gas sensors), 15 probes, σ² ≥ 1e-4 (section 5.1)."""

    name = "training"
    title = "Gaussian processes trained by CG, by alternating projection, and SVGP"
    source = "Table 1, and the appendix's table for Matérn-3/2"

    def cells(self, options: Options) -> list[Cell]:
        methods = [method for method in METHODS if method != SVGP or find_spec("gpytorch")]
        names = sources.names(options)
        return [
            Cell(cell_key(name, kernel, method, seed=seed), partial(_cell, method, name, kernel, seed, options))
            for name in names
            for seed in range(options.seeds)
            for kernel in TRAINING
            for method in methods
            # a reduced n keeps the run to minutes, so the appendix's kernel is on one set, by CG and AP
            if options.n is None or kernel == MAIN_KERNEL or (name == names[0] and method in (CG, AP))
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        by_kernel = {kernel: [row for row in rows.values() if row["kernel"] == kernel] for kernel in TRAINING}
        tables = [_table(kernel, done) for kernel, done in by_kernel.items() if done]
        left_out = [] if options.n is None else [*sources.names(options)[1:], OVERLAP, SVGP]
        if left_out and len(tables) > 1:
            tables[-1] = replace(tables[-1], note=f"{tables[-1].note} Left to the full size: {', '.join(left_out)}.")
        return tables

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        text = (
            "σ² falls during the training, and CG needs more iterations for it (paper, Figure 4). An epoch with "
            "overlapping blocks costs more than one without: hovering gives the work."
        )
        pairs = dict.fromkeys((row["dataset"], row["kernel"]) for row in rows.values())
        found = {pair: traces_of(rows, folder, dataset=pair[0], kernel=pair[1]) for pair in pairs}
        return [
            training_chart(f"{name}, {KERNELS[kernel].title}", text, traces)
            for (name, kernel), traces in found.items() if traces
        ]  # fmt: skip


def _cell(method: str, name: str, kernel: str, seed: int, options: Options, path: Path) -> Row:
    source = sources.load_named(name, options, seed)
    if method == SVGP:
        return _svgp(source, kernel, seed, options)
    return train_and_test(method, source, kernel, NOISE_FLOOR, seed, options, path)


def _svgp(source: Source, kernel: str, seed: int, options: Options) -> Row:
    from apviz.gp import svgp  # requires GPyTorch

    settings = svgp.SVGPSettings(kernel=kernel, noise_floor=NOISE_FLOOR, seed=seed)
    points, batch, schedule = settings.inducing_points, settings.batch_size, settings.schedule
    if source.n < source.full_n:
        points = max(SVGP_MIN_INDUCING_POINTS, source.scaled(points))
        batch = max(SVGP_MIN_BATCH_SIZE, source.scaled(batch))
        epochs = math.ceil(SVGP_STEPS / math.ceil(source.n / batch))
        first = math.ceil(epochs / 4)
        schedule = ((first, 0.01), (max(1, epochs - first), 0.001))
    elif source.name == "gassensors":
        schedule = GAS_SENSORS_SCHEDULE
    settings = replace(settings, inducing_points=points, batch_size=batch, schedule=schedule)
    data = source.data
    model = svgp.SVGP(data.train_x, data.train_y, settings, device=options.device)
    model.run()
    mean, variance = model.predict(data.test_x, include_noise=True)
    steps = sum(epochs for epochs, _ in schedule) * math.ceil(source.n / batch)
    return {
        "method": SVGP, "kernel": kernel, "seed": seed, "dataset": source.name, "data": source.heading,
        "rmse": rmse(mean, data.test_y), "nll": negative_log_likelihood(mean, variance, data.test_y),
        "seconds": model.seconds, "epochs": None, "converged": True, "mean_converged": True,
        "settings": f"SVGP {points:,} inducing points, minibatches of {batch:,}, {steps:,} Adam steps",
    }  # fmt: skip


def _table(kernel: str, rows: Sequence[Row]) -> Table:
    body = comparison_rows(rows, TRAINING[kernel], COLUMNS)
    note = (
        f"Ours at these n on {machines(rows)}; the paper's at the whole sets on a GPU (RTX A5000). "
        f"{scaling(rows)} {variances(rows)} {footnotes(body)}"
    )
    if not find_spec("gpytorch"):
        note += " SVGP needs GPyTorch: pip install 'apviz[gpytorch]'."
    return Table(
        f"Training, {KERNELS[kernel].title}", ["data", "method", *comparison_headings(COLUMNS)], body, note.strip()
    )
