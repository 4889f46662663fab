"""Handover of coloured projections: overlapping projections continue from their weights where sweeps gain too little.

Sweeps gain little where the noise is so small that the error of local solves matters, or where much of the error is
longer than a block and the past sweeps do not help. Overlapping projections update the residual after every block, step
along many past updates, and may hand over to CG (`apviz.solvers.handover`).
"""

from __future__ import annotations

import logging
import math

from apviz.memory import explained
from apviz.methods import RECOMMENDED
from apviz.partitions import with_overlap
from apviz.solvers.blocks import Blocks
from apviz.solvers.nested import Nested, nested
from apviz.solvers.precision import Precision
from apviz.solvers.projection import AlternatingProjection
from apviz.solvers.recommended import usual_work
from apviz.solvers.state import Continue, EpochEnd, Events, Remeasure, State
from apviz.solvers.stopping import Stopping

#: sweeps over which the decrease of the residual is measured, after the first sweep
MEASURED_SWEEPS = 3
#: sweeps are slow if their remaining work exceeds this many times the usual work of overlapping projections
SLOW = 2.0

log = logging.getLogger("apviz")


def handing_over(sweeps: Events, state: State, stopping: Stopping, seed: int) -> Events:
    """Yield what sweeps report until they turn out to be slow; then continue by overlapping projections.

    Args:
        sweeps: events of coloured projections, which change `state`.
        state: state of coloured projections.
        stopping: tolerance and limits of the solve.
        seed: seed of the overlapping projections.
    """
    progress, reply, blocks, fits = Progress(state, stopping), None, None, True
    while blocks is None:
        event = sweeps.send(reply)
        reply = yield event
        if isinstance(event, EpochEnd) and fits and progress.is_slow():
            blocks = _blocks(state, stopping, seed)
            fits = blocks is not None
    sweeps.close()
    fresh, order = (yield Remeasure()), blocks.partition.order
    start = State(
        operator=state.operator.of(blocks.operator), b=state.b[order], w=state.weights()[order],
        r=fresh[order].to(state.r), share=state.share, choices=state.choices,
    )  # fmt: skip
    inner = blocks.solver.init(blocks, start)
    outer = Nested(inner, order, state.b)
    yield Continue(outer)
    inner.epoch, inner.residual = outer.epoch, outer.residual
    yield from nested(blocks.solver.epochs(blocks, inner), outer)


class Progress:
    """The decrease of the residual from sweep to sweep, compared with the usual one of overlapping projections.

    Args:
        state: state that the sweeps change.
        stopping: tolerance and limits of the solve.
    """

    def __init__(self, state: State, stopping: Stopping) -> None:
        self._state, self._tol = state, stopping.tol
        self._reached: list[tuple[float, float]] = []

    def is_slow(self) -> bool:
        """Test whether overlapping projections are expected to converge sooner; call after every sweep."""
        state = self._state
        self._reached.append((state.operator.work, state.residual))
        if len(self._reached) <= MEASURED_SWEEPS or not state.residual > self._tol:
            return False
        left, usual = self._work_left(), usual_work(state.operator.n, self._tol / state.residual)
        if left <= SLOW * usual:
            return False
        expected = f"{left:.2g} works" if math.isfinite(left) else "no end"
        state.choices["handover"] = (
            f"overlapping projections after sweep {state.epoch}, at a residual of {state.residual:.2g}: about "
            f"{usual:.2g} works instead of {expected} (estimates)"
        )
        log.info("%s", state.choices["handover"])
        return True

    def _work_left(self) -> float:
        """Return the work to reach the tolerance at the rate of the last sweeps; inf if they gained nothing."""
        (before, first), (now, last) = self._reached[-1 - MEASURED_SWEEPS], self._reached[-1]
        if not last < first:
            return math.inf
        return math.log(last / self._tol) * (now - before) / math.log(first / last)


def _blocks(state: State, stopping: Stopping, seed: int) -> Blocks | None:
    """Return the set-up of overlapping projections, whose entries count as work; None if it does not fit the memory."""
    precision = Precision(recursion="system", factors="auto")  # the dtype of the sweeps
    settings = {**with_overlap(RECOMMENDED), "precision": precision, "seed": seed}
    asked = stopping.put_into(AlternatingProjection(**settings))
    try:
        with explained("overlapping projections", "the sweeps continue"):
            solver, choices = asked.resolve_for(state.operator, state.r.shape[1], state.r)
            found = solver.build(state.operator, state.r.shape[1])
    except MemoryError as error:
        state.choices["handover"] = f"none: {error}"
        return None
    assert isinstance(found, Blocks)
    state.choices |= {f"handover.{name}": why for name, why in choices.items()}
    return found
