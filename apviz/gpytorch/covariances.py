"""The covariance that GPyTorch works with inside a context in training.

GPyTorch adds the likelihood's noise to the model's k(X, X), and asks the sum for yᵀK⁻¹y and log det K. It never
evaluates k(X, X) itself.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from functools import cache
from typing import Any, NoReturn

import torch
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.lazy import LazyEvaluatedKernelTensor
from linear_operator.operators import (
    AddedDiagLinearOperator,
    ConstantDiagLinearOperator,
    DiagLinearOperator,
)
from torch import Tensor

from apviz.gpytorch.kernels import check_batch
from apviz.gpytorch.models import Prior, check_likelihood, noise_in, noise_of
from apviz.gpytorch.solves import Solves
from apviz.kernels import Kernel


class PriorDistribution(MultivariateNormal):  # type: ignore[misc]
    """A model's prior or, with the noise of a likelihood, its marginal, whose density apviz solves for."""

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log density; GPyTorch's own takes Cholesky if `fast_computations.log_prob` is off (BoTorch)."""
        covariance = self.lazy_covariance_matrix
        if not isinstance(covariance, MarginalCovariance):
            density: Tensor = super().log_prob(value)
            return density
        difference = value - self.loc
        inv_quad, logdet = covariance.inv_quad_logdet(difference[..., None], logdet=True)
        found: Tensor = -0.5 * (inv_quad + logdet + difference.shape[-1] * math.log(2 * math.pi))
        return found


class PriorOfOutputs(MultitaskMultivariateNormal, PriorDistribution):  # type: ignore[misc]
    """A `PriorDistribution` of several outputs."""


class PriorCovariance:
    """The prior's k(X, X), which becomes a `MarginalCovariance` once a likelihood adds its noise.

    A mixin of classes that also derive from the class of the model's covariance. Slices of such a covariance have no
    solves, and behave as GPyTorch's own.
    """

    # set by `of` only
    solves: Solves | None = None
    prior: Prior

    @staticmethod
    def of(prior: Prior, solves: Solves) -> Any:
        """Return the covariance of a model's prior with `solves` attached."""
        covariance = prior.covariance
        if isinstance(covariance, LazyEvaluatedKernelTensor):
            made = _prior_class(LazyEvaluatedKernelTensor)(
                covariance.x1, covariance.x2, covariance.kernel, **covariance.params
            )
        else:
            kind: Any = type(covariance)
            made = _prior_class(kind)(*covariance._args, **covariance._kwargs)
        made.solves, made.prior = solves, prior
        return made

    def __add__(self, other: Any) -> Any:
        if self.solves is None or not isinstance(other, DiagLinearOperator):
            return super().__add__(other)  # type: ignore[misc]
        return MarginalCovariance(self, other)

    def add_diagonal(self, diag: Tensor) -> Any:
        if self.solves is None:
            return super().add_diagonal(diag)  # type: ignore[misc]
        return self + diagonal_of(diag, self.shape[-1])  # type: ignore[attr-defined]


def prior_distribution(prior: Prior, solves: Solves) -> PriorDistribution:
    """Return the distribution that stands for a model's output in training."""
    covariance = PriorCovariance.of(prior, solves)
    mean = prior.mean.expand(*prior.batch, prior.mean.shape[-1])
    if prior.outputs is None:
        return PriorDistribution(mean, covariance)
    return PriorOfOutputs(mean.reshape(*prior.batch, -1, prior.outputs), covariance)


def marginal_of_tasks(call_next: Any, likelihood: Any, output: Any, *args: Any, **kwargs: Any) -> Any:
    """Intercept `marginal` of multitask likelihoods, which would evaluate k(X, X) first."""
    covariance = output.lazy_covariance_matrix
    if not isinstance(output, PriorDistribution) or getattr(covariance, "solves", None) is None:
        return call_next(likelihood, output, *args, **kwargs)
    check_likelihood(likelihood, covariance.prior.outputs)
    return PriorOfOutputs(output.mean, covariance + noise_of(likelihood, covariance.prior, args))


@cache
def _prior_class(kind: Hashable) -> Any:
    assert isinstance(kind, type)
    return type(f"Prior{kind.__name__}", (PriorCovariance, kind), {})


class MarginalCovariance(AddedDiagLinearOperator):  # type: ignore[misc]
    """K = k(X, X) + D; GPyTorch keeps the summands as `_linear_op` and `_diag_tensor`, without public names."""

    def evaluate_kernel(self) -> MarginalCovariance:
        """Return itself: GPyTorch evaluates the kernel before every solve, and these solves need no entries."""
        return self

    def add_diagonal(self, diag: Tensor) -> Any:
        """Add jitter; a single number becomes more noise, which GPyTorch would write out n times."""
        return self + diagonal_of(diag, self.shape[-1])

    def inv_quad_logdet(
        self, inv_quad_rhs: Tensor | None = None, logdet: bool | None = False, reduce_inv_quad: bool | None = True
    ) -> Any:
        """Solve for yᵀK⁻¹y and log det K, y: (*batch, n, 1), with the gradients of the paper, section 2."""
        covariance, noise = self._linear_op, self._diag_tensor
        if getattr(covariance, "solves", None) is None:
            return super().inv_quad_logdet(inv_quad_rhs, logdet, reduce_inv_quad)
        if not (logdet and reduce_inv_quad and inv_quad_rhs is not None and inv_quad_rhs.shape[-1] == 1):
            _refuse("a part of the marginal log likelihood other than yᵀK⁻¹y with log det K for one y")
        prior, found = covariance.prior, []
        check_batch("the targets' difference from the mean", inv_quad_rhs.shape[:-2], prior.batch)
        for member, expression in prior.members:
            sigma, y = expression.noise_with(noise_in(noise, member)), member.of(inv_quad_rhs, 2)
            wants_gradient = torch.is_grad_enabled() and (expression.wants_gradient() or sigma.requires_grad)
            settings = covariance.solves, (prior.model, member.index), expression.kernel, wants_gradient
            tensors = sigma, y, expression.x, *expression.tensors
            found.append(_InvQuadLogdet.apply(*settings, *tensors))  # type: ignore[no-untyped-call]
        return tuple(torch.stack(each).reshape(prior.batch) for each in zip(*found, strict=True))

    def cholesky(self, upper: bool = False) -> Any:
        if getattr(self._linear_op, "solves", None) is not None:
            _refuse("the Cholesky factor of the n × n matrix (the entropy of a marginal, samples of one)")
        return super().cholesky(upper)


def diagonal_of(values: Tensor, n: int) -> DiagLinearOperator:
    """Return a diagonal matrix of n values, or of one repeated value."""
    return ConstantDiagLinearOperator(values.reshape(1), n) if values.numel() == 1 else DiagLinearOperator(values)


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"apviz does not compute {what} inside alternating_projection(); use ExactMarginalLogLikelihood, or leave the "
        "context"
    )


class _InvQuadLogdet(torch.autograd.Function):
    """The autograd function of yᵀK⁻¹y and log det K; backward is one pass over the entries of K.

    d(yᵀK⁻¹y) = −wᵀ ∂K w + 2wᵀ dy with w = K⁻¹y, and d log det K = tr(K⁻¹∂K), which `Solves` computes with probes
    (paper, section 2) or exactly, like the values.
    """

    @staticmethod
    def forward(
        ctx: Any, solves: Solves, model: Hashable, kernel: Kernel, wants_gradient: bool, noise: Tensor,
        residual: Tensor, x: Tensor, *tensors: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        ctx.solved = solved = solves.train(x, kernel, noise.detach(), residual.detach(), wants_gradient, model)
        ctx.save_for_backward(noise, residual, x, *tensors)
        return solved.inv_quad.to(residual), solved.log_determinant.to(residual)

    @staticmethod
    def backward(ctx: Any, by_inv_quad: Tensor, by_logdet: Tensor) -> tuple[Tensor | None, ...]:
        # create_graph=True turns gradients on here, but these have no graph of their own
        with torch.no_grad():
            found = _InvQuadLogdet._gradients(ctx, by_inv_quad, by_logdet)
        depends_on = (*ctx.saved_tensors, by_inv_quad, by_logdet)
        given = (g if g is None else without_gradient(g, depends_on, NO_SECOND_DERIVATIVES) for g in found)
        return (None, None, None, None, *given)

    @staticmethod
    def _gradients(ctx: Any, by_inv_quad: Tensor, by_logdet: Tensor) -> Iterator[Tensor | None]:
        """Return the gradients in the noise, the residual, the inputs and the kernel's tensors."""
        solved, (noise, residual, x, *tensors) = ctx.solved, ctx.saved_tensors
        by_residual = (2 * by_inv_quad * solved.w).to(residual)
        if not any(ctx.needs_input_grad[k] for k in range(4, 7 + len(tensors)) if k != 5):
            return iter([None, by_residual, None, *(None for _ in tensors)])
        with_inputs = ctx.needs_input_grad[6]
        if solved.right is None:
            m = by_logdet * solved.left - by_inv_quad * solved.w @ solved.w.T
            found = solved.operator.weighted_derivatives(m, with_inputs)
        else:
            left = torch.cat([solved.w, solved.left], dim=1)
            right = torch.cat([-by_inv_quad * solved.w, by_logdet * solved.right], dim=1)
            found = solved.operator.bilinear_derivatives(left, right, with_inputs)
        by_x = None if found.inputs is None else found.inputs.to(x)
        by_tensors = (g.to(tensor) for g, tensor in zip(found.kernel.values(), tensors, strict=True))
        return iter([found.noise.to(noise), by_residual, by_x, *by_tensors])


# --- second derivatives -----------------------------------------------------------------------------------------------

NO_SECOND_DERIVATIVES = (
    "apviz.gpytorch has no second derivatives of the marginal log likelihood (create_graph=True, Hessians): take "
    "differences of its gradients, or differentiate twice outside alternating_projection()"
)


class _Refused(torch.autograd.Function):
    """The identity, whose backward raises; a tensor without a graph would give zeros instead."""

    @staticmethod
    def forward(ctx: Any, why: str, values: Tensor, *_: Tensor) -> Tensor:
        ctx.why = why
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(ctx.why)


def without_gradient(values: Tensor, depends_on: Iterable[Tensor], why: str) -> Tensor:
    """Return the values with a graph in `depends_on` that raises `why`; detached where gradients are off."""
    wanting = [tensor for tensor in depends_on if tensor.requires_grad]
    if not (wanting and torch.is_grad_enabled()):
        return values.detach()
    refused: Tensor = _Refused.apply(why, values.detach(), *wanting)  # type: ignore[no-untyped-call]
    return refused
