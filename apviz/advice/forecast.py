"""Forecasts of work, seconds and memory of a solve, from rehearsals on pilot systems and measured costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from apviz.advice.pilots import Rehearsal, growth_to
from apviz.operators import Operator
from apviz.preconditioners import TwoLevelSchwarz
from apviz.solvers import (
    AlternatingProjection,
    Automatic,
    Cholesky,
    ConjugateGradient,
    Solver,
    StopReason,
    overlapping,
)
from apviz.solvers.choosing.costs import UNREHEARSED, CostModel, memory_of_blocks, of_factor, predicted, usual_work

#: Share of the growth of log epochs between pilot systems that continues to all rows: likely, least, most. NONE: epochs
#: of overlapping blocks do not grow. SOME: low rank leaves less growth. MOST: two-level Schwarz keeps nearly all of it.
NONE, SOME, MOST = (0.0, 0.0, 0.3), (0.5, 0.1, 1.0), (0.85, 0.5, 1.1)
#: factor of uncertainty of seconds and work in either direction: 19 of 20 iterative solves of `benchmarks.advisor` are
#: within it; for Cholesky and coloured projections it is a guess
SPREAD: Final = 2.0
#: chance, a guess, that coloured projections converge within the usual number of sweeps, or an untested solve at all
CHANCE_OF_SWEEPS = 0.9
#: Seconds of an untested solve ÷ its usual ones: likely, least, most. All 43 of `benchmarks/results/advisor_brief.json`
#: were within it. The usual work counts seconds; about OF_ENTRIES of it are entries.
USUAL, OF_ENTRIES = (1.0, 0.4, 4.0), 0.55
#: work of a Cholesky factorisation: its entries and a pass
WORK_OF_FACTOR: Final = 2.0
#: power of the rows by which epochs may grow or shrink if only one pilot system was solved
UNKNOWN: Final = 0.35


class Band(NamedTuple):
    """An uncertain number: the likely value, and a range that had 19 of 20 iterative solves of `benchmarks.advisor`."""

    likely: float
    low: float
    high: float

    @property
    def in_words(self) -> str:
        """Return the likely seconds in words."""
        return f"about {in_words(self.likely)}{' or more' if math.isinf(self.high) else ''}"

    def __format__(self, spec: str) -> str:
        if self.low == self.likely == self.high:
            return _digits(self.likely)
        high = " or more" if math.isinf(self.high) else f"–{_digits(self.high)}"
        return f"{_digits(self.likely)} ({_digits(self.low)}{high})"


@dataclass(frozen=True)
class Forecast:
    """Forecast cost of a method.

    Attributes:
        solver: the solver with `auto` settings resolved.
        seconds, work: totals. If the rehearsal was stopped, `likely` is from the epochs until then, and `high` is
            infinite; `likely` is no lower bound, because all rows may need fewer epochs.
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
        """Whether the rehearsal was finished, so that the numbers have an upper limit."""
        return math.isfinite(self.work.high)


def forecast(
    solver: Solver, operator: Operator, columns: int, costs: CostModel, half: Rehearsal, whole: Rehearsal | None = None
) -> Forecast:
    """Forecast a solve by a `solver` without `auto` from rehearsals on one or two pilot systems.

    Args:
        half: rehearsal on the smaller pilot system.
        whole: rehearsal on the larger one; None: the growth of epochs with the rows is not known.
    """
    n, last = operator.n, whole or half
    growth = growth_to(n, half, whole) if whole else 1.0
    unknown = 1.0 if whole else (n / half.rows) ** UNKNOWN
    passes = max(1, last.passes)
    per_epoch = last.projected / max(last.epochs, 1)
    cost = predicted(solver, operator, columns, costs, per_epoch)
    assert cost is not None
    bands = []
    for share, sureness in zip(_shares(solver), (0.0, -1.0, 1.0), strict=True):
        epochs = last.epochs * growth**share * unknown**sureness
        bands.append((cost.seconds(epochs, passes), cost.setup_work + passes + epochs * per_epoch))
    seconds = Band(bands[0][0], bands[1][0] / SPREAD, bands[2][0] * SPREAD)
    work_band = Band(bands[0][1], bands[1][1] / SPREAD, bands[2][1] * SPREAD)
    if not last.converged:
        seconds, work_band = (each._replace(high=math.inf) for each in (seconds, work_band))
    return Forecast(
        solver, seconds, work_band, cost.memory, _chance(solver, last, growth), _reason(solver, last, growth)
    )


def without_rehearsal(solver: Solver, operator: Operator, columns: int, costs: CostModel) -> Forecast | None:
    """Forecast a method from the cost model alone; None if it needs a rehearsal, or has no Fourier products."""
    cost = predicted(solver, operator, columns, costs) if solver.name in UNREHEARSED else None
    if cost is None:
        return None
    seconds = cost.seconds()
    band = Band(seconds, seconds / SPREAD, seconds * SPREAD)
    if isinstance(solver, Cholesky):
        why = f"factors the {operator.n:,} × {operator.n:,} matrix once"
        return Forecast(solver, band, Band(*[WORK_OF_FACTOR] * 3), cost.memory, 0.99, why)
    work = Band(*(each / (operator.n**2 * operator.seconds_of_entry(columns)) for each in band))
    why = f"{cost.epochs:.1f} sweeps of {in_words(cost.epoch)}, each a few products whose cost grows with n"
    return Forecast(solver, band, work, cost.memory, CHANCE_OF_SWEEPS, why)


def untested(auto: Automatic, operator: Operator, columns: int, costs: CostModel) -> Forecast:
    """Forecast `auto` by what it usually takes, where a test of a method would take too long."""
    work = usual_work(operator.n, auto.tol)
    likely, low, high = (work * costs.work * each for each in USUAL)
    why = "as usual for as many rows; nothing was tested, as a test takes longer than a tenth of the solve"
    counted = Band(*(OF_ENTRIES * work * each for each in USUAL))
    memory = memory_of_blocks(overlapping(tol=auto.tol).resolve(operator, columns)[0], operator, columns)
    factor = of_factor(operator, costs)
    if factor.seconds() <= likely:  # then `auto` may factor K
        counted, memory = counted._replace(low=min(WORK_OF_FACTOR, counted.low)), max(memory, factor.memory)
    return Forecast(auto, Band(likely, low, high), counted, memory, CHANCE_OF_SWEEPS, why)


def in_words(seconds: float) -> str:
    """Format seconds for people."""
    if seconds < 90:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"


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
        return f"on {whole.rows:,} rows it {whole.reason} at residual {whole.residual:.2g}"
    if whole.reason is StopReason.MAX_EPOCHS:
        return f"on {whole.rows:,} rows the limit of {took} left a residual of {whole.residual:.2g}"
    if not whole.converged:
        return (
            f"on {whole.rows:,} rows {took} left a residual of {whole.residual:.2g}; stopped there, as others need less"
        )
    found = f"{took} on {whole.rows:,} rows"
    growth **= _shares(solver)[0]
    return found if growth < 1.05 else f"{found}, about {whole.epochs * growth:,.0f} on all rows"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"
