"""Alternating projection: Algorithm 1 of Wu et al. (AISTATS 2024), for any partition and rule.

Departures, if settings ask for them: overlapping blocks, steps along earlier updates too (`apviz.solvers.steps`),
columns of K by skeletons (`apviz.skeletons`), blocks and residual in float32, and a handover to CG if epochs gain
little (`apviz.solvers.handover`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from torch import Tensor

from apviz.method import Method
from apviz.methods import ALTERNATING_PROJECTION
from apviz.operators import CountingOperator, Operator
from apviz.partitions import PARTITIONS, Partitioner, overlap_of, partitioner_named
from apviz.registry import Registry
from apviz.rules import Rule, rule_named
from apviz.settings import Auto, chosen, require_seed, require_whole_or_auto
from apviz.solvers.blocks import Blocks, Projection, blocks_of
from apviz.solvers.columns import COLUMNS, ColumnsSetting, Exact
from apviz.solvers.handover import handing_over
from apviz.solvers.interface import SOLVERS, Resolved, Solver
from apviz.solvers.precision import Precision, precision_named
from apviz.solvers.recommended import resolve, resolve_by_trials
from apviz.solvers.state import EpochEnd, Events, State, Updated
from apviz.solvers.steps import STEPS, PlainStep, Step
from apviz.solvers.stopping import Stopping

P = TypeVar("P")


def part_named(known: Registry[P], kind: type, given: str | P) -> P:
    """Return the registered part of a name, with its defaults; return an object as it is."""
    return known.make(given) if isinstance(given, str) or not isinstance(given, kind) else given


@SOLVERS.register(ALTERNATING_PROJECTION)
@dataclass(frozen=True, kw_only=True)
class AlternatingProjection(Solver):
    """Alternating projection of the residual onto one block after another (paper, Algorithm 1).

    Args:
        block_size: b, the rows a block owns; the last block may own fewer and is a block like any other.
            b ≥ n is a Cholesky solve. `auto` here and in parts is chosen from n, d, the right-hand sides and the
            free memory (`apviz.solvers.recommended`); the trace records choices and reasons.
        rule: `gauss-southwell`, `cyclic`, `random`, `shuffled`, or a rule of `apviz.rules`.
        partition: `sequential`, `shuffled`, `kd-tree`, `principal-axis-tree`, or a partitioner of `apviz.partitions`,
            such as `KDTree(overlap=0.5)`. With an overlap, which the paper does not have, an epoch costs 1 + overlap
            work, and on a CPU the last epoch ends once the tolerance is met.
        step: application of an update, an object or its registered name: `apviz.solvers.PlainStep()`, the paper's, or
            `Subspace(length=…)`, along past updates too.
        columns: update of the residual: `apviz.solvers.Exact()`, the paper's, or `Skeletons(rank=…)`, by few columns in
            all rows but the nearest.
        precision: of blocks and residual: an `apviz.solvers.Precision`, or `system`, `float32`, `float64` or `auto`.
        fallback_rank: largest rank of the preconditioner of CG, which takes over if it lowers the residual faster
            than epochs do (`apviz.solvers.handover`); each CG iteration counts as an epoch; 0: no handover.
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in epochs; with m blocks an epoch is m updates.
        check_every: epochs between evaluations of B − KW (1.0 work each) without another reason for one: convergence is
            always checked, and drift is corrected.
        seed: seed of all random draws: the blocks of a rule, the rows of a partition, the pivots of CG's
            preconditioner. A rule or partition given as an object has its own seed.

    Raises:
        ValueError: a setting out of range, with the accepted values.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> apviz.solve(system, apviz.AlternatingProjection(block_size=50)).converged
        True
        >>> apviz.solve(system, apviz.AlternatingProjection(block_size=200)).epochs  # one block: a Cholesky solve
        1
    """

    block_size: int | Auto = 1000
    rule: str | Rule = "gauss-southwell"
    partition: str | Partitioner = "sequential"
    tol: float = 1e-2
    max_epochs: int = 1000
    min_epochs: int = 0
    check_every: int = 50
    step: Step = PlainStep()  # noqa: RUF009  # frozen
    columns: ColumnsSetting = Exact()  # noqa: RUF009
    precision: Precision = Precision()  # noqa: RUF009
    fallback_rank: int | Auto = 0
    seed: int = 0

    name: ClassVar[str] = "AlternatingProjection"

    def __post_init__(self) -> None:
        require_whole_or_auto("block_size", self.block_size, 1)
        Stopping.of(self)
        require_whole_or_auto("fallback_rank", self.fallback_rank, 0)
        object.__setattr__(self, "step", part_named(STEPS, Step, self.step))
        object.__setattr__(self, "columns", part_named(COLUMNS, ColumnsSetting, self.columns))
        object.__setattr__(self, "precision", precision_named(self.precision))
        require_seed(self.seed)
        rule_named(self.rule)
        partitioner_named(self.partition)

    @property
    def method(self) -> Method:
        return Method(
            family=ALTERNATING_PROJECTION, rule=rule_named(self.rule).name,
            partition=self.partition if isinstance(self.partition, str) else PARTITIONS.name_of(self.partition),
            block_size=self.block_size, overlap=overlap_of(self.partition), history=self.step.length,
            skeleton_rank=self.columns.rank or None,
        )  # fmt: skip

    @property
    def needs_norms(self) -> bool:
        """Whether the rule uses the norms of the blocks."""
        return rule_named(self.rule).needs_norms

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[AlternatingProjection, Mapping[str, str]]:
        return resolve(self, operator, columns)

    def resolve_for(self, operator: CountingOperator, columns: int, like: Tensor | None) -> Resolved:
        return resolve_by_trials(self, operator, columns, like)

    def build(self, operator: CountingOperator, columns: int) -> Blocks:
        return blocks_of(self, operator)

    def init(self, prepared: Blocks, state: State) -> Projection:
        return Projection(prepared, state)

    def epochs(self, prepared: Blocks, state: Projection) -> Events:
        if not (rank := int(chosen("fallback_rank", self.fallback_rank))):
            return self.projections(prepared, state)
        return handing_over(self.projections(prepared, state), state, Stopping.of(self), rank, self.seed)

    def projections(self, prepared: Blocks, state: Projection) -> Events:
        """Run Algorithm 1."""
        partition, factors, step, w, r = prepared.partition, prepared.factors, state.step, state.w, state.r
        rule = rule_named(self.rule, self.seed)
        select, number = rule.begin(partition.owned_sizes()), itertools.count()
        while True:  # epoch
            for _ in range(len(partition)):  # mini-batch
                norms = state.norms if rule.needs_norms else state.no_norms
                block = factors.index(select(next(number), norms))  # line 4: gauss-southwell takes the largest ‖R_I‖
                rows = factors.rows[block]
                u = factors.project(block, r)  # line 6: K[I, I]⁻¹ R_I
                decrease = step.project_(w, r, block, rows, u)  # lines 7 and 8: W_I += U, R −= K[:, I] U
                state.moved()
                if (yield Updated(block, decrease)):
                    break
            yield EpochEnd()
