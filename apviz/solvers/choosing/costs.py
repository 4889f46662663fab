"""Predicted seconds, work and memory of each method, before anything is built.

`auto` takes the smallest prediction, the advisor puts rehearsed epochs into it, and the progress line reads what the
advisor forecast. The seconds of entries, factors and products are measured on this machine; the few constants were
fitted to solves (`benchmarks/notes.md`, `benchmarks/results/maps.json`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from apviz.factors import cholesky_with_jitter
from apviz.operators import Operator
from apviz.operators.fourier.engine import LEAST_ROWS, with_fourier_products
from apviz.partitions import overlap_of
from apviz.preconditioners import TwoLevelSchwarz
from apviz.settings import chosen
from apviz.solvers.measuring.residuals import SAMPLED_ROWS

if TYPE_CHECKING:
    from apviz.solvers.conjugate_gradient import ConjugateGradient
    from apviz.solvers.interface import Solver
    from apviz.solvers.projection import AlternatingProjection

#: Usual work of overlapping projections: a constant with the set-up, and the work for each factor of ten in the
#: residual (`benchmarks/results/chooser.json`); share of it with skeletons, from SKELETON_ROWS rows.
USUAL_WORK, WORK_PER_DIGIT, SKELETON_WORK = 2.5, 3.3, 0.65
#: Skeletons save seconds from this number of rows; from 8,000 rows they save work (`benchmarks/notes.md`).
SKELETON_ROWS: Final = 30_000
#: Work of a low-rank preconditioner of rank r: LOW_RANK + LOW_RANK_FLOPS·r²/n, and 2r/n for each application.
LOW_RANK, LOW_RANK_FLOPS = 0.1, 0.1
#: arrays of n·rank numbers that a low-rank set-up holds at once: the factor, its transpose, its basis, and in float64
LOW_RANK_ARRAYS: Final = 7
#: rows of the timed Cholesky factor
FACTORED_ROWS: Final = 1_000
#: n × n arrays that a Cholesky factorisation of K holds at its peak
FACTOR_ARRAYS: Final = 3
#: bytes of a solver's own arrays of n·(l+1): weights, right-hand sides and residuals in float64 and in its dtype
VECTORS: Final = 5 * 8
#: seconds of an update in addition to its arithmetic, for calls from Python
CALLS = 3e-4
#: Coloured projections: seconds of a set-up, a constant for the series and each row's share of partition and solves
SETUP, SETUP_OF_ROW = 2.5, 50e-6
#: a sweep, and a pass in float64, in products of float32
SWEEP, PASS = 3.3, 5.0
#: usual sweeps: the first, and those for each factor of ten in the residual; such factors until another pass is due
FIRST, PER_DIGIT, DIGITS_OF_PASS = 1.0, 0.8, 2.0
#: bytes of a row: its parts of local solves, transforms and near neighbours; and of a frequency in float64
BYTES_OF_ROW, BYTES_OF_MODE = 1600.0, 150.0

P = ParamSpec("P")


@dataclass(frozen=True)
class Cost:
    """What a method costs.

    Args:
        setup, epoch, passed: seconds of the set-up, of an epoch or iteration, and of a pass.
        memory: bytes in addition to the data.
        setup_work: work of the set-up.
        epochs, passes: their usual numbers, of methods whose numbers are known without a rehearsal.
    """

    setup: float
    epoch: float
    passed: float
    memory: float
    setup_work: float = 0.0
    epochs: float = 1.0
    passes: int = 1

    def seconds(self, epochs: float | None = None, passes: int | None = None) -> float:
        """Return the seconds of a solve, of the usual numbers of epochs and passes unless they are given."""
        epochs, passes = self.epochs if epochs is None else epochs, self.passes if passes is None else passes
        return self.setup + epochs * self.epoch + passes * self.passed


# --- what is measured -----------------------------------------------------------------------------------------------

#: limits of the longest timing: its share of n² entries, its largest number of entries, its smallest number of rows
SHARE, MOST_ENTRIES, TIMED_ROWS = 0.02, 4e6, 16
#: seconds after which a timing is not repeated, and its most repeats: threads wake, and other processes disturb it
TIMED_SECONDS, MOST_REPEATS = 0.02, 5
#: seconds of a timing in which a coarse clock does not move
CLOCK = 1e-7
#: seconds until costs are measured again, because the load of the machine changes
KEPT_SECONDS = 600.0


Measure = Callable[Concatenate[Any, P], float]


def _kept(*, for_any: str) -> Callable[[Measure[P]], Measure[P]]:
    """Cache a cost, which is measured on first use in this process, for any `system`, or any `algebra`, of a kind."""

    def keeping(measure: Measure[P]) -> Measure[P]:
        @wraps(measure)
        def price(self: Any, *of: P.args, **named: P.kwargs) -> float:
            key = (self._kinds[for_any], measure.__name__, of)
            measured, seconds = CostModel._known.get(key, (0.0, 0.0))
            if not measured or time.monotonic() - measured > KEPT_SECONDS:
                seconds = measure(self, *of, **named)
                CostModel._known[key] = time.monotonic(), seconds
            return seconds

        return price  # type: ignore[return-value]  # `wraps` forgets that self has no name

    return keeping


class CostModel:
    """Seconds of the parts of a solve, each measured on few rows on first use, by the clock `seconds`.

    Costs are cached for ten minutes in this process, for systems with kernels of the same form, and the same rows,
    inputs, right-hand sides, dtype, engine and device; those of factors and solves with them for any system with the
    same right-hand sides, dtype and device. Another tolerance, noise or lengthscale needs no measurements.
    """

    _known: ClassVar[dict[Hashable, tuple[float, float]]] = {}

    def __init__(self, operator: Operator, columns: int, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._operator, self._columns, self._seconds = operator, columns, seconds
        x = operator.x
        algebra = (x.dtype, str(x.device), columns, torch.get_num_threads(), seconds)
        system = (*algebra, operator.formula.structure, operator.engine, tuple(x.shape))
        self._kinds = {"algebra": algebra, "system": system}

    @classmethod
    def forget(cls) -> None:
        """Clear the cache, so that all costs are measured again."""
        cls._known.clear()

    @cached_property
    def in_float32(self) -> CostModel:
        """Costs for the same kernel in float32."""
        return self.in_dtype(torch.float32)

    def in_dtype(self, dtype: torch.dtype) -> CostModel:
        """Return the costs for the same kernel in another dtype."""
        if self._operator.x.dtype == dtype:
            return self
        return CostModel(self._operator.in_dtype(dtype), self._columns, self._seconds)

    def of_columns(self, columns: int) -> CostModel:
        """Return the costs for another number of right-hand sides."""
        return CostModel(self._operator, columns, self._seconds)

    @property
    def work(self) -> float:
        """Seconds of 1.0 work: n² entries of K in products with some of its columns."""
        return self._operator.n**2 * self.entry

    @property
    @_kept(for_any="system")
    def entry(self) -> float:
        """Seconds of an entry of K in a product with some of its columns."""
        if self._operator.x.dtype == torch.float64:
            return self.entry_of_pass
        # float32 takes no longer than float64; a timing that says so was disturbed by other processes
        return min(self._of_columns(self._operator, self._operator.x.dtype), self.entry_of_pass)

    @property
    @_kept(for_any="system")
    def entry_of_pass(self) -> float:
        """Seconds of an entry of K in float64, as in a pass; one measurement for both dtypes."""
        if self._operator.x.dtype != torch.float64:
            return self.in_dtype(torch.float64).entry_of_pass
        return self._of_columns(self._operator.exact(), torch.float64)

    @property
    @_kept(for_any="algebra")
    def flop(self) -> float:
        """Seconds of a flop of a Cholesky factorisation."""
        k = torch.eye(FACTORED_ROWS).to(self._operator.x)
        return self._least(lambda: torch.linalg.cholesky_ex(k)) / (FACTORED_ROWS**3 / 3)

    @_kept(for_any="system")
    def block(self, rows: int) -> float:
        """Measure the entries and the factor of a block with this number of solved rows."""
        some = slice(0, min(rows, self._operator.n))
        scale = self._operator.largest_signal + self._operator.noise
        return self._least(lambda: cholesky_with_jitter(self._operator.block(some), "a block", scale))

    @_kept(for_any="algebra")
    def projection(self, rows: int) -> float:
        """Measure a solve with the factor of a block of this number of rows."""
        factor, r = torch.eye(rows).to(self._operator.x), self._like(rows)
        return self._least(lambda: torch.cholesky_solve(r, factor))

    @_kept(for_any="system")
    def history(self, length: int) -> float:
        """Measure a step along this number of past updates."""
        rows = min(self._operator.n, 20_000)
        r = self._like(rows)
        images, taken = r.expand(length, -1, -1).contiguous(), self._like(length)
        return self._least(lambda: self._operator.subtract_combination_(r, images, taken)) * self._operator.n / rows

    def _of_columns(self, operator: Operator, dtype: torch.dtype) -> float:
        n = operator.n
        rows = min(n, max(TIMED_ROWS, round(min(SHARE * n, MOST_ENTRIES / n))))
        u = self._like(rows).to(dtype)
        return self._least(lambda: operator.columns_matmul(slice(0, rows), u)) / (n * rows)

    def _like(self, rows: int) -> Tensor:
        return torch.randn(rows, self._columns, generator=torch.Generator().manual_seed(0)).to(self._operator.x)

    def _least(self, act: Callable[[], object]) -> float:
        """Time an act, several times if it is short, and return the least time."""
        found = list[float]()
        while len(found) < MOST_REPEATS and sum(found) < TIMED_SECONDS:
            if self._operator.x.is_cuda:
                torch.cuda.synchronize()
            began = self._seconds()
            act()
            if self._operator.x.is_cuda:
                torch.cuda.synchronize()
            found.append(self._seconds() - began)
        return max(min(found), CLOCK)


# --- methods ----------------------------------------------------------------------------------------------------------


def usual_work(n: int, reduction: float) -> float:
    """Return the usual work of overlapping projections that lower the residual to this share, set-up included."""
    usual = USUAL_WORK + WORK_PER_DIGIT * math.log10(1 / reduction)
    return usual * SKELETON_WORK if n >= SKELETON_ROWS else usual


def work_of_iterations(operator: Operator, columns: int, rank: int) -> tuple[float, float]:
    """Return the work of the set-up of CG with a preconditioner of this rank, and of an iteration, by time."""
    n = operator.n
    setup = LOW_RANK + LOW_RANK_FLOPS * rank**2 / n if rank else 0.0
    return setup, operator.matmul_price(columns) + 2.0 * rank / n


def memory_of_a_factor(operator: Operator) -> float:
    """Return the bytes of a Cholesky factorisation of K at its peak."""
    return float(FACTOR_ARRAYS * operator.n**2 * operator.x.element_size())


def of_factor(operator: Operator, costs: CostModel) -> Cost:
    """Predict the cost of a Cholesky factorisation: n² entries, n³/3 flops, a solve and a pass."""
    n, some = operator.n, min(operator.n, FACTORED_ROWS)
    return Cost(
        setup=costs.work + n**3 / 3 * costs.flop, epoch=costs.projection(some) * (n / some) ** 2,
        passed=n**2 * costs.entry_of_pass, memory=memory_of_a_factor(operator), setup_work=1.0,
    )  # fmt: skip


def of_sweeps(operator: Operator, columns: int, tol: float) -> Cost | None:
    """Predict the cost of coloured projections with Fourier products; None where there are no such products.

    One product is timed. The rest is a few products and a price per row, measured on maps and survey data from 100,000
    to 1,000,000 rows.
    """
    if operator.n < LEAST_ROWS:
        return None
    known = _SWEEPS.setdefault(operator, {})
    if columns not in known:
        known[columns] = _timed_product(operator, columns)
    if (found := known[columns]) is None:
        return None
    (product, entry, modes), digits = found, math.log10(1.0 / tol)
    # a pass compares some rows of two products with exact ones
    return Cost(
        setup=SETUP + SETUP_OF_ROW * operator.n, epoch=SWEEP * product,
        passed=PASS * product + 2 * SAMPLED_ROWS * operator.n * entry,
        memory=BYTES_OF_ROW * operator.n + BYTES_OF_MODE * modes, epochs=FIRST + PER_DIGIT * digits,
        passes=max(1, math.ceil(digits / DIGITS_OF_PASS)),
    )  # fmt: skip


def _timed_product(operator: Operator, columns: int) -> tuple[float, float, int] | None:
    """Return the seconds of a Fourier product in float32 and of an exact entry, and the number of frequencies."""
    fourier = with_fourier_products(operator)
    if fourier is None:
        return None
    exact = operator.exact()
    exact.prepare()
    return fourier.seconds_of_product(columns), exact.seconds_of_entry(1), fourier.modes


#: timed products of operators that are in use, by the number of right-hand sides
_SWEEPS: WeakKeyDictionary[Operator, dict[int, tuple[float, float, int] | None]] = WeakKeyDictionary()


def of_blocks(solver: AlternatingProjection, operator: Operator, columns: int, costs: CostModel, work: float) -> Cost:
    """Predict the cost of alternating projection without `auto` settings, of this work an epoch."""
    n, passed = operator.n, operator.n**2 * costs.entry_of_pass
    if solver.precision.recursion == "float32":
        costs = costs.in_float32
    b, history, rank = (_whole(each) for each in (solver.block_size, solver.step.length, solver.columns.rank))
    overlap = float(chosen("overlap", overlap_of(solver.partition)))
    solved, blocks = min(n, round(b * (1 + overlap))), math.ceil(n / b)
    update = costs.projection(solved) + (costs.history(history) if history else 0.0) + CALLS
    return Cost(
        setup=blocks * costs.block(solved), epoch=blocks * update + work * costs.work * (SKELETON_WORK if rank else 1),
        passed=passed, memory=memory_of_blocks(solver, operator, columns), setup_work=blocks * solved**2 / n**2,
    )  # fmt: skip


def memory_of_blocks(solver: AlternatingProjection, operator: Operator, columns: int) -> float:
    """Return the bytes of alternating projection without `auto` settings: factors, history, skeletons and vectors."""
    n = operator.n
    item = 4 if solver.precision.recursion == "float32" else operator.x.element_size()
    b, history, rank = (_whole(each) for each in (solver.block_size, solver.step.length, solver.columns.rank))
    overlap = float(chosen("overlap", overlap_of(solver.partition)))
    kept = 2 if solver.precision.factors == "float16" else item
    memory = kept * n * b * (1 + overlap) ** 2 / 2 + item * n * columns * history + VECTORS * n * columns
    return memory + item * n * (1 + overlap) * rank


def of_iterations(
    solver: ConjugateGradient, operator: Operator, columns: int, costs: CostModel, work: float = 1.0
) -> Cost:
    """Predict the cost of conjugate gradients without `auto` settings."""
    n, item, inner = operator.n, operator.x.element_size(), solver.preconditioner
    rank = _whole(getattr(inner, "rank", getattr(inner, "coarse_rank", 0)))
    setup, each = (part * costs.work for part in work_of_iterations(operator, columns, rank))
    memory: float = VECTORS * n * columns + LOW_RANK_ARRAYS * n * rank * item
    done = rank / n
    if isinstance(inner, TwoLevelSchwarz):
        b, overlap = _whole(inner.block_size), float(chosen("overlap", overlap_of(inner.partition)))
        solved, blocks = min(n, round(b * (1 + overlap))), math.ceil(n / b)
        setup += blocks * costs.block(solved)
        each += blocks * (costs.projection(solved) + CALLS / 10)
        memory += item * n * b * (1 + overlap) ** 2 / 2
        done += blocks * solved**2 / n**2
    return Cost(setup, each, n**2 * costs.entry_of_pass, memory, done)


def predicted(solver: Solver, operator: Operator, columns: int, costs: CostModel, work: float = 1.0) -> Cost | None:
    """Predict what a solver without `auto` settings costs; None where it cannot be used.

    Args:
        work: work of an epoch of alternating projection, from a rehearsal.
    """
    return _METHODS[solver.name](solver, operator, columns, costs, work)


#: methods whose epochs a rehearsal counts, and those that need none, by their names
REHEARSED, UNREHEARSED = ("AlternatingProjection", "ConjugateGradient"), ("Cholesky", "ColouredProjection")
_METHODS: Final[dict[str, Callable[..., Cost | None]]] = {
    "AlternatingProjection": of_blocks,
    "ConjugateGradient": of_iterations,
    "Cholesky": lambda solver, operator, columns, costs, work: of_factor(operator, costs),
    "ColouredProjection": lambda solver, operator, columns, costs, work: of_sweeps(operator, columns, solver.tol),
}


def _whole(value: Any) -> int:
    assert not isinstance(value, str)  # `auto` is resolved
    return int(value or 0)
