"""What an experiment runs on: the paper's data sets or their stand-ins, and its methods at the paper's settings.

Batch sizes and ranks keep the paper's ratio to n. Our methods are shown next to the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import torch

from apviz import datasets
from apviz.datasets.fetching import locate
from apviz.experiments import published
from apviz.experiments.base import Options
from apviz.experiments.published import CG
from apviz.gp.posterior import PAPER_LANCZOS_RANK
from apviz.hyperparameters import Hyperparameters
from apviz.preconditioners import PivotedCholesky
from apviz.solvers import AlternatingProjection, ConjugateGradient, Solver, overlapping

# --- data sets --------------------------------------------------------------------------------------------------------

#: the paper's batch sizes in training and at test time, and the preconditioner's ranks (appendix, table 3)
PAPER_BATCH_SIZE = {"sgemm": 6000, "airquality": 6000, "3droad": 6000, "song": 4000, "buzz": 4000,
                    "houseelectric": 1000, "gassensors": 500}  # fmt: skip
PAPER_TRAINING_RANK = {"houseelectric": 300, "gassensors": 150}
PAPER_TEST_RANK = {"gassensors": 300}
PAPER_RANK = 500
#: of a data set that the paper does not have
OTHER_BATCH_SIZE = 6000
#: test rows at a reduced n: enough for two digits of an RMSE
TEST_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Source:
    """A data set as an experiment uses it.

    Attributes:
        stands_in_for: the paper's data set whose place it takes, or empty.
        full_n: training rows of the whole set to which the paper's batch sizes belong: the one stood in for.
    """

    data: datasets.Dataset
    stands_in_for: str
    full_n: int

    @property
    def name(self) -> str:
        return self.data.card.name

    @property
    def n(self) -> int:
        return len(self.data.train_x)

    @property
    def heading(self) -> str:
        """The data set as a table names it."""
        stand_in = f" (for {self.stands_in_for})" if self.stands_in_for else ""
        return f"{self.name}{stand_in}, n = {self.n:,}"

    @property
    def batch_size(self) -> int:
        """The paper's batch size, or one that makes as many batches as the paper has."""
        return self.scaled(PAPER_BATCH_SIZE.get(self.stands_in_for or self.name, OTHER_BATCH_SIZE))

    @property
    def training_rank(self) -> int:
        """The rank of the preconditioner in training, scaled like the batch size."""
        return self.scaled(PAPER_TRAINING_RANK.get(self.stands_in_for or self.name, PAPER_RANK))

    @property
    def test_rank(self) -> int:
        """The rank of the preconditioner at test time, scaled like the batch size."""
        return self.scaled(PAPER_TEST_RANK.get(self.stands_in_for or self.name, PAPER_RANK))

    def scaled(self, rows: int) -> int:
        """The same share of these rows as `rows` are of the full set; at least 1."""
        return max(1, round(rows * self.n / self.full_n))

    @property
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters on the card: published by the authors, or fitted.

        Raises:
            ValueError: the card has none.
        """
        return hyperparameters_of(self.name)


def hyperparameters_of(name: str) -> Hyperparameters:
    """The hyperparameters on a data set's card.

    Raises:
        ValueError: the card has none.
    """
    found = datasets.card(name).hyperparameters
    if found is None:
        raise ValueError(
            f"{name} has no hyperparameters on its card; train some with `apviz experiment training`, or "
            f"choose another data set with --dataset"
        )
    return found


def name_of(paper: str, stand_in: str, options: Options) -> str:
    """The data set of `options`, else the paper's if it is here, else the stand-in."""
    return options.dataset or (paper if datasets.is_here(paper) else stand_in)


def pairs(wanted: Sequence[tuple[str, str]], options: Options) -> list[tuple[str, str]]:
    """The pairs (paper's data set, stand-in) to compute: all, or with a data set in `options` the one it belongs to.

    Raises:
        ValueError: an unknown data set; the message lists the known ones.
        DatasetUnavailable: one that is not here, with what to do.
    """
    chosen = list(wanted)
    if options.dataset is not None:
        chosen = [next((pair for pair in wanted if options.dataset in pair), wanted[0])]
    for pair in chosen:
        card = datasets.card(name_of(*pair, options))
        if not datasets.is_here(card.name):
            try:
                locate(card)
            except datasets.DatasetUnavailable as error:
                raise datasets.DatasetUnavailable(f"{error} Or take another with --dataset: china is here.") from None
    return chosen


def load(paper: str, stand_in: str, options: Options, seed: int = 0) -> Source:
    """The data set of `options`, else the paper's if it is here, else the stand-in; fewer test rows at a reduced n."""
    name = name_of(paper, stand_in, options)
    there = datasets.train_size(datasets.card(name).n)
    n = None if options.n is None else min(options.n, there)
    data = _load(name, seed, n)
    full = datasets.train_size(datasets.card(paper).n)
    return Source(data if n is None else data.with_test_rows(TEST_ROWS), "" if name == paper else paper, full)


@lru_cache(maxsize=2)  # cells with one seed come one after another
def _load(name: str, seed: int, n: int | None) -> datasets.Dataset:
    return datasets.load(name, seed=seed, n=n, dtype=torch.float32)


def names(options: Options, *, trained: bool = False) -> list[str]:
    """The data set of `options`, else the paper's that are here; `trained`: with hyperparameters on their card.

    Raises:
        ValueError: an unknown data set, or one without hyperparameters.
        DatasetUnavailable: none is here, with what to do.
    """
    if options.dataset is not None:
        chosen = [options.dataset]
    else:
        chosen = [name for name in published.DATASETS if datasets.is_here(name)] or [published.DATASETS[0]]
        chosen = [name for name in chosen if not trained or datasets.card(name).hyperparameters] or chosen[:1]
    for name in chosen:
        pairs([(name, name)], options)
        if trained:
            hyperparameters_of(name)
    return chosen


def load_named(name: str, options: Options, seed: int) -> Source:
    """The data set of that name; one that the paper does not have takes the place and settings of the paper's first."""
    return load(name if name in published.DATASETS else published.DATASETS[0], name, options, seed)


# --- methods ----------------------------------------------------------------------------------------------------------

#: our methods, in addition to `CG` and `AP`
OVERLAP: Final = "AP overlapping"
#: tolerances of a step of training, and of a predictive mean (section 5.1)
TRAINING_TOL, TEST_TOL = 1.0, 0.01
#: epochs or iterations: at least 11 and at most 1,000 in a step of training; at most 4,000 at test time (Table 1)
MIN_TRAINING_EPOCHS, MAX_TRAINING_EPOCHS, MAX_TEST_EPOCHS = 11, 1000, 4000
#: at a reduced n, where that would not end in minutes on a CPU
REDUCED_MAX_TEST_EPOCHS = 1000
#: the paper's Lanczos ranks where not 1,000 (Table 1)
OTHER_LANCZOS_RANK: Final = {"gassensors": 500}
#: of a much reduced n: fewer rows leave an update nothing but its overhead, fewer vectors no variance to speak of
MIN_BLOCK_SIZE, MIN_LANCZOS_RANK = 50, 50

#: our own, in training too to the tolerance of predictions
OURS: Final = overlapping(tol=TEST_TOL, max_epochs=MAX_TRAINING_EPOCHS)


def training_solver(method: str, source: Source) -> Solver:
    """The solver of a step of training."""
    if method == OVERLAP:
        return OURS
    if method == CG:
        return ConjugateGradient(
            preconditioner=PivotedCholesky(rank=source.training_rank),
            tol=TRAINING_TOL,
            max_epochs=MAX_TRAINING_EPOCHS,
            min_epochs=MIN_TRAINING_EPOCHS,
        )
    return AlternatingProjection(
        block_size=block_size(source), tol=TRAINING_TOL, max_epochs=MAX_TRAINING_EPOCHS, min_epochs=MIN_TRAINING_EPOCHS
    )


def prediction_solver(method: str, source: Source) -> Solver:
    """The solver of a predictive mean."""
    if method == OVERLAP:
        return OURS
    cap = MAX_TEST_EPOCHS if source.n == source.full_n else REDUCED_MAX_TEST_EPOCHS
    if method == CG:
        return ConjugateGradient(preconditioner=PivotedCholesky(rank=source.test_rank), tol=TEST_TOL, max_epochs=cap)
    return AlternatingProjection(block_size=block_size(source), tol=TEST_TOL, max_epochs=cap)


def block_size(source: Source) -> int:
    """The paper's batch size, or one in its ratio to n."""
    return max(source.batch_size, min(MIN_BLOCK_SIZE, source.n))


def lanczos_rank(source: Source) -> int:
    """The Lanczos rank of predictive variances: the paper's, or one in its ratio to n."""
    paper = OTHER_LANCZOS_RANK.get(source.stands_in_for or source.name, PAPER_LANCZOS_RANK)
    return max(source.scaled(paper), min(MIN_LANCZOS_RANK, source.n))
