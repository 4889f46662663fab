"""Rehearsals: every method on a small pilot system, and those that may be the best on a larger one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
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


class Rehearsing:
    """Rehearsals of methods on two pilot systems.

    Args:
        rows: number of rows of the larger pilot system; the smaller has half of them.
        hooks: hooks of every rehearsal.
    """

    def __init__(
        self, system: KernelSystem, costs: CostModel, rows: int, seed: int, hooks: Sequence[Hook] = ()
    ) -> None:
        self.system, self.costs, self._rows, self.seed, self._hooks = system, costs, rows, seed, hooks
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
        return found

    def decide(self, candidates: Collection[Candidate]) -> None:
        """Rehearse the methods that may be the best on the larger pilot system."""
        while True:
            waiting = [
                each for each in candidates
                if each.half and not each.whole and each.forecast.seconds.likely <= self._rivals(each.half) * self._best
            ]  # fmt: skip
            if not waiting:
                break
            each = min(waiting, key=lambda each: each.forecast.seconds.likely)
            assert each.half is not None
            each.whole = self._rehearse(self._whole, each.solver, self._affordable(each.solver))
            each.forecast = self.of(each.solver, each.half, each.whole)
            self._best = math.inf
            for other in candidates:
                self._learn(other.forecast)

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
        with warnings.catch_warnings():
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
