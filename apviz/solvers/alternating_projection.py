"""Alternating projection: Algorithm 1 of Wu et al. (AISTATS 2024), for any partition and rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, get_args

import torch
from torch import Tensor

from apviz.factors import BlockFactors, check_fits
from apviz.memory import explained
from apviz.method import ALTERNATING_PROJECTION, Method
from apviz.operators import CountingOperator, Operator
from apviz.partitions import PARTITIONS, Partition, Partitioner, partitioner_named
from apviz.preconditioners.low_rank import biorthonormal
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from apviz.rules import Rule, rule_named
from apviz.settings import (
    Auto,
    chosen,
    require,
    require_overlap,
    require_seed,
    require_tolerance,
    require_whole,
    require_whole_or_auto,
)
from apviz.skeletons import Columns, ExactColumns, Skeletons, suggest
from apviz.solvers.choices import RANK_STEPS, near_size, near_sizes, resolve
from apviz.solvers.interface import SOLVERS, Prepared, Solver, StopReason
from apviz.solvers.refinement import Limits
from apviz.solvers.run import Run
from apviz.solvers.steps import Alone, Coarse, History, Step, column_squares
from apviz.solvers.takeover import Takeover

InnerDtype = Literal["system", "float32", "float64", "auto"]
FactorDtype = Literal["inner", "float16", "auto"]
DTYPES: Final = {"float32": torch.float32, "float64": torch.float64}
# the most by which the residual falls between two evaluations of B − KW: below it rounding in float32 may be reached
REDUCTION = 0.01
# of the residual, beyond which a drift costs more passes than skeletons save: estimated, there are none; found by a
# pass, there are better ones from then on
MAX_DRIFT, BAD_DRIFT = 0.3, 0.3


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
            more slowly than it would (`apviz.solvers.takeover`); each of its iterations counts as an epoch; 0: none.
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in epochs, each as many updates as there are blocks.
        check_every: epochs between evaluations of B − KW (1.0 work each) where there is no other reason for one:
            convergence is always checked, and what drifts is corrected.
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
        require_tolerance(self.tol)
        require_whole("max_epochs", self.max_epochs, 1)
        require_whole("min_epochs", self.min_epochs, 0, self.max_epochs)
        require_whole("check_every", self.check_every, 1)
        require_whole_or_auto("history", self.history, 0)
        require_whole_or_auto("coarse_rank", self.coarse_rank, 0)
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
            coarse_rank=self.coarse_rank,
            skeleton_rank=self.skeleton_rank or None,
        )

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[AlternatingProjection, Mapping[str, str]]:
        return resolve(self, operator, columns)

    def build(self, operator: CountingOperator, columns: int) -> Blocks:
        return self.build_for(operator, columns, None)

    def build_for(self, operator: CountingOperator, columns: int, like: Tensor | None) -> Blocks:
        settings, choices = self.resolve(operator, columns)
        dtype = DTYPES.get(settings.inner_dtype, operator.x.dtype)
        inner = operator if dtype == operator.x.dtype else operator.of(operator.uncounted.in_dtype(dtype))
        partition, stored = settings._cut(inner)
        if self.skeleton_rank == "auto" and settings.skeleton_rank:
            rank, near, why = settings._probed(stored, partition, like)
            if rank:
                settings = replace(settings, skeleton_rank=rank, near_rows=near)
                choices = {**choices, "skeleton_rank": why}
            else:
                settings, others = replace(self, skeleton_rank=0, inner_dtype=settings.inner_dtype).resolve(
                    inner, columns
                )
                choices = {**choices, **others, "skeleton_rank": why}
                partition, stored = settings._cut(inner)
        rows = [partition.solved(block) for block in range(len(partition))]
        shared = stored.sharded()
        factors = BlockFactors(shared, rows, dtype=settings._kept(stored))
        coarse = skeletons = None
        if settings.coarse_rank:
            factor = randomly_pivoted_cholesky(stored, int(chosen("coarse_rank", settings.coarse_rank)), settings.seed)
            v = torch.linalg.qr(factor).Q
            v, kv, _ = biorthonormal(v, stored.matmul(v))
            coarse = shared.layout.local(v), shared.layout.local(kv)
        if settings.skeleton_rank:
            rank = int(chosen("skeleton_rank", settings.skeleton_rank))
            near = settings.near_rows or near_size(partition)
            skeletons = Skeletons(shared, partition, factors, rank, near, settings.seed)
        return Blocks(
            solver=settings, given=operator.uncounted, operator=shared.uncounted, choices=choices, partition=partition,
            factors=factors, coarse=coarse, skeletons=skeletons,
            may_improve=skeletons is not None and self.skeleton_rank == "auto",
        )  # fmt: skip

    def _cut(self, operator: CountingOperator) -> tuple[Partition, CountingOperator]:
        """The blocks, and the operator with its rows as they are stored."""
        size, overlap = int(chosen("block_size", self.block_size)), chosen("overlap", self.overlap)
        check_fits(operator.x, size, overlap, self._kept(operator), operator.layout.ranks)
        partition = partitioner_named(self.partition, self.seed)(operator.inputs, size, overlap)
        return partition, operator if partition.is_identity else operator.reordered(partition.order)

    def _kept(self, operator: CountingOperator) -> torch.dtype:
        """The dtype in which factors are kept."""
        return torch.float16 if self.factor_dtype == "float16" else operator.x.dtype

    def _probed(self, stored: CountingOperator, partition: Partition, like: Tensor | None) -> tuple[int, int, str]:
        """The rank of the skeletons and the near rows that a few blocks suggest, and why; 0 where none is worth it."""
        first = int(chosen("skeleton_rank", self.skeleton_rank))
        ranks, nears = [max(1, round(first * step)) for step in RANK_STEPS], near_sizes(partition)
        nears = [self.near_rows] if self.near_rows else nears
        if like is not None:
            like = like if partition.is_identity else like[partition.order]
        found = stored.layout.agreed(suggest(stored, partition, ranks, nears, self.tol, like, self.seed))
        if found.drift > MAX_DRIFT:
            return 0, 0, f"0: skeletons of rank {found.rank} would let the residual drift by about {found.drift:.0%}"
        why = f"lets the residual drift by about {found.drift:.1%} (an estimate) beyond {found.near:,} near rows"
        return found.rank, found.near, f"{found.rank}: {why}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Blocks(Prepared):
    """Set-up: the partition, the factors of its blocks, V, KV with VᵀKV = I of a coarse space, and skeletons."""

    solver: AlternatingProjection
    partition: Partition
    factors: BlockFactors
    coarse: tuple[Tensor, Tensor] | None = None
    skeletons: Skeletons | None = None
    #: whether a run may make better ones, for itself, where a pass finds that they drift too far
    may_improve: bool = False

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
            self.w, self.r = torch.zeros_like(self.b, dtype=torch.float64), self.b.to(operator.x.dtype, copy=True)
        else:
            self.w = prepared.in_order(run.initial_weights)
            self.r = run.residual_of(run.initial_weights).to(operator.x.dtype)
        self.skeletons = prepared.skeletons
        columns: Columns = ExactColumns(operator, self.factors.rows)
        if prepared.skeletons is not None:
            columns = prepared.skeletons.bind(operator)
        self.step: Step = Alone(columns, operator.layout)
        if settings.history:
            longest = max(partition.solved_sizes())
            self.step = History(operator, columns, int(chosen("history", settings.history)), self.r, longest)
        if prepared.coarse is not None:
            self.step = Coarse(self.step, *prepared.coarse, operator.layout)
        self._spare = torch.empty_like(self.r)
        self._start = self._norm(self.r) if prepared.may_improve else None  # at the last pass

    def iterate(self) -> StopReason:
        """Algorithm 1."""
        run, r, w, m = self.run, self.r, self.w, len(self.partition)
        select = self.rule.begin(self.partition.owned_sizes())
        norms = self.block_norms()
        limits = self._limits()
        run.start(self, limits)
        rank = int(chosen("fallback_rank", self.settings.fallback_rank))
        takeover = Takeover(run, replace(limits, look_every=0, reduction=0.0, go_exact=None), rank, self.settings.seed)
        while True:  # epoch
            for _ in range(m):  # mini-batch
                block = select(run.update_number, run.weighted(norms))
                rows = self.factors.rows[block]
                u = self.factors.project(block, r)
                decrease = self.step.project_(w, r, block, rows, u)
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
            if rank and takeover.is_faster(self):
                return takeover.iterate(self, self.norms_of)
            norms = self.block_norms()

    def _limits(self) -> Limits:
        """Where blocks overlap an epoch costs more than an iteration of CG: it may end at each eighth of it."""
        s, looks = self.settings, bool(self.partition.margins) and self.rule.needs_norms
        return Limits(
            s.tol, s.min_epochs, s.max_epochs, s.check_every, max(1, len(self.partition) // 8) * looks,
            REDUCTION, self._go_exact if self.skeletons is not None else None,
        )  # fmt: skip

    # --- what the run asks for ------------------------------------------------------------------------------------

    def weights(self) -> Tensor:
        return self.step.with_waiting(self.w)

    def block_norms(self) -> Tensor:
        """‖R_I‖² per block and right-hand side, (m, l+1)."""
        return self.norms_of(self.r)

    def norms_of(self, r: Tensor) -> Tensor:
        """‖r_I‖² of any r: (n, l+1), (m, l+1)."""
        return self.operator.squared_norms(r, self.partition.starts, self._spare)

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """B − KW afresh always becomes the residual: the projection does not care where R came from."""
        is_bad = self._start is not None and self._norm(self.r - fresh) > BAD_DRIFT * self._start
        self.r.copy_(fresh)
        if self._start is not None:
            self._start = self._norm(self.r)
        if is_bad:
            self._improve_skeletons()
        return True

    def _norm(self, r: Tensor) -> float:
        return math.sqrt(float(self.operator.layout.sum(column_squares(r)).sum()))

    def _improve_skeletons(self) -> None:
        """Takes twice the near rows and twice the rank, for this run."""
        old, n = self.skeletons, self.operator.n
        if old is None or 2 * old.near_size > n // 2:
            return
        rank, near, seed = 2 * old.rank, 2 * old.near_size, self.settings.seed
        try:
            with explained("better skeletons", "the solve goes on without them"):
                self.skeletons = Skeletons(self.operator, self.partition, self.factors, rank, near, seed)
        except MemoryError:  # the solve goes on with those there are
            return
        self.step.flush_to_weights_(self.w)
        self.step.use_(self.skeletons.bind(self.operator))
        self.run.choices["skeletons"] = f"of rank {rank} beyond {near:,} near rows after epoch {self.run.epoch_number}"

    def _go_exact(self) -> None:
        """Gives up the skeletons: what the updates so far did to R was not exact."""
        self.step.flush_to_weights_(self.w)
        self.step.use_(ExactColumns(self.operator, self.factors.rows))
