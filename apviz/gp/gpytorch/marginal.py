"""The covariance of a GPyTorch model in training, whose marginal log likelihood is solved for by apviz.

GPyTorch adds the likelihood's noise to the model's k(X, X), and asks the sum for yᵀK⁻¹y and log det K. These two
operators are what it finds there: k(X, X) is never evaluated.
"""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.lazy import LazyEvaluatedKernelTensor
from linear_operator.operators import AddedDiagLinearOperator, ConstantDiagLinearOperator, DiagLinearOperator
from torch import Tensor
from torch.autograd.function import once_differentiable

from apviz.gp.gpytorch.models import KernelParameters, Prior
from apviz.gp.gpytorch.solves import Solves
from apviz.kernels import kernel_named


class PriorCovariance(LazyEvaluatedKernelTensor):  # type: ignore[misc]
    """k(X, X), which the noise of a likelihood turns into a `MarginalCovariance`. In all else GPyTorch's own."""

    # of those that `of` makes; parts that are cut out of one have none, and are GPyTorch's alone
    solves: Solves | None = None
    parameters: KernelParameters

    @classmethod
    def of(cls, prior: Prior, solves: Solves) -> PriorCovariance:
        covariance = prior.covariance
        made = cls(covariance.x1, covariance.x2, covariance.kernel, **covariance.params)
        made.solves, made.parameters = solves, prior.parameters
        return made

    def __add__(self, other: Any) -> Any:
        if self.solves is None or not isinstance(other, DiagLinearOperator):
            return super().__add__(other)
        if not isinstance(other, ConstantDiagLinearOperator) or other.diag_values.numel() != 1:
            raise TypeError("the likelihood adds different noises to different points; apviz takes one for all")
        return MarginalCovariance(self, other)


class MarginalCovariance(AddedDiagLinearOperator):  # type: ignore[misc]
    """K = k(X, X) + σ²I."""

    def evaluate_kernel(self) -> MarginalCovariance:
        """Itself: GPyTorch asks for the entries here, before it asks for what is solved without them."""
        return self

    def repeat(self, *sizes: Any) -> Any:
        raise ValueError("the targets have batch dimensions; apviz takes (n,), one batch")

    def inv_quad_logdet(
        self, inv_quad_rhs: Tensor | None = None, logdet: bool | None = False, reduce_inv_quad: bool | None = True
    ) -> Any:
        """yᵀK⁻¹y and log det K for y: (n, 1), with the gradients of the paper, section 2."""
        prior, noise = self._linear_op, self._diag_tensor
        asked = logdet and reduce_inv_quad and inv_quad_rhs is not None and inv_quad_rhs.shape[1:] == (1,)
        if getattr(prior, "solves", None) is None or not asked:
            return super().inv_quad_logdet(inv_quad_rhs, logdet, reduce_inv_quad)
        p, sigma = prior.parameters, noise.diag_values.reshape(())
        wants = torch.is_grad_enabled() and any(t.requires_grad for t in (p.lengthscale, p.outputscale, sigma))
        return _InvQuadLogdet.apply(  # type: ignore[no-untyped-call]
            prior.solves, prior.x1.detach(), p.name, wants, p.lengthscale, p.outputscale, sigma, inv_quad_rhs
        )


class _InvQuadLogdet(torch.autograd.Function):
    """yᵀK⁻¹y and log det K; backward is one pass over the entries of K.

    d(yᵀK⁻¹y) = −wᵀ ∂K w + 2wᵀ dy with w = K⁻¹y, and d log det K = tr(K⁻¹∂K), the mean over probes of
    (K⁻¹z)ᵀ ∂K (P⁻¹z) (paper, section 2). The values: yᵀw, and log det K as `Solves` has it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        solves: Solves,
        x: Tensor,
        name: str,
        with_probes: bool,
        lengthscale: Tensor,
        outputscale: Tensor,
        noise: Tensor,
        residual: Tensor,
    ) -> tuple[Tensor, Tensor]:
        kernel = kernel_named(name, lengthscale.detach(), float(outputscale.detach()))
        ctx.solved = solved = solves.train(x, kernel, float(noise.detach()), residual.detach(), with_probes)
        ctx.like = [t.detach() for t in (lengthscale, outputscale, noise, residual)]
        inv_quad = torch.sum(residual[:, 0] * solved.weights[:, 0], dtype=torch.float64)
        return inv_quad.to(residual), solves.log_determinant_of(solved.operator).to(residual)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_inv_quad: Tensor, by_logdet: Tensor) -> tuple[Tensor | None, ...]:
        weights, dual = ctx.solved.weights, ctx.solved.dual
        lengthscale, outputscale, noise, residual = ctx.like
        by_residual = (2 * by_inv_quad * weights[:, :1]).to(residual)
        if not any(ctx.needs_input_grad[4:7]):
            return None, None, None, None, None, None, None, by_residual
        right = torch.cat([-by_inv_quad * weights[:, :1], by_logdet / max(1, dual.shape[1]) * dual], dim=1)
        found = ctx.solved.operator.bilinear_derivatives(weights, right)
        along = found.lengthscale.to(lengthscale)
        return (
            None, None, None, None, along, found.outputscale.to(outputscale), found.noise.to(noise), by_residual
        )  # fmt: skip
