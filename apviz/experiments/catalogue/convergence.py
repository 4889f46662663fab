"""Figure 1: residual by epoch or iteration, of alternating projection and of conjugate gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from apviz.comparison import build_system
from apviz.experiments import published
from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, cell_key, grouped
from apviz.experiments.measuring import ending, machines, residual_charts, solved, when
from apviz.experiments.published import AP, CG
from apviz.experiments.sources import (
    MAX_TRAINING_EPOCHS,
    OVERLAP,
    TEST_TOL,
    TRAINING_TOL,
    Source,
    block_size,
    hyperparameters_of,
    load,
    name_of,
    pairs,
)
from apviz.preconditioners import PivotedCholesky
from apviz.solvers import AlternatingProjection, ConjugateGradient, Solver, overlapping

PAIRS = (("3droad", "airquality"), ("houseelectric", "sgemm"))
#: Methods in the order of the table: the three of the paper, and ours.
PLAIN_CG = "plain CG"
METHODS = (AP, PLAIN_CG, CG, OVERLAP)
#: Tolerances of training and of test time, and one between them.
LEVELS = (TRAINING_TOL, 0.1, TEST_TOL)
#: Most epochs and iterations at a reduced n; the paper's 1,000 would take more than minutes on a CPU.
REDUCED_MAX_EPOCHS = 500
#: Step of the published trainings whose solve is at the hyperparameters of the card.
PUBLISHED_STEP = 49


class Convergence(Experiment):
    """Solves for y − μ and 15 probes at the hyperparameters of a training's 50th step (section 4)."""

    name = "convergence"
    title = "The residual of alternating projection and of conjugate gradients"
    source = "Figure 1"

    def cells(self, options: Options) -> list[Cell]:
        chosen = pairs(PAIRS, options)
        for pair in chosen:
            hyperparameters_of(name_of(*pair, options))
        return [
            Cell(cell_key(name_of(*pair, options), method, seed=seed), partial(_solve, pair, method, seed, options))
            for pair in chosen
            for seed in range(options.seeds)
            for method in METHODS
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        return [_table(name, own) for name, own in grouped(rows.values(), "dataset").items()]

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        text = (
            "Lower is better. An epoch of the paper's alternating projection costs what an iteration of CG does, one "
            "with overlapping blocks more: the buttons switch to work, which is fair to all, and to seconds."
        )
        return residual_charts({row["dataset"]: row["data"] for row in rows.values()}, text, rows, folder)


def _solver(method: str, source: Source, cap: int) -> Solver:
    tol = LEVELS[-1]
    solvers: dict[str, Solver] = {
        AP: AlternatingProjection(block_size=block_size(source), tol=tol, max_epochs=cap),
        PLAIN_CG: ConjugateGradient(tol=tol, max_epochs=cap),
        CG: ConjugateGradient(preconditioner=PivotedCholesky(rank=source.training_rank), tol=tol, max_epochs=cap),
        OVERLAP: overlapping(tol=tol, max_epochs=cap),
    }
    return solvers[method]


def _solve(pair: tuple[str, str], method: str, seed: int, options: Options, trace: Path) -> Row:
    source = load(*pair, options, seed)
    system = build_system(source.data, source.hyperparameters, rhs=16, seed=seed, device=options.device)
    solver = _solver(method, source, MAX_TRAINING_EPOCHS if options.n is None else REDUCED_MAX_EPOCHS)
    row = solved(system, solver, trace, options, LEVELS)
    return row | {"dataset": source.name, "data": source.heading, "kind": method, "seed": seed}


def _table(name: str, own: Sequence[Row]) -> Table:
    printed = {method: _published(name, method) for method in METHODS}
    body = []
    for method, done in grouped(own, "kind").items():
        cells = [when(done, level, "epochs") for level in LEVELS]
        cells += [when(done, LEVELS[-1], what) for what in ("work", "seconds")]
        body.append([done[0]["method"], *cells, ending(done), printed[method]])
    note = f"Solves with 16 right-hand sides; {machines(own)}. "
    if any(number != "–" for number in printed.values()):
        note += (
            f"Paper: the authors' published trainings at step {PUBLISHED_STEP + 1}, n = {published.full_rows(name):,}, "
            "each with its own hyperparameters and probes; they stop at 1. "
        )
    note += "Its figure shows curves and no numbers: CG raises the residual at first, alternating projection is below."
    headings = ["method", *(f"epochs or iterations to {level:g}" for level in LEVELS), "work to 0.01", "time to 0.01"]
    return Table(own[0]["data"], [*headings, "ended", "paper: to 1"], body, note)


def _published(name: str, method: str) -> str:
    """Return the number of epochs or iterations until the residual of the authors' solve fell below 1."""
    steps = published.training_of(name, method)
    if not steps:
        return "–"
    residuals = steps[PUBLISHED_STEP].residual_trace
    below = next((number for number, value in enumerate(residuals, start=1) if value < LEVELS[0]), None)
    return str(below) if below else f"> {len(residuals):,}"
