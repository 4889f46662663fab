"""Rehearsals: every method on a small pilot system, and those that may be the best on a larger one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch

from apviz.advice.forecast import Forecast, forecast, without_rehearsal
from apviz.advice.pilots import MOST_SIDES, PilotSystem, Rehearsal
from apviz.solvers import Hook, Solver, StopReason
from apviz.solvers.choosing.costs import CostModel, predicted
from apviz.system import KernelSystem

#: A rehearsal stops if its method would take TIMES_THE_BEST times the best seconds so far. A method beyond RIVALS times
#: is not rehearsed on the larger pilot system.
TIMES_THE_BEST, RIVALS = 2.0, 1.5
#: smallest number of epochs in a rehearsal
FEW_EPOCHS = 3.0

#: seconds of a test of a few hundred updates, with hardly any arithmetic
SHORTEST = 0.15


@dataclass
class Candidate:
    """A method with its rehearsals and forecast.

    Attributes:
        solver: the solver with `auto` settings resolved.
        asked: the solver as given.
        half, whole: rehearsals on the smaller and the larger pilot system; None if not rehearsed.
    """

    solver: Solver
    asked: Solver
    forecast: Forecast
    half: Rehearsal | None = None
    whole: Rehearsal | None = None


@dataclass
class Budget:
    """The time that tests may take: a share of the seconds of the best solve.

    Args:
        clock: clock of all seconds.
        began: its time at the begin of the advice.
        share: share of the seconds of the best solve; inf: no limit.
        best: likely seconds of the best solve so far.
    """

    clock: Callable[[], float]
    began: float
    share: float = math.inf
    best: float = math.inf
    _longest: float = SHORTEST

    @property
    def spent(self) -> float:
        """Seconds since the begin of the advice."""
        return self.clock() - self.began

    def start(self, usual: float) -> None:
        """Begin to test, with the usual seconds of a solve, after the measurements that all methods need."""
        # they take about as long as a test, unless they are cached
        self.best, self._longest = usual, max(SHORTEST, self.spent)

    def expect(self, seconds: float) -> None:
        """Take these seconds as those of the best solve; inf: not known yet."""
        if math.isfinite(seconds):
            self.best = seconds

    @property
    def allows_another(self) -> bool:
        """Whether another test, as long as the longest so far, stays within the share."""
        return self.spent + self._longest <= self.share * self.best

    @contextmanager
    def test(self) -> Iterator[None]:
        """Time a test."""
        began = self.clock()
        yield
        self._longest = max(self._longest, self.clock() - began)


class Rehearsing:
    """Rehearsals of methods on two pilot systems.

    Args:
        rows: number of rows of the larger pilot system; the smaller has half of them.
        budget: time of all rehearsals.
        hooks: hooks of every rehearsal.
    """

    def __init__(
        self,
        system: KernelSystem,
        costs: CostModel,
        rows: int,
        seed: int,
        budget: Budget,
        hooks: Sequence[Hook] = (),
    ) -> None:
        self.system, self.costs, self._rows, self.seed, self._hooks = system, costs, rows, seed, hooks
        self.budget = budget
        self._columns = system.b.shape[1]
        self._best = math.inf

    @cached_property
    def _half(self) -> PilotSystem:
        return PilotSystem(self.system, self._rows // 2, self.seed)

    @cached_property
    def _whole(self) -> PilotSystem:
        return PilotSystem(self.system, self._rows, self.seed)

    def begin(self, solver: Solver, asked: Solver) -> Candidate:
        """Rehearse a method on the smaller pilot system, until it would take far longer than the best so far."""
        known = without_rehearsal(solver, self.system.operator, self._columns, self.costs)
        if known is not None:
            found = Candidate(solver, asked, known)
        else:
            half = self._rehearse(self._half, solver, self._affordable(solver))
            found = Candidate(solver, asked, self.of(solver, half), half)
        self._learn(found.forecast)
        # a method that needs no test says little about the others: the usual seconds hold until one is tested
        self.budget.expect(self._best if known is None else min(self._best, self.budget.best))
        return found

    def decide(self, candidates: Collection[Candidate]) -> None:
        """Rehearse the methods that may be the best on the larger pilot system."""
        while True:
            waiting = [
                each for each in candidates
                if each.half and not each.whole and each.forecast.seconds.likely <= self._rivals(each.half) * self._best
            ]  # fmt: skip
            if not waiting or not self.budget.allows_another:
                break
            each = min(waiting, key=lambda each: each.forecast.seconds.likely)
            assert each.half is not None
            each.whole = self._rehearse(self._whole, each.solver, self._affordable(each.solver))
            each.forecast = self.of(each.solver, each.half, each.whole)
            self._best = math.inf
            for other in candidates:
                self._learn(other.forecast)
            self.budget.expect(self._best)

    def _rivals(self, half: Rehearsal) -> float:
        """Return the factor on the best seconds up to which a method is a rival; a stopped one would take longer."""
        return 1.0 if half.reason is StopReason.STOPPED else RIVALS

    def of(self, solver: Solver, half: Rehearsal, whole: Rehearsal | None = None) -> Forecast:
        """Return the forecast from rehearsals."""
        return forecast(solver, self.system.operator, self._columns, self.costs, half, whole)

    def rehearse_again(self, solver: Solver, most_work: float = math.inf) -> Rehearsal:
        """Rehearse another solver on the smaller pilot system."""
        return self._rehearse(self._half, solver, most_work)

    def of_other_sides(self, solver: Solver) -> Rehearsal:
        """Rehearse with random right-hand sides in addition to the first."""
        return self._rehearse(self._half_with_probes, solver)

    @cached_property
    def _half_with_probes(self) -> PilotSystem:
        return PilotSystem(self.system, self._rows // 2, self.seed, probes=MOST_SIDES - 1)

    def in_dtype(self, solver: Solver, dtype: torch.dtype) -> Rehearsal:
        """Rehearse in another dtype."""
        return self._rehearse(PilotSystem(self.system, self._rows // 2, self.seed, dtype=dtype), solver)

    def _rehearse(self, pilot: PilotSystem, solver: Solver, most_work: float = math.inf) -> Rehearsal:
        with self.budget.test(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the forecast reports problems of a pilot system
            return pilot.rehearse(solver, most_work, self._hooks)

    def _affordable(self, solver: Solver) -> float:
        """Return the pilot work after which this method would take far longer on all rows than the best so far."""
        if math.isinf(self._best):
            return math.inf
        cost = predicted(solver, self.system.operator, self._columns, self.costs)
        assert cost is not None
        epochs = (TIMES_THE_BEST * self._best - cost.setup) / cost.epoch  # of 1.0 work
        return cost.setup_work + 1.0 + max(FEW_EPOCHS, epochs)

    def _learn(self, found: Forecast) -> None:
        if found.chance > 0.5 and found.is_bounded:
            self._best = min(self._best, found.seconds.likely)
