"""Set-up and state of alternating projection: blocks, their factors, and columns of K."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from apviz.factors import BlockFactors, check_fits
from apviz.memory import explained
from apviz.operators import CountingOperator
from apviz.partitions import Partition, overlap_of, partitioner_named
from apviz.settings import chosen
from apviz.skeletons import BlockSkeletons, Columns, ExactColumns
from apviz.solvers.interface import Prepared
from apviz.solvers.precision import DTYPES
from apviz.solvers.state import State, column_squares
from apviz.solvers.steps import BoundStep
from apviz.stacked_factors import factors_of

if TYPE_CHECKING:
    from apviz.solvers.projection import AlternatingProjection

# The residual falls at most by this factor between two evaluations of B − KW; float32 may round below it.
REDUCTION = 0.01
# If a pass finds that the residual has drifted beyond this share, better skeletons are built.
BAD_DRIFT = 0.3
# Near rows of a block, as multiples of its solved rows: minimum and maximum.
LEAST_NEAR, MOST_NEAR = 3, 12
# Checks of the residual in an epoch of overlapping blocks, which costs more than a CG iteration.
LOOKS = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class Blocks(Prepared):
    """Set-up: the partition, the factors of its blocks, and skeletons."""

    solver: AlternatingProjection
    partition: Partition
    factors: BlockFactors
    skeletons: BlockSkeletons | None = None


def blocks_of(settings: AlternatingProjection, operator: CountingOperator) -> Blocks:
    """Cut the rows into blocks, factor the blocks, and find skeletons if settings ask for them."""
    partition, stored = cut(settings, operator)
    rows = [partition.solved(block) for block in range(len(partition))]
    shared = stored.sharded()
    factors = factors_of(shared, rows, settings.precision.kept(stored.x.dtype))
    skeletons = None
    if rank := int(chosen("rank", settings.columns.rank)):
        near = settings.columns.near or near_size(partition)
        skeletons = BlockSkeletons(shared, partition, factors, rank, near, settings.seed)
    return Blocks(
        solver=settings, given=operator.uncounted, operator=shared.uncounted, partition=partition, factors=factors,
        skeletons=skeletons,
    )  # fmt: skip


def cut(settings: AlternatingProjection, operator: CountingOperator) -> tuple[Partition, CountingOperator]:
    """Return the partition, and the operator in the dtype of the recursion with its rows in the stored order."""
    dtype = DTYPES.get(settings.precision.recursion, operator.x.dtype)
    if dtype != operator.x.dtype:
        operator = operator.of(operator.uncounted.in_dtype(dtype))
    size, partitioner = (
        int(chosen("block_size", settings.block_size)),
        partitioner_named(settings.partition, settings.seed),
    )
    overlap = chosen("overlap", overlap_of(partitioner))
    check_fits(operator.x, size, overlap, settings.precision.kept(operator.x.dtype), operator.layout.ranks)
    partition = partitioner(operator.inputs, size)
    return partition, operator if partition.is_identity else operator.reordered(partition.order)


def near_size(partition: Partition) -> int:
    """Return the number of near rows of a block: n/5, bounded to 3 to 12 times its solved rows."""
    n, solved = len(partition.order), max(partition.solved_sizes())
    return int(min(n, solved * min(max(n / (5 * solved), LEAST_NEAR), MOST_NEAR)))


class Projection(State):
    """State of alternating projection; rows are in the stored order of the partition.

    Args:
        prepared: the blocks.
        start: state at the initial weights.

    Attributes:
        step: applies an update to W and R.
        no_norms: stands for the norms if a rule does not use them.
    """

    step: BoundStep

    def __init__(self, prepared: Blocks, start: State) -> None:
        super().__init__(**vars(start))
        settings, partition = prepared.solver, prepared.partition
        self.partition, self.factors, self.skeletons = partition, prepared.factors, prepared.skeletons
        self._seed = settings.seed
        columns: Columns = ExactColumns(self.operator, self.factors.rows)
        if prepared.skeletons is not None:
            columns = prepared.skeletons.bind(self.operator)
        self.step = settings.step.bind(self.operator, columns, self.r, max(partition.solved_sizes()))
        self.reduction, self.drifts = REDUCTION, prepared.skeletons is not None
        # A check makes the host read the residual; with stacked factors the host never waits inside an epoch.
        if partition.margins and settings.needs_norms and not self.factors.is_stacked:
            self.look_every = max(1, len(partition) // LOOKS)
        self.no_norms, self._spare = self.r[:0], torch.empty_like(self.r)
        if self.factors.is_stacked:  # padded to blocks of equal size
            longest = max(partition.owned_sizes())
            self._spare = self.r.new_zeros(max(len(self.r), len(partition) * longest), self.r.shape[1])
        self._norms: Tensor | None = None  # cached ‖R_I‖² of the current residual
        self._start = self._norm(self.r) if settings.columns.may_grow else None  # ‖R‖_F at the last pass

    @property
    def norms(self) -> Tensor:
        """Squared norms ‖R_I‖² per block and right-hand side, (m, l+1), weighted as rules compare them."""
        norms = self.block_norms()
        return norms if self.share is None else norms * self.share.to(norms)

    def moved(self) -> None:
        """Discard cached norms because the residual has changed."""
        self._norms = None

    def weights(self) -> Tensor:
        return self.step.with_waiting(self.w)

    def block_norms(self) -> Tensor:
        if self._norms is None:
            self._norms = self.norms_of(self.r)
        return self._norms

    def norms_of(self, r: Tensor) -> Tensor:
        """Return ‖r_I‖² per block and right-hand side, (m, l+1), of any r: (n, l+1)."""
        return self.operator.squared_norms(r, self.partition.starts, self._spare)

    def squared(self) -> Tensor:
        return self.block_norms().sum(0)

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        """Adopt B − KW as the residual; a projection does not depend on the source of R."""
        is_bad = self._start is not None and self._norm(self.r - fresh) > BAD_DRIFT * self._start
        self.r.copy_(fresh)
        self.moved()
        if self._start is not None:
            self._start = self._norm(self.r)
        if is_bad:
            self._improve_skeletons()
        return True

    def go_exact(self) -> None:
        """Give up the skeletons, whose past updates of R were not exact."""
        if self.drifts:
            self.step.flush_to_weights_(self.w)
            self.step.use_(ExactColumns(self.operator, self.factors.rows))

    def _norm(self, r: Tensor) -> float:
        return math.sqrt(float(self.operator.layout.sum(column_squares(r)).sum()))

    def _improve_skeletons(self) -> None:
        """Double the near rows and the rank, for this solve only."""
        old, n = self.skeletons, self.operator.n
        if old is None or 2 * old.near_size > n // 2:
            return
        rank, near = 2 * old.rank, 2 * old.near_size
        try:
            with explained("better skeletons", "the solve continues without them"):
                self.skeletons = BlockSkeletons(self.operator, self.partition, self.factors, rank, near, self._seed)
        except MemoryError:  # the solve continues with the old skeletons
            return
        self.step.flush_to_weights_(self.w)
        self.step.use_(self.skeletons.bind(self.operator))
        self.choices["skeletons"] = f"of rank {rank} beyond {near:,} near rows after epoch {self.epoch}"
