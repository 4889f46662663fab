"""Figure 2, right: block selection matters. Gauss-Southwell, cyclic and random on one system."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, spread
from apviz.experiments.measuring import machines, residual_chart, traces_of
from apviz.experiments.sources import hyperparameters_of, load, name_of, pairs
from apviz.rules import Random
from apviz.solvers import AlternatingProjection, attempt
from apviz.tracing import Recorder

PAIRS = (("airquality", "sgemm"),)
RULES = ("gauss-southwell", "cyclic", "random")
MILESTONES = (5, 10, 20, 50)


class Rules(Experiment):
    """Solves for K⁻¹y at trained hyperparameters, with batch size 1,000 and no mean subtracted (paper, appendix)."""

    name = "rules"
    title = "Which block next: gauss-southwell, cyclic, random"
    source = "Figure 2, right"

    def cells(self, options: Options) -> list[Cell]:
        (pair,) = pairs(PAIRS, options)
        hyperparameters_of(name := name_of(*pair, options))
        return [
            Cell(f"{name}-{rule}-seed{seed}", partial(_solve, rule, seed, options))
            for seed in range(options.seeds)
            for rule in RULES
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        some = next(iter(rows.values()))
        body = []
        for rule in RULES:
            residuals = [row["residuals"] for row in rows.values() if row["rule"] == rule]
            if residuals:
                body.append([rule, *(spread(column) for column in zip(*residuals, strict=True))])
        note = (
            f"{some['data']}, b = {some['block_size']:,}, {machines(rows.values())}. The paper shows curves and no "
            "numbers: gauss-southwell lowest, random and cyclic above it."
        )
        return [Table("Residual", ["rule", *(f"after {epoch} epochs" for epoch in MILESTONES)], body, note)]

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        text = "One system, one partition; only the choice of the next block differs."
        traces = traces_of(rows, folder)
        return [residual_chart("Residual by rule", text, traces)] if traces else []


def _solve(rule: str, seed: int, options: Options, trace: Path) -> Row:
    source = load(*PAIRS[0], options, seed)
    size = source.scaled(1000)
    system = source.system(source.hyperparameters, source.data.train_y, options, seed)
    chosen = Random(seed=seed) if rule == "random" else rule
    recorder = Recorder(trace)
    # an unreachable tolerance, because the figure shows the complete curve
    solver = AlternatingProjection(block_size=size, rule=chosen, tol=1e-6, max_epochs=MILESTONES[-1])
    attempt(system, solver, [recorder, *options.hooks])
    residual = recorder.trace["epoch"]["residual"].values
    return {
        "rule": rule, "seed": seed, "block_size": size, "data": source.heading,
        # the solve of a small system may end before
        "residuals": [float(residual[min(epoch, len(residual) - 1)]) for epoch in MILESTONES],
    }  # fmt: skip
