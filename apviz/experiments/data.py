"""The data of an experiment: the paper's set where it is here, else a stand-in that is named as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from apviz import datasets
from apviz.experiments.base import Options
from apviz.hyperparameters import Hyperparameters

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
        full_n: training rows of the whole set, to which the paper's batch sizes belong.
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
        """The paper's, or as many batches as the paper has."""
        return self.scaled(PAPER_BATCH_SIZE.get(self.stands_in_for or self.name, OTHER_BATCH_SIZE))

    def scaled(self, rows: int) -> int:
        """`rows` of the full set, as the same share of these; at least 1."""
        return max(1, round(rows * self.n / self.full_n))

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Those on the card: published by the authors, or fitted.

        Raises:
            ValueError: the card has none.
        """
        found = self.data.card.hyperparameters
        if found is None:
            raise ValueError(
                f"{self.name} has no hyperparameters on its card; train some with `apviz experiment training`, or "
                f"choose another data set with --dataset"
            )
        return found


def load(paper: str, stand_in: str, options: Options, seed: int = 0) -> Source:
    """The data set of `options`, else the paper's if it is here, else the stand-in; fewer test rows at a reduced n."""
    name = options.dataset or (paper if datasets.is_here(paper) else stand_in)
    full = datasets.train_size(datasets.card(name).n)
    n = None if options.n is None else min(options.n, full)
    data = _load(name, seed, n)
    return Source(data if n is None else data.with_test_rows(TEST_ROWS), "" if name == paper else paper, full)


@lru_cache(maxsize=2)  # cells with one seed come one after another
def _load(name: str, seed: int, n: int | None) -> datasets.Dataset:
    return datasets.load(name, seed=seed, n=n, dtype=torch.float32)
