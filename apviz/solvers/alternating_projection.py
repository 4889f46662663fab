"""Alternating projection: Algorithm 1 of Wu et al. (AISTATS 2024), for any partition and rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from apviz.choices import Auto, chosen, percent, resolve
from apviz.factors import BlockFactors, check_fits
from apviz.operators.interface import add_rows_
from apviz.partitions import Partition, Partitioner, partitioner_named
from apviz.preconditioners.low_rank import biorthonormal
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from apviz.rules import Rule, rule_named
from apviz.settings import require_overlap, require_tolerance, require_whole, require_whole_or_auto
from apviz.solvers.interface import StopReason
from apviz.solvers.solve import Limits, Run, Solver, column_inner
from apviz.solvers.steps import History
from apviz.system import KernelSystem


@dataclass(frozen=True)
class AlternatingProjection(Solver):
    """Projects the residual onto one block after another (paper, Algorithm 1).

    Args:
        block_size: b, the rows a block owns; the last block may own fewer and is a block like any other.
            b ≥ n is a Cholesky solve. `auto` chooses this, the overlap, the history and the coarse rank from n, d,
            the right-hand sides and the free memory (`apviz.choices`); the trace says what and why.
        rule: `gauss-southwell`, `cyclic`, `random`, `shuffled`, or a rule of `apviz.rules`.
        partition: `sequential`, `shuffled`, `kd-tree`, `principal-axis-tree`, or a partitioner of `apviz.partitions`.
        overlap: a block solves on its own rows and overlap·(own rows) of the nearest others; 0 is the paper's.
            With an overlap an epoch costs 1 + overlap work, and the last one ends as soon as the tolerance is met.
        history: how many past updates are stepped along again with every new one, see `History`; 0 is the paper's.
        coarse_rank: after every update, also project onto so many vectors that span what is smooth: a randomly
            pivoted Cholesky factor V, whose KV costs 1.0 work and n²·coarse_rank multiplications once.
        tol: stop when the mean relative residual, recomputed, is below this.
        max_epochs, min_epochs: an epoch is as many updates as there are blocks.
        check_every: epochs between recomputations of the residual (1.0 work each); convergence is always checked.
        seed: of the coarse space.

    Raises:
        ValueError: a setting out of range, with what would be accepted.
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
    def rule_name(self) -> str:
        return rule_named(self.rule).name

    @property
    def partition_name(self) -> str:
        return self.partition if isinstance(self.partition, str) else type(self.partition).__name__

    @property
    def label(self) -> str:
        place = "" if self.partition_name == "sequential" else f" {self.partition_name}".replace("principal-axis", "pa")
        margin = f" +{percent(self.overlap)}" if self.overlap else ""
        history = f" q={self.history}" if self.history else ""
        coarse = f" r={self.coarse_rank}" if self.coarse_rank else ""
        return f"AP {self.rule_name}{place}{margin} b={self.block_size}{history}{coarse}"

    def resolve(self, system: KernelSystem) -> tuple[Solver, Mapping[str, str]]:
        return resolve(self, system)

    def run(self, run: Run) -> StopReason:
        return _Projection(self, run).iterate()


class _Projection:
    """The state of one solve; rows are in the stored order of the partition."""

    def __init__(self, settings: AlternatingProjection, run: Run) -> None:
        self.settings, self.run = settings, run
        system = run.system
        partitioner = partitioner_named(settings.partition)
        size, overlap = int(chosen("block_size", settings.block_size)), chosen("overlap", settings.overlap)
        check_fits(system.x, size, overlap)
        partition: Partition = partitioner(system.operator.inputs, size, overlap)
        self.partition = run.partition = partition
        if not partition.is_identity:
            run.operator.operator = system.operator.reordered(partition.order)
        self.operator = run.operator
        self.factors = run.factors = BlockFactors(run.operator, [partition.solved(j) for j in range(len(partition))])
        self.rule = rule_named(settings.rule)
        self.b = run.b[partition.order]
        if run.initial_weights is None:
            self.w, self.r = torch.zeros_like(self.b), self.b.clone()
        else:
            self.w = run.initial_weights[partition.order].clone()
            self.r = self.b - self.operator.matmul(self.w)
        self.spare = torch.empty_like(self.r)
        # the rule weighs right-hand sides as the user's units do (paper, equation 9)
        self.share = None if bool((run.share == 1).all()) else run.share.to(self.r)
        self.history: History | None = None
        self.coarse: tuple[Tensor, Tensor] | None = None
        if settings.history:
            self.history = History(int(chosen("history", settings.history)), self.r, max(partition.solved_sizes()))
        if settings.coarse_rank:
            factor = randomly_pivoted_cholesky(
                self.operator, int(chosen("coarse_rank", settings.coarse_rank)), settings.seed
            )
            v = torch.linalg.qr(factor).Q
            self.coarse = biorthonormal(v, self.operator.matmul(v))[:2]  # V, KV with VᵀKV = I

    def norms(self) -> Tensor:
        """‖R_I‖² per block and right-hand side, (m, l+1)."""
        return self.operator.operator.squared_norms(self.r, self.partition.starts, self.spare)

    def weights(self) -> Tensor:
        """W in the user's order."""
        self._settle()
        w = torch.empty_like(self.w)
        w[self.partition.order] = self.w
        return w

    def iterate(self) -> StopReason:
        """Algorithm 1."""
        run, r, w, m = self.run, self.r, self.w, len(self.partition)
        select = self.rule.begin(self.partition.owned_sizes())
        norms = self.norms()
        run.start(self.weights, r, norms)
        while True:  # epoch
            for _ in range(m):  # mini-batch
                block = select(run.update_number, norms if self.share is None else norms * self.share)
                rows = self.factors.rows[block]

                r_before = r[rows].clone()
                u = self.factors.solve(block, r_before)
                if self.history is None:
                    add_rows_(w, rows, u)
                    self.operator.subtract_columns_(r, rows, u)
                    # h is quadratic, so the trapezoid rule is exact along the step: also with jitter or rounding
                    decrease = 0.5 * column_inner(u, r_before + r[rows])
                else:
                    decrease = self.history.project_(self.operator, w, r, rows, u)
                if self.coarse is not None:
                    decrease = decrease + self._project_onto_coarse_space(*self.coarse)

                if self.rule.needs_norms or run.records_updates:
                    norms = self.norms()
                run.updated(block, decrease, norms.sum(0) if run.records_updates else None)
                if run.must_stop:
                    norms = self.norms()
                    return run.stopped_inside_epoch(norms.sum(0), norms)
                if self._may_end_early() and run.claims(norms.sum(0), self.settings.tol):
                    break
            reason = self._end_epoch()
            if reason is not None:
                return reason
            norms = self.norms()

    def _project_onto_coarse_space(self, v: Tensor, kv: Tensor) -> Tensor:
        """W += V VᵀR for VᵀKV = I; returns the (l+1,) decreases of h."""
        c = v.T @ self.r
        self.w.addmm_(v, c)
        self.r.addmm_(kv, c, alpha=-1)
        return 0.5 * column_inner(c, c + v.T @ self.r)

    def _may_end_early(self) -> bool:
        """Whether to look at the residual now: 8 times an epoch, where an epoch costs more than a CG iteration."""
        run, m = self.run, len(self.partition)
        looks = bool(self.partition.margins) and self.rule.needs_norms and run.update_number % max(1, m // 8) == 0
        return looks and run.epoch_number + 1 >= self.settings.min_epochs

    def _end_epoch(self) -> StopReason | None:
        s, squared = self.settings, self.norms().sum(0)
        limits = Limits(s.tol, s.min_epochs, s.max_epochs, s.check_every)
        return self.run.end_epoch(squared, self.norms, self._recompute, self._adopt, limits)

    def _settle(self) -> None:
        if self.history is not None:
            self.history.settle_(self.w)

    def _recompute(self) -> tuple[Tensor, Tensor]:
        self._settle()
        return self.run.fresh_residual(self.b, self.w)

    def _adopt(self, fresh: Tensor, claimed: bool) -> None:
        """B − KW afresh always becomes the residual: the projection does not care where R came from."""
        self.r.copy_(fresh)
