"""Forecasts of work, seconds and memory of a solve, from rehearsals on pilot systems and measured costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from apviz.advice.cost_model import CALLS, CostModel
from apviz.advice.pilots import Rehearsal, growth_to
from apviz.operators import Operator
from apviz.partitions import overlap_of
from apviz.preconditioners import TwoLevelSchwarz
from apviz.settings import chosen
from apviz.solvers import AlternatingProjection, Cholesky, ColouredProjection, ConjugateGradient, Solver, StopReason
from apviz.solvers.coloured_cost import expected

#: Share of the growth of log epochs between pilot systems that continues to all rows: likely, least, most. NONE: epochs
#: of overlapping blocks do not grow. SOME: low rank leaves less growth. MOST: two-level Schwarz keeps nearly all of it.
NONE, SOME, MOST = (0.0, 0.0, 0.3), (0.5, 0.1, 1.0), (0.85, 0.5, 1.1)
#: factor of uncertainty of seconds and work in either direction: 19 of 20 iterative solves of `benchmarks.advisor` are
#: within it; for Cholesky it is a guess
SPREAD: Final = 2.0
#: the same for coloured projections, and the chance that they converge within the usual number of sweeps
SPREAD_OF_SWEEPS, CHANCE_OF_SWEEPS = 2.0, 0.9
#: power of the rows by which epochs may grow or shrink if only one pilot system was solved
UNKNOWN: Final = 0.15
#: number of rows of the measured factor from which the cost for all rows is scaled
PRICED_ROWS: Final = 1_000
#: bytes of the solver's own arrays of n·(l+1): weights, right-hand sides and residuals in float64 and in its dtype
VECTORS: Final = 5 * 8
#: arrays of n·rank numbers that a low-rank set-up holds at once: the factor, its transpose, its basis, and in float64
LOW_RANK_ARRAYS: Final = 7
#: share of an epoch's work that remains with skeletons (`apviz.solvers.automatic`)
SKELETONS: Final = 0.65


class Band(NamedTuple):
    """An uncertain number: the likely value, and a range that had 19 of 20 iterative solves of `benchmarks.advisor`."""

    likely: float
    low: float
    high: float

    def at_least(self) -> Band:
        """Return a lower bound: the same likely value, without an upper limit."""
        return Band(self.likely, self.likely, math.inf)

    def __format__(self, spec: str) -> str:
        return f"{_digits(self.likely)} ({_digits(self.low)}–{_digits(self.high)})"


@dataclass(frozen=True)
class Forecast:
    """Forecast cost of a method.

    Attributes:
        solver: the solver with `auto` settings resolved.
        seconds, work: totals. If the rehearsal was stopped, they are lower bounds and `high` is infinite.
        memory: bytes in addition to the data.
        chance: estimated probability of reaching the tolerance within the epoch limit, 0 to 1.
        reason: explanation of the numbers in one sentence.
    """

    solver: Solver
    seconds: Band
    work: Band
    memory: float
    chance: float
    reason: str

    @property
    def is_bounded(self) -> bool:
        """Whether the rehearsal was finished, so that the numbers are more than lower bounds."""
        return math.isfinite(self.work.high)

    def at_least(self, why: str) -> Forecast:
        """Return a lower bound: the same likely value, without an upper limit."""
        seconds, work = self.seconds.at_least(), self.work.at_least()
        return replace(self, seconds=seconds, work=work, reason=f"{self.reason}; {why}")


class Parts(NamedTuple):
    """Costs of a method: seconds of set-up and of an epoch, bytes in addition to the data, work of the set-up."""

    setup: float
    epoch: float
    memory: float
    setup_work: float


#: methods whose costs are known from prices alone
UNREHEARSED: Final = (Cholesky, ColouredProjection)


def forecast(
    solver: Solver, operator: Operator, columns: int, costs: CostModel, half: Rehearsal, whole: Rehearsal | None = None
) -> Forecast:
    """Forecast a solve by a `solver` without `auto` from rehearsals on one or two pilot systems.

    Args:
        half: rehearsal on the smaller pilot system.
        whole: rehearsal on the larger one; None: the growth of epochs with the rows is not known.
    """
    n, last = operator.n, whole or half
    parts = PARTS[type(solver)](solver, operator, columns, costs, last)
    growth = growth_to(n, half, whole) if whole else 1.0
    unknown = 1.0 if whole else (n / half.rows) ** UNKNOWN
    passes = max(1, last.passes)
    per_epoch = last.projected / max(last.epochs, 1)
    bands = []
    for share, sureness in zip(_shares(solver), (0.0, -1.0, 1.0), strict=True):
        epochs = last.epochs * growth**share * unknown**sureness
        work = parts.setup_work + passes + epochs * per_epoch
        bands.append((parts.setup + passes * n**2 * costs.entry_of_pass + epochs * parts.epoch, work))
    seconds = Band(bands[0][0], bands[1][0] / SPREAD, bands[2][0] * SPREAD)
    work_band = Band(bands[0][1], bands[1][1] / SPREAD, bands[2][1] * SPREAD)
    if not last.converged:
        seconds, work_band = (each.at_least() for each in (seconds, work_band))
    return Forecast(
        solver, seconds, work_band, parts.memory, _chance(solver, last, growth), _reason(solver, last, growth)
    )


def direct(solver: Cholesky, operator: Operator, costs: CostModel) -> Forecast:
    """Forecast a factorisation, which needs no rehearsal."""
    n, some = operator.n, min(operator.n, PRICED_ROWS)
    factoring = costs.block(some) * (n / some) ** 3
    seconds = factoring + n**2 * costs.entry_of_pass + costs.projection(some) * (n / some) ** 2
    why = f"one factor of all {n:,} rows, with about n³ multiplications and three n × n arrays"
    band = Band(seconds, seconds / SPREAD, seconds * SPREAD)
    return Forecast(solver, band, Band(2.0, 2.0, 2.0), memory_of_a_factor(operator), 0.99, why)


def without_rehearsal(solver: Solver, operator: Operator, columns: int, costs: CostModel) -> Forecast | None:
    """Forecast a method from the cost model alone; None if it needs a rehearsal, or has no Fourier products."""
    if isinstance(solver, ColouredProjection):
        return coloured(solver, operator, columns)
    return direct(solver, operator, costs) if isinstance(solver, Cholesky) else None


def coloured(solver: ColouredProjection, operator: Operator, columns: int) -> Forecast | None:
    """Forecast coloured projections, which need no rehearsal; None where there are no Fourier products."""
    found = expected(operator, columns, solver.tol)
    if found is None:
        return None
    work = found.seconds / (operator.n**2 * operator.seconds_of_entry(columns))
    why = f"{found.sweeps:.1f} sweeps of {in_words(found.sweep)}, each a few products whose cost grows with n"
    bands = [Band(each, each / SPREAD_OF_SWEEPS, each * SPREAD_OF_SWEEPS) for each in (found.seconds, work)]
    return Forecast(solver, bands[0], bands[1], found.memory, CHANCE_OF_SWEEPS, why)


def memory_of_a_factor(operator: Operator) -> float:
    """Return the bytes of a factorisation of all rows."""
    return 3.0 * operator.n**2 * operator.x.element_size()


def in_words(seconds: float) -> str:
    """Format seconds for people."""
    if seconds < 90:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"


def _of_projections(
    solver: AlternatingProjection, operator: Operator, columns: int, costs: CostModel, whole: Rehearsal
) -> Parts:
    n, item = operator.n, operator.x.element_size()
    if solver.precision.recursion == "float32":
        costs, item = costs.in_float32, 4
    b, history = _whole(solver.block_size), _whole(solver.step.length)
    overlap = float(chosen("overlap", overlap_of(solver.partition)))
    solved = min(n, round(b * (1 + overlap)))
    blocks = math.ceil(n / b)
    update = costs.projection(solved) + (costs.history(history) if history else 0.0) + CALLS
    entries = whole.projected / max(whole.epochs, 1) * n**2 * costs.entry
    if _whole(solver.columns.rank):
        entries *= SKELETONS
    kept = 2 if solver.precision.factors == "float16" else item
    memory = kept * n * b * (1 + overlap) ** 2 / 2 + item * n * columns * history + VECTORS * n * columns
    memory += item * n * (1 + overlap) * _whole(solver.columns.rank)
    return Parts(blocks * costs.block(solved), blocks * update + entries, memory, blocks * solved**2 / n**2)


def _of_iterations(
    solver: ConjugateGradient, operator: Operator, columns: int, costs: CostModel, whole: Rehearsal
) -> Parts:
    n, item = operator.n, operator.x.element_size()
    product = n**2 * costs.entry_of_matmul
    memory: float = VECTORS * n * columns
    setup = apply = work = 0.0
    inner: Any = solver.preconditioner
    if inner is None:
        return Parts(0.0, product, memory, 0.0)
    rank = _whole(getattr(inner, "rank", getattr(inner, "coarse_rank", 0)))
    if rank:
        setup += n * rank * costs.entry + BASES * costs.span(rank)
        apply += costs.low_rank(rank) * (2 if isinstance(inner, TwoLevelSchwarz) else 1)
        memory += LOW_RANK_ARRAYS * n * rank * item
        work += rank / n
    if isinstance(inner, TwoLevelSchwarz):
        b, overlap = _whole(inner.block_size), float(chosen("overlap", overlap_of(inner.partition)))
        solved = min(n, round(b * (1 + overlap)))
        blocks = math.ceil(n / b)
        setup += blocks * costs.block(solved)
        apply += blocks * (costs.projection(solved) + CALLS / 10)
        memory += item * n * b * (1 + overlap) ** 2 / 2
        work += blocks * solved**2 / n**2
    return Parts(setup, product + apply, memory, work)


#: orthonormal bases that a low-rank set-up costs, its factor and its inverse included
BASES: Final = 3.0
PARTS: Final[dict[type[Solver], Callable[..., Parts]]] = {
    AlternatingProjection: _of_projections,
    ConjugateGradient: _of_iterations,
}


def _shares(solver: Any) -> tuple[float, float, float]:
    if isinstance(solver, AlternatingProjection):
        return NONE
    return MOST if isinstance(solver.preconditioner, TwoLevelSchwarz) else SOME


def _chance(solver: Any, whole: Rehearsal, growth: float) -> float:
    """Return the probability that log-normal epochs are below the limit; small if the rehearsal failed."""
    if whole.reason in (StopReason.STAGNATED, StopReason.DIVERGED):
        return 0.05
    if whole.reason is StopReason.MAX_EPOCHS:
        return 0.02
    expected = whole.epochs * growth ** _shares(solver)[0]
    spread = math.log(1.2) + 0.3 * math.log(growth)
    below = 0.5 * (1 + math.erf(math.log(solver.max_epochs / max(expected, 1e-9)) / (spread * 2**0.5)))
    return min(0.99, below) if whole.converged else min(0.5, below)


def _reason(solver: Solver, whole: Rehearsal, growth: float) -> str:
    unit = "iteration" if isinstance(solver, ConjugateGradient) else "epoch"
    took = f"{whole.epochs:,.0f} {unit}{'' if round(whole.epochs) == 1 else 's'}"
    if whole.reason in (StopReason.STAGNATED, StopReason.DIVERGED):
        return f"on {whole.rows:,} rows it {whole.reason} at residual {whole.residual:.1e}"
    if whole.reason is StopReason.MAX_EPOCHS:
        return f"on {whole.rows:,} rows the limit of {took} left a residual of {whole.residual:.1e}"
    if not whole.converged:
        return (
            f"on {whole.rows:,} rows {took} left a residual of {whole.residual:.1e}; stopped there, as others need less"
        )
    found = f"{took} on {whole.rows:,} rows"
    growth **= _shares(solver)[0]
    return found if growth < 1.05 else f"{found}, about {whole.epochs * growth:,.0f} on all rows"


def _whole(value: Any) -> int:
    assert not isinstance(value, str)  # `auto` is resolved
    return int(value or 0)


def _digits(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
