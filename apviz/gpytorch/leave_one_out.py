"""GPyTorch's leave-one-out objective inside a context, from K⁻¹ (Rasmussen & Williams, section 5.4.2).

With w = K⁻¹(y − m) and s the diagonal of K⁻¹, yᵢ given all others has the mean yᵢ − wᵢ/sᵢ and the variance 1/sᵢ.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from apviz.gpytorch.covariances import MarginalCovariance, PriorDistribution, without_gradient
from apviz.gpytorch.kernels import check_batch
from apviz.gpytorch.models import noise_in
from apviz.gpytorch.solves import Solves
from apviz.kernels import Kernel

NO_SECOND_DERIVATIVES = (
    "apviz.gpytorch has no second derivatives of the leave-one-out objective: take differences of its gradients, or "
    "differentiate twice outside alternating_projection()"
)


def leave_one_out(call_next: Any, objective: Any, prior: Any, target: Tensor, *inputs: Any) -> Any:
    """Intercept `LeaveOneOutPseudoLikelihood.forward`, which would factor the n × n matrix."""
    marginal = objective.likelihood(prior, *inputs)
    covariance = marginal.lazy_covariance_matrix
    if not (isinstance(prior, PriorDistribution) and isinstance(covariance, MarginalCovariance)):
        return call_next(objective, prior, target, *inputs)
    of_model, noise = covariance._linear_op, covariance._diag_tensor
    batch = of_model.prior.batch
    difference = (target - marginal.mean).reshape(*target.shape[: len(batch)], -1)
    check_batch("the targets' difference from the mean", difference.shape[:-1], batch)
    found = []
    for member, expression in of_model.prior.members:
        sigma, y = expression.noise_with(noise_in(noise, member)), member.of(difference, 1)[:, None]
        w, s = _LeaveOneOut.apply(  # type: ignore[no-untyped-call]
            of_model.solves, expression.kernel, sigma, y, expression.x, *expression.tensors
        )
        # (yᵢ − μᵢ)²/σᵢ² = wᵢ²/sᵢ
        found.append(0.5 * torch.sum(s.log() - w.square() / s))
    value = torch.stack(found).reshape(batch)
    return objective._add_other_terms(value, inputs).div(target.size(-1)) - 0.5 * math.log(2 * math.pi)


class _LeaveOneOut(torch.autograd.Function):
    """The autograd function of w and s: dw = K⁻¹(dy − dK w), dsᵢ = −vᵢᵀ dK vᵢ for the columns v of K⁻¹."""

    @staticmethod
    def forward(
        ctx: Any, solves: Solves, kernel: Kernel, noise: Tensor, residual: Tensor, x: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.operator, ctx.inverse = solves.inverse(x, kernel, noise.detach(), residual.detach())
        w = ctx.inverse @ residual.detach().to(ctx.inverse)
        ctx.save_for_backward(noise, residual, x, *tensors)
        ctx.w = w
        return w[:, 0].to(residual), ctx.inverse.diagonal().clone().to(residual)

    @staticmethod
    def backward(ctx: Any, by_w: Tensor, by_s: Tensor) -> tuple[Tensor | None, ...]:
        noise, residual, x, *tensors = ctx.saved_tensors
        with torch.no_grad():
            inverse, a = ctx.inverse, ctx.inverse @ by_w[:, None].to(ctx.inverse)
            m = -(a @ ctx.w.T) - inverse @ (by_s[:, None].to(inverse) * inverse)
            found = ctx.operator.weighted_derivatives(m, with_inputs=True)
            of_tensors = [g.to(tensor) for g, tensor in zip(found.kernel.values(), tensors, strict=True)]
            gradients = [found.noise.to(noise), a.to(residual), found.inputs.to(x), *of_tensors]
        depends_on = (*ctx.saved_tensors, by_w, by_s)
        return (None, None, *(without_gradient(each, depends_on, NO_SECOND_DERIVATIVES) for each in gradients))
