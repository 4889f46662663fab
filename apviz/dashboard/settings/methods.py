"""Which methods are compared, and what is swept: batch sizes, or noises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.comparison import METHODS, choose_block_sizes, choose_solvers
from apviz.dashboard.settings.fields import Fields
from apviz.partitions import PARTITIONS
from apviz.solvers import Solver

RULES = ("gauss-southwell", "cyclic", "random", "shuffled")
#: what a method is called on a page; the keys are those of `apviz compare --methods`
METHOD_TITLES = {
    "ap": "Alternating projection (paper), with the settings below",
    "overlap": "Alternating projection on overlapping blocks",
    "cg": "Conjugate gradients",
    "pcg": "CG, pivoted Cholesky",
    "rpcg": "CG, randomly pivoted Cholesky",
    "nystrom": "CG, Nyström",
    "schwarz": "CG, two-level Schwarz",
    "auto": "What apviz chooses",
    "cholesky": "Cholesky, exact",
    "cd++": "CD++, coordinate descent with momentum",
    "askotch": "ASkotch, sketch-and-project",
    "sdd": "SDD, stochastic dual descent",
    "gradient": "Gradient descent, constant step",
    "steepest": "Steepest descent",
}
assert set(METHOD_TITLES) == set(METHODS)


class MethodChoice(param.Parameterized):
    """Settings of the methods that are ticked."""

    methods = param.ListSelector(default=["ap", "overlap", "cg", "pcg"], objects=list(METHODS), label="Methods")
    rules = param.ListSelector(default=["gauss-southwell", "cyclic", "random"], objects=list(RULES), label="Rules")
    partitions = param.ListSelector(default=["sequential"], objects=list(PARTITIONS), label="Partitions")
    block_sizes = param.List(default=[100, 400], item_type=int, label="Block sizes b")
    overlap = param.Number(0.0, bounds=(0, 4), label="Overlap, as a part of a block")
    ranks = param.List(default=[100], item_type=int, label="Ranks of pivoted Cholesky")
    tol = param.Number(0.01, bounds=(0, 1), inclusive_bounds=(False, True), label="Tolerance")
    max_epochs = param.Integer(100, bounds=(1, 100_000), label="Most epochs, or iterations")

    def solvers(self, seed: int) -> list[Solver]:
        """Solvers, one for every combination of the settings.

        Raises:
            ValueError: nothing is chosen, or a setting that a solver refuses.
        """
        self._require(("ap",), rule=self.rules, partition=self.partitions, block_size=self.block_sizes)
        self._require(("pcg", "rpcg", "nystrom"), rank=self.ranks)
        found = choose_solvers(
            self.methods, rules=self.rules, block_sizes=self.block_sizes, partitions=self.partitions,
            overlap=self.overlap, ranks=self.ranks, tol=self.tol, max_epochs=self.max_epochs, seed=seed,
        )  # fmt: skip
        if not found:
            raise ValueError("no method is chosen: tick at least one")
        return found

    def _require(self, methods: Sequence[str], **settings: list[Any]) -> None:
        """Checks that a method that is ticked has its settings; it would be left out without a word.

        Raises:
            ValueError: a setting of which nothing is chosen.
        """
        for method in set(methods) & set(self.methods):
            missing = [name.replace("_", " ") for name, values in settings.items() if not values]
            if missing:
                raise ValueError(
                    f"“{METHOD_TITLES[method]}” is ticked, and no {' and no '.join(missing)} is given: give at least "
                    "one, or untick the method"
                )


def method_panel(methods: MethodChoice, fields: Fields) -> list[Viewable]:
    """Widgets of `MethodChoice`, from top to bottom."""
    m = methods.param
    return [
        pmui.Typography("Methods", variant="h6"),
        pmui.CheckBoxGroup.from_param(
            m.methods, label="", options={title: name for name, title in METHOD_TITLES.items()}
        ),
        pmui.MultiChoice.from_param(m.rules, sizing_mode="stretch_width"),
        pmui.MultiChoice.from_param(m.partitions, sizing_mode="stretch_width"),
        *(
            fields.add(each, sizing_mode="stretch_width")
            for each in (m.block_sizes, m.overlap, m.ranks, m.tol, m.max_epochs)
        ),
    ]


class BatchSizeSweep(param.Parameterized):
    """Settings of a sweep over the batch size: alternating projection with every b."""

    sizes = param.List([], item_type=int, label="Batch sizes b (empty: n/2, n/4, … n/64)")
    rule = param.Selector(default="gauss-southwell", objects=list(RULES), label="Rule")
    partition = param.Selector(default="sequential", objects=list(PARTITIONS), label="Partition")
    overlap = param.Number(0.0, bounds=(0, 4), label="Overlap, as a part of a block")
    tol = param.Number(0.01, bounds=(0, 1), inclusive_bounds=(False, True), label="Tolerance")
    max_epochs = param.Integer(200, bounds=(1, 100_000), label="Most epochs")

    def solvers(self, n: int) -> list[Solver]:
        """Solvers, one for every b, for a system of n rows.

        Raises:
            ValueError: a setting that the solver refuses.
        """
        sizes = sorted(set(self.sizes)) or choose_block_sizes(n)
        return choose_solvers(
            ["ap"], rules=[self.rule], block_sizes=sizes, partitions=[self.partition], overlap=self.overlap,
            tol=self.tol, max_epochs=self.max_epochs,
        )  # fmt: skip


class NoiseSweep(param.Parameterized):
    """Settings of a sweep over the noise, around that of the system."""

    below = param.Number(2.0, bounds=(0, 6), label="Decades below the chosen σ²")
    above = param.Number(2.0, bounds=(0, 6), label="Decades above the chosen σ²")
    per_decade = param.Integer(1, bounds=(1, 10), label="Noises a decade")

    def factors(self) -> list[float]:
        """Factors of the chosen σ², the largest first, for the easy systems come first."""
        low, high = -int(self.below * self.per_decade), int(self.above * self.per_decade)
        return [float(f"{10 ** (step / self.per_decade):.3g}") for step in range(high, low - 1, -1)]
