"""The system K W = B, checked before any work is done on it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from apviz.kernels import Kernel
from apviz.operators import Operator, make_operator

DTYPES = (torch.float32, torch.float64)


class KernelSystem:
    """K W = B with K = k(X, X) + σ²I (paper, section 2).

    Args:
        x: (n, d) inputs, a tensor or anything `torch.as_tensor` takes.
        b: (n,) or (n, l+1) right-hand sides: the targets minus their mean, then probe vectors.
        kernel: k, with positive lengthscales and outputscale.
        noise: σ² > 0, in squared units of the target.
        operator: `auto`, `dense`, `tiled` or `keops`, or an `Operator` of the same points.
        dtype: torch.float32 or torch.float64; inputs and right-hand sides are converted.
        device: `auto` (a GPU if there is one), or a torch device.
        dataset: the name of the data, for charts and traces.
        seed: the seed the right-hand sides were drawn with, for the trace.

    Raises:
        TypeError: a kernel that is not an `apviz` kernel.
        ValueError: fewer than 2 rows, shapes that do not match, NaN or infinite values (which column, how many),
            a noise that is not positive, a number of lengthscales other than 1 or d, an unknown operator or dtype,
            an operator of another system.
    """

    def __init__(
        self,
        x: Any,
        b: Any,
        kernel: Kernel,
        noise: float,
        operator: str | Operator = "auto",
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "auto",
        *,
        dataset: str = "",
        seed: int | None = None,
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be an apviz kernel such as apviz.Matern52(0.2), got {type(kernel).__name__}")
        noise = float(noise)
        if not (math.isfinite(noise) and noise > 0):
            raise ValueError(
                f"noise is the variance σ² and must be finite and positive, got {noise!r}; "
                "without it K may be singular. GPyTorch's default floor is 1e-4"
            )
        x, b = torch.as_tensor(x).detach(), torch.as_tensor(b).detach()
        if x.ndim == 1:
            x = x[:, None]
        _check_shapes(x, b)
        self.device = _device(device)
        self.x = x.to(self.device, dtype)
        #: (n, l+1), always two-dimensional
        self.b = (b if b.ndim == 2 else b[:, None]).to(self.device, dtype)
        # after the conversion: a finite float64 can be infinite in float32
        check_finite(self.x, "x")
        check_finite(self.b, "b")
        #: whether `b` was given as a vector, so that the weights are returned as one
        self.single_column = b.ndim == 1
        self.kernel, self.noise, self.dtype = kernel, noise, dtype
        self.dataset, self.seed = dataset, seed
        self.operator = make_operator(operator, self.x, kernel, noise) if isinstance(operator, str) else operator
        self._check_operator()

    def _check_operator(self) -> None:
        operator = self.operator
        if not isinstance(operator, Operator):
            raise TypeError(f"operator must be a name or an apviz operator, got {type(operator).__name__}")
        if operator.n != self.n:
            raise ValueError(f"the operator is of {operator.n} points, x has {self.n}")
        if (operator.kernel, operator.noise) != (self.kernel, self.noise):
            raise ValueError("the operator has another kernel or noise than the system")
        if (operator.x.dtype, operator.x.device) != (self.x.dtype, self.x.device):
            raise ValueError(
                f"the operator is in {operator.x.dtype} on {operator.x.device}, "
                f"the system in {self.x.dtype} on {self.x.device}"
            )

    @property
    def n(self) -> int:
        return len(self.x)

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    def __repr__(self) -> str:
        name = f"{self.dataset}, " if self.dataset else ""
        return (
            f"KernelSystem({name}n={self.n}, d={self.d}, {self.b.shape[1]} right-hand sides, {self.kernel.name}, "
            f"noise={self.noise:g}, {self.operator.name}, {self.dtype}, {self.device})"
        )


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {str(device)!r} was asked for, but torch sees no GPU; use device='cpu' or 'auto'")
    return chosen


def _check_shapes(x: Tensor, b: Tensor) -> None:
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"x must have shape (n, d) with d ≥ 1, got {tuple(x.shape)}")
    if len(x) < 2:
        raise ValueError(f"a system needs at least 2 rows, x has {len(x)}")
    if b.ndim not in (1, 2) or len(b) != len(x) or b.numel() == 0:
        raise ValueError(f"b must have shape (n,) or (n, l+1) with n = {len(x)} as x has, got {tuple(b.shape)}")


def check_finite(values: Tensor, name: str) -> None:
    """Names the first column with NaN or infinite values, and how many there are."""
    bad = ~torch.isfinite(values)
    if bad.any():
        per_column = bad.sum(0)
        column = int(per_column.nonzero()[0, 0])
        others = int((per_column > 0).sum()) - 1
        more = f", and {others} other columns have some too" if others else ""
        raise ValueError(
            f"{name} has {int(per_column[column])} NaN or infinite values in column {column}{more} "
            f"(in {values.dtype}); "
            "drop or impute these rows first"
        )
