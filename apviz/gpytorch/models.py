"""Parts of a GPyTorch model that apviz takes: one Gaussian noise, a (scaled) kernel that apviz has, any mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch import kernels, likelihoods
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import keops
from gpytorch.lazy import LazyEvaluatedKernelTensor
from gpytorch.likelihoods.noise_models import HomoskedasticNoise
from gpytorch.models import ExactGP
from torch import Tensor

from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS, Kernel, kernel_named

CLASSES = list(dict.fromkeys(kind.gpytorch[0] for kind in KERNELS.values() if kind.gpytorch))
TAKEN = f"apviz takes {', '.join(CLASSES[:-1])} and {CLASSES[-1]}, alone or inside a ScaleKernel"
# what a subclass of a kernel may have of its own: how it is made and described, not what it computes
HARMLESS = (
    "__init__", "__module__", "__doc__", "__annotations__", "__repr__", "__str__", "__firstlineno__",
    "__static_attributes__", "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__dict__",
    "__weakref__", "__slots__",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class KernelParameters:
    """A kernel's name and its values as GPyTorch differentiates them.

    Args:
        lengthscale: (1,) or (d,).
        outputscale: ().
        shape: () each, by name; apviz has no gradient in these.
        where: what has these parameters, in the model.
    """

    name: str
    lengthscale: Tensor
    outputscale: Tensor
    shape: Mapping[str, Tensor]
    where: str

    def kernel(self) -> Kernel:
        shape = {name: float(value.detach()) for name, value in self.shape.items()}
        return kernel_named(self.name, self.lengthscale.detach(), float(self.outputscale.detach()), **shape)

    def require_fixed_shape(self) -> None:
        """Checks that no gradient in the shape is asked for.

        Raises:
            ValueError: naming the parameter, and how to fix it.
        """
        for name, value in self.shape.items():
            if value.requires_grad and torch.is_grad_enabled():
                raise ValueError(
                    f"{name} of {self.where} is to be trained, and apviz has no gradient in it; fix it: "
                    f"kernel.raw_{name}.requires_grad_(False)"
                )


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior of a model at some inputs: mean (n,), k(X, X) unevaluated, and the kernel's parameters."""

    mean: Tensor
    covariance: Any
    parameters: KernelParameters

    @property
    def x(self) -> Tensor:
        """The inputs that the kernel sees, (n, d)."""
        x: Tensor = self.covariance.x1
        return x


def kernel_parameters(kernel: Any, where: str = "the kernel") -> KernelParameters:
    """The parameters of a GPyTorch kernel.

    Args:
        where: its name in the model, for messages.

    Raises:
        TypeError: a kernel that apviz does not have.
        ValueError: one with batch dimensions.
    """
    # a subclass that computes something else, such as RBFKernelGrad, is another kernel
    _check_own(kernel, where)
    if type(kernel).forward is kernels.ScaleKernel.forward:
        base, outputscale, where_base = kernel.base_kernel, kernel.outputscale, f"{where}.base_kernel"
    else:
        base, outputscale, where_base = kernel, None, where
    _check_own(base, where_base)
    name = _name(base)
    if name is None:
        raise TypeError(f"{where_base} is {_a(base)}; {TAKEN}")
    if len(kernel.batch_shape):
        raise ValueError(f"{where} has batch shape {tuple(kernel.batch_shape)}; apviz takes a kernel without batches")
    lengthscale = base.lengthscale.reshape(-1)
    outputscale = lengthscale.new_ones(()) if outputscale is None else outputscale
    shape = {parameter: getattr(base, parameter).reshape(()) for parameter in KERNELS[name].parameter_names()}
    return KernelParameters(name, lengthscale, outputscale, shape, where_base)


def _check_own(kernel: Any, where: str) -> None:
    """Refuses a subclass, or an object, that overrides anything of what GPyTorch computes with its kernel.

    Raises:
        TypeError: naming what it overrides.
    """
    own = next(kind for kind in type(kernel).__mro__ if kind.__module__.startswith("gpytorch."))
    changed = [name for name in vars(kernel) if callable(getattr(own, name, None))]
    for kind in type(kernel).__mro__[: type(kernel).__mro__.index(own)]:
        changed += [
            name
            for name, value in vars(kind).items()
            if name not in HARMLESS and hasattr(own, name) and value is not getattr(own, name)
        ]
    if changed:
        raise TypeError(
            f"{where} is {_a(kernel)}, which overrides {', '.join(changed)} of GPyTorch's {own.__name__}: another "
            f"kernel; {TAKEN}, as GPyTorch has them"
        )


def _name(kernel: Any) -> str | None:
    """That of apviz's kernel which computes the same; None where there is none."""
    forward = type(kernel).forward
    for name, kind in KERNELS.items():
        theirs, settings = kind.gpytorch or ("", {})
        classes = [getattr(room, theirs) for room in (kernels, keops) if hasattr(room, theirs)]
        same = any(forward is each.forward for each in classes)
        if same and all(getattr(kernel, setting) == value for setting, value in settings.items()):
            return name
    return None


def noise_of(likelihood: Any, where: str = "likelihood") -> Tensor:
    """The noise σ² of a GaussianLikelihood, a 0-d tensor as GPyTorch differentiates it.

    Raises:
        TypeError: another likelihood, or another noise model in it.
        ValueError: several noises.
    """
    gaussian, kind = likelihoods.GaussianLikelihood, type(likelihood)
    own = ("__call__", "marginal", "_shaped_noise_covar", "noise")
    if not isinstance(likelihood, gaussian) or any(getattr(kind, name) is not getattr(gaussian, name) for name in own):
        raise TypeError(f"{where} is {_a(likelihood)}; apviz takes a GaussianLikelihood: one noise for all points")
    if type(likelihood.noise_covar) is not HomoskedasticNoise:
        raise TypeError(f"{where}.noise_covar is {_a(likelihood.noise_covar)}; apviz takes one noise for all points")
    noise: Tensor = likelihood.noise
    if noise.numel() != 1 or noise.ndim > 1:
        raise ValueError(f"{where}.noise has shape {tuple(noise.shape)}; apviz takes one noise for all points")
    return noise.reshape(())


def prior_of(model: Any, output: Any) -> Prior:
    """The prior that `model.forward` returned, if apviz takes it.

    Raises:
        TypeError: a distribution, a covariance or a kernel that apviz does not have; the part is named.
        ValueError: batch dimensions, a covariance between two sets of inputs, or inputs that want a gradient.
    """
    forward = f"{type(model).__name__}.forward"
    if type(output) is not MultivariateNormal:
        raise TypeError(f"{forward} returned {_a(output)}; apviz takes a MultivariateNormal, one output")
    covariance = output.lazy_covariance_matrix
    if not isinstance(covariance, LazyEvaluatedKernelTensor):
        raise TypeError(
            f"the covariance that {forward} returned is {_a(covariance)}, not what one kernel returned for the inputs; "
            f"{TAKEN}"
        )
    parameters = kernel_parameters(covariance.kernel, _where(model, covariance.kernel))
    x = covariance.x1
    if x.ndim != 2 or output.loc.ndim != 1 or covariance.last_dim_is_batch:
        raise ValueError(f"the inputs of the kernel have shape {tuple(x.shape)}; apviz takes (n, d), without batches")
    if not same_inputs(x, covariance.x2):
        raise ValueError(
            f"the covariance that {forward} returned is k(x, z) for two sets of inputs, which differ; apviz takes "
            "k(x, x), as covar_module(x) gives it"
        )
    if x.requires_grad or covariance.x2.requires_grad:
        raise ValueError(
            f"the inputs that {forward} gives the kernel want a gradient (learned features, or inputs to optimise); "
            "apviz differentiates in the hyperparameters and the mean alone: detach them"
        )
    return Prior(output.loc, covariance, parameters)


def same_inputs(x: Tensor, z: Tensor) -> bool:
    """Tests whether both are (n, d) and the same; what is not finite is refused later, in its own words."""
    return x is z or (x.shape == z.shape and torch.allclose(x, z, rtol=0.0, atol=0.0, equal_nan=True))


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
        raise TypeError(f"model must be a gpytorch.models.ExactGP, got {_a(model)}")
    if model.train_inputs is None:
        raise ValueError("the model has no training inputs: give it some with set_train_data")
    noise = noise_of(model.likelihood)
    with torch.no_grad():
        prior = prior_at(model, model.train_inputs)
    x = model.train_inputs[0]
    if len(model.train_inputs) > 1 or not torch.equal(prior.x, x if x.ndim > 1 else x[:, None]):
        raise ValueError("the kernel does not see the training inputs as they are (active_dims, or learned features)")
    if not (prior.mean == prior.mean[0]).all():
        raise ValueError("the prior mean is not constant on the training inputs; subtract it from the targets instead")
    kernel = prior.parameters.kernel()
    return Hyperparameters.of(kernel, noise.item(), prior.mean[0].item(), f"GPyTorch {type(model).__name__}")


def _where(model: Any, module: Any) -> str:
    return next((name for name, other in model.named_modules() if other is module), "the kernel")


def _a(thing: object) -> str:
    """The class of a thing, with its article."""
    name = type(thing).__name__
    return f"a{'n' if name.startswith(('A', 'E', 'I', 'O', 'RBF')) else ''} {name}"
