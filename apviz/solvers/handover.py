"""Handover to CG: CG continues from the weights of alternating projection if epochs turn out to be slow.

Blocks reduce the local part of the error, and a history helps with the rest. If much of the error is neither local nor
low rank, an epoch lowers the residual by little. A rehearsal on a few rows estimates the cost of CG from there
(`apviz.solvers.choosing.rehearsal`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from apviz.memory import free_memory
from apviz.preconditioners import RandomlyPivotedCholesky
from apviz.solvers.blocks import Projection
from apviz.solvers.choosing.rehearsal import Plan, Rehearsal, affordable_iterations, growth, work_of
from apviz.solvers.conjugate_gradient import Directions, iterations
from apviz.solvers.state import Continue, EpochEnd, Events, Remeasure, State
from apviz.solvers.stopping import Stopping

# With less remaining work than the first number, a rehearsal does not pay off. With less than the second, a rehearsal
# at full rank does not, because it takes four times as long.
LEAST_WORK, MUCH_WORK = 10.0, 20.0
# The last part of the remaining work costs this many times the first. If projections are slow, CG needs at least this
# many times the iterations of its rehearsal (`benchmarks/notes.md`).
SLOWER_LATER, UNDERESTIMATED = 1.5, 1.3
# Below this tolerance CG depends on eigenvalues that few rows do not show, so iterations grow with the rows.
SMALL_TOL = 1e-4
# Iteration limit of a rehearsal.
MOST_ITERATIONS = 500
# Rows of a rehearsal per vector of the preconditioner; numbers a row that the vectors take while being built.
ROWS_PER_VECTOR, ARRAYS = 4, 5
# Share of the free memory for the vectors, and the smallest rank that pays off.
MEMORY_SHARE, LEAST_RANK = 0.3, 20

log = logging.getLogger("apviz")


def handing_over(updates: Events, state: Projection, stopping: Stopping, rank: int, seed: int) -> Events:
    """Yield the updates of a solver until CG of at most this rank is expected to be faster; then iterate by CG."""
    handover = Handover(state, stopping, rank, seed)
    yield from until(updates, handover.is_faster)
    precondition = RandomlyPivotedCholesky(rank=handover.rank, seed=seed).build(state.operator.whole)
    fresh = yield Remeasure()
    conjugate = Directions(
        operator=state.operator, b=state.b, w=state.weights(), r=fresh.to(state.r), share=state.share,
        choices=state.choices, reduction=0.0, precondition=precondition, norms=state.norms_of,
    )  # fmt: skip
    yield Continue(conjugate)
    yield from iterations(conjugate)


class Handover:
    """Monitor of the residual decrease per epoch, which rehearses CG.

    Attributes:
        rank: largest rank of the randomly pivoted Cholesky preconditioner; once `is_faster` has returned True, the one
            with the least expected cost.
    """

    def __init__(self, state: Projection, stopping: Stopping, rank: int, seed: int) -> None:
        operator = state.operator
        fits = MEMORY_SHARE * free_memory(operator.x.device) / (ARRAYS * operator.n * operator.x.element_size())
        self._state, self._stopping, self._seed = state, stopping, seed
        self.rank = min(rank, operator.layout.agreed(int(fits)))
        self._reached = [(operator.work, state.residual)]

    def is_faster(self) -> bool:
        """Test whether CG is expected to converge sooner; call after every epoch, it acts after 2, 4, 8, … epochs."""
        state = self._state
        self._reached.append((state.operator.work, state.residual))
        epoch = len(self._reached) - 1
        if epoch < 2 or epoch & (epoch - 1) or self.rank < LEAST_RANK or not state.residual > self._stopping.tol:
            return False
        left = SLOWER_LATER * work_left(self._reached[-3], self._reached[-1], self._stopping.tol)
        if left < LEAST_WORK:
            return False
        plan = self._cheapest(left)
        if plan is None:
            return False
        self.rank = plan.rank
        successor = f"CG with rank {plan.rank} after epoch {state.epoch}"
        report(state, f"{successor}: about {plan.iterations:.0f} iterations", left)
        return True

    def _cheapest(self, left: float) -> Plan | None:
        """Return the cheaper plan of CG with the full rank or half of it; None if neither costs less than `left`."""
        operator, columns = self._state.operator.uncounted, self._state.r.shape[1]
        tol, best, least = self._stopping.tol / self._state.residual, None, left
        for rank in (self.rank // 2, self.rank):
            if rank == self.rank and least < MUCH_WORK:
                break
            most = min(affordable_iterations(operator, columns, rank, least), MOST_ITERATIONS)
            needed = self._iterations(rank, tol, most / UNDERESTIMATED)
            if needed is not None and needed <= most:
                best = Plan(rank, needed, work_of(operator, columns, rank, needed))
                least = best.work
        return best

    def _iterations(self, rank: int, tol: float, most: float) -> float | None:
        """Estimate the CG iterations on all rows; None if those of the rehearsal exceed `most`."""
        operator, rows = self._state.operator.uncounted, ROWS_PER_VECTOR * rank
        rehearsal = Rehearsal(operator, self._state.r, rank, rows, self._seed)
        needed = rehearsal.iterations(rank, tol, most)
        if needed is None or self._stopping.tol > SMALL_TOL:
            return None if needed is None else needed * UNDERESTIMATED
        half = Rehearsal(operator, self._state.r, rank, rows // 2, self._seed)
        grown = growth(needed, half.iterations(rank, tol, most), operator.n / rows)
        return needed * max(UNDERESTIMATED, grown)


# --- shared with the handover of coloured projections -----------------------------------------------------------------


def until(events: Events, is_over: Callable[[], bool]) -> Events:
    """Pass on the events of a solver until a condition holds at the end of an epoch; then close them."""
    reply = None
    while True:
        event = events.send(reply)
        reply = yield event
        if isinstance(event, EpochEnd) and is_over():
            events.close()
            return


def work_left(before: tuple[float, float], now: tuple[float, float], tol: float) -> float:
    """Return the work to reach a tolerance at the rate between two pairs of work and residual; inf without a gain."""
    (work_before, residual_before), (work, residual) = before, now
    if not residual < residual_before:
        return math.inf
    return math.log(residual / tol) * (work - work_before) / math.log(residual_before / residual)


def report(state: State, successor: str, left: float) -> None:
    """Log a handover, and keep it for the trace, after an earlier one of the same solve.

    Args:
        successor: the next method, when it starts, and its expected cost.
        left: expected work without a handover, which may be infinite.
    """
    expected = f"{left:.{0 if left >= 10 else 1}f} more work" if math.isfinite(left) else "no end in sight"
    said = f"{successor} instead of {expected} (estimates)"
    earlier = state.choices.get("handover")
    state.choices["handover"] = said if earlier is None else f"{earlier}; then {said}"
    log.info("%s", said)
