"""The covariance of a GPyTorch model in training, whose marginal log likelihood is solved for by apviz.

GPyTorch adds the likelihood's noise to the model's k(X, X), and asks the sum for yᵀK⁻¹y and log det K. The distribution
and the two operators here are what it finds there: by itself, it never evaluates k(X, X).
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.lazy import LazyEvaluatedKernelTensor
from linear_operator.operators import AddedDiagLinearOperator, ConstantDiagLinearOperator, DiagLinearOperator
from torch import Tensor

from apviz.gpytorch.models import KernelParameters, Prior
from apviz.gpytorch.refused import SECOND, without_gradient
from apviz.gpytorch.solves import Solves
from apviz.kernels import kernel_named


class PriorDistribution(MultivariateNormal):  # type: ignore[misc]
    """A model's prior, and with the noise of a likelihood its marginal, whose density is solved for by apviz."""

    def log_prob(self, value: Tensor) -> Tensor:
        """GPyTorch's own takes a Cholesky factor where `fast_computations.log_prob` is off, as BoTorch's default is."""
        covariance = self.lazy_covariance_matrix
        if not isinstance(covariance, MarginalCovariance):
            density: Tensor = super().log_prob(value)
            return density
        difference = value - self.loc
        if difference.ndim != 1:
            raise ValueError(f"the targets have batch dimensions, {tuple(value.shape)}; apviz takes (n,), one batch")
        inv_quad, logdet = covariance.inv_quad_logdet(difference[:, None], logdet=True)
        found: Tensor = -0.5 * (inv_quad + logdet + len(difference) * math.log(2 * math.pi))
        return found


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
        _require_one_noise(other)
        return MarginalCovariance(self, other)


class MarginalCovariance(AddedDiagLinearOperator):  # type: ignore[misc]
    """K = k(X, X) + σ²I."""

    def evaluate_kernel(self) -> MarginalCovariance:
        """Itself: GPyTorch asks for the entries here, before it asks for what is solved without them."""
        return self

    def add_diagonal(self, diag: Tensor) -> Any:
        """What `add_jitter` calls; one number for all is more noise, which GPyTorch would write out n times."""
        if diag.numel() != 1 or not isinstance(self._diag_tensor, ConstantDiagLinearOperator):
            return super().add_diagonal(diag)
        return self + ConstantDiagLinearOperator(diag.reshape(1), self.shape[-1])

    def inv_quad_logdet(
        self, inv_quad_rhs: Tensor | None = None, logdet: bool | None = False, reduce_inv_quad: bool | None = True
    ) -> Any:
        """yᵀK⁻¹y and log det K for y: (n, 1), with the gradients of the paper, section 2."""
        prior, noise = self._linear_op, self._diag_tensor
        if getattr(prior, "solves", None) is None:
            return super().inv_quad_logdet(inv_quad_rhs, logdet, reduce_inv_quad)
        if not (logdet and reduce_inv_quad and inv_quad_rhs is not None and inv_quad_rhs.shape[1:] == (1,)):
            _refuse("another part of the marginal log likelihood than yᵀK⁻¹y with log det K, for one y,")
        _require_one_noise(noise)
        p, sigma = prior.parameters, noise.diag_values.reshape(())
        wants = torch.is_grad_enabled() and any(t.requires_grad for t in (p.lengthscale, p.outputscale, sigma))
        return _InvQuadLogdet.apply(  # type: ignore[no-untyped-call]
            prior.solves, prior.x1.detach(), p.name, wants, p.lengthscale, p.outputscale, sigma, inv_quad_rhs
        )

    def cholesky(self, upper: bool = False) -> Any:
        if getattr(self._linear_op, "solves", None) is not None:
            _refuse("the Cholesky factor of the n × n matrix (LeaveOneOutPseudoLikelihood, samples of the prior)")
        return super().cholesky(upper)


def _require_one_noise(noise: DiagLinearOperator) -> None:
    if not isinstance(noise, ConstantDiagLinearOperator) or noise.diag_values.numel() != 1:
        raise TypeError(
            "the likelihood, or what is added after it, gives different noises to different points; apviz takes one "
            "for all"
        )


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what} was asked for, which is not apviz's inside alternating_projection(): ExactMarginalLogLikelihood is; "
        "leave the context for it"
    )


class _InvQuadLogdet(torch.autograd.Function):
    """yᵀK⁻¹y and log det K; backward is one pass over the entries of K.

    d(yᵀK⁻¹y) = −wᵀ ∂K w + 2wᵀ dy with w = K⁻¹y, and d log det K = tr(K⁻¹∂K): as `Solves` has it, by
    probes (paper, section 2) or exactly. The values are `Solves`' too.
    """

    @staticmethod
    def forward(
        ctx: Any,
        solves: Solves,
        x: Tensor,
        name: str,
        wants: bool,
        lengthscale: Tensor,
        outputscale: Tensor,
        noise: Tensor,
        residual: Tensor,
    ) -> tuple[Tensor, Tensor]:
        kernel = kernel_named(name, lengthscale.detach(), float(outputscale.detach()))
        ctx.solved = solved = solves.train(x, kernel, float(noise.detach()), residual.detach(), wants)
        ctx.save_for_backward(lengthscale, outputscale, noise, residual)
        return solved.inv_quad.to(residual), solved.log_determinant.to(residual)

    @staticmethod
    def backward(ctx: Any, by_inv_quad: Tensor, by_logdet: Tensor) -> tuple[Tensor | None, ...]:
        # with create_graph=True gradients are on here, and what is found has none of its own
        with torch.no_grad():
            found = _InvQuadLogdet._gradients(ctx, by_inv_quad, by_logdet)
        depends_on = (*ctx.saved_tensors, by_inv_quad, by_logdet)
        return None, None, None, None, *(g if g is None else without_gradient(g, depends_on, SECOND) for g in found)

    @staticmethod
    def _gradients(ctx: Any, by_inv_quad: Tensor, by_logdet: Tensor) -> tuple[Tensor | None, ...]:
        solved, (lengthscale, outputscale, noise, residual) = ctx.solved, ctx.saved_tensors
        by_residual = (2 * by_inv_quad * solved.w).to(residual)
        if not any(ctx.needs_input_grad[4:7]):
            return None, None, None, by_residual
        if solved.right is None:
            found = solved.operator.weighted_derivatives(by_logdet * solved.left - by_inv_quad * solved.w @ solved.w.T)
        else:
            left = torch.cat([solved.w, solved.left], dim=1)
            right = torch.cat([-by_inv_quad * solved.w, by_logdet * solved.right], dim=1)
            found = solved.operator.bilinear_derivatives(left, right)
        along = found.lengthscale.to(lengthscale)
        return along, found.outputscale.to(outputscale), found.noise.to(noise), by_residual
