"""Gradients that apviz does not have: asked for, they raise, where a tensor without a graph would give zeros."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

PREDICTION = (
    "apviz.gpytorch has no gradients of predictions in hyperparameters, mean or inputs, only those of the marginal "
    "log likelihood: predict inside torch.no_grad(), .detach() what you take from the prediction, or differentiate it "
    "outside alternating_projection()"
)
SECOND = (
    "apviz.gpytorch has no second derivatives of the marginal log likelihood (create_graph=True, Hessians): take "
    "differences of its gradients, or differentiate twice outside alternating_projection()"
)


class _Refused(torch.autograd.Function):
    """The values as they are; backward raises."""

    @staticmethod
    def forward(ctx: Any, why: str, values: Tensor, *_: Tensor) -> Tensor:
        ctx.why = why
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(ctx.why)


def without_gradient(values: Tensor, depends_on: Iterable[Tensor], why: str) -> Tensor:
    """The values, which `why` forbids to differentiate in `depends_on`; plain where gradients are off."""
    wanting = [tensor for tensor in depends_on if tensor.requires_grad]
    if not (wanting and torch.is_grad_enabled()):
        return values.detach()
    refused: Tensor = _Refused.apply(why, values.detach(), *wanting)  # type: ignore[no-untyped-call]
    return refused
