"""Parts of a GPyTorch model that apviz takes: one Gaussian noise, kernels that apviz has, any mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gpytorch import likelihoods
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods.noise_models import HomoskedasticNoise
from gpytorch.models import ExactGP
from torch import Tensor

from apviz.gpytorch.kernels import Expression, a, expression_of
from apviz.hyperparameters import Hyperparameters


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior of a model at some inputs: mean (n,), k(X, X) unevaluated, and what it is in apviz's words."""

    mean: Tensor
    covariance: Any
    expression: Expression


def noise_of(likelihood: Any, where: str = "likelihood") -> Tensor:
    """The noise σ² of a GaussianLikelihood, a 0-d tensor as GPyTorch differentiates it.

    Raises:
        TypeError: another likelihood, or another noise model in it.
        ValueError: several noises.
    """
    gaussian, kind = likelihoods.GaussianLikelihood, type(likelihood)
    own = ("__call__", "marginal", "_shaped_noise_covar", "noise")
    if not isinstance(likelihood, gaussian) or any(getattr(kind, name) is not getattr(gaussian, name) for name in own):
        raise TypeError(f"{where} is {a(likelihood)}; apviz takes a GaussianLikelihood: one noise for all points")
    if type(likelihood.noise_covar) is not HomoskedasticNoise:
        raise TypeError(f"{where}.noise_covar is {a(likelihood.noise_covar)}; apviz takes one noise for all points")
    noise: Tensor = likelihood.noise
    if noise.numel() != 1 or noise.ndim > 1:
        raise ValueError(f"{where}.noise has shape {tuple(noise.shape)}; apviz takes one noise for all points")
    return noise.reshape(())


def prior_of(model: Any, output: Any) -> Prior:
    """The prior that `model.forward` returned, if apviz takes it.

    Raises:
        TypeError: a distribution, a covariance or a kernel that apviz does not have; the part is named.
        ValueError: batch dimensions, or a covariance between two sets of inputs.
    """
    forward = f"{type(model).__name__}.forward"
    if type(output) is not MultivariateNormal:
        raise TypeError(f"{forward} returned {a(output)}; apviz takes a MultivariateNormal, one output")
    covariance = output.lazy_covariance_matrix
    if output.loc.ndim != 1:
        raise ValueError(f"the mean has shape {tuple(output.loc.shape)}; apviz takes (n,), without batches")
    return Prior(output.loc, covariance, expression_of(covariance, lambda kernel: _where(model, kernel), forward))


def prior_at(model: Any, inputs: Any, **kwargs: Any) -> Prior:
    """The prior of a model at `inputs`, whatever mode it is in; raises as `prior_of`."""
    return prior_of(model, super(ExactGP, model).__call__(*inputs, **kwargs))


def hyperparameters(model: Any) -> Hyperparameters:
    """The hyperparameters of an `ExactGP`, for apviz's own solvers.

    Raises:
        TypeError, ValueError: a part that apviz does not take, named; a mean that is not constant on the training
            inputs; a kernel that does not see them as they are; a model without training inputs.
    """
    if not isinstance(model, ExactGP):
        raise TypeError(f"model must be a gpytorch.models.ExactGP, got {a(model)}")
    if model.train_inputs is None:
        raise ValueError("the model has no training inputs: give it some with set_train_data")
    noise = noise_of(model.likelihood)
    with torch.no_grad():
        prior = prior_at(model, model.train_inputs)
    x = model.train_inputs[0]
    if len(model.train_inputs) > 1 or not torch.equal(prior.expression.x, x if x.ndim > 1 else x[:, None]):
        raise ValueError(
            "the kernel does not see the training inputs as they are (active_dims, learned features, or several)"
        )
    if not (prior.mean == prior.mean[0]).all():
        raise ValueError("the prior mean is not constant on the training inputs; subtract it from the targets instead")
    kernel = prior.expression.kernel
    return Hyperparameters.of(kernel, noise.item(), prior.mean[0].item(), f"GPyTorch {type(model).__name__}")


def _where(model: Any, module: Any) -> str:
    return next((name for name, other in model.named_modules() if other is module), "the kernel")
