"""Rehearsals: estimate the iterations of CG by CG on a few rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.operators import Operator
from apviz.partitions import Partitioner
from apviz.solvers.choosing.costs import work_of_iterations

FloatArray = NDArray[np.float64]
TINY = float(np.finfo(np.float64).tiny)
# Largest number of right-hand sides in a rehearsal.
MOST_SIDES = 4
# Iterations below `FEW` say little about their growth, and no preconditioner saves much of them. `SURE` times fewer
# than others are few on any number of rows; `SURE_ALONE` times, without a preconditioner, where few rows of a local k
# look nearly uncorrelated.
FEW, SURE, SURE_ALONE = 3.0, 3.0, 6.0
# Of a solve of less than SHORT seconds, a rehearsal on more rows takes a tenth. Then half of the rows decide, if they
# need SURE_IF_SHORT times fewer iterations than others, and if rows far apart are correlated, by more than FAR on
# average. For a local k few rows look nearly uncorrelated, and all need far more iterations.
SHORT, SURE_IF_SHORT, FAR = 0.15, 1.5, 0.2
# Variance of the eigenvalues of the correlations from which K is no longer nearly diagonal. That matters with noise up
# to MUCH_NOISE of the outputscale.
NEIGHBOURS, MUCH_NOISE = 0.1, 0.01
# Work of the pass that ends a solve.
PASS = 1.0
# Where blocks are slow, CG takes UNDERESTIMATED times the iterations of a rehearsal. With MANY_VECTORS it is rehearsed
# on ROWS_PER_VECTOR rows for each. This pays off from LARGE rows and MUCH_WORK of blocks on, if fewer vectors on half
# of the rows take at most NEARLY times the affordable iterations. Their set-up takes VECTOR_FLOPS times the seconds of
# r²n flops of a factorisation (`benchmarks/notes.md`).
UNDERESTIMATED, MANY_VECTORS, ROWS_PER_VECTOR, LARGE, MUCH_WORK = 1.2, 500, 3, 8_000, 18.0
NEARLY, VECTOR_FLOPS = 1.3, 14.0


class Rehearsal:
    """CG on m = `rows` random rows with m/n of the noise, so that eigenvalues are about m/n times those of all rows.

    In float64, because float32 cannot separate rounding from the part that low rank omits. Set-up takes about m²·(d +
    rank) operations and an iteration 2m²; they do not count as work of the solve. `b`: (n, l+1), in the layout of the
    operator; None: random right-hand sides.
    """

    def __init__(self, operator: Operator, b: Tensor | None, rank: int, rows: int, seed: int) -> None:
        m = min(operator.n, rows)
        generator = torch.Generator().manual_seed(int(seed))
        drawn = torch.randperm(operator.n, generator=generator)[:m].to(operator.given.device)
        self._n, self._rank, self._seed = operator.n, min(rank, m // 2), seed
        self._probe = operator.of_rows(drawn, operator.noise_of(drawn) * (m / operator.n))
        noises = self._probe.noises
        # (m, 1) smallest σ² ÷ σ² of each row
        self._weight = np.ones((1, 1)) if noises is None else _array(noises.min() / noises)[:, None]
        if b is None:
            given = torch.randn(m, MOST_SIDES, generator=generator)
        else:
            given = operator.layout.take(b[:, :MOST_SIDES].to(drawn.device), drawn)
        r = _array(given)
        self._r = r / np.abs(r).max(0).clip(TINY)
        self._runs: dict[int, tuple[list[float], Iterator[float]]] = {}  # residuals so far, by rank

    def iterations(self, rank: int, tol: float, most: float) -> float | None:
        """Count the iterations that lower the mean residual to `tol`, with fractions interpolated in its logarithm.

        None if `most` are not enough. With a randomly pivoted Cholesky preconditioner of this rank, unless it is 0.
        """
        lefts, further = self._runs.setdefault(rank, ([1.0], self._run(rank)))
        for iteration in range(1, math.ceil(most) + 1):
            if iteration == len(lefts):
                lefts.append(next(further, math.inf))
            before, left = lefts[iteration - 1 : iteration + 1]
            if left < tol:
                fraction = math.log(before / tol) / math.log(before / left) if before > tol else 1.0
                return iteration - 1 + fraction
        return None

    def _run(self, rank: int) -> Iterator[float]:
        """Yield the mean residual after each iteration, until nothing is left or if rounding hides the noise."""
        # NumPy, because an iteration is a few small products
        r, k, weight = self._r, self._k, self._weight
        if (low_rank := self._low_rank if rank else k[:0]) is None:
            return
        low_rank = low_rank[:rank]
        norms = np.linalg.norm(r, axis=0).clip(TINY)
        p, inner = np.zeros_like(r), np.ones_like(norms)
        while True:
            z = weight * r - low_rank.T @ (low_rank @ r)
            before, inner = inner, (r * z).sum(0)
            p = z + p * (inner / before.clip(TINY))
            image = k @ p
            r = r - image * (inner / (p * image).sum(0).clip(TINY))
            yield max(float((np.linalg.norm(r, axis=0) / norms).mean()), TINY)

    def left_by_a_sweep(self, partitioner: Partitioner, block_size: int, overlap: float) -> float:
        """Return the share of the residual that projections onto each block once leave; 0 if a block has no factor.

        Blocks have m/n of the rows of `block_size`, cut by `partitioner`, and a margin of the rows most correlated
        with any of these, as many as `overlap` says.
        """
        m = self._probe.n
        partition = partitioner(self._probe.inputs, max(2, round(block_size * m / self._n)))
        order = partition.order.numpy(force=True)
        k, r = self._k[order[:, None], order], self._r[order]
        norms = np.linalg.norm(r, axis=0).clip(TINY)
        for start, end in pairwise(partition.starts):
            near = k[start:end].max(0)
            near[start:end] = np.inf
            size = min(m, end - start + int(overlap * (end - start)))
            rows = np.argpartition(-near, size - 1)[:size]
            of_rows = k[rows]
            try:
                np.linalg.cholesky(of_rows[:, rows])  # fails where rounding hides the noise, which `solve` does not see
                weights = np.linalg.solve(of_rows[:, rows], r[rows])
            except np.linalg.LinAlgError:
                return 0.0
            r -= of_rows.T @ weights
        return float((np.linalg.norm(r, axis=0) / norms).mean())

    @cached_property
    def correlation(self) -> float:
        """Mean of k(x, z)/max k(x, x) over the rows."""
        return float(self._k.mean()) / self._probe.largest_signal

    @cached_property
    def neighbours(self) -> float:
        """Sum of squared correlations of a row with the others, on average: the variance of the eigenvalues."""
        off_diagonal = self._k - np.diag(self._k.diagonal())
        return float(np.square(off_diagonal).sum()) / len(self._k) / self._probe.largest_signal**2

    @cached_property
    def _k(self) -> FloatArray:
        return _array(self._probe.block(slice(0, self._probe.n)))

    @cached_property
    def _low_rank(self) -> FloatArray | None:
        """Return the (rank, m) part of Woodbury's formula, up to a factor 1/σ², whose first rows are a lower rank's.

        None where rounding hides the noise, so that rehearsals say nothing.
        """
        signal = self._k.copy()
        np.fill_diagonal(signal, _array(self._probe.signal()))
        weighted = self._weight * with_random_pivots(signal, self._rank, self._seed)
        inside = weighted.T @ (weighted / self._weight) + self._probe.noise * np.eye(weighted.shape[1])
        try:
            found: FloatArray = np.linalg.solve(np.linalg.cholesky(inside), weighted.T)
        except np.linalg.LinAlgError:
            return None
        return found


def _array(of: Tensor) -> FloatArray:
    found: FloatArray = of.double().cpu().numpy()
    return found


def with_random_pivots(k: FloatArray, rank: int, seed: int) -> FloatArray:
    """Return the (m, rank) columns of a Cholesky factor of a dense k (m, m) at random pivots, fewer if k has less rank.

    The law of `apviz.RandomlyPivotedCholesky`, which draws many pivots at once; for a few hundred rows one at a time
    is faster.
    """
    draws = np.random.default_rng(seed).random(rank)
    left, rows = k.diagonal().copy(), np.zeros((rank, len(k)))
    rounding = 4 * np.finfo(k.dtype).eps * left.max()
    for taken, draw in enumerate(draws):
        below = left.cumsum()
        pivot = int(below.searchsorted(draw * below[-1], side="right"))
        if left[pivot] <= rounding * (taken + 1):
            return rows[:taken].T
        new = (k[pivot] - rows[:taken, pivot] @ rows[:taken]) / math.sqrt(left[pivot])
        rows[taken] = new
        left -= new * new
        np.maximum(left, 0.0, out=left)
        left[pivot] = 0.0
    return rows.T


class Plan(NamedTuple):
    """CG with a preconditioner of some rank, 0 for none: estimates of its iterations and its total work."""

    rank: int
    iterations: float
    work: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Rehearsals:
    """Rehearsals of CG on a few rows, and first on half of these, which often decide.

    Half of the rows take a third of the time. If CG costs too much even there, it does on all rows, because more rows
    take more iterations; and few iterations are few on any number of rows.

    Args:
        b, seed: as in `Rehearsal`.
        rank: the largest rank of preconditioners.
        rows: rows of the rehearsal.
        is_short: whether the solve takes so few seconds that half of the rows decide.
    """

    operator: Operator
    b: Tensor | None
    rank: int
    rows: int
    seed: int
    is_short: bool = False

    def cheapest(self, ranks: Sequence[int], tol: float, columns: int, work: float) -> Plan | None:
        """Find the rank with the least expected cost of CG, or None if it would cost more than `work`.

        If much of k is so local that few rows do not show it, CG on all rows takes more iterations. The growth from
        half of the rows to these predicts the increase.

        Args:
            ranks: ranks to try, in this order; if the first costs too much, no other is tried but 0.
            tol: target share of the residual.
        """
        operator = self.operator
        plan: Plan | None = operator.layout.agreed(self._cheapest_on_half(ranks, tol, columns, work))
        if plan is None or operator.layout.agreed(self._hides_neighbours):
            return None
        most = self._affordable(columns, plan.rank, work)
        if plan.iterations <= most / (SURE if plan.rank else SURE_ALONE):
            return plan
        if self.is_short and operator.layout.agreed(self.correlation) > FAR:
            return plan if plan.iterations <= most / SURE_IF_SHORT else None
        needed = self._whole.iterations(plan.rank, tol, most)
        if needed is not None and operator.n > self.rows and needed > most / SURE:
            needed *= growth(needed, plan.iterations, operator.n / self.rows)
        needed = operator.layout.agreed(needed if needed is not None and needed <= most else None)
        return None if needed is None else self._plan(columns, plan.rank, needed)

    def _cheapest_on_half(self, ranks: Sequence[int], tol: float, columns: int, work: float) -> Plan | None:
        best: Plan | None = None
        alone = self._half.iterations(0, tol, FEW) if 0 in ranks else None
        if alone is not None and alone <= self._affordable(columns, 0, work) / SURE_ALONE:
            return self._plan(columns, 0, alone)
        for rank in ranks:
            if rank and best is None and rank != ranks[0]:
                continue
            most = self._affordable(columns, rank, work if best is None else best.work)
            needed = self._half.iterations(rank, tol, most) if most > 0 else None
            if needed is not None and needed <= most:
                best = self._plan(columns, rank, needed)
        return best

    def may_be_cheaper(self, tol: float, columns: int, work: float) -> bool:
        """Test whether `cheaper_than_slow` may find a plan of less than `work`, by half of the rows."""
        within = NEARLY if self._has_many_vectors(work) else 1.0
        most = within * self._affordable(columns, self.rank, work)
        return self._half.iterations(self.rank, tol, most) is not None

    def cheaper_than_slow(self, tol: float, columns: int, work: float, flop: float) -> Plan | None:
        """Find the cheaper of CG with the rank of these rehearsals and with many vectors; None if above `work`.

        For kernels that are not local: iterations grow little with the rows.

        Args:
            flop: work that takes as long as a flop of a factorisation.
        """
        operator, best = self.operator, None
        if not self.may_be_cheaper(tol, columns, work):
            return None
        for rank in (self.rank, MANY_VECTORS) if self._has_many_vectors(work) else (self.rank,):
            _, each = work_of_iterations(operator, columns, rank)
            others = PASS + VECTOR_FLOPS * rank**2 * operator.n * flop
            most = max(0.0, (work if best is None else best.work) - others) / (UNDERESTIMATED * each)
            needed = self._of_rank(rank).iterations(rank, tol, most)
            if needed is not None:
                best = Plan(rank, UNDERESTIMATED * needed, others + each * UNDERESTIMATED * needed)
        return best

    @property
    def _hides_neighbours(self) -> bool:
        """Whether half of the rows have hardly a neighbour, so that K looks diagonal, and all rows have.

        With much noise iterations are few with neighbours too.
        """
        if self.operator.noise > MUCH_NOISE * self.operator.largest_signal:
            return False
        on_half = self._half.neighbours
        return on_half < NEIGHBOURS <= on_half * self.operator.n / max(1, self.rows // 2)

    def _affordable(self, columns: int, rank: int, work: float) -> float:
        return affordable_iterations(self.operator, columns, rank, work)

    def _plan(self, columns: int, rank: int, iterations: float) -> Plan:
        return Plan(rank, iterations, work_of(self.operator, columns, rank, iterations))

    def _has_many_vectors(self, work: float) -> bool:
        return self.operator.n >= LARGE and work >= MUCH_WORK and 2 * self.rank <= MANY_VECTORS

    def _of_rank(self, rank: int) -> Rehearsal:
        if rank <= self.rank:
            return self._whole
        return Rehearsal(self.operator, self.b, rank, ROWS_PER_VECTOR * rank, self.seed)

    @cached_property
    def correlation(self) -> float:
        """Mean correlation of two rows, near 0 if k is local: then blocks of neighbours see all of it."""
        return self._half.correlation

    @cached_property
    def _half(self) -> Rehearsal:
        return Rehearsal(self.operator, self.b, self.rank, self.rows // 2, self.seed)

    @cached_property
    def _whole(self) -> Rehearsal:
        return Rehearsal(self.operator, self.b, self.rank, self.rows, self.seed)


def growth(needed: float, of_half: float | None, times: float) -> float:
    """Return the growth factor, at least 1, of iterations on `times` as many rows, from half of the rows to these.

    `needed` and `of_half` are those on the rows of a rehearsal and on half of them; None: not known.
    """
    doubling = 1.0 if of_half is None else (needed + FEW) / (of_half + FEW)
    return float(max(1.0, doubling) ** math.log2(max(times, 1.0)))


def affordable_iterations(operator: Operator, columns: int, rank: int, work: float) -> float:
    """Return the iterations of CG with a low-rank preconditioner that cost no more than `work`, with a last pass."""
    setup, each = work_of_iterations(operator, columns, rank)
    return max(0.0, (work - setup - PASS) / each)


def work_of(operator: Operator, columns: int, rank: int, iterations: float) -> float:
    """Return the work of `iterations` of CG with a low-rank preconditioner, including set-up and last pass."""
    setup, each = work_of_iterations(operator, columns, rank)
    return setup + PASS + each * iterations
