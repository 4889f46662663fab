"""Figure 3: smaller blocks need fewer epochs, but more consecutive updates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch

from apviz import plots
from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, duration, grouped, spread
from apviz.experiments.measuring import ending, machines, solved, traces_of, when
from apviz.experiments.sources import hyperparameters_of, load, name_of, pairs
from apviz.solvers import AlternatingProjection

PAIRS = (("3droad", "airquality"),)
#: Sizes for the full set. The paper trains with the last one, and does not name the sizes of its figure.
SIZES = (500, 1000, 2000, 4000, 6000)
LEVELS = (0.1, 0.01)
MAX_EPOCHS = 100


class BatchSize(Experiment):
    """Solves for K⁻¹[y, z₁ … z₁₅], zᵢ standard Gaussian, at trained hyperparameters; no mean subtracted (appendix)."""

    name = "batch-size"
    title = "Block sizes: fewer epochs, more updates"
    source = "Figure 3"

    def cells(self, options: Options) -> list[Cell]:
        (pair,) = pairs(PAIRS, options)
        hyperparameters_of(name := name_of(*pair, options))
        return [
            Cell(f"{name}-b{size}-seed{seed}", partial(_solve, pair, size, seed, options))
            for seed in range(options.seeds)
            for size in SIZES
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        body = []
        for size, done in grouped(rows.values(), "full_size").items():
            an_epoch = spread([row["epoch_seconds"] for row in done])
            cells = [when(done, level, what) for level in LEVELS for what in ("epochs", "seconds")]
            setup = duration(sum(row["setup_seconds"] for row in done) / len(done))
            body.append([f"{done[0]['block_size']:,}", f"{size:,}", *cells, an_epoch, setup, ending(done)])
        headings = ["b", "b in the full set"]
        headings += [f"{what} to {level:g}" for level in LEVELS for what in ("epochs", "time")]
        some = next(iter(rows.values()))
        note = (
            f"{some['data']}, at most {MAX_EPOCHS} epochs, {machines(rows.values())}. The paper shows curves and no "
            "numbers, and does not say for which b: smaller ones fall faster by epoch, and slower by time on its GPU."
        )
        return [Table("Block sizes", [*headings, "s an epoch", "set-up", "ended"], body, note)]

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        traces = traces_of(rows, folder)
        if not traces:
            return []
        text = "The same solves twice: by epoch, and by time, where the many updates of small blocks count."
        return [Chart("Residual by block size", text, partial(plots.batch_sizes, traces))]


def _solve(pair: tuple[str, str], size: int, seed: int, options: Options, trace: Path) -> Row:
    source = load(*pair, options, seed)
    y = source.data.train_y[:, None]
    probes = torch.randn(source.n, 15, generator=torch.Generator().manual_seed(seed))
    system = source.system(source.hyperparameters, torch.cat([y, probes.to(y)], 1), options, seed)
    solver = AlternatingProjection(block_size=source.scaled(size), tol=LEVELS[-1] / 10, max_epochs=MAX_EPOCHS)
    row = solved(system, solver, trace, options, LEVELS)
    return row | {"full_size": size, "block_size": solver.block_size, "data": source.heading, "seed": seed}
