"""The covariance that a model returned, read as a kernel of some inputs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, mul
from typing import Any
from weakref import WeakSet

import torch
from gpytorch.lazy import LazyEvaluatedKernelTensor
from linear_operator import to_linear_operator
from linear_operator.operators import (
    AddedDiagLinearOperator,
    BlockInterleavedLinearOperator,
    ConstantDiagLinearOperator,
    ConstantMulLinearOperator,
    LinearOperator,
    SumBatchLinearOperator,
    SumLinearOperator,
)
from torch import Tensor

from apviz.gpytorch.evaluated import a, check_gradients, check_pairs
from apviz.gpytorch.graphs import is_one, leaves
from apviz.gpytorch.kernels import ONE, Member, convert, scaled
from apviz.kernels import Groups, Kernel, Matern52
from apviz.operators.tiled import TiledOperator

# rows of the tile that is timed, and number of timings
TIMED_ROWS, TIMED = 256, 3


@dataclass(frozen=True, eq=False)
class Expression:
    """A kernel of some inputs, and its hyperparameters as tensors that GPyTorch differentiates.

    Args:
        x: (n, d) inputs; with several outputs one row per output, whose number is in the last column.
        kernel: of apviz, at the current hyperparameters.
        tensors: 1-d, one for each of `kernel.hyperparameters`, in that order.
        jitter: 0-d, added to the diagonal by `add_jitter`, and not between equal rows.
    """

    x: Tensor
    kernel: Kernel
    tensors: tuple[Tensor, ...]
    jitter: Tensor | None = None

    def wants_gradient(self) -> bool:
        """Test whether any tensor requires a gradient."""
        return any(tensor.requires_grad for tensor in (self.x, *self.tensors))

    def noise_with(self, noise: Tensor) -> Tensor:
        """Return the diagonal added to the kernel: a likelihood's noise plus the jitter, 0-d or (n,)."""
        return noise if self.jitter is None else noise + self.jitter.to(noise)


def expression_of(
    covariance: Any, where: Callable[[Any], str], made_by: str = "forward", member: Member = ONE
) -> Expression:
    """Read the covariance that a model returned: a kernel's, a sum, product or multiple of such, or a batch of them.

    A batch may be summed (`covariance.sum(dim=-3)`), or hold independent outputs (`from_batch_mvn`).
    """

    def of(part: Any, member: Member = member) -> Expression:
        return expression_of(part, where, made_by, member)

    if isinstance(covariance, LazyEvaluatedKernelTensor):
        return _of_kernel(covariance, where, made_by, member)
    if type(covariance) is SumLinearOperator:
        return _together([of(each) for each in covariance.linear_ops], add)
    if type(covariance) is SumBatchLinearOperator:
        return _together([of(*each) for each in _parts_of(covariance, member)], add)
    if type(covariance) is BlockInterleavedLinearOperator:
        return _independent([of(*each) for each in _parts_of(covariance, member)], made_by)
    if isinstance(covariance, UnevaluatedProduct):
        parts = [of(each) for each in (covariance.left, covariance.right)]
        if any(part.jitter is not None for part in parts):
            raise TypeError(f"{made_by} multiplies covariances with jitter; add it to the product instead")
        return _together(parts, mul)
    if type(covariance) is ConstantMulLinearOperator:
        inner, factor = of(covariance.base_linear_op), member.of(covariance._constant, 0)
        if factor.numel() == 1:
            jitter = None if inner.jitter is None else factor.reshape(()) * inner.jitter
            return Expression(inner.x, *scaled(inner.kernel, inner.tensors, factor.reshape(1)), jitter)
    if type(covariance) is AddedDiagLinearOperator:
        if not isinstance(covariance._diag_tensor, ConstantDiagLinearOperator):
            raise TypeError(
                f"{made_by} adds different values to the diagonal; give them to a FixedNoiseGaussianLikelihood"
            )
        inner, jitter = of(covariance._linear_op), member.of(covariance._diag_tensor.diag_values, 1)
        return replace(inner, jitter=inner.noise_with(jitter.reshape(())))
    raise TypeError(
        f"the covariance that {made_by} returned is {a(covariance)}; apviz takes the covariances that kernels return "
        "for the inputs, and their sums, products and multiples"
    )


def _parts_of(covariance: Any, member: Member) -> Iterator[tuple[Any, Member]]:
    """Yield the batched covariance below a block operator with each place in its last batch dimension."""
    blocks = covariance.base_linear_op.shape[-3]
    for block in range(blocks):
        yield covariance.base_linear_op, Member(torch.Size((*member.batch, blocks)), (*member.index, block))


class UnevaluatedProduct(LinearOperator):  # type: ignore[misc]
    """The entrywise product of two kernels' covariances, which GPyTorch would evaluate at once."""

    def __init__(self, left: Any, right: Any) -> None:
        super().__init__(left, right)
        self.left, self.right = left, right

    @classmethod
    def instead(cls, call_next: Any, left: Any, right: Any) -> Any:
        """Intercept `LinearOperator.mul`."""
        both = _is_unevaluated(left) and _is_unevaluated(right)
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


def _is_unevaluated(covariance: Any) -> bool:
    """Test for a kernel's covariance, or sums, products and multiples of such, with or without jitter."""
    if type(covariance) is SumLinearOperator:
        return all(_is_unevaluated(each) for each in covariance.linear_ops)
    if type(covariance) in (ConstantMulLinearOperator, SumBatchLinearOperator):
        return _is_unevaluated(covariance.base_linear_op)
    if type(covariance) is AddedDiagLinearOperator:
        return _is_unevaluated(covariance._linear_op)
    return isinstance(covariance, LazyEvaluatedKernelTensor | UnevaluatedProduct)


def _of_kernel(covariance: Any, where: Callable[[Any], str], made_by: str, member: Member) -> Expression:
    if covariance.last_dim_is_batch:
        raise ValueError(f"{made_by} called a kernel with last_dim_is_batch=True; use an AdditiveStructureKernel")
    x, z = (member.of(each, 2) for each in (covariance.x1, covariance.x2))
    if x.ndim != 2:
        raise ValueError(f"the inputs of the kernel have shape {tuple(x.shape)}; apviz takes (n, d)")
    if not same_inputs(x, z):
        raise ValueError(
            f"the covariance that {made_by} returned is k(x, z) between two different sets of inputs; apviz takes "
            "k(x, x), as covar_module(x) returns it"
        )
    if x is not z and leaves(x) != leaves(z):
        raise ValueError(
            f"the covariance that {made_by} returned is k(x, z) of equal inputs, of which one is detached: its "
            "gradients would be those of k(x, x); call covar_module(x)"
        )
    outputs = int(covariance.kernel.num_outputs_per_input(x, x))
    kernel, tensors = convert(
        covariance.kernel, x.shape[1], where(covariance.kernel), selected=True, member=member, outputs=outputs
    )
    rows = _of_outputs(x, outputs) if outputs > 1 else x
    _check(covariance.kernel, x, kernel, rows, where(covariance.kernel))
    return Expression(rows, kernel, tensors)


_checked: WeakSet[Any] = WeakSet()
_warned: set[type] = set()


def _check(theirs: Any, given: Tensor, kernel: Kernel, x: Tensor, where: str) -> None:
    """Check a kernel that GPyTorch's code evaluates, and warn about its cost, once per kind."""
    if not kernel.is_evaluated:
        return
    what = f"apviz does not implement all of the kernel {where}, {a(theirs)}"
    if theirs not in _checked:
        check_pairs(theirs, given, kernel, x, what)
    # every time: a model may set a tensor of its kernel in each forward
    if torch.is_grad_enabled():
        check_gradients(kernel, x[: 2 * len(x) // len(given)], what)
    if theirs in _checked:
        return
    _checked.add(theirs)
    if type(theirs) in _warned:
        return
    _warned.add(type(theirs))
    some = x.detach()[:TIMED_ROWS]
    own, other = (TiledOperator(some, each, 1.0) for each in (kernel, Matern52()))
    ratio = _seconds(own) / _seconds(other)
    warnings.warn(
        f"apviz does not implement all of the kernel {where}, {a(theirs)}: GPyTorch's code evaluates it tile by tile, "
        f"which takes {ratio:.0f} times as long per entry as apviz's own Matérn-5/2",
        stacklevel=2,
    )


def _seconds(operator: TiledOperator) -> float:
    operator.fix_engine(0.0, 1)
    rows, best = slice(0, operator.n), float("inf")
    for _ in range(TIMED):
        started = time.perf_counter()
        operator.part(rows, rows)
        best = min(best, time.perf_counter() - started)
    return best


def _together(parts: Sequence[Expression], combine: Callable[[Kernel, Kernel], Kernel]) -> Expression:
    """Return the sum or product of kernels; different inputs are put side by side."""
    inputs: list[Tensor] = []
    starts: list[int] = []
    for part in parts:
        same = next((k for k, x in enumerate(inputs) if is_one(x, part.x)), None)
        if same is None:
            inputs.append(part.x)
            same = len(inputs) - 1
        starts.append(sum(x.shape[1] for x in inputs[:same]))
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    jitters = [part.jitter for part in parts if part.jitter is not None]
    jitter = sum(jitters[1:], jitters[0]) if jitters else None
    if len(inputs) == 1:
        return Expression(inputs[0], reduce(combine, (part.kernel for part in parts)), tensors, jitter)
    dtype = next((x.dtype for x in inputs if x.is_floating_point()), inputs[0].dtype)
    placed: list[Kernel] = [
        part.kernel.on(range(start, start + part.x.shape[1])) for part, start in zip(parts, starts, strict=True)
    ]
    return Expression(torch.cat([x.to(dtype) for x in inputs], 1), reduce(combine, placed), tensors, jitter)


def _independent(parts: Sequence[Expression], made_by: str) -> Expression:
    """Return the kernel of independent outputs, one from each part, whose rows are side by side."""
    if any(part.jitter is not None for part in parts):
        raise TypeError(f"{made_by} adds jitter to independent outputs; leave the noise to the likelihood")
    return _together([_of_output(part, output, len(parts)) for output, part in enumerate(parts)], add)


def _of_output(part: Expression, output: int, outputs: int) -> Expression:
    """Restrict a kernel to one of several independent outputs: for all others it is 0."""
    d, chosen = part.x.shape[1], torch.eye(outputs, dtype=torch.float64)[output]
    table = Groups(factor=chosen[:, None], variances=[0.0] * outputs)
    constants = torch.ones(1, dtype=torch.float64), chosen, torch.zeros(outputs, dtype=torch.float64)
    rows = _of_outputs(part.x, outputs)
    return Expression(rows, part.kernel.on(range(d)) * table.on(d), (*part.tensors, *constants))


def _of_outputs(x: Tensor, outputs: int) -> Tensor:
    """Return a row for each output, side by side, with the output's number in the last column: (n · outputs, d + 1)."""
    which = torch.arange(outputs).repeat(len(x)).to(x)
    return torch.cat([x.repeat_interleave(outputs, 0), which[:, None]], 1)


def same_inputs(x: Tensor, z: Tensor) -> bool:
    """Test whether both are (n, d) and the same; values that are not finite are refused later."""
    return x is z or (x.shape == z.shape and torch.allclose(x, z, rtol=0.0, atol=0.0, equal_nan=True))
