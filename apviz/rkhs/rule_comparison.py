"""Rules of block selection on one system: their errors, and the decrease that each block offers; toy systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from apviz.rkhs.kernels import Floats, require_one_of
from apviz.rkhs.rules import RULES, Rule
from apviz.rkhs.span import Span
from apviz.rkhs.trajectory import Trajectory, trajectory
from apviz.settings import require_whole


@dataclass(frozen=True, eq=False)
class Choices:
    """Blocks to choose from in one state, and the choice of each rule.

    Args:
        residual: (n,) b − Kw.
        left: ½‖r‖²_H, the sum of all later decreases.
        decrease_per_block: (m,) ½‖P_I r‖²_H = ½r_IᵀK[I, I]⁻¹r_I, which each block would remove now.
        norms: (m,) ‖r_I‖, the criterion of gauss-southwell.
        taken: the block that each rule chooses.
        guaranteed: ‖r‖²/(2mλ′max), the guaranteed decrease of gauss-southwell (proof of Theorem 1).
    """

    residual: Floats
    left: float
    decrease_per_block: Floats
    norms: Floats
    taken: Mapping[Rule, int]
    guaranteed: float

    @property
    def best(self) -> int:
        """Block that would remove the most."""
        return int(self.decrease_per_block.argmax())

    @property
    def greedy_is_best(self) -> bool:
        """Whether gauss-southwell's block, with the largest ‖r_I‖, is the one that removes the most."""
        return self.taken["gauss-southwell"] == self.best


@dataclass(frozen=True, eq=False)
class RuleComparison:
    """Trajectories of the four rules over the same blocks.

    Args:
        trajectories: by rule, each with one update more than `steps`, so that the last state has a next block too.
        errors: by rule, (steps + 1,) ‖r‖_H after every update, as a share of that before the first.
        lambda_max_block: λ′max, exact.
    """

    steps: int
    trajectories: Mapping[Rule, Trajectory]
    errors: Mapping[Rule, Floats]
    lambda_max_block: float

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Points of every block, the same for all rules."""
        return self.trajectories["gauss-southwell"].blocks

    def ranking(self, number: int) -> list[Rule]:
        """Sort the rules by ‖r‖_H after `number` updates, the smallest first."""
        return sorted(self.errors, key=lambda rule: float(self.errors[rule][number]))

    def choices(self, rule: Rule, number: int) -> Choices:
        """Return the blocks to choose from after `number` updates of a rule.

        Cyclic, random and shuffled do not look at the residual: their choice is that of their own trajectory.
        """
        require_one_of(rule, "rule", self.trajectories)
        require_whole("number", number, 0, self.steps)
        here = self.trajectories[rule]
        residual = here.steps[number].residual
        norms = np.array([np.linalg.norm(residual[list(rows)]) for rows in self.blocks])
        taken = {each: found.steps[number + 1].block for each, found in self.trajectories.items()}
        if rule != "gauss-southwell":
            taken["gauss-southwell"] = int(norms.argmax())
        guaranteed = float(residual @ residual) / (2 * len(self.blocks) * self.lambda_max_block)
        left = 0.5 * here.span.norm(here.steps[number].weights - here.goal) ** 2
        return Choices(residual, left, here.steps[number + 1].decrease_per_block, norms, taken, guaranteed)

    def suboptimal_updates(self) -> list[int]:
        """Return the numbers, from 1, of gauss-southwell's updates where another block would have removed more."""
        return [
            step.number
            for step in self.trajectories["gauss-southwell"].steps[1 : self.steps + 1]
            if step.decrease_per_block[step.block] < step.decrease_per_block.max()
        ]


def compare_rules(span: Span, b: Floats, *, block_size: int, steps: int, seed: int = 0) -> RuleComparison:
    """Solve Kw = b once with every rule, over the same blocks.

    Args:
        b: (n,) data at the points.
        block_size: of neighbours in the order of the points.
        steps: number of updates of each rule; fewer if a residual reaches rounding earlier.
        seed: seed of random and shuffled.

    Raises:
        ValueError: a block size or a number of steps below 1, or b of another shape.

    Examples:
        >>> x, b = apviz.rkhs.toy_problem("crowded", 24)
        >>> span = apviz.rkhs.Span(x, apviz.Matern52(lengthscale=0.1), noise=0.1)
        >>> found = apviz.rkhs.compare_rules(span, b, block_size=4, steps=12)
        >>> found.ranking(12)
        ['gauss-southwell', 'shuffled', 'cyclic', 'random']
        >>> found.choices("gauss-southwell", 0).greedy_is_best
        False
    """
    require_whole("steps", steps, 1)
    trajectories = {
        rule: trajectory(span, b, block_size=block_size, rule=rule, steps=steps + 1, seed=seed) for rule in RULES
    }
    steps = min(steps, *(len(each.steps) - 2 for each in trajectories.values()))
    errors = {rule: each.errors()[: steps + 1] / each.errors()[0] for rule, each in trajectories.items()}
    blocks = trajectories["gauss-southwell"].blocks
    largest = max(float(np.linalg.eigvalsh(span.gram[np.ix_(rows, rows)])[-1]) for rows in blocks)
    return RuleComparison(steps, trajectories, errors, largest)


ToyProblem = Literal["even", "one bump", "crowded"]


def toy_problem(name: ToyProblem, n: int) -> tuple[Floats, Floats]:
    """Return points in increasing order and data at them, (n,) each.

    `even`: a smooth function and noise at uniform points. `one bump`: data that are zero except in one place.
    `crowded`: half of the points close together, with a common offset.

    Raises:
        ValueError: an unknown name.

    Examples:
        >>> x, b = apviz.rkhs.toy_problem("crowded", 24)
        >>> int((x < 0.16).sum())
        12
    """
    require_one_of(name, "name", get_args(ToyProblem))
    draws = np.random.default_rng(0)
    x = np.sort(draws.uniform(0, 1, n))
    noise = draws.standard_normal(n)
    if name == "even":
        return x, np.sin(9 * x) * np.exp(-x) + 0.1 * noise
    if name == "one bump":
        return x, np.exp(-0.5 * ((x - 0.7) / 0.06) ** 2) + 0.02 * noise
    crowd = n // 2
    x = np.sort(np.concatenate([0.1 + 0.05 * x[:crowd], draws.uniform(0.2, 1, n - crowd)]))
    return x, np.where(x < 0.16, 1.0, 0.9 * np.sign(np.sin(40 * x))) + 0.1 * noise
