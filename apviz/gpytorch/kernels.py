"""Conversion of GPyTorch's kernels, and of sums and products of their covariances, to apviz's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add, mul
from typing import Any

import torch
from gpytorch import kernels
from gpytorch.kernels import keops
from torch import Tensor

from apviz.gpytorch.evaluated import a, evaluated
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

#: largest number of terms of a product of mixtures that is expanded
MAX_TERMS = 256
# attributes that a subclass of a kernel may override: they construct or describe it, and do not change its values
HARMLESS = (
    "__init__", "__module__", "__doc__", "__annotations__", "__repr__", "__str__", "__firstlineno__",
    "__static_attributes__", "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__", "__dict__",
    "__weakref__", "__slots__",
)  # fmt: skip


@dataclass(frozen=True)
class Member:
    """One model of a batch of this shape, empty for a single model, and its position in it."""

    batch: torch.Size = field(default_factory=torch.Size)
    index: tuple[int, ...] = ()

    def of(self, values: Tensor, own: int) -> Tensor:
        """Return this model's part of values with `own` dimensions after those of the batch, if they have any."""
        if not self.batch:
            return values
        return values.expand(*self.batch, *values.shape[values.ndim - own :])[self.index]


ONE = Member()


def check_batch(what: str, found: Sequence[int], batch: torch.Size) -> None:
    """Refuse a batch shape that does not fit the model's."""
    try:
        fits = torch.broadcast_shapes(tuple(found), batch) == batch  # type: ignore[no-untyped-call]
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{what} has batch shape {tuple(found)}, and its model {tuple(batch)}; apviz takes one for each model of a "
            "batch, or one for all"
        )


def from_gpytorch(kernel: Any, d: int) -> Kernel:
    """Convert a kernel of `gpytorch.kernels`, at its current hyperparameters.

    Only the values are converted: priors, constraints and `requires_grad=False` belong to GPyTorch's own training.

    Args:
        kernel: a kernel that apviz has, or sums, products, `ScaleKernel` and `active_dims` of such, without batches.
        d: number of input columns.

    Raises:
        TypeError: a kernel that apviz does not have, or a subclass that computes something else; names the part.
        ValueError: a kernel with batch dimensions.

    Examples:
        >>> import apviz.gpytorch, gpytorch
        >>> kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(1.5))
        >>> apviz.gpytorch.from_gpytorch(kernel, d=2)
        Matern32(lengthscale=0.693..., outputscale=0.693...)
    """
    return convert(kernel, d, strict=True)[0]


def convert(
    kernel: Any,
    d: int,
    where: str = "the kernel",
    *,
    selected: bool = False,
    member: Member = ONE,
    outputs: int = 1,
    strict: bool = False,
) -> tuple[Kernel, tuple[Tensor, ...]]:
    """Convert a GPyTorch kernel of inputs with d columns; the tensors are those of `Expression`.

    Args:
        selected: whether the kernel's active_dims have already selected the columns, as in a covariance it returned.
        outputs: number of outputs of each input; if there are several, an additional last column holds the output.
        strict: refuse kernels that GPyTorch's code would have to evaluate.
    """
    return _Conversion(member, outputs, strict).of(kernel, d, where, selected)


class _Conversion:
    """The conversion of a kernel and its parts; arguments as in `convert`."""

    def __init__(self, member: Member, outputs: int, strict: bool) -> None:
        self.member, self.outputs, self.strict = member, outputs, strict

    def of(self, kernel: Any, d: int, where: str, selected: bool = False) -> tuple[Kernel, tuple[Tensor, ...]]:
        """Convert a kernel of d columns, not counting the output column."""
        dims = None if selected else getattr(kernel, "active_dims", None)
        if dims is None:
            return self._whole(kernel, d, where)
        columns = [*dims.tolist(), d] if self.outputs > 1 else dims.tolist()
        found, tensors = self._whole(kernel, len(dims), where)
        return found.on(columns), tensors

    def _whole(self, kernel: Any, d: int, where: str) -> tuple[Kernel, tuple[Tensor, ...]]:
        check_batch(where, kernel.batch_shape, self.member.batch)
        changed = overridden(kernel)
        found = None if changed else self._by_kind(kernel, d, where)
        if found is not None:
            return found
        why = f"overrides {', '.join(changed)} of GPyTorch's {_own(kernel).__name__}" if changed else "apviz has none"
        if self.strict:
            raise TypeError(f"{where} is {a(kernel)}: {why}")
        return evaluated(kernel, where, self.outputs, self.member.index)

    def _by_kind(self, kernel: Any, d: int, where: str) -> tuple[Kernel, tuple[Tensor, ...]] | None:
        """Convert a kernel that apviz has; None for others."""
        of = self.member.of
        computes_as = partial(_computes_as, type(kernel).forward)
        if computes_as("ScaleKernel"):
            # it copies the active_dims of its base kernel, which then selects the columns itself
            inner = self._forward(kernel.base_kernel, d, f"{where}.base_kernel")
            return None if inner is None else scaled(*inner, of(kernel.outputscale, 0).reshape(1))
        for kind, combine in (("AdditiveKernel", add), ("ProductKernel", mul)):
            if computes_as(kind):
                parts = [self.of(each, d, f"{where}.kernels.{k}") for k, each in enumerate(kernel.kernels)]
                return _joined(parts, combine)
        if self.outputs > 1:
            return self._of_outputs(kernel, d, where)
        for kind, combine in (("AdditiveStructureKernel", add), ("ProductStructureKernel", mul)):
            if computes_as(kind):
                one, tensors = self.of(kernel.base_kernel, 1, f"{where}.base_kernel")
                return reduce(combine, (one.on(k) for k in range(d))), tensors * d
        return self._leaf(kernel, d, where)

    def _of_outputs(self, kernel: Any, d: int, where: str) -> tuple[Kernel, tuple[Tensor, ...]] | None:
        """Convert a kernel of several outputs: a kernel of the inputs times a kernel of the output."""
        computes_as = partial(_computes_as, type(kernel).forward)
        if computes_as("LCMKernel"):
            parts = [
                self._forward(each, d, f"{where}.covar_module_list.{k}")
                for k, each in enumerate(kernel.covar_module_list)
            ]
            known = [part for part in parts if part is not None]
            return _joined(known, add) if len(known) == len(parts) else None
        if not computes_as("MultitaskKernel"):
            return None
        single = _Conversion(self.member, 1, self.strict)
        data = single._forward(kernel.data_covar_module, d, f"{where}.data_covar_module")
        if data is None:
            return None
        task, of_task = single.of(kernel.task_covar_module, 1, f"{where}.task_covar_module")
        return data[0].on(range(d)) * task.on(d), data[1] + of_task

    def _forward(self, kernel: Any, d: int, where: str) -> tuple[Kernel, tuple[Tensor, ...]] | None:
        """Convert a part whose `forward` GPyTorch calls directly, skipping its active_dims and its `__call__`.

        None if it overrides `__call__`: evaluating it here would call that.
        """
        return None if "__call__" in overridden(kernel) else self._whole(kernel, d, where)

    def _leaf(self, kernel: Any, d: int, where: str) -> tuple[Kernel, tuple[Tensor, ...]] | None:
        of, computes_as = self.member.of, partial(_computes_as, type(kernel).forward)
        one = torch.ones(1, dtype=torch.float64)
        for theirs in KERNELS.values():
            named, settings = theirs.gpytorch or ("", {})
            if computes_as(named) and all(getattr(kernel, key) == value for key, value in settings.items()):
                # shape parameters such as α: (*batch, 1) or (*batch)
                shape = {each: _number(of, getattr(kernel, each), kernel) for each in theirs.parameter_names()}
                return _made(theirs, lengthscale=of(kernel.lengthscale, 2), **shape)
        if computes_as("PeriodicKernel"):
            period = of(kernel.period_length, 2)
            return _made(Periodic, lengthscale=of(kernel.lengthscale, 2).sqrt(), period=period)
        if computes_as("LinearKernel"):
            return _made(Linear, lengthscale=of(kernel.variance, 2).rsqrt())
        if computes_as("PolynomialKernel"):
            degree = int(kernel.power)
            offset = _number(of, kernel.offset, kernel)
            return _made(lambda **given: Polynomial(degree=degree, **given), lengthscale=one, offset=offset)
        if computes_as("ConstantKernel"):
            return _made(Constant, outputscale=_number(of, kernel.constant, kernel))
        if computes_as("CosineKernel"):
            if d > 1:
                raise TypeError(
                    f"{where} is a CosineKernel of {d} inputs, which is not positive definite; give each input its own "
                    "by active_dims"
                )
            return _made(Cosine, period=2 * of(kernel.period_length, 2))
        if computes_as("PiecewisePolynomialKernel") and kernel.q != 2:  # GPyTorch 1.15 has another polynomial for q = 2
            q = kernel.q
            return _made(lambda **given: PiecewisePolynomial(q=q, **given), lengthscale=of(kernel.lengthscale, 2))
        if computes_as("IndexKernel") and d == 1:
            factor, variances = of(kernel.covar_factor, 2), of(kernel.var, 1)
            found = Groups(factor=factor.detach(), variances=variances.detach().tolist())
            return found, (one, factor.reshape(-1), variances.reshape(-1))
        if computes_as("SpectralMixtureKernel") and kernel.mixture_weights.shape[-1] ** d <= MAX_TERMS:
            weights = of(kernel.mixture_weights, 1)
            return _mixture(weights, of(kernel.mixture_means, 3), of(kernel.mixture_scales, 3), d)
        return None


def _joined(
    parts: Sequence[tuple[Kernel, tuple[Tensor, ...]]], combine: Callable[[Kernel, Kernel], Kernel]
) -> tuple[Kernel, tuple[Tensor, ...]]:
    return reduce(combine, (part[0] for part in parts)), tuple(t for part in parts for t in part[1])


def _computes_as(forward: Any, *names: str) -> bool:
    rooms = [getattr(room, name) for room in (kernels, keops) for name in names if hasattr(room, name)]
    return any(forward is each.forward for each in rooms)


def _number(of: Callable[[Tensor, int], Tensor], values: Tensor, kernel: Any) -> Tensor:
    """Return a kernel's single number, with or without a dimension of its own."""
    return of(values, values.ndim - len(kernel.batch_shape)).reshape(1)


def _made(kind: Callable[..., Kernel], **tensors: Tensor) -> tuple[Kernel, tuple[Tensor, ...]]:
    flat = {name: tensor.reshape(-1) for name, tensor in tensors.items()}
    found = kind(**{name: t.detach().tolist() if len(t) > 1 else float(t.detach()) for name, t in flat.items()})
    one = torch.ones(1, dtype=torch.float64)
    return found, tuple(flat.get(name, one) for name in found.hyperparameters)


def _mixture(weights: Tensor, means: Tensor, scales: Tensor, d: int) -> tuple[Kernel, tuple[Tensor, ...]]:
    """Return the product over inputs of sums over mixtures, as in GPyTorch; (q,), (q, 1, d), (q, 1, d)."""
    factors, tensors = list[Kernel](), list[Tensor]()
    for k in range(d):
        of = weights, means[:, 0, k], scales[:, 0, k]
        w, m, s = (each.detach().tolist() for each in of)
        one = SpectralMixture(weights=w, means=m, scales=s)
        factors.append(one if d == 1 else one.on(k))
        tensors += of
    return reduce(mul, factors), tuple(tensors)


def scaled(kernel: Kernel, tensors: Sequence[Tensor], by: Tensor) -> tuple[Kernel, tuple[Tensor, ...]]:
    """Return a kernel times a number, and its tensors."""
    found = kernel.scaled_by(float(by.detach()))
    if len(found.hyperparameters) > len(tensors):
        return found, (by, *tensors)
    return found, (tensors[0].to(by) * by, *tensors[1:])


def overridden(kernel: Any) -> list[str]:
    """List the methods of GPyTorch's kernel that a subclass, or the object itself, overrides."""
    own = _own(kernel)
    changed = [name for name in vars(kernel) if callable(getattr(own, name, None))]
    for kind in type(kernel).__mro__[: type(kernel).__mro__.index(own)]:
        changed += [
            name
            for name, value in vars(kind).items()
            if name not in HARMLESS and hasattr(own, name) and value is not getattr(own, name)
        ]
    return changed


def _own(kernel: Any) -> type:
    return next(kind for kind in type(kernel).__mro__ if kind.__module__.startswith("gpytorch."))
