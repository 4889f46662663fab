"""scikit-learn kernels of somebody's own, evaluated by their own code in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apviz.kernels.algebra import Scaled
from apviz.kernels.evaluated import Evaluated

# step of central differences in the logarithm of a parameter: errors of rounding and of the step are both near 1e-10
STEP = 1e-5
# rows on which entries are compared, and the largest difference, relative to the largest entry
COMPARED, SAME = 16, 1e-8


def is_own(kernel: Any) -> bool:
    """Test for a kernel of scikit-learn's interface whose class is not scikit-learn's own."""
    from sklearn.gaussian_process.kernels import Kernel

    return isinstance(kernel, Kernel) and not type(kernel).__module__.startswith("sklearn.")


def evaluated_sklearn(kernel: Any) -> Scaled:
    """Return an apviz kernel whose entries a scikit-learn kernel evaluates, with the numbers that are not fixed.

    Derivatives in the numbers are central differences, so that the kernel needs no gradient. There are none in inputs.
    """
    names = [each.name for each in kernel.hyperparameters if not each.fixed]
    sizes = [each.n_elements for each in kernel.hyperparameters if not each.fixed]
    pieces = np.split(np.exp(kernel.theta), np.cumsum(sizes)[:-1]) if names else []
    values = {name: tuple(map(float, piece)) for name, piece in zip(names, pieces, strict=True)}
    shapes = dict(zip(names, ((size,) for size in sizes), strict=True))
    # with a factor of its own, so that other units of the target only change this factor
    return Scaled(Evaluated(_Entries(kernel), values, shapes, repr(kernel)))


def check_entries(kernel: Any, x: Tensor) -> None:
    """Check on some training rows x: (n, d) that a kernel's entries depend on their two rows alone, and are symmetric.

    Raises:
        ValueError: they are not, or one of somebody's own adds noise to K; the message says which.
    """
    rows = x[:COMPARED].numpy()
    whole, half = np.asarray(kernel(rows, rows.copy())), len(rows) // 2
    if whole.shape != (len(rows), len(rows)) or not np.isfinite(whole).all():
        raise ValueError(f"{kernel!r} must return a finite matrix (n, m) for (n, d) and (m, d), got {whole.shape}")
    scale = SAME * np.abs(whole).max()
    if not np.allclose(whole, whole.T, rtol=0, atol=scale):
        raise ValueError(f"{kernel!r} is not symmetric: k(x, z) differs from k(z, x)")
    if not np.allclose(whole[:half], kernel(rows[:half], rows), rtol=0, atol=scale):
        raise ValueError(f"an entry of {kernel!r} must depend on its own two rows alone, not on other rows")
    for own in _own_parts(kernel):
        between = np.asarray(own(rows, rows.copy()))
        for found in (np.diag(own(rows)), own.diag(rows)):
            if not np.allclose(found, np.diag(between), rtol=0, atol=SAME * np.abs(between).max()):
                raise ValueError(
                    f"k(X) or diag(X) of {own!r} has another diagonal than k(X, X), such as one with noise; leave the "
                    "noise to a WhiteKernel: kernel + WhiteKernel()"
                )


def _own_parts(kernel: Any) -> Iterator[Any]:
    """Yield the kernels of somebody's own in sums, products and powers."""
    if is_own(kernel):
        yield kernel
        return
    for name in ("k1", "k2", "kernel"):
        if (part := getattr(kernel, name, None)) is not None:
            yield from _own_parts(part)


@dataclass(frozen=True)
class _Entries:
    """The function k(x, z) of a scikit-learn kernel at given parameter values; arguments as in `evaluated`."""

    kernel: Any

    def __call__(self, x: Tensor, z: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        numbers = torch.cat([each.reshape(-1) for each in values.values()]) if values else x.new_empty(0)
        found: Tensor = _OfSklearn.apply(self.kernel, x, z, numbers)  # type: ignore[no-untyped-call]
        return found


class _OfSklearn(torch.autograd.Function):
    """k(x, z) by NumPy, whose derivatives in numbers are differences; those in inputs are NaN: they are not known."""

    @staticmethod
    def forward(ctx: Any, kernel: Any, x: Tensor, z: Tensor, numbers: Tensor) -> Tensor:
        ctx.kernel = kernel
        ctx.save_for_backward(x, z, numbers)
        return _entries(kernel, x, z, numbers.double().log())

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        x, z, numbers = ctx.saved_tensors
        theta, slopes = numbers.double().log(), torch.zeros_like(numbers)
        for place in range(len(theta)):
            step = torch.zeros_like(theta)
            step[place] = STEP
            above, below = (_entries(ctx.kernel, x, z, theta + way * step) for way in (1, -1))
            slopes[place] = torch.sum(outer * (above - below)) / (2 * STEP) / numbers[place]
        return None, torch.full_like(x, torch.nan), torch.full_like(z, torch.nan), slopes


def _entries(kernel: Any, x: Tensor, z: Tensor, theta: Tensor) -> Tensor:
    at = kernel.clone_with_theta(theta.cpu().numpy())
    left, right = (each.detach().cpu().double().numpy() for each in (x, z))
    return torch.from_numpy(np.asarray(at(left, right), dtype=np.float64)).to(x)
