"""GPyTorch kernels that apviz does not have, evaluated tile by tile through GPyTorch's own code."""

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

# rows that are evaluated together and apart, to see that an entry depends on its two rows alone
PROBES = 8
# how much, relative, entries and derivatives of them may differ, in float32 and in float64: by rounding of distances
SAME, SAME_SLOPES = (1e-3, 1e-6), (5e-2, 1e-5)
# attributes that torch's modules have, such as _buffers
OF_MODULES = frozenset(vars(nn.Module()))


def evaluated(
    kernel: Any, where: str, outputs: int = 1, index: tuple[int, ...] = ()
) -> tuple[Kernel, tuple[Tensor, ...]]:
    """Makes an apviz kernel of a GPyTorch kernel, at its parameters of now, and the tensors of these.

    Args:
        where: its name, for messages.
        outputs: of every input; where there are several, one more column says which.
        index: the model of a batch.

    Raises:
        TypeError: a kernel of inducing points, or on a grid that follows the rows of each call.
    """
    if isinstance(kernel, kernels.InducingPointKernel):
        raise TypeError(
            f"{where} is {a(kernel)}, an approximation of low rank, which GPyTorch itself solves fast: leave "
            f"alternating_projection() for it, or take {where}.base_kernel, without approximation, inside"
        )
    if any(getattr(module, "grid_is_dynamic", False) for module in kernel.modules()):
        raise TypeError(
            f"{where} is {a(kernel)} on a grid that GPyTorch fits to the rows of each call, so that entries depend on "
            "all of them; give it grid_bounds, such as [(0.0, 1.0)], a pair for each input"
        )
    found = dict(kernel.named_parameters())
    values = {name: tuple(p.detach().double().reshape(-1).tolist()) for name, p in found.items()}
    shapes = {name: tuple(p.shape) for name, p in found.items()}
    made = Evaluated(_Entries(kernel, outputs, index), values, shapes, type(kernel).__name__)
    return made, tuple(p.reshape(-1) for p in found.values())


def check_pairs(theirs: Any, given: Tensor, kernel: Kernel, x: Tensor, what: str) -> None:
    """Refuses a kernel whose entries, or their derivatives, depend on other rows than their own two.

    Args:
        theirs, given: the GPyTorch kernel, and inputs as it takes them.
        kernel, x: the same as apviz has them, x (n, d).

    Raises:
        TypeError: naming `what`; some rows together and apart differ.
    """
    rows, outputs = given.detach()[:PROBES], len(x) // max(len(given), 1)
    some, half = x.detach()[: outputs * len(rows)], outputs * (len(rows) // 2)
    try:
        _let_it_settle(theirs, rows)
        together = kernel(some, some.clone())
        apart = torch.cat([kernel(some[:half], some.clone()), kernel(some[half:], some.clone())])
        between = kernel(some[:half], some[half : 2 * half])  # as many rows on both sides, and others
        derivatives = _derivatives_of_pairs(kernel, some, half)
    except Exception as error:
        raise TypeError(f"{what}; its own code evaluates it, and fails for a few of the rows: {error}") from error
    same = SAME[some.dtype == torch.float64]
    if (
        together.shape != (len(some), len(some))
        or not _close(together, apart, same)
        or not _close(between, together[:half, half : 2 * half], same)
    ):
        raise TypeError(f"{what}; its own code evaluates it, and its entries depend on other rows than their own two")
    for found, expected in derivatives:
        if not _close(found, expected, SAME_SLOPES[some.dtype == torch.float64]):
            raise TypeError(
                f"{what}; its own code evaluates it, and its derivatives between different rows are not those between "
                "rows of one tensor: inside `forward`, let k(x1, x2) be differentiable in both, equal or not"
            )


def _close(found: Tensor, expected: Tensor, relative: float) -> bool:
    scale = float(expected.nan_to_num().abs().max()) if expected.numel() else 0.0
    return torch.allclose(found, expected, rtol=0.0, atol=relative * scale, equal_nan=True)


def _let_it_settle(kernel: Any, rows: Tensor) -> None:
    """Calls a kernel as outside of a context, once, so that it draws what it draws at its first call and keeps."""
    # of no rows that are evaluated later: a kernel may keep entries, without a graph, for the rows they are of
    rows = torch.cat([rows.flip(0), rows[:1]])
    with torch.no_grad(), settings.debug(False):
        LazyEvaluatedKernelTensor(rows, rows, kernel=kernel).to_dense()


def _derivatives_of_pairs(kernel: Kernel, x: Tensor, half: int) -> list[tuple[Tensor, Tensor]]:
    """Derivatives in inputs and numbers of entries between the first rows of x and the rest, apart and within x."""
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
    """k(x, z) by a GPyTorch kernel with other values of its parameters; arguments as of `evaluated`."""

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
        if torch.is_grad_enabled():  # as `Evaluated` adds a row: the two sides never look equal
            others = torch.cat([others, others[-1:]])
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
        with settings.debug(False), self._unchanged():
            dense: Tensor = LazyEvaluatedKernelTensor(x, z, kernel=self.kernel).to_dense()
        return dense

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Leaves nothing of an evaluation in the kernel, and lets it find nothing that GPyTorch's kernels have kept.

        What a kernel keeps may be of other values of its parameters, or without a graph.
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
    """The class of a thing, with its article."""
    name = type(thing).__name__
    return f"a{'n' if name.startswith(('A', 'E', 'I', 'O', 'RBF')) else ''} {name}"
