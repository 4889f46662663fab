"""Which solve to record with pictures: its method and how many updates, as settings of a page."""

from __future__ import annotations

import param

from apviz.comparison import choose_solvers
from apviz.dashboard.settings.methods import METHOD_TITLES, RULES
from apviz.partitions import PARTITIONS
from apviz.solvers import Solver

#: residuals, and for one input weights, that one run may record
MOST_VALUES = 20_000_000

#: without Cholesky, which is over after one update
PICTURED_METHODS = tuple(name for name in METHOD_TITLES if name != "cholesky")


class RecordChoice(param.Parameterized):
    """One method, and the updates after which the residual is recorded."""

    method = param.Selector(default="ap", objects=list(PICTURED_METHODS), label="Method")
    rule = param.Selector(default="gauss-southwell", objects=list(RULES), label="Rule")
    partition = param.Selector(default="principal-axis-tree", objects=list(PARTITIONS), label="Partition")
    block_size = param.Integer(100, bounds=(1, None), label="Block size b")
    overlap = param.Number(0.5, bounds=(0, 4), label="Overlap, as a part of a block")
    rank = param.Integer(100, bounds=(1, None), label="Rank of pivoted Cholesky")
    tol = param.Number(0.01, bounds=(0, 1), inclusive_bounds=(False, True), label="Tolerance")
    max_epochs = param.Integer(100, bounds=(1, 100_000), label="Most epochs, or iterations")
    updates = param.Integer(60, bounds=(1, 5_000), label="Updates to record, from the first on")

    def solver(self, n: int, seed: int) -> Solver:
        """The solver, for a system of n rows.

        Raises:
            ValueError: a setting that it refuses, or more pictures than a run may record.
        """
        if n * (self.updates + 1) > MOST_VALUES:
            raise ValueError(
                f"{self.updates:,} updates of {n:,} rows are more than the {MOST_VALUES:,} numbers that are recorded "
                f"of one run; record at most {max(0, MOST_VALUES // n - 1):,} updates, or take fewer rows"
            )
        (solver,) = choose_solvers(
            [self.method], rules=[self.rule], block_sizes=[self.block_size], partitions=[self.partition],
            overlap=self.overlap, ranks=[self.rank], tol=self.tol, max_epochs=self.max_epochs, seed=seed,
        )  # fmt: skip
        return solver
