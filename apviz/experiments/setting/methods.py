"""The methods of the paper's tables with the paper's settings, batch sizes and ranks in its ratio to n; and ours."""

from __future__ import annotations

from typing import Final

from apviz.experiments.published.paper import CG
from apviz.experiments.setting.data import Source
from apviz.gp.posterior import PAPER_RANK as LANCZOS_RANK
from apviz.preconditioners import PivotedCholesky
from apviz.solvers import AlternatingProjection, ConjugateGradient, Solver

#: ours, beside `CG` and `AP`
OVERLAP: Final = "AP overlapping"
#: tolerances of a step of training, and of a predictive mean (section 5.1)
TRAINING_TOL, TEST_TOL = 1.0, 0.01
#: epochs or iterations: at least 11 and at most 1,000 in a step of training; at most 4,000 at test time (Table 1)
MIN_TRAINING, MAX_TRAINING, MAX_TEST = 11, 1000, 4000
#: at a reduced n, where that would not end in minutes on a CPU
REDUCED_MAX_TEST = 1000
#: the paper's Lanczos ranks where not 1,000 (Table 1)
OTHER_LANCZOS_RANK: Final = {"gassensors": 500}
#: of a much reduced n: fewer rows leave an update nothing but its overhead, fewer vectors no variance to speak of
LEAST_BLOCK, LEAST_LANCZOS_RANK = 50, 50

#: our own, in training too to the tolerance of predictions
OURS: Final = AlternatingProjection(
    "auto", partition="principal-axis-tree", overlap="auto", history="auto", tol=TEST_TOL, max_epochs=MAX_TRAINING
)


def training_solver(method: str, source: Source) -> Solver:
    """The solver of a step of training."""
    if method == OVERLAP:
        return OURS
    if method == CG:
        return ConjugateGradient(PivotedCholesky(source.training_rank), TRAINING_TOL, MAX_TRAINING, MIN_TRAINING)
    return AlternatingProjection(block_size(source), tol=TRAINING_TOL, max_epochs=MAX_TRAINING, min_epochs=MIN_TRAINING)


def prediction_solver(method: str, source: Source) -> Solver:
    """The solver of a predictive mean."""
    if method == OVERLAP:
        return OURS
    cap = MAX_TEST if source.n == source.full_n else REDUCED_MAX_TEST
    if method == CG:
        return ConjugateGradient(PivotedCholesky(source.test_rank), TEST_TOL, cap)
    return AlternatingProjection(block_size(source), tol=TEST_TOL, max_epochs=cap)


def block_size(source: Source) -> int:
    """The paper's, or in its ratio to n."""
    return max(source.batch_size, min(LEAST_BLOCK, source.n))


def lanczos_rank(source: Source) -> int:
    """Of the predictive variance: the paper's, or in its ratio to n."""
    paper = OTHER_LANCZOS_RANK.get(source.stands_in_for or source.name, LANCZOS_RANK)
    return max(source.scaled(paper), min(LEAST_LANCZOS_RANK, source.n))
