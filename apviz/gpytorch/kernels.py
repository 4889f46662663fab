"""GPyTorch's kernels, and sums and products of what they return, as apviz's, with the tensors they are trained by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any

import torch
from gpytorch import kernels
from gpytorch.kernels import keops
from gpytorch.lazy import LazyEvaluatedKernelTensor
from linear_operator import to_linear_operator
from linear_operator.operators import ConstantMulLinearOperator, LinearOperator, SumLinearOperator
from torch import Tensor

from apviz.kernels import (
    KERNELS,
    Constant,
    Cosine,
    Groups,
    Kernel,
    Linear,
    Periodic,
    PiecewisePolynomial,
    Polynomial,
    SpectralMixture,
)

#: terms of a product of mixtures, beyond which it is not written out
MAX_TERMS = 256
TAKEN = (
    "apviz takes RBF, Matérn, RQ, periodic, linear, polynomial, constant, cosine, spectral mixture, piecewise "
    "polynomial (q = 0, 1, 3) and index kernels, as GPyTorch has them, and sums, products, ScaleKernel and active_dims "
    "of them"
)
# what a subclass of a kernel may have of its own: how it is made and described, not what it computes
HARMLESS = (
    "__init__", "__module__", "__doc__", "__annotations__", "__repr__", "__str__", "__firstlineno__",
    "__static_attributes__", "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__dict__",
    "__weakref__", "__slots__",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Expression:
    """A kernel of some inputs, and its hyperparameters as GPyTorch differentiates them.

    Args:
        x: (n, d) inputs.
        kernel: of apviz, at the current hyperparameters.
        tensors: 1-d, one for each of `kernel.hyperparameters`, in that order.
    """

    x: Tensor
    kernel: Kernel
    tensors: tuple[Tensor, ...]

    def wants_gradient(self) -> bool:
        """Tests whether anything of it is to be differentiated."""
        return any(tensor.requires_grad for tensor in (self.x, *self.tensors))


def expression_of(covariance: Any, where: Callable[[Any], str], made_by: str = "forward") -> Expression:
    """Reads what a model returned: a kernel's, or a sum, product or multiple of such.

    Args:
        where: the name of a kernel in the model, for messages.
        made_by: what returned it, for messages.

    Raises:
        TypeError: something that apviz does not have; the part is named.
        ValueError: batch dimensions, or a covariance between two sets of inputs.
    """
    if isinstance(covariance, LazyEvaluatedKernelTensor):
        return _of_kernel(covariance, where, made_by)
    if type(covariance) is SumLinearOperator:
        return _together([expression_of(each, where, made_by) for each in covariance.linear_ops], add)
    if isinstance(covariance, UnevaluatedProduct):
        return _together([expression_of(each, where, made_by) for each in (covariance.left, covariance.right)], mul)
    if type(covariance) is ConstantMulLinearOperator and covariance._constant.numel() == 1:
        inner = expression_of(covariance.base_linear_op, where, made_by)
        return Expression(inner.x, *_scaled(inner.kernel, inner.tensors, covariance._constant.reshape(1)))
    raise TypeError(
        f"the covariance that {made_by} returned is {a(covariance)}, not what kernels returned for the inputs; {TAKEN}"
    )


class UnevaluatedProduct(LinearOperator):  # type: ignore[misc]
    """The entrywise product of what two kernels returned, where GPyTorch would evaluate both at once."""

    def __init__(self, left: Any, right: Any) -> None:
        super().__init__(left, right)
        self.left, self.right = left, right

    @classmethod
    def instead(cls, call_next: Any, left: Any, right: Any) -> Any:
        """Stands before `LinearOperator.mul`."""
        unevaluated = LazyEvaluatedKernelTensor, UnevaluatedProduct
        both = isinstance(left, unevaluated) and isinstance(right, unevaluated)
        return cls(left, right) if both and left.shape == right.shape else call_next(left, right)

    def evaluate_kernel(self) -> Any:
        return to_linear_operator(self.to_dense())

    def to_dense(self) -> Tensor:
        product: Tensor = self.left.to_dense() * self.right.to_dense()
        return product

    def _size(self) -> torch.Size:
        size: torch.Size = self.left.shape
        return size

    def _transpose_nonbatch(self) -> Any:
        return type(self)(self.left._transpose_nonbatch(), self.right._transpose_nonbatch())

    def _matmul(self, rhs: Tensor) -> Tensor:
        product: Tensor = self.to_dense() @ rhs
        return product

    def _diagonal(self) -> Tensor:
        diagonal: Tensor = self.left._diagonal() * self.right._diagonal()
        return diagonal


def convert(
    kernel: Any, d: int, where: str = "the kernel", *, selected: bool = False
) -> tuple[Kernel, tuple[Tensor, ...]]:
    """Converts a GPyTorch kernel of inputs with d columns; the tensors are those of `Expression`.

    Args:
        selected: whether the columns are those that the kernel's active_dims chose, as in what it returned.

    Raises:
        TypeError: a kernel that apviz does not have.
        ValueError: one with batch dimensions.
    """
    _check(kernel, where)
    dims = None if selected else getattr(kernel, "active_dims", None)
    columns = None if dims is None else dims.tolist()
    found, tensors = _by_kind(kernel, d if columns is None else len(columns), where)
    return (found if columns is None else found.on(columns)), tensors


def _check(kernel: Any, where: str) -> None:
    # a subclass that computes something else, such as RBFKernelGrad, is another kernel
    check_own(kernel, where)
    if len(kernel.batch_shape):
        raise ValueError(f"{where} has batch shape {tuple(kernel.batch_shape)}; apviz takes a kernel without batches")


def _by_kind(kernel: Any, d: int, where: str) -> tuple[Kernel, tuple[Tensor, ...]]:
    forward = type(kernel).forward

    def computes_as(*names: str) -> bool:
        rooms = [getattr(room, name) for room in (kernels, keops) for name in names if hasattr(room, name)]
        return any(forward is each.forward for each in rooms)

    if computes_as("ScaleKernel"):
        # it takes on the columns of what it scales, and chooses them itself
        _check(kernel.base_kernel, f"{where}.base_kernel")
        inner, tensors = _by_kind(kernel.base_kernel, d, f"{where}.base_kernel")
        return _scaled(inner, tensors, kernel.outputscale.reshape(1))
    for kind, combine in (("AdditiveKernel", add), ("ProductKernel", mul)):
        if computes_as(kind):
            pairs = [convert(each, d, f"{where}.kernels.{k}") for k, each in enumerate(kernel.kernels)]
            return reduce(combine, (pair[0] for pair in pairs)), tuple(t for pair in pairs for t in pair[1])
    for kind, combine in (("AdditiveStructureKernel", add), ("ProductStructureKernel", mul)):
        if computes_as(kind):
            one, tensors = convert(kernel.base_kernel, 1, f"{where}.base_kernel")
            return reduce(combine, (one.on(k) for k in range(d))), tensors * d
    one_ = torch.ones(1, dtype=torch.float64)
    for name, theirs in KERNELS.items():
        named, settings = theirs.gpytorch or ("", {})
        if computes_as(named) and all(getattr(kernel, key) == value for key, value in settings.items()):
            shape = {parameter: getattr(kernel, parameter).reshape(1) for parameter in theirs.parameter_names()}
            return _leaf(KERNELS[name], lengthscale=kernel.lengthscale, **shape)
    if computes_as("PeriodicKernel"):
        return _leaf(Periodic, lengthscale=kernel.lengthscale.sqrt(), period=kernel.period_length)
    if computes_as("LinearKernel"):
        return _leaf(Linear, lengthscale=kernel.variance.rsqrt())
    if computes_as("PolynomialKernel"):
        degree = int(kernel.power)
        return _leaf(lambda **given: Polynomial(degree=degree, **given), lengthscale=one_, offset=kernel.offset)
    if computes_as("ConstantKernel"):
        return _leaf(Constant, outputscale=kernel.constant)
    if computes_as("CosineKernel") and d == 1:
        return _leaf(Cosine, period=2 * kernel.period_length)
    if computes_as("PiecewisePolynomialKernel") and kernel.q != 2:  # there GPyTorch 1.15 has another polynomial
        q = kernel.q
        return _leaf(lambda **given: PiecewisePolynomial(q=q, **given), lengthscale=kernel.lengthscale)
    if computes_as("IndexKernel") and d == 1:
        found = Groups(factor=kernel.covar_factor.detach(), variances=kernel.var.detach())
        return found, (one_, kernel.covar_factor.reshape(-1), kernel.var.reshape(-1))
    if computes_as("SpectralMixtureKernel") and len(kernel.mixture_weights) ** d <= MAX_TERMS:
        return _mixture(kernel, d)
    raise TypeError(f"{where} is {a(kernel)}; {TAKEN}")


def _leaf(kind: Callable[..., Kernel], **tensors: Tensor) -> tuple[Kernel, tuple[Tensor, ...]]:
    flat = {name: tensor.reshape(-1) for name, tensor in tensors.items()}
    found = kind(**{name: t.detach().tolist() if len(t) > 1 else float(t.detach()) for name, t in flat.items()})
    one = torch.ones(1, dtype=torch.float64)
    return found, tuple(flat.get(name, one) for name in found.hyperparameters)


def _mixture(kernel: Any, d: int) -> tuple[Kernel, tuple[Tensor, ...]]:
    """The product over inputs of sums over mixtures, as GPyTorch has it."""
    weights, factors, tensors = kernel.mixture_weights, list[Kernel](), list[Tensor]()
    for k in range(d):
        of = weights, kernel.mixture_means[:, 0, k], kernel.mixture_scales[:, 0, k]
        w, m, s = (each.detach().tolist() for each in of)
        one = SpectralMixture(weights=w, means=m, scales=s)
        factors.append(one if d == 1 else one.on(k))
        tensors += of
    return reduce(mul, factors), tuple(tensors)


def _scaled(kernel: Kernel, tensors: Sequence[Tensor], by: Tensor) -> tuple[Kernel, tuple[Tensor, ...]]:
    scaled = kernel.scaled_by(float(by.detach()))
    if len(scaled.hyperparameters) > len(tensors):
        return scaled, (by, *tensors)
    return scaled, (tensors[0].to(by) * by, *tensors[1:])


def _of_kernel(covariance: Any, where: Callable[[Any], str], made_by: str) -> Expression:
    x = covariance.x1
    if x.ndim != 2 or covariance.last_dim_is_batch:
        raise ValueError(f"the inputs of the kernel have shape {tuple(x.shape)}; apviz takes (n, d), without batches")
    if not same_inputs(x, covariance.x2):
        raise ValueError(
            f"the covariance that {made_by} returned is k(x, z) for two sets of inputs, which differ; apviz takes "
            "k(x, x), as covar_module(x) gives it"
        )
    return Expression(x, *convert(covariance.kernel, x.shape[1], where(covariance.kernel), selected=True))


def _together(parts: Sequence[Expression], combine: Callable[[Kernel, Kernel], Kernel]) -> Expression:
    """The sum or product of kernels of inputs that need not be the same: of all of them side by side."""
    inputs: list[Tensor] = []
    starts: list[int] = []
    for part in parts:
        same = next((k for k, x in enumerate(inputs) if x is part.x or torch.equal(x, part.x)), None)
        if same is None:
            inputs.append(part.x)
            same = len(inputs) - 1
        starts.append(sum(x.shape[1] for x in inputs[:same]))
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    if len(inputs) == 1:
        return Expression(inputs[0], reduce(combine, (part.kernel for part in parts)), tensors)
    dtype = next((x.dtype for x in inputs if x.is_floating_point()), inputs[0].dtype)
    placed: list[Kernel] = [
        part.kernel.on(range(start, start + part.x.shape[1])) for part, start in zip(parts, starts, strict=True)
    ]
    return Expression(torch.cat([x.to(dtype) for x in inputs], 1), reduce(combine, placed), tensors)


def same_inputs(x: Tensor, z: Tensor) -> bool:
    """Tests whether both are (n, d) and the same; what is not finite is refused later, in its own words."""
    return x is z or (x.shape == z.shape and torch.allclose(x, z, rtol=0.0, atol=0.0, equal_nan=True))


def check_own(kernel: Any, where: str) -> None:
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
            f"{where} is {a(kernel)}, which overrides {', '.join(changed)} of GPyTorch's {own.__name__}: another "
            f"kernel; {TAKEN}"
        )


def a(thing: object) -> str:
    """The class of a thing, with its article."""
    name = type(thing).__name__
    return f"a{'n' if name.startswith(('A', 'E', 'I', 'O', 'RBF')) else ''} {name}"
