"""Alternating projection: Algorithm 1 of Wu et al. (AISTATS 2024), for any partition and rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from apviz.factors import BlockFactors, check_fits
from apviz.method import ALTERNATING_PROJECTION, Method
from apviz.operators import CountingOperator, Operator
from apviz.partitions import PARTITIONS, Partition, Partitioner, partitioner_named
from apviz.preconditioners.low_rank import biorthonormal
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from apviz.rules import Rule, rule_named
from apviz.settings import (
    Auto,
    chosen,
    require_overlap,
    require_tolerance,
    require_whole,
    require_whole_or_auto,
)
from apviz.solvers.choices import resolve
from apviz.solvers.interface import SOLVERS, Prepared, Solver, StopReason
from apviz.solvers.solve import Run
from apviz.solvers.steps import Alone, Coarse, History, Step
from apviz.solvers.stopping import Limits


@SOLVERS.register(ALTERNATING_PROJECTION)
@dataclass(frozen=True, kw_only=True)
class AlternatingProjection(Solver):
    """Projects the residual onto one block after another (paper, Algorithm 1).

    Args:
        block_size: b, the rows a block owns; the last block may own fewer and is a block like any other.
            b ≥ n is a Cholesky solve. `auto` chooses this, the overlap, the history and the coarse rank from n, d,
            the right-hand sides and the free memory (`apviz.solvers.choices`); the trace says what and why.
        rule: `gauss-southwell`, `cyclic`, `random`, `shuffled`, or a rule of `apviz.rules`.
        partition: `sequential`, `shuffled`, `kd-tree`, `principal-axis-tree`, or a partitioner of `apviz.partitions`.
        overlap: a share of the rows that a block owns: so many of the nearest others it solves on too; 0 is the
            paper's. An epoch then costs 1 + overlap work, and the last one ends as soon as the tolerance is met.
        history: number of past updates that are stepped along again with every new one, see `History`; 0 is the
            paper's. Holds n·(l+1) numbers for each.
        coarse_rank: number of vectors that span what is smooth, onto which every update projects too: a randomly
            pivoted Cholesky factor V, whose KV costs 1.0 work and n²·coarse_rank multiplications once; 0: none.
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in epochs, each as many updates as there are blocks.
        check_every: epochs between recomputations of the residual (1.0 work each); convergence is always checked.
        seed: of all that is drawn: the blocks of a rule, the rows of a partition, the pivots of the coarse space. A
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
    coarse_rank: int | Auto = 0
    seed: int = 0

    name: ClassVar[str] = "AlternatingProjection"

    def __post_init__(self) -> None:
        require_whole_or_auto("block_size", self.block_size, 1)
        require_overlap(self.overlap)
        require_tolerance(self.tol)
        require_whole("max_epochs", self.max_epochs, 1)
        require_whole("min_epochs", self.min_epochs, 0, self.max_epochs)
        require_whole("check_every", self.check_every, 1)
        require_whole_or_auto("history", self.history, 0)
        require_whole_or_auto("coarse_rank", self.coarse_rank, 0)
        require_whole("seed", self.seed, 0)
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
            coarse_rank=self.coarse_rank,
        )

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[AlternatingProjection, Mapping[str, str]]:
        return resolve(self, operator, columns)

    def build(self, operator: CountingOperator, columns: int) -> Blocks:
        settings, choices = self.resolve(operator, columns)
        size, overlap = int(chosen("block_size", settings.block_size)), chosen("overlap", settings.overlap)
        check_fits(operator.x, size, overlap)
        partition = partitioner_named(settings.partition, settings.seed)(operator.inputs, size, overlap)
        stored = operator if partition.is_identity else operator.reordered(partition.order)
        factors = BlockFactors(stored, [partition.solved(block) for block in range(len(partition))])
        coarse = None
        if settings.coarse_rank:
            factor = randomly_pivoted_cholesky(stored, int(chosen("coarse_rank", settings.coarse_rank)), settings.seed)
            v = torch.linalg.qr(factor).Q
            coarse = biorthonormal(v, stored.matmul(v))[:2]
        return Blocks(
            solver=settings, given=operator.uncounted, operator=stored.uncounted,
            choices=choices, partition=partition, factors=factors, coarse=coarse,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Blocks(Prepared):
    """Set-up: the partition, the factors of its blocks, and V, KV with VᵀKV = I of a coarse space, as stored."""

    solver: AlternatingProjection
    partition: Partition
    factors: BlockFactors
    coarse: tuple[Tensor, Tensor] | None = None

    def run(self, run: Run) -> StopReason:
        return _Projection(self, run).iterate()


class _Projection:
    """The state of one solve; rows are in the stored order of the partition."""

    def __init__(self, prepared: Blocks, run: Run) -> None:
        settings, partition, operator = prepared.solver, prepared.partition, run.operator
        self.settings, self.partition, self.factors, self.operator = settings, partition, prepared.factors, operator
        self.rule, self.run = rule_named(settings.rule, settings.seed), run
        self.b = prepared.in_order(run.b)
        if run.initial_weights is None:
            self.w, self.r = torch.zeros_like(self.b), self.b.clone()
        else:
            self.w = prepared.in_order(run.initial_weights)
            self.r = self.b - operator.matmul(self.w)
        self.step: Step = Alone(operator)
        if settings.history:
            longest = max(partition.solved_sizes())
            self.step = History(operator, int(chosen("history", settings.history)), self.r, longest)
        if prepared.coarse is not None:
            self.step = Coarse(self.step, *prepared.coarse)
        self._spare = torch.empty_like(self.r)

    def iterate(self) -> StopReason:
        """Algorithm 1."""
        run, r, w, m = self.run, self.r, self.w, len(self.partition)
        select = self.rule.begin(self.partition.owned_sizes())
        norms = self.block_norms()
        run.start(self, self._limits())
        while True:  # epoch
            for _ in range(m):  # mini-batch
                block = select(run.update_number, run.weighted(norms))
                rows = self.factors.rows[block]
                u = self.factors.solve(block, r[rows])
                decrease = self.step.project_(w, r, rows, u)
                if self.rule.needs_norms or run.records_updates:
                    norms = self.block_norms()
                squared = norms.sum(0)
                run.updated(block, decrease, squared)
                if run.ends_inside_epoch(squared):
                    break
            norms = self.block_norms()
            reason = run.end_epoch(norms.sum(0))
            if reason is not None:
                return reason
            norms = self.block_norms()

    def _limits(self) -> Limits:
        """Where blocks overlap an epoch costs more than an iteration of CG: it may end at each eighth of it."""
        s, looks = self.settings, bool(self.partition.margins) and self.rule.needs_norms
        return Limits(s.tol, s.min_epochs, s.max_epochs, s.check_every, max(1, len(self.partition) // 8) * looks)

    # --- what the run asks for ------------------------------------------------------------------------------------

    def weights(self) -> Tensor:
        self.step.flush_to_weights_(self.w)
        return self.w

    def block_norms(self) -> Tensor:
        """‖R_I‖² per block and right-hand side, (m, l+1)."""
        return self.operator.squared_norms(self.r, self.partition.starts, self._spare)

    def adopt(self, fresh: Tensor, claimed: bool) -> None:
        """B − KW afresh always becomes the residual: the projection does not care where R came from."""
        self.r.copy_(fresh)
