"""A solve inside another one: a solver that stores its rows in an order of its own continues a running solve.

The run and its hooks keep their order of rows. What the inner solver reports is passed on; its state is copied into
theirs where the run evaluates B − KW.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from apviz.solvers.state import Continue, EpochEnd, Events, Remeasure, State, Updated


class Nested(State):
    """State of a run whose solve is continued by an inner solver.

    Args:
        inner: state of the inner solver.
        order: (n,) the run's row of each inner row.
        b: (n, l+1) right-hand sides in the order of the run.
    """

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
    """Pass on what an inner solver reports, with the run's order of rows and without its numbers of blocks.

    Args:
        events: of the inner solver, which change `state.inner`.
        state: state of the run.
    """
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
