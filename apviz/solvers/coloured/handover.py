"""Handover of coloured projections: overlapping projections continue from their weights where sweeps gain too little.

Sweeps gain little where the noise is so small that the error of local solves matters, or where much of the error is
longer than a block and the past sweeps do not help. Overlapping projections update the residual after every block, step
along many past updates, and may hand over to CG (`apviz.solvers.handover`).

The run and its hooks keep the order of rows of the sweeps. Overlapping projections have an order of their own: what
they report is passed on, and their state is copied where the run evaluates B − KW.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from apviz.memory import explained
from apviz.methods import RECOMMENDED
from apviz.partitions import with_overlap
from apviz.solvers.blocks import Blocks
from apviz.solvers.choosing.costs import usual_work
from apviz.solvers.handover import report, until, work_left
from apviz.solvers.precision import Precision
from apviz.solvers.projection import AlternatingProjection
from apviz.solvers.state import Continue, EpochEnd, Events, Remeasure, State, Updated
from apviz.solvers.stopping import Stopping, ending_as

#: the decrease of the residual is measured over this many sweeps, after the first, or over the later half of them
MEASURED_SWEEPS = 3
#: sweeps are not judged before they did this share of the usual work of overlapping projections. Sweeps lower h, and
#: the residual may stay for several of them before it falls: waiting costs little where sweeps cost little.
PATIENCE = 0.1
#: sweeps are slow if their remaining work exceeds this many times the usual work of overlapping projections
SLOW = 2.0


def handing_over(sweeps: Events, state: State, stopping: Stopping, seed: int) -> Events:
    """Yield what sweeps report until they turn out to be slow; then continue by overlapping projections."""
    progress = Progress(state, stopping, seed)
    yield from until(sweeps, progress.is_slow)
    blocks = progress.blocks
    assert blocks is not None
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

    Attributes:
        blocks: set-up of the overlapping projections, once `is_slow` has returned True.
    """

    def __init__(self, state: State, stopping: Stopping, seed: int) -> None:
        self._state, self._stopping, self._seed = state, stopping, seed
        self._reached: list[tuple[float, float]] = []
        self._fits = True
        self.blocks: Blocks | None = None

    def is_slow(self) -> bool:
        """Test whether overlapping projections fit, and are expected to converge sooner; call after every sweep."""
        state, tol = self._state, self._stopping.tol
        self._reached.append((state.operator.work, state.residual))
        if not self._fits or len(self._reached) <= MEASURED_SWEEPS or not state.residual > tol:
            return False
        usual = usual_work(state.operator.n, tol / state.residual)
        if state.operator.work < PATIENCE * usual:
            return False
        measured = max(MEASURED_SWEEPS, len(self._reached) // 2)
        left = work_left(self._reached[-1 - measured], self._reached[-1], tol)
        if left <= SLOW * usual:
            return False
        self.blocks = _blocks(state, self._stopping, self._seed)
        self._fits = self.blocks is not None
        if self._fits:
            where = f"after sweep {state.epoch}, at a residual of {state.residual:.2g}"
            report(state, f"overlapping projections {where}: about {usual:.1f} more work", left)
        return self._fits


def _blocks(state: State, stopping: Stopping, seed: int) -> Blocks | None:
    """Return the set-up of overlapping projections, whose entries count as work; None if it does not fit the memory."""
    precision = Precision(recursion="system", factors="auto")  # the dtype of the sweeps
    settings = {**with_overlap(RECOMMENDED), "precision": precision, "seed": seed}
    asked = ending_as(stopping, AlternatingProjection(**settings))
    try:
        with explained("overlapping projections", "the sweeps continue"):
            solver, choices = asked.resolve_for(state.operator, state.r.shape[1], state.r)
            found = solver.build(state.operator, state.r.shape[1])
    except MemoryError as error:
        state.choices["no handover"] = str(error)
        return None
    assert isinstance(found, Blocks)
    state.choices |= {f"handover.{name}": why for name, why in choices.items()}
    return found


class Nested(State):
    """State of a run whose solve is continued by an inner solver; order: (n,) the run's row of each inner row."""

    def __init__(self, inner: State, order: Tensor, b: Tensor) -> None:
        super().__init__(
            operator=inner.operator, b=b, w=torch.empty_like(inner.w), r=torch.empty_like(inner.r), share=inner.share,
            choices=inner.choices, look_every=inner.look_every, reduction=inner.reduction, drifts=inner.drifts,
        )  # fmt: skip
        self.inner, self.order = inner, order
        self._place = torch.empty_like(order)
        self._place[order] = torch.arange(len(order), device=order.device)
        self.copy_weights_()
        self.copy_residual_()

    def weights(self) -> Tensor:
        return self.inner.weights()[self._place]

    def residuals(self) -> Tensor:
        return self.inner.residuals()[self._place]

    def squared(self) -> Tensor:
        return self.inner.squared()

    def adopt(self, fresh: Tensor, claimed: bool) -> bool:
        is_adopted = self.inner.adopt(fresh[self.order], claimed)
        self.copy_residual_()
        return is_adopted

    def go_exact(self) -> None:
        self.inner.go_exact()

    def copy_weights_(self) -> None:
        """Copy the weights of the inner solver."""
        self.w.copy_(self.weights())

    def copy_residual_(self) -> None:
        """Copy the residual of the inner solver."""
        self.r.copy_(self.inner.r[self._place])


def nested(events: Events, state: Nested) -> Events:
    """Pass on what an inner solver reports, with the run's order of rows and without its numbers of blocks."""
    reply: Any = None
    while True:
        try:
            event = events.send(reply)
        except StopIteration:
            return
        reply = None
        if isinstance(event, Updated):
            reply = yield replace(event, block=-1)
        elif isinstance(event, Continue):
            state = Nested(event.state, state.order, state.b)
            yield Continue(state)
        elif isinstance(event, Remeasure):
            state.copy_weights_()
            reply = (yield event)[state.order]
            state.inner.r.copy_(reply)
        else:
            state.copy_weights_()
            state.copy_residual_()
            yield EpochEnd()
        state.inner.epoch, state.inner.residual = state.epoch, state.residual
