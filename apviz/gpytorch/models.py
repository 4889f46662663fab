"""The parts of a GPyTorch model that apviz supports: diagonal Gaussian noise, kernels, any mean, batches, outputs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.likelihoods.gaussian_likelihood import _GaussianLikelihoodBase
from gpytorch.likelihoods.multitask_gaussian_likelihood import _MultitaskGaussianLikelihoodBase
from gpytorch.models import ExactGP
from linear_operator.operators import ConstantDiagLinearOperator, DiagLinearOperator, ZeroLinearOperator
from torch import Tensor

from apviz.gpytorch.evaluated import a
from apviz.gpytorch.expressions import Expression, expression_of
from apviz.gpytorch.kernels import Member, check_batch
from apviz.hyperparameters import Hyperparameters

# training rows that are passed to a model alone, to check that it treats every row by itself
ROWS = 8


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior of a model, or of a batch of models, at some inputs.

    Args:
        mean: (*batch, n); several outputs of one input are side by side.
        covariance: k(X, X), unevaluated.
        members: the models of the batch, each with its k as apviz reads it; one if there is no batch.
        outputs: number of outputs of each input; None: one, in a distribution without a dimension for outputs.
        model: `id` of the model.
    """

    mean: Tensor
    covariance: Any
    members: tuple[tuple[Member, Expression], ...]
    outputs: int | None
    model: int

    @property
    def batch(self) -> torch.Size:
        """Return the shape of the batch."""
        return self.members[0][0].batch

    def distribution(self, mean: Tensor, covariance: Any) -> MultivariateNormal:
        """Return a distribution of the prior's kind: mean (*batch, n), with outputs ordered as in `mean`."""
        if self.outputs is None:
            return MultivariateNormal(mean, covariance)
        return MultitaskMultivariateNormal(mean.reshape(*mean.shape[:-1], -1, self.outputs), covariance)


def check_likelihood(likelihood: Any, outputs: int | None) -> None:
    """Refuse a likelihood that is not Gaussian, or has several outputs where the prior has one."""
    if not isinstance(likelihood, _GaussianLikelihoodBase):
        raise TypeError(
            f"likelihood is {a(likelihood)}; apviz takes Gaussian likelihoods, of one noise or of one for each row"
        )
    if outputs is None and isinstance(likelihood, _MultitaskGaussianLikelihoodBase):
        raise TypeError(f"likelihood is {a(likelihood)}, of several outputs, and the model's prior has one")


def noise_of(likelihood: Any, prior: Prior, inputs: Any) -> DiagLinearOperator:
    """Return the noise σ² that a likelihood adds at the training inputs, differentiable: (*batch, n, n)."""
    check_likelihood(likelihood, prior.outputs)
    mean = prior.mean.expand(*prior.batch, prior.mean.shape[-1])
    n = mean.shape[-1]
    nothing = ZeroLinearOperator(*prior.batch, n, n, dtype=mean.dtype, device=mean.device)
    marginal = likelihood(prior.distribution(mean, nothing), inputs)
    added = getattr(marginal, "lazy_covariance_matrix", None)
    if not isinstance(added, DiagLinearOperator) or not (marginal.loc == mean).all():
        what = "no noise" if isinstance(added, ZeroLinearOperator) else "more than a diagonal"
        raise TypeError(
            f"likelihood is {a(likelihood)}, which adds {what} to a prior at the training inputs; apviz takes one "
            "noise, or one for each row"
        )
    return added


def noise_in(added: DiagLinearOperator, member: Member) -> Tensor:
    """Return the noise of one model of a batch: 0-d if it is the same for all rows, otherwise (n,)."""
    check_batch("the likelihood's noise", added.batch_shape, member.batch)
    one = isinstance(added, ConstantDiagLinearOperator)
    noise = member.of(added.diag_values if one else added._diagonal(), 1)
    return noise.reshape(()) if one else noise


def prior_of(model: Any, output: Any) -> Prior:
    """Read the prior that `model.forward` returned."""
    forward = f"{type(model).__name__}.forward"
    if type(output) not in (MultivariateNormal, MultitaskMultivariateNormal):
        raise TypeError(f"{forward} returned {a(output)}; apviz takes a MultivariateNormal, also of several outputs")
    outputs = None
    if isinstance(output, MultitaskMultivariateNormal):
        outputs = output.event_shape[-1]
        if not output._interleaved:
            raise TypeError(f"{forward} returned outputs one after the other; apviz takes them with interleaved=True")
    covariance = output.lazy_covariance_matrix
    batch = torch.Size(torch.broadcast_shapes(output.loc.shape[:-1], covariance.batch_shape))  # type: ignore[no-untyped-call]
    members = tuple(
        (member, expression_of(covariance, lambda kernel: _where(model, kernel), forward, member))
        for member in (Member(batch, index) for index in product(*map(range, batch)))
    )
    if len(members[0][1].x) != output.loc.shape[-1]:
        raise ValueError(
            f"{forward} returned a mean of {output.loc.shape[-1]} rows, and a covariance of {len(members[0][1].x)}"
        )
    return Prior(output.loc, covariance, members, outputs, id(model))


def prior_at(model: Any, inputs: Any, **kwargs: Any) -> Prior:
    """Return the prior of a model at `inputs`, in training or evaluation mode; raises as `prior_of`."""
    return prior_of(model, super(ExactGP, model).__call__(*inputs, **kwargs))


def check_rows(model: Any, prior: Prior, **kwargs: Any) -> None:
    """Refuse a `forward` that does not treat every row by itself; evaluates some training rows alone."""
    rows = min(ROWS, model.train_inputs[0].shape[-2] // 2)
    if not rows:
        return
    # with the graph, if there is one: it decides which inputs of kernels are one
    few = prior_at(model, [each[..., :rows, :] for each in model.train_inputs], **kwargs)
    (_, some), (_, whole) = few.members[0], prior.members[0]
    means = few.mean, prior.mean[..., : few.mean.shape[-1]]
    for found, expected in ((some.x, whole.x[: len(some.x)]), means):
        scale = float(expected.detach().nan_to_num().abs().max())
        if not torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * scale, equal_nan=True):
            raise TypeError(
                f"{type(model).__name__}.forward makes a row depend on other rows, for example by dividing features "
                "by their largest: a prediction would depend on the other test inputs of its call; divide by constants "
                "kept from training, as gpytorch.utils.grid.ScaleToBounds does"
            )


def hyperparameters(model: Any) -> Hyperparameters:
    """Return the hyperparameters of an `ExactGP`, for apviz's own solvers.

    Raises:
        TypeError, ValueError: an unsupported part, by name; a mean that is not constant on the training inputs; a
            kernel that does not get the inputs unchanged; a model without training inputs; a batch of models.
    """
    if not isinstance(model, ExactGP):
        raise TypeError(f"model must be a gpytorch.models.ExactGP, got {a(model)}")
    if model.train_inputs is None:
        raise ValueError("the model has no training inputs: give it some with set_train_data")
    with torch.no_grad():
        prior = prior_at(model, model.train_inputs)
        noise = noise_of(model.likelihood, prior, model.train_inputs)
    (member, expression), *others = prior.members
    if others:
        raise ValueError(f"the model is a batch of {1 + len(others)} models; hyperparameters() takes a single model")
    x = model.train_inputs[0]
    if len(model.train_inputs) > 1 or not torch.equal(expression.x, x if x.ndim > 1 else x[:, None]):
        raise ValueError(
            "the kernel does not get the training inputs unchanged (active_dims, learned features, or several inputs)"
        )
    if expression.kernel.is_evaluated:
        raise TypeError(f"apviz has no kernel of its own for {expression.kernel!r}")
    if not (prior.mean == prior.mean[0]).all():
        raise ValueError("the prior mean is not constant on the training inputs; subtract it from the targets instead")
    sigma = expression.noise_with(noise_in(noise, member))
    if sigma.ndim:
        raise ValueError("every row has its own noise; use apviz.KernelSystem(noise=…) or apviz.Posterior(noises=…)")
    return Hyperparameters.of(expression.kernel, sigma.item(), prior.mean[0].item(), f"GPyTorch {type(model).__name__}")


def _where(model: Any, module: Any) -> str:
    return next((name for name, other in model.named_modules() if other is module), "the kernel")
