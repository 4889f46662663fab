"""The appendix's figure of the test NLL by the rank of the Lanczos variances, with the NLL of exact variances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import xarray as xr

from apviz import plots
from apviz.experiments import sources
from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, grouped, spread
from apviz.experiments.measuring import machines, traces_of
from apviz.experiments.sources import OURS
from apviz.gp.metrics import negative_log_likelihood
from apviz.gp.prediction.lanczos import PAPER_LANCZOS_RANK
from apviz.gp.prediction.posterior import Posterior
from apviz.tracing import Recorder, Trace
from apviz.tracing.schema import LANCZOS

#: The paper's rank, and smaller ones; ranks above n are left out.
RANKS: Final = (10, 20, 50, 100, 200, 500, PAPER_LANCZOS_RANK)
#: Number of test rows for all ranks; variances by solves need a right-hand side for each.
TEST_ROWS: Final = 500
#: Tolerance of the variances by solves, whose error is proportional to its square.
TOL: Final = 1e-3


class LanczosRank(Experiment):
    """Variances at the hyperparameters of the data set's card, trained by alternating projection or fitted."""

    name = "lanczos-rank"
    title = "Test NLL by the rank of the Lanczos variances"
    source = "appendix, Increasing Lanczos iterations improves NLL"

    def cells(self, options: Options) -> list[Cell]:
        return [
            Cell(f"{name}-seed{seed}", partial(_cell, name, seed, options))
            for name in sources.names(options, trained=True)
            for seed in range(options.seeds)
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        ranks = max((row["ranks"] for row in rows.values()), key=len)
        body = [
            [data, *(spread([row["nll"][k] for row in done if k < len(row["nll"])]) for k in range(len(ranks))),
             spread([row["nll_by_solves"] for row in done]) + ("" if all(row["converged"] for row in done) else "*")]
            for data, done in grouped(rows.values(), "data").items()
        ]  # fmt: skip
        excess = max(row["excess"] for row in rows.values())
        note = (
            f"{min(row['test_rows'] for row in rows.values()):,} test rows, {machines(rows.values())}. By solves, the "
            f"variances of y are too large by at most {excess:.2g} σ². {_falls(list(rows.values()))} "
            "The paper shows curves and no numbers: the NLL falls with every rank, on every data set."
        )
        if any(not row["converged"] for row in rows.values()):
            note += " *: not all solves converged."
        return [Table("Test NLL", ["data", *(f"rank {rank:,}" for rank in ranks), "by solves"], body, note)]

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        data = {row["dataset"]: row["data"] for row in rows.values()}
        found = {name: traces_of(rows, folder, dataset=name) for name in data}
        text = "Variances of a low rank are too large, and cost likelihood; the thin line is what they fall towards."
        return [
            Chart(data[name], text, partial(plots.lanczos_ranks, traces)) for name, traces in found.items() if traces
        ]


def _cell(name: str, seed: int, options: Options, path: Path) -> Row:
    source = sources.load_named(name, options, seed)
    data = source.data.with_test_rows(TEST_ROWS)
    recorder = Recorder()
    posterior = Posterior(
        data.train_x, data.train_y, source.hyperparameters, OURS, variance_solver=replace(OURS, tol=TOL),
        device=options.device, dataset=name, hooks=[recorder, *options.hooks],
    )  # fmt: skip
    assert posterior.solution is not None  # because no weights were given
    mean, ranks = posterior.mean(data.test_x), [rank for rank in RANKS if rank <= source.n]
    by_rank = posterior.variance_by_rank(data.test_x, ranks, include_noise=True)
    nll = [negative_log_likelihood(mean, variance, data.test_y) for variance in by_rank.T]
    exact = negative_log_likelihood(
        mean, posterior.variance(data.test_x, include_noise=True, hooks=options.hooks), data.test_y
    )
    _keep(recorder.trace, {"rank": ranks, "nll": nll, "nll_by_solves": exact}, path)
    solves = posterior.variance_solves
    return {
        "seed": seed, "dataset": name, "data": source.heading, "test_rows": len(data.test_x), "ranks": ranks,
        "nll": nll, "nll_by_solves": exact,
        "excess": max(float(solve.excess.max()) for solve in solves) / posterior.system.noise,
        "converged": posterior.solution.converged and all(solve.converged for solve in solves),
    }  # fmt: skip


def _keep(trace: Trace, found: Mapping[str, Any], path: Path) -> None:
    """Write the trace of the mean's solve together with the results."""
    variables = {
        name: xr.Variable(v.dims, found[name], {"long_name": v.long_name, "units": v.units}).astype(v.dtype)
        for name, v in LANCZOS.items()
    }
    trace.tree["lanczos"] = xr.DataTree(xr.Dataset(variables))
    trace.save(path)


def _falls(rows: Sequence[Row]) -> str:
    """Return a sentence that compares our curve with the paper's, which falls."""
    rising = [row["data"] for row in rows if any(b > a for a, b in pairwise(row["nll"]))]
    if not rising:
        return "Ours falls with every rank."
    return f"Ours rises at some rank on {', '.join(dict.fromkeys(rising))}."
