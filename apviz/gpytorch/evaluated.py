"""GPyTorch kernels that apviz does not have, evaluated tile by tile with GPyTorch's own code."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch import kernels, settings
from gpytorch.lazy import LazyEvaluatedKernelTensor
from torch import Tensor, nn
from torch.func import functional_call

from apviz.kernels import Evaluated, Kernel, centre_of, pairwise_distances

# rows that are evaluated together and separately, to check that an entry depends on its two rows alone
PROBES = 8
# relative tolerances for entries and for their derivatives, in float32 and float64: distances are rounded differently
SAME, SAME_SLOPES = (1e-3, 1e-6), (5e-2, 1e-5)
# attributes that every torch module has, such as _buffers
OF_MODULES = frozenset(vars(nn.Module()))


def evaluated(
    kernel: Any, where: str, outputs: int = 1, index: tuple[int, ...] = ()
) -> tuple[Kernel, tuple[Tensor, ...]]:
    """Convert a GPyTorch kernel to an apviz kernel at its current parameters; return it with their tensors.

    With several outputs, an additional column holds the output; `index` is the position of the model in a batch.
    """
    if isinstance(kernel, kernels.InducingPointKernel):
        raise TypeError(
            f"{where} is {a(kernel)}, a low-rank approximation, which GPyTorch itself solves fast: leave "
            f"alternating_projection(), or use the exact kernel {where}.base_kernel inside it"
        )
    if any(getattr(module, "grid_is_dynamic", False) for module in kernel.modules()):
        raise TypeError(
            f"{where} is {a(kernel)} on a grid that GPyTorch fits to the rows of each call: its entries depend on "
            "all rows; give it grid_bounds, such as [(0.0, 1.0)], one pair per input"
        )
    found = dict(kernel.named_parameters())
    values = {name: tuple(p.detach().double().reshape(-1).tolist()) for name, p in found.items()}
    shapes = {name: tuple(p.shape) for name, p in found.items()}
    made = Evaluated(_Entries(kernel, outputs, index), values, shapes, type(kernel).__name__)
    return made, tuple(p.reshape(-1) for p in found.values())


def check_pairs(theirs: Any, given: Tensor, kernel: Kernel, x: Tensor, what: str) -> None:
    """Refuse a kernel whose entries, or their derivatives, depend on rows other than their own two."""
    rows, outputs = given.detach()[:PROBES], len(x) // max(len(given), 1)
    some, half = x.detach()[: outputs * len(rows)], outputs * (len(rows) // 2)
    try:
        _let_it_settle(theirs, rows)
        together = kernel(some, some.clone())
        apart = torch.cat([kernel(some[:half], some.clone()), kernel(some[half:], some.clone())])
        between = kernel(some[:half], some[half : 2 * half])  # equally many rows on both sides, but different ones
        derivatives = _derivatives_of_pairs(kernel, some, half)
    except Exception as error:
        raise TypeError(f"{what}; its own code evaluates it, and fails for a few of the rows: {error}") from error
    same = SAME[some.dtype == torch.float64]
    if (
        together.shape != (len(some), len(some))
        or not _close(together, apart, same)
        or not _close(between, together[:half, half : 2 * half], same)
    ):
        raise TypeError(f"{what}; its own code evaluates it, and its entries depend on rows other than their own two")
    for found, expected in derivatives:
        if not _close(found, expected, SAME_SLOPES[some.dtype == torch.float64]):
            raise TypeError(
                f"{what}; its own code evaluates it, and its derivatives between different rows are not those between "
                "rows of one tensor: k(x1, x2) in `forward` must be differentiable in both, equal or not"
            )


def _close(found: Tensor, expected: Tensor, relative: float) -> bool:
    scale = float(expected.nan_to_num().abs().max()) if expected.numel() else 0.0
    return torch.allclose(found, expected, rtol=0.0, atol=relative * scale, equal_nan=True)


def _let_it_settle(kernel: Any, rows: Tensor) -> None:
    """Call a kernel once outside the context, so that it draws the random numbers that it keeps."""
    # with rows that are not evaluated later: a kernel may keep the entries of its rows, without a graph
    rows = torch.cat([rows.flip(0), rows[:1]])
    with torch.no_grad(), settings.debug(False):
        LazyEvaluatedKernelTensor(rows, rows, kernel=kernel).to_dense()


def check_gradients(kernel: Kernel, x: Tensor, what: str) -> None:
    """Refuse a kernel whose entries have a gradient although neither inputs nor parameters require one."""
    x = x.detach()
    lowered = kernel.lowered(x.shape[1])
    features = lowered.features(x, centre_of(x))
    phi, formula = torch.cat(features, 1).to(x.dtype), lowered.formula([each.shape[1] for each in features])
    with torch.enable_grad():
        has_others = formula.differentiable(phi, phi.clone()).requires_grad
    if has_others:
        raise TypeError(
            f"{what}; its own code uses a tensor that is neither an input nor a parameter, so its gradient would be "
            "lost: register it as a parameter, or multiply the covariance by it in forward"
        )


def _derivatives_of_pairs(kernel: Kernel, x: Tensor, half: int) -> list[tuple[Tensor, Tensor]]:
    """Return derivatives, in inputs and numbers, of the entries between two groups of rows, apart and within x."""
    lowered = kernel.lowered(x.shape[1])
    features = lowered.features(x, centre_of(x))
    formula, phi = lowered.formula([each.shape[1] for each in features]), torch.cat(features, 1).to(x.dtype)
    weights = torch.cos(torch.arange(len(x) ** 2)).to(phi).reshape(len(x), -1)[:half, half:]
    m = phi.new_zeros(len(x), len(x))
    m[:half, half:], m[half:, :half] = weights, weights.T
    together = formula.gradients(phi, phi, m, pairwise_distances)
    above = formula.gradients(phi[:half], phi[half:], weights, pairwise_distances)
    below = formula.gradients(phi[half:], phi[:half], weights.T, pairwise_distances)
    return [
        (torch.cat([above.features, below.features]), together.features),
        (above.numbers + below.numbers, together.numbers),
    ]


@dataclass(frozen=True)
class _Entries:
    """The function k(x, z) of a GPyTorch kernel at given parameter values; arguments as in `evaluated`."""

    kernel: Any
    outputs: int
    index: tuple[int, ...]

    def __call__(self, x: Tensor, z: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        if self.outputs == 1:
            return self._of_points(x, z, values)
        points, rows = self._points(x)
        if z is x:
            return self._of_points(points, points, values)[rows][:, rows]
        others, columns = self._points(z)
        if torch.is_grad_enabled():  # like the added row in `Evaluated`: the two sides must never look equal
            others = torch.cat([others, others[-1:]])
        return self._of_points(points, others, values)[rows][:, columns]

    def _points(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the points without consecutive repetitions, and the position of each row among their outputs."""
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
    """The entries as a module, so that a kernel can be evaluated at other parameter values."""

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        # the inputs come from a covariance that a model returned: active_dims have been selected
        with settings.debug(False), self._unchanged():
            dense: Tensor = LazyEvaluatedKernelTensor(x, z, kernel=self.kernel).to_dense()
        return dense

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Clear the caches of GPyTorch's kernels, and restore the kernel afterwards.

        Cached values may belong to other parameter values, or have no graph.
        """
        modules = list(self.kernel.modules())
        attributes = [dict(vars(module)) for module in modules]
        kept: list[tuple[Any, Any]] = [
            (value, copy.copy(value))
            for each in attributes
            for name, value in each.items()
            if (name == "_buffers" or name not in OF_MODULES) and isinstance(value, dict | list | set)
        ]
        for module in modules:
            if hasattr(module, "_clear_cache"):
                module._clear_cache()
        try:
            yield
        finally:
            for module, before in zip(modules, attributes, strict=True):
                vars(module).clear()
                vars(module).update(before)
            for value, content in kept:
                value.clear()
                value.extend(content) if isinstance(value, list) else value.update(content)


def a(thing: object) -> str:
    """Return the class name of an object with its article."""
    name = type(thing).__name__
    return f"a{'n' if name.startswith(('A', 'E', 'I', 'O', 'RBF')) else ''} {name}"
