"""Handover to CG: CG continues from the weights of alternating projection where epochs turn out to be slow.

Blocks see what is local, and a history helps with the rest; where much is neither local nor low rank, epochs lower the
residual by little each. What CG would take from there is rehearsed on a few rows (`apviz.solvers.rehearsal`).
"""

from __future__ import annotations

import logging
import math

from apviz.memory import free_memory
from apviz.preconditioners import RandomlyPivotedCholesky
from apviz.solvers.blocks import Projection
from apviz.solvers.conjugate_gradient import Directions, iterations
from apviz.solvers.rehearsal import Plan, Rehearsal, affordable_iterations, growth, work_of
from apviz.solvers.state import Continue, EpochEnd, Events, Remeasure
from apviz.solvers.stopping import Stopping

# works to go, below which a rehearsal is not worth its time, nor one of the whole rank, which takes four times as long
LEAST_WORK, MUCH_WORK = 10.0, 20.0
# the last of what is left takes so many times the work of the first; and CG, where projections are slow, at least so
# many times the iterations of its rehearsal (`benchmarks/notes.md`)
SLOWER_LATER, UNDERESTIMATED = 1.5, 1.3
# below this tolerance eigenvalues decide that few rows do not show: iterations grow with the rows
SMALL_TOL = 1e-4
# iterations of which a rehearsal makes no more
MOST_ITERATIONS = 500
# rows of a rehearsal, for each vector of the preconditioner; numbers a row that those take while it is built
ROWS_PER_VECTOR, ARRAYS = 4, 5
# the share of the free memory that these may take, and the fewest vectors worth the while
MEMORY_SHARE, LEAST_RANK = 0.3, 20

log = logging.getLogger("apviz")


def handing_over(updates: Events, state: Projection, stopping: Stopping, rank: int, seed: int) -> Events:
    """Passes on the updates of a solver until CG is expected to converge sooner; then iterates by CG.

    Args:
        updates: of alternating projection, which moves `state`.
        stopping: of the solve.
        rank: the most of CG's preconditioner.
        seed: of its pivots, and of the rows of rehearsals.
    """
    handover, reply = Handover(state, stopping, rank, seed), None
    while True:
        event = updates.send(reply)
        reply = yield event
        if isinstance(event, EpochEnd) and handover.is_faster():
            break
    updates.close()
    precondition = RandomlyPivotedCholesky(rank=handover.rank, seed=seed).build(state.operator.whole)
    fresh = yield Remeasure()
    conjugate = Directions(
        operator=state.operator, b=state.b, w=state.weights(), r=fresh.to(state.r), share=state.share,
        choices=state.choices, reduction=0.0, precondition=precondition, norms=state.norms_of,
    )  # fmt: skip
    yield Continue(conjugate)
    yield from iterations(conjugate)


class Handover:
    """Watches how fast epochs lower the residual of a state, and rehearses CG.

    Args:
        state: that epochs move.
        stopping: of the solve.
        rank: the most of the randomly pivoted Cholesky preconditioner.
        seed: of its pivots, and of the rows of rehearsals.

    Attributes:
        rank: that is expected to cost least, once `is_faster` said so.
    """

    def __init__(self, state: Projection, stopping: Stopping, rank: int, seed: int) -> None:
        operator = state.operator
        fits = MEMORY_SHARE * free_memory(operator.x.device) / (ARRAYS * operator.n * operator.x.element_size())
        self._state, self._stopping, self._seed = state, stopping, seed
        self.rank = min(rank, operator.layout.agreed(int(fits)))
        self._reached = [(operator.work, state.residual)]

    def is_faster(self) -> bool:
        """Tests whether CG is expected to converge sooner; called after every epoch, looks after 2, 4, 8, … of them."""
        state = self._state
        self._reached.append((state.operator.work, state.residual))
        epoch = len(self._reached) - 1
        if epoch < 2 or epoch & (epoch - 1) or self.rank < LEAST_RANK or not state.residual > self._stopping.tol:
            return False
        left = self._work_left()
        if left < LEAST_WORK:
            return False
        plan = self._cheapest(left)
        if plan is None:
            return False
        self.rank = plan.rank
        expected = f"{left:.0f} works" if math.isfinite(left) else "no end"
        state.choices["handover"] = (
            f"CG with rank {plan.rank} after epoch {state.epoch}: about {plan.iterations:.0f} iterations in place "
            f"of {expected} (estimates)"
        )
        log.info("%s", state.choices["handover"])
        return True

    def _cheapest(self, left: float) -> Plan | None:
        """CG with the whole rank or half of it, whichever costs less; None where neither costs less than `left`."""
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
        """About how many iterations CG takes on all rows; None where more than `most` on those of the rehearsal."""
        operator, rows = self._state.operator.uncounted, ROWS_PER_VECTOR * rank
        rehearsal = Rehearsal(operator, self._state.r, rank, rows, self._seed)
        needed = rehearsal.iterations(rank, tol, most)
        if needed is None or self._stopping.tol > SMALL_TOL:
            return None if needed is None else needed * UNDERESTIMATED
        half = Rehearsal(operator, self._state.r, rank, rows // 2, self._seed)
        grown = growth(needed, half.iterations(rank, tol, most), operator.n / rows)
        return needed * max(UNDERESTIMATED, grown)

    def _work_left(self) -> float:
        """The work in which the residual falls to the tolerance at the rate of the last two epochs."""
        (before, residual_before), (now, residual) = self._reached[-3], self._reached[-1]
        if not residual < residual_before:
            return math.inf
        rate = math.log(residual_before / residual) / (now - before)
        return SLOWER_LATER * math.log(residual / self._stopping.tol) / rate
