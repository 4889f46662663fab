"""GPyTorch kernels that apviz does not have, evaluated tile by tile through GPyTorch's own code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch import kernels, settings
from gpytorch.lazy import LazyEvaluatedKernelTensor
from torch import Tensor, nn
from torch.func import functional_call

from apviz.kernels import Evaluated, Kernel

# rows that are evaluated together and apart, to see that an entry depends on its two rows alone
PROBES = 8


def evaluated(
    kernel: Any, where: str, outputs: int = 1, index: tuple[int, ...] = ()
) -> tuple[Kernel, tuple[Tensor, ...]]:
    """Makes an apviz kernel of a GPyTorch kernel, at its parameters of now, and the tensors of these.

    Args:
        where: its name, for messages.
        outputs: of every input; where there are several, one more column says which.
        index: the model of a batch.

    Raises:
        TypeError: a kernel of inducing points.
    """
    if isinstance(kernel, kernels.InducingPointKernel):
        raise TypeError(
            f"{where} is {a(kernel)}, an approximation of low rank, which GPyTorch itself solves fast: leave "
            f"alternating_projection() for it, or take {where}.base_kernel, without approximation, inside"
        )
    found = dict(kernel.named_parameters())
    values = {name: tuple(p.detach().double().reshape(-1).tolist()) for name, p in found.items()}
    shapes = {name: tuple(p.shape) for name, p in found.items()}
    made = Evaluated(_Entries(kernel, outputs, index), values, shapes, type(kernel).__name__)
    return made, tuple(p.reshape(-1) for p in found.values())


def check_pairs(kernel: Kernel, x: Tensor, what: str) -> None:
    """Refuses a kernel whose entries depend on other rows too: some rows together and apart, x (n, d).

    Raises:
        TypeError: naming `what`.
    """
    some = x.detach()[:PROBES]
    half = len(some) // 2
    try:
        together = kernel(some, some.clone())
        apart = torch.cat([kernel(some[:half], some.clone()), kernel(some[half:], some.clone())])
    except Exception as error:
        raise TypeError(f"{what}; its own code evaluates it, and fails for a few of the rows: {error}") from error
    scale = float(together.abs().max())
    if together.shape != (len(some), len(some)) or not torch.allclose(together, apart, rtol=1e-3, atol=1e-3 * scale):
        raise TypeError(f"{what}; its own code evaluates it, and its entries depend on other rows than their own two")


@dataclass(frozen=True)
class _Entries:
    """k(x, z) by a GPyTorch kernel with other values of its parameters; arguments as of `evaluated`."""

    kernel: Any
    outputs: int
    index: tuple[int, ...]

    def __call__(self, x: Tensor, z: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        if self.outputs == 1:
            return self._of_points(x, z, values)
        (points, rows), (others, columns) = self._points(x), self._points(z)
        return self._of_points(points, others, values)[rows][:, columns]

    def _points(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Points that follow one another only once, and where each row is among their outputs."""
        _, place = torch.unique_consecutive(x[:, :-1].detach(), dim=0, return_inverse=True)
        first = torch.ones_like(place, dtype=torch.bool)
        first[1:] = place[1:] != place[:-1]
        return x[first][:, :-1], place * self.outputs + x[:, -1].detach().round().long()

    def _of_points(self, x: Tensor, z: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        own = {f"kernel.{name}": value for name, value in values.items()}
        buffers = {
            f"kernel.{name}": buffer.to(x.dtype) if buffer.is_floating_point() else buffer
            for name, buffer in self.kernel.named_buffers()
        }
        found: Tensor = functional_call(_Dense(self.kernel), own | buffers, (x, z))
        if found.ndim > 2:
            batch = found.shape[:-2]
            found = found[tuple(place if size > 1 else 0 for place, size in zip(self.index, batch, strict=True))]
        return found


class _Dense(nn.Module):
    """The entries as a module, so that a kernel is called, and evaluated, while it has other values."""

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        # as what a model returned: its active_dims have been selected
        with settings.debug(False), self._without_caches():
            dense: Tensor = LazyEvaluatedKernelTensor(x, z, kernel=self.kernel).to_dense()
        return dense

    @contextmanager
    def _without_caches(self) -> Iterator[None]:
        """Forgets what kernels on grids keep in eval mode, of other values of their parameters and without a graph."""
        caching = [module for module in self.kernel.modules() if hasattr(module, "_clear_cache")]
        for module in caching:
            module._clear_cache()
        try:
            yield
        finally:
            for module in caching:
                module._clear_cache()


def a(thing: object) -> str:
    """The class of a thing, with its article."""
    name = type(thing).__name__
    return f"a{'n' if name.startswith(('A', 'E', 'I', 'O', 'RBF')) else ''} {name}"
