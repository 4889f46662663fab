"""Table 2: the predictive mean of a single Gaussian process, by CG and by alternating projection."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from apviz.experiments import sources
from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, cell_key
from apviz.experiments.measuring import machines, residual_charts, scaling
from apviz.experiments.published import AP, CG, PREDICTIVE_MEAN, comparison_headings, comparison_rows, footnotes
from apviz.experiments.sources import OVERLAP, TEST_TOL, prediction_solver
from apviz.gp.metrics import rmse
from apviz.gp.prediction.posterior import Posterior
from apviz.system import KernelSystem
from apviz.tracing import Recorder

METHODS: Final = (CG, AP, OVERLAP)
COLUMNS: Final = ("rmse", "solves", "time", "speed_up")


class PredictiveMean(Experiment):
    """Solves for K⁻¹(y − μ), one right-hand side, to 0.01 at the hyperparameters of the data set's card (appendix)."""

    name = "predictive-mean"
    title = "The predictive mean of one Gaussian process, by CG and by alternating projection"
    source = "Table 2"

    def cells(self, options: Options) -> list[Cell]:
        return [
            Cell(cell_key(name, method, seed=seed), partial(_cell, method, name, seed, options))
            for name in sources.names(options, trained=True)
            for seed in range(options.seeds)
            for method in METHODS
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        body = comparison_rows(rows.values(), PREDICTIVE_MEAN, COLUMNS)
        note = (
            f"One right-hand side, to a residual of {TEST_TOL:g}, set-up included. Ours at these n on "
            f"{machines(rows.values())}, hyperparameters from the authors' published run or fitted (`apviz datasets`); "
            f"the paper's at the whole sets on a GPU (RTX A5000). {scaling(list(rows.values()))} {footnotes(body)}"
        )
        return [Table("Predictive mean", ["data", "method", *comparison_headings(COLUMNS)], body, note.strip())]

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        text = "Lower is better. The buttons switch to work, the fair axis, and to seconds."
        data = {row["dataset"]: row["data"] for row in rows.values()}
        return residual_charts(data, text, rows, folder)


def _cell(method: str, name: str, seed: int, options: Options, path: Path) -> Row:
    source = sources.load_named(name, options, seed)
    data, h, solver = source.data, source.hyperparameters, prediction_solver(method, source)
    like = KernelSystem(data.train_x, data.train_y, h.build_kernel(), noise=h.noise, device=options.device)
    like.operator.prepare()  # a solve's time excludes compilation
    posterior = Posterior(
        data.train_x, data.train_y, h, solver, hooks=[Recorder(path), *options.hooks], operator=like.operator,
        device=options.device, dataset=name,
    )  # fmt: skip
    solution = posterior.solution
    assert solution is not None  # because no weights were given
    return {
        "method": method, "seed": seed, "dataset": name, "data": source.heading, "settings": solver.method.name,
        "rmse": rmse(posterior.mean(data.test_x), data.test_y), "epochs": solution.epochs, "work": solution.work,
        "seconds": solution.seconds, "residual": solution.residual, "converged": solution.converged,
        "mean_converged": solution.converged,
    }  # fmt: skip
