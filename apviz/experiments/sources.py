"""Data sets and methods of experiments: the paper's data sets or their replacements, with the paper's settings.

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
from apviz.gp.prediction.lanczos import PAPER_LANCZOS_RANK
from apviz.hyperparameters import Hyperparameters
from apviz.preconditioners import PivotedCholesky
from apviz.solvers import AlternatingProjection, ConjugateGradient, Solver, overlapping
from apviz.system import KernelSystem

# --- data sets --------------------------------------------------------------------------------------------------------

#: Batch sizes of the paper in training and at test time, and ranks of the preconditioner (appendix, Table 3).
PAPER_BATCH_SIZE = {"sgemm": 6000, "airquality": 6000, "3droad": 6000, "song": 4000, "buzz": 4000,
                    "houseelectric": 1000, "gassensors": 500}  # fmt: skip
PAPER_TRAINING_RANK = {"houseelectric": 300, "gassensors": 150}
PAPER_TEST_RANK = {"gassensors": 300}
PAPER_RANK = 500
#: Batch size of a data set that the paper does not have.
OTHER_BATCH_SIZE = 6000
#: Number of test rows at a reduced n, enough for two digits of an RMSE.
TEST_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Source:
    """Data set in an experiment.

    Attributes:
        stands_in_for: Data set of the paper that it replaces, or empty.
        full_n: Number of training rows of the paper's complete data set, to which the paper's batch sizes refer.
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
        """Return the name of the data set in a table."""
        stand_in = f" (for {self.stands_in_for})" if self.stands_in_for else ""
        return f"{self.name}{stand_in}, n = {self.n:,}"

    @property
    def batch_size(self) -> int:
        """Return the paper's batch size, scaled to the same number of batches as in the paper."""
        return self.scaled(PAPER_BATCH_SIZE.get(self.stands_in_for or self.name, OTHER_BATCH_SIZE))

    @property
    def training_rank(self) -> int:
        """Return the rank of the preconditioner in training, scaled like the batch size."""
        return self.scaled(PAPER_TRAINING_RANK.get(self.stands_in_for or self.name, PAPER_RANK))

    @property
    def test_rank(self) -> int:
        """Return the rank of the preconditioner at test time, scaled like the batch size."""
        return self.scaled(PAPER_TEST_RANK.get(self.stands_in_for or self.name, PAPER_RANK))

    def scaled(self, rows: int) -> int:
        """Scale a number of rows of the complete set to the number of rows here; at least 1."""
        return max(1, round(rows * self.n / self.full_n))

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Return the hyperparameters on the card, published by the authors or fitted; ValueError if it has none."""
        return hyperparameters_of(self.name)

    def system(self, h: Hyperparameters, b: torch.Tensor, options: Options, seed: int) -> KernelSystem:
        """Return K W = b over the training rows."""
        return KernelSystem(
            self.data.train_x, b, h.build_kernel(), noise=h.noise, device=options.device, dataset=self.name, seed=seed
        )


def hyperparameters_of(name: str) -> Hyperparameters:
    """Return the hyperparameters on a data set's card; ValueError if it has none."""
    found = datasets.card(name).hyperparameters
    if found is None:
        raise ValueError(
            f"{name} has no hyperparameters on its card; train some with `apviz experiment training`, or "
            f"choose another data set with --dataset"
        )
    return found


def name_of(paper: str, stand_in: str, options: Options) -> str:
    """Return the data set of `options`, otherwise the paper's if it is available, otherwise the replacement."""
    return options.dataset or (paper if datasets.is_here(paper) else stand_in)


def pairs(wanted: Sequence[tuple[str, str]], options: Options) -> list[tuple[str, str]]:
    """Return the pairs (paper's data set, replacement) to compute: all, or only that of the data set in `options`."""
    chosen = list(wanted)
    if options.dataset is not None:
        chosen = [next((pair for pair in wanted if options.dataset in pair), wanted[0])]
    for pair in chosen:
        card = datasets.card(name_of(*pair, options))
        if not datasets.is_here(card.name):
            try:
                locate(card)
            except datasets.DatasetUnavailable as error:
                raise datasets.DatasetUnavailable(
                    f"{error} Or choose another with --dataset; china comes with scikit-learn."
                ) from None
    return chosen


def load(paper: str, stand_in: str, options: Options, seed: int = 0) -> Source:
    """Load the data set chosen by `name_of`, with fewer test rows at a reduced n."""
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
    """Return the data set of `options`, or the paper's that are available (`trained`: and have hyperparameters)."""
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
    """Load the data set of that name; a set outside the paper uses the settings of the paper's first set."""
    return load(name if name in published.DATASETS else published.DATASETS[0], name, options, seed)


# --- methods ----------------------------------------------------------------------------------------------------------

#: Name of our method, in addition to `CG` and `AP`.
OVERLAP: Final = "AP overlapping"
#: Tolerances of a step of training, and of a predictive mean (section 5.1).
TRAINING_TOL, TEST_TOL = 1.0, 0.01
#: Limits on epochs or iterations: least and most in a step of training; most at test time (Table 1).
MIN_TRAINING_EPOCHS, MAX_TRAINING_EPOCHS, MAX_TEST_EPOCHS = 11, 1000, 4000
#: Most epochs at a reduced n; more would take more than minutes on a CPU.
REDUCED_MAX_TEST_EPOCHS = 1000
#: Lanczos ranks in the paper other than 1,000 (Table 1).
OTHER_LANCZOS_RANK: Final = {"gassensors": 500}
#: Minima at a much reduced n: with fewer rows an update is mostly overhead, with fewer vectors the variance is useless.
MIN_BLOCK_SIZE, MIN_LANCZOS_RANK = 50, 50

#: Our method; it uses the tolerance of predictions in training too.
OURS: Final = overlapping(tol=TEST_TOL, max_epochs=MAX_TRAINING_EPOCHS)


def training_solver(method: str, source: Source) -> Solver:
    """Return the solver of a step of training."""
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
    """Return the solver of a predictive mean."""
    if method == OVERLAP:
        return OURS
    cap = MAX_TEST_EPOCHS if source.n == source.full_n else REDUCED_MAX_TEST_EPOCHS
    if method == CG:
        return ConjugateGradient(preconditioner=PivotedCholesky(rank=source.test_rank), tol=TEST_TOL, max_epochs=cap)
    return AlternatingProjection(block_size=block_size(source), tol=TEST_TOL, max_epochs=cap)


def block_size(source: Source) -> int:
    """Return the paper's batch size, or one in its ratio to n."""
    return max(source.batch_size, min(MIN_BLOCK_SIZE, source.n))


def lanczos_rank(source: Source) -> int:
    """Return the Lanczos rank of predictive variances: the paper's, or one in its ratio to n."""
    paper = OTHER_LANCZOS_RANK.get(source.stands_in_for or source.name, PAPER_LANCZOS_RANK)
    return max(source.scaled(paper), min(MIN_LANCZOS_RANK, source.n))
