"""What alternating projection builds from K, and the state that it moves: blocks, their factors, and columns of K."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from apviz.factors import BlockFactors, check_fits
from apviz.memory import explained
from apviz.operators import CountingOperator
from apviz.partitions import Partition, partitioner_named
from apviz.settings import Auto, chosen
from apviz.skeletons import BlockSkeletons, Columns, ExactColumns, suggest
from apviz.solvers.choices import RANK_STEPS, near_size, near_sizes
from apviz.solvers.columns import Exact, Skeletons
from apviz.solvers.interface import Prepared
from apviz.solvers.precision import DTYPES, Precision
from apviz.solvers.state import State, column_squares
from apviz.solvers.steps import BoundStep, Subspace
from apviz.stacked_factors import factors_of

if TYPE_CHECKING:
    from apviz.solvers.projection import AlternatingProjection

# the most by which the residual falls between two evaluations of B − KW: below it rounding in float32 may be reached
REDUCTION = 0.01
# of the residual, beyond which a drift costs more passes than skeletons save: estimated, there are none; found by a
# pass, there are better ones from then on
MAX_DRIFT, BAD_DRIFT = 0.3, 0.3
# looks at the residual in an epoch of overlapping blocks, which costs more than an iteration of CG
LOOKS = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class Blocks(Prepared):
    """Set-up: the partition, the factors of its blocks, and skeletons."""

    solver: AlternatingProjection
    partition: Partition
    factors: BlockFactors
    skeletons: BlockSkeletons | None = None
    #: whether a solve may make better ones, for itself, where a pass finds that they drift too far
    may_improve: bool = False


#: settings of `Choices` as a user knows them
NAMES: Final = {
    "history": "step.length", "skeleton_rank": "columns.rank", "inner_dtype": "precision.recursion",
    "factor_dtype": "precision.factors",
}  # fmt: skip


@dataclass(frozen=True)
class Choices:
    """The settings of alternating projection that may say `auto`, in one place for `apviz.solvers.choices.resolve`."""

    block_size: int | Auto
    overlap: float | Auto
    history: int | Auto
    skeleton_rank: int | Auto
    inner_dtype: Any
    factor_dtype: Any
    fallback_rank: int | Auto

    def put_into(self, asked: AlternatingProjection) -> AlternatingProjection:
        """Returns the settings with these in place of every `auto`."""
        columns, step = asked.columns, asked.step
        if isinstance(columns, Skeletons):
            columns = replace(columns, rank=self.skeleton_rank) if self.skeleton_rank else Exact()
        if isinstance(step, Subspace):
            step = replace(step, length=self.history)
        precision = Precision(recursion=self.inner_dtype, factors=self.factor_dtype)
        return replace(
            asked, block_size=self.block_size, overlap=self.overlap, step=step, columns=columns, precision=precision,
            fallback_rank=self.fallback_rank,
        )  # fmt: skip


def blocks_of(asked: AlternatingProjection, operator: CountingOperator, columns: int, like: Tensor | None) -> Blocks:
    """Cuts the rows into blocks, factors these, and finds skeletons where they are worth it.

    Args:
        asked: the settings, of which some may say `auto`.
        columns: right-hand sides that are to be expected.
        like: (n, columns), some like them, or None.
    """
    settings, choices = asked.resolve(operator, columns)
    dtype = DTYPES.get(settings.precision.recursion, operator.x.dtype)
    inner = operator if dtype == operator.x.dtype else operator.of(operator.uncounted.in_dtype(dtype))
    partition, stored = _cut(settings, inner)
    if asked.columns.rank == "auto" and settings.columns.rank:
        rank, near, why = _probed(settings, stored, partition, like)
        if rank:
            settings = replace(settings, columns=Skeletons(rank=rank, near=near))
            choices = {**choices, NAMES["skeleton_rank"]: why}
        else:
            precision = replace(asked.precision, recursion=settings.precision.recursion)
            settings, others = replace(asked, columns=Exact(), precision=precision).resolve(inner, columns)
            choices = {**choices, **others, NAMES["skeleton_rank"]: why}
            partition, stored = _cut(settings, inner)
    rows = [partition.solved(block) for block in range(len(partition))]
    shared = stored.sharded()
    factors = factors_of(shared, rows, settings.precision.kept(stored.x.dtype))
    skeletons = None
    if rank := int(chosen("rank", settings.columns.rank)):
        near = settings.columns.near or near_size(partition)
        skeletons = BlockSkeletons(shared, partition, factors, rank, near, settings.seed)
    return Blocks(
        solver=settings, given=operator.uncounted, operator=shared.uncounted, choices=choices, partition=partition,
        factors=factors, skeletons=skeletons, may_improve=skeletons is not None and asked.columns.rank == "auto",
    )  # fmt: skip


def _cut(settings: AlternatingProjection, operator: CountingOperator) -> tuple[Partition, CountingOperator]:
    """The blocks, and the operator with its rows as they are stored."""
    size, overlap = int(chosen("block_size", settings.block_size)), chosen("overlap", settings.overlap)
    check_fits(operator.x, size, overlap, settings.precision.kept(operator.x.dtype), operator.layout.ranks)
    partition = partitioner_named(settings.partition, settings.seed)(operator.inputs, size, overlap)
    return partition, operator if partition.is_identity else operator.reordered(partition.order)


def _probed(
    settings: AlternatingProjection, stored: CountingOperator, partition: Partition, like: Tensor | None
) -> tuple[int, int, str]:
    """The rank of the skeletons and the near rows that a few blocks suggest, and why; 0 where none is worth it."""
    first = int(chosen("rank", settings.columns.rank))
    ranks, nears = [max(1, round(first * step)) for step in RANK_STEPS], near_sizes(partition)
    nears = [settings.columns.near] if settings.columns.near else nears
    if like is not None:
        like = like if partition.is_identity else like[partition.order]
    found = stored.layout.agreed(suggest(stored, partition, ranks, nears, settings.tol, like, settings.seed))
    if found.drift > MAX_DRIFT:
        return 0, 0, f"0: skeletons of rank {found.rank} would let the residual drift by about {found.drift:.0%}"
    why = f"lets the residual drift by about {found.drift:.1%} (an estimate) beyond {found.near:,} near rows"
    return found.rank, found.near, f"{found.rank}: {why}"


class Projection(State):
    """The state of alternating projection; rows are in the stored order of the partition.

    Args:
        prepared: the blocks.
        start: at the weights to start from.

    Attributes:
        step: takes W and R past an update.
        no_norms: in place of norms, for rules that look at none.
    """

    step: BoundStep

    def __init__(self, prepared: Blocks, start: State) -> None:
        super().__init__(**vars(start))
        settings, partition = prepared.solver, prepared.partition
        self.partition, self.factors, self.skeletons = partition, prepared.factors, prepared.skeletons
        self._seed, self._may_improve = settings.seed, prepared.may_improve
        columns: Columns = ExactColumns(self.operator, self.factors.rows)
        if prepared.skeletons is not None:
            columns = prepared.skeletons.bind(self.operator)
        self.step = settings.step.bind(self.operator, columns, self.r, max(partition.solved_sizes()))
        self.reduction, self.drifts = REDUCTION, prepared.skeletons is not None
        # to look, the host reads the residual; with stacked factors it waits for nothing inside an epoch
        if partition.margins and settings.needs_norms and not self.factors.is_stacked:
            self.look_every = max(1, len(partition) // LOOKS)
        self.no_norms, self._spare = self.r[:0], torch.empty_like(self.r)
        if self.factors.is_stacked:  # filled up to blocks of one size
            longest = max(partition.owned_sizes())
            self._spare = self.r.new_zeros(max(len(self.r), len(partition) * longest), self.r.shape[1])
        self._norms: Tensor | None = None  # ‖R_I‖² of the blocks for the residual now, if they were asked for
        self._start = self._norm(self.r) if self._may_improve else None  # at the last pass

    @property
    def norms(self) -> Tensor:
        """‖R_I‖² per block and right-hand side as rules compare them, (m, l+1)."""
        norms = self.block_norms()
        return norms if self.share is None else norms * self.share.to(norms)

    def moved(self) -> None:
        """Takes note that the residual has changed."""
        self._norms = None

    def weights(self) -> Tensor:
        return self.step.with_waiting(self.w)

    def block_norms(self) -> Tensor:
        if self._norms is None:
            self._norms = self.norms_of(self.r)
        return self._norms

    def norms_of(self, r: Tensor) -> Tensor:
        """Computes ‖r_I‖² of any r: (n, l+1), (m, l+1)."""
        return self.operator.squared_norms(r, self.partition.starts, self._spare)

    def squared(self) -> Tensor:
        return self.block_norms().sum(0)

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """B − KW always becomes the residual: the projection does not care where R came from."""
        is_bad = self._start is not None and self._norm(self.r - fresh) > BAD_DRIFT * self._start
        self.r.copy_(fresh)
        self.moved()
        if self._start is not None:
            self._start = self._norm(self.r)
        if is_bad:
            self._improve_skeletons()
        return True

    def go_exact(self) -> None:
        """Gives up the skeletons: what the updates so far did to R was not exact."""
        if self.drifts:
            self.step.flush_to_weights_(self.w)
            self.step.use_(ExactColumns(self.operator, self.factors.rows))

    def _norm(self, r: Tensor) -> float:
        return math.sqrt(float(self.operator.layout.sum(column_squares(r)).sum()))

    def _improve_skeletons(self) -> None:
        """Takes twice the near rows and twice the rank, for this solve."""
        old, n = self.skeletons, self.operator.n
        if old is None or 2 * old.near_size > n // 2:
            return
        rank, near = 2 * old.rank, 2 * old.near_size
        try:
            with explained("better skeletons", "the solve goes on without them"):
                self.skeletons = BlockSkeletons(self.operator, self.partition, self.factors, rank, near, self._seed)
        except MemoryError:  # the solve goes on with those there are
            return
        self.step.flush_to_weights_(self.w)
        self.step.use_(self.skeletons.bind(self.operator))
        self.choices["skeletons"] = f"of rank {rank} beyond {near:,} near rows after epoch {self.epoch}"
