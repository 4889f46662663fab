"""The takeover: CG goes on from where alternating projection is, where that turns out to be slow.

Blocks see what is local, and a history helps with the rest; where much is neither local nor low rank, epochs lower the
residual by little each. What CG would take from there is rehearsed on a few rows (`apviz.solvers.rehearsal`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from torch import Tensor

from apviz.memory import free_memory
from apviz.preconditioners import RandomlyPivotedCholesky
from apviz.solvers.conjugate_gradient import Iteration
from apviz.solvers.interface import StopReason
from apviz.solvers.refinement import Limits, Recursion
from apviz.solvers.rehearsal import Plan, Rehearsal, affordable_iterations, growth, work_of
from apviz.solvers.run import Run

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


class Takeover:
    """Watches how fast the epochs of a run lower the residual, and hands over to CG where that would be faster.

    Args:
        limits: of the run.
        rank: the most of the randomly pivoted Cholesky preconditioner.
        seed: of its pivots, and of the rows of rehearsals.
    """

    def __init__(self, run: Run, limits: Limits, rank: int, seed: int) -> None:
        operator = run.operator
        fits = MEMORY_SHARE * free_memory(operator.x.device) / (ARRAYS * operator.n * operator.x.element_size())
        self._run, self._limits, self._seed = run, limits, seed
        self.rank = min(rank, operator.layout.agreed(int(fits)))
        self._reached = [(run.work, run.residual)]

    def is_faster(self, recursion: Recursion) -> bool:
        """Whether CG is expected to arrive before the projections; asked after every epoch, looks at 2, 4, 8, …"""
        run = self._run
        self._reached.append((run.work, run.residual))
        epoch = len(self._reached) - 1
        if epoch < 2 or epoch & (epoch - 1) or self.rank < LEAST_RANK or not run.residual > self._limits.tol:
            return False
        left = self._work_left()
        if left < LEAST_WORK:
            return False
        plan = self._cheapest(recursion, left)
        if plan is None:
            return False
        self.rank = plan.rank
        expected = f"{left:.0f} works" if math.isfinite(left) else "no end"
        run.choices["takeover"] = (
            f"CG with rank {plan.rank} after epoch {run.epoch_number}: about {plan.iterations:.0f} iterations in place "
            f"of {expected} (estimates)"
        )
        log.info("%s", run.choices["takeover"])
        return True

    def _cheapest(self, recursion: Recursion, left: float) -> Plan | None:
        """CG with the whole rank or half of it, whichever costs less; None where neither costs less than `left`."""
        operator, columns = self._run.operator.uncounted, recursion.r.shape[1]
        tol, best, least = self._limits.tol / self._run.residual, None, left
        for rank in (self.rank // 2, self.rank):
            if rank == self.rank and least < MUCH_WORK:
                break
            most = min(affordable_iterations(operator, columns, rank, least), MOST_ITERATIONS)
            needed = self._iterations(recursion, rank, tol, most / UNDERESTIMATED)
            if needed is not None and needed <= most:
                best = Plan(rank, needed, work_of(operator, columns, rank, needed))
                least = best.work
        return best

    def _iterations(self, recursion: Recursion, rank: int, tol: float, most: float) -> float | None:
        """About how many iterations CG takes on all rows; None where more than `most` on those of the rehearsal."""
        operator, rows = self._run.operator.uncounted, ROWS_PER_VECTOR * rank
        rehearsal = Rehearsal(operator, recursion.r, rank, rows, self._seed)
        needed = rehearsal.iterations(rank, tol, most)
        if needed is None or self._limits.tol > SMALL_TOL:
            return None if needed is None else needed * UNDERESTIMATED
        half = Rehearsal(operator, recursion.r, rank, rows // 2, self._seed)
        grown = growth(needed, half.iterations(rank, tol, most), operator.n / rows)
        return needed * max(UNDERESTIMATED, grown)

    def iterate(self, recursion: Recursion, norms: Callable[[Tensor], Tensor]) -> StopReason:
        """Goes on by CG from the weights of a recursion; `norms` are of the blocks of a residual, (m, l+1)."""
        run, operator = self._run, self._run.operator
        precondition = RandomlyPivotedCholesky(rank=self.rank, seed=self._seed).build(operator.whole)
        r = run.fresh_residual()[0].to(operator.x.dtype)
        iteration = Iteration(run, operator, precondition, recursion.b, recursion.weights(), r, norms)
        run.go_on(iteration, self._limits)
        return iteration.iterate()

    def _work_left(self) -> float:
        """The work in which the residual falls to the tolerance at the rate of the last two epochs."""
        (before, residual_before), (now, residual) = self._reached[-3], self._reached[-1]
        if not residual < residual_before:
            return math.inf
        rate = math.log(residual_before / residual) / (now - before)
        return SLOWER_LATER * math.log(residual / self._limits.tol) / rate
