"""What is swept: batch sizes, or noises."""

from __future__ import annotations

import param

from apviz.comparison import choose_block_sizes, choose_solvers
from apviz.dashboard.settings.methods import RULES
from apviz.partitions import PARTITIONS
from apviz.solvers import Solver


class BatchSizeSweep(param.Parameterized):
    """Alternating projection with every b."""

    sizes = param.List([], item_type=int, label="Batch sizes b (empty: n/2, n/4, … n/64)")
    rule = param.Selector(default="gauss-southwell", objects=list(RULES), label="Rule")
    partition = param.Selector(default="sequential", objects=list(PARTITIONS), label="Partition")
    overlap = param.Number(0.0, bounds=(0, 4), label="Overlap, as a part of a block")
    tol = param.Number(0.01, bounds=(0, 1), inclusive_bounds=(False, True), label="Tolerance")
    max_epochs = param.Integer(200, bounds=(1, 100_000), label="Most epochs")

    def solvers(self, n: int) -> list[Solver]:
        """One for every b.

        Raises:
            ValueError: a setting that the solver refuses.
        """
        sizes = sorted(set(self.sizes)) or choose_block_sizes(n)
        return choose_solvers(
            ["ap"], rules=[self.rule], block_sizes=sizes, partitions=[self.partition], overlap=self.overlap,
            tol=self.tol, max_epochs=self.max_epochs,
        )  # fmt: skip


class NoiseSweep(param.Parameterized):
    """Noises around the one of the system."""

    below = param.Number(2.0, bounds=(0, 6), label="Decades below the chosen σ²")
    above = param.Number(2.0, bounds=(0, 6), label="Decades above the chosen σ²")
    per_decade = param.Integer(1, bounds=(1, 10), label="Noises a decade")

    def factors(self) -> list[float]:
        """On the chosen σ², the largest first: the easy systems come first."""
        low, high = -int(self.below * self.per_decade), int(self.above * self.per_decade)
        return [float(f"{10 ** (step / self.per_decade):.3g}") for step in range(high, low - 1, -1)]
