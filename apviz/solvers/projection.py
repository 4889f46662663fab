"""Alternating projection: Algorithm 1 of Wu et al. (AISTATS 2024), for any partition and rule.

Departures, where settings ask for them: blocks that overlap, steps along earlier updates too (`apviz.solvers.steps`),
columns of K by skeletons (`apviz.skeletons`), blocks and residual in float32, and CG that goes on where epochs gain
little (`apviz.solvers.handover`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, get_args

from torch import Tensor

from apviz.method import Method
from apviz.methods import ALTERNATING_PROJECTION
from apviz.operators import CountingOperator, Operator
from apviz.partitions import PARTITIONS, Partitioner, partitioner_named
from apviz.rules import Rule, rule_named
from apviz.settings import Auto, chosen, require, require_overlap, require_seed, require_whole, require_whole_or_auto
from apviz.solvers.blocks import Blocks, FactorDtype, InnerDtype, Projection, blocks_of
from apviz.solvers.choices import resolve
from apviz.solvers.handover import handing_over
from apviz.solvers.interface import SOLVERS, Solver
from apviz.solvers.state import EpochEnd, Events, State, Updated
from apviz.solvers.stopping import Stopping


@SOLVERS.register(ALTERNATING_PROJECTION)
@dataclass(frozen=True, kw_only=True)
class AlternatingProjection(Solver):
    """Projects the residual onto one block after another (paper, Algorithm 1).

    Args:
        block_size: b, the rows a block owns; the last block may own fewer and is a block like any other.
            b ≥ n is a Cholesky solve. `auto` chooses this, the overlap and the history from n, d, the
            right-hand sides and the free memory (`apviz.solvers.choices`); the trace says what and why.
        rule: `gauss-southwell`, `cyclic`, `random`, `shuffled`, or a rule of `apviz.rules`.
        partition: `sequential`, `shuffled`, `kd-tree`, `principal-axis-tree`, or a partitioner of `apviz.partitions`.
        overlap: a share of the rows that a block owns: so many of the nearest others it solves on too; 0 is the
            paper's. An epoch then costs 1 + overlap work, and the last one ends as soon as the tolerance is met.
        history: number of past updates that are stepped along again with every new one, see `Subspace`; 0 is the
            paper's. Holds n·(l+1) numbers for each.
        skeleton_rank: number of columns that stand for those of a block in all rows but the nearest, which then cost no
            more than these; see `apviz.skeletons`. 0: every column as it is, the paper's.
        near_rows: with skeletons, the rows around a block whose entries are evaluated all the same; 0: chosen with
            their rank, else a fifth of all, but 3 to 12 times those it solves on.
        inner_dtype: in which the blocks are factored and the residual is updated: `float32`, for any tolerance, for
            weights and every claim of convergence are in float64 in any case (`apviz.solvers.refinement`); `float64`;
            `system`: that of the system; `auto`: float32 unless σ² is too small beside the outputscale for it.
        factor_dtype: in which the factors, and the maps onto skeletons, are kept: `inner`, that of the recursion;
            `float16`, half its memory: the projections are then a little less exact, which a history makes up for, and
            so do passes; σ² is to be above 1e-6 of the outputscale; `auto`: float16 where the other would not fit.
        fallback_rank: the most of the preconditioner of CG that takes over where epochs turn out to lower the residual
            more slowly than it would (`apviz.solvers.handover`); each of its iterations counts as an epoch; 0: none.
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in epochs, each as many updates as there are blocks.
        check_every: epochs between evaluations of B − KW (1.0 work each) where there is no other reason for one:
            convergence is always checked, and what drifts is corrected.
        seed: of all that is drawn: the blocks of a rule, the rows of a partition, the pivots of CG's preconditioner. A
            rule or partition given as an object has its own.

    Raises:
        ValueError: a setting out of range, with what would be accepted.

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
    overlap: float | Auto = 0.0
    tol: float = 1e-2
    max_epochs: int = 1000
    min_epochs: int = 0
    check_every: int = 50
    history: int | Auto = 0
    skeleton_rank: int | Auto = 0
    near_rows: int = 0
    inner_dtype: InnerDtype = "system"
    factor_dtype: FactorDtype = "inner"
    fallback_rank: int | Auto = 0
    seed: int = 0

    name: ClassVar[str] = "AlternatingProjection"

    def __post_init__(self) -> None:
        require_whole_or_auto("block_size", self.block_size, 1)
        require_overlap(self.overlap)
        Stopping.of(self)
        require_whole_or_auto("history", self.history, 0)
        require_whole_or_auto("skeleton_rank", self.skeleton_rank, 0)
        require_whole_or_auto("fallback_rank", self.fallback_rank, 0)
        require_whole("near_rows", self.near_rows, 0)
        known = get_args(InnerDtype)
        require(self.inner_dtype in known, "inner_dtype", self.inner_dtype, f"one of {', '.join(known)}")
        known = get_args(FactorDtype)
        require(self.factor_dtype in known, "factor_dtype", self.factor_dtype, f"one of {', '.join(known)}")
        require_seed(self.seed)
        rule_named(self.rule)
        partitioner_named(self.partition)

    @property
    def method(self) -> Method:
        return Method(
            family=ALTERNATING_PROJECTION,
            rule=rule_named(self.rule).name,
            partition=self.partition if isinstance(self.partition, str) else PARTITIONS.name_of(self.partition),
            block_size=self.block_size,
            overlap=self.overlap,
            history=self.history,
            skeleton_rank=self.skeleton_rank or None,
        )

    @property
    def needs_norms(self) -> bool:
        """Whether the rule looks at the norms of the blocks."""
        return rule_named(self.rule).needs_norms

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[AlternatingProjection, Mapping[str, str]]:
        return resolve(self, operator, columns)

    def build_for(self, operator: CountingOperator, columns: int, like: Tensor | None) -> Blocks:
        return blocks_of(self, operator, columns, like)

    def init(self, prepared: Blocks, state: State) -> Projection:
        return Projection(prepared, state)

    def epochs(self, prepared: Blocks, state: Projection) -> Events:
        if not (rank := int(chosen("fallback_rank", self.fallback_rank))):
            return self.projections(prepared, state)
        return handing_over(self.projections(prepared, state), state, Stopping.of(self), rank, self.seed)

    def projections(self, prepared: Blocks, state: Projection) -> Events:
        """Algorithm 1."""
        partition, factors, step, w, r = prepared.partition, prepared.factors, state.step, state.w, state.r
        rule = rule_named(self.rule, self.seed)
        select, number = rule.begin(partition.owned_sizes()), itertools.count()
        while True:  # epoch
            for _ in range(len(partition)):  # mini-batch
                norms = state.norms if rule.needs_norms else state.no_norms
                block = select(next(number), norms)  # line 4: gauss-southwell takes the largest ‖R_I‖
                rows = factors.rows[block]
                u = factors.project(block, r)  # line 6: K[I, I]⁻¹ R_I
                decrease = step.project_(w, r, block, rows, u)  # lines 7 and 8: W_I += U, R −= K[:, I] U
                state.moved()
                if (yield Updated(block, decrease)):
                    break
            yield EpochEnd()
