"""The system K W = y − μ of a posterior's mean, from checked data, in the dtypes in which it may be solved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from apviz.gp.prediction.accuracy import require_accuracy, ways
from apviz.hyperparameters import Hyperparameters
from apviz.operators import Operator
from apviz.operators.fused import FusedOperator, FusedTF32Operator
from apviz.settings import require_kind, require_number, require_whole
from apviz.solvers import Solver
from apviz.system import KernelSystem, check_finite, dtype_of, tensor_of

# engines that work in float32; naming one selects this dtype
SINGLE_PRECISION = (FusedOperator.name, FusedTF32Operator.name)

#: None: that of the data
Dtype = torch.dtype | Literal["auto"] | None


class MeanSystem:
    """The system of a mean, whose dtype apviz may choose. Arguments as in `Posterior`."""

    def __init__(
        self, x: Any, y: Any, hyperparameters: Hyperparameters, noises: Any, *,
        dtype: Dtype, device: str | torch.device, operator: str | Operator, dataset: str,
    ) -> None:  # fmt: skip
        x, y = tensor_of(x, "x"), tensor_of(y, "y")
        if y.ndim != 1 or (x.ndim and len(y) != len(x)):
            raise ValueError(f"y must have shape (n,), one target for each row of x, got {tuple(y.shape)}")
        check_finite(y[:, None], "y")
        self._dtype = _given_dtype(dtype, operator, x, y)
        self._of_dtype = partial(
            KernelSystem, x, y.double() - float(hyperparameters.mean), hyperparameters.build_kernel(),
            noise=hyperparameters.noise if noises is None else noises,
            operator=operator, device=device, dataset=dataset,
        )  # fmt: skip

    def ways(self, solver: Solver | None, accuracy: float) -> Iterator[tuple[KernelSystem, Solver]]:
        """Yield systems and solvers, in the order to try until one reaches the accuracy, as `accuracy.ways`."""
        is_free = self._dtype is None
        system = self._of_dtype(dtype=torch.float64 if is_free else self._dtype)
        for dtype, chosen in ways(system, solver, is_free, accuracy):
            system = system if dtype is system.dtype else self._of_dtype(dtype=dtype)
            yield system, chosen


def _given_dtype(dtype: Dtype, operator: str | Operator, x: Tensor, y: Tensor) -> torch.dtype | None:
    """Return the dtype that was given, or that of the engine or of the data; None: apviz chooses."""
    if dtype is not None and not isinstance(dtype, str):
        return dtype
    if operator in SINGLE_PRECISION:
        return torch.float32
    return None if dtype == "auto" and isinstance(operator, str) else dtype_of(x, y)


def check_settings(
    hyperparameters: Any, solvers: Mapping[str, Any], accuracy: float | None, batch_size: int | Literal["auto"]
) -> None:
    """Check the settings of a posterior, before any data."""
    if not isinstance(hyperparameters, Hyperparameters):
        raise TypeError(f"hyperparameters must be apviz Hyperparameters, got {type(hyperparameters).__name__}")
    require_number("the mean of hyperparameters", hyperparameters.mean, -math.inf, "a finite number")
    require_accuracy(accuracy)
    if batch_size != "auto":
        require_whole("batch_size", batch_size, 1)
    for name, given in solvers.items():
        if given is not None:
            require_kind(name, given, Solver, "a solver, such as apviz.Automatic(), or None")
