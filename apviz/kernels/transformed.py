"""Kernels of linearly transformed inputs, such as geometric anisotropy along rotated axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from apviz.kernels.algebra import Kernel, OfInputs
from apviz.kernels.formula import Lowered
from apviz.settings import shown

#: relative size of an entry that rounding leaves where the exact entry is 0
ROUNDING = 1e-14


@dataclass(frozen=True, init=False, repr=False)
class Transformed(OfInputs):
    """A kernel k(A x, A z) of linearly transformed inputs.

    A is fixed: training changes the hyperparameters of k alone. With a rotation A, the lengthscales of k belong to
    rotated axes. In geostatistics this is geometric anisotropy (`apviz.gp.Variogram` has its angles and ratios).

    Args:
        kernel: k, of k inputs.
        matrix: A, (k, d).

    Raises:
        ValueError: a matrix that is not two-dimensional, finite and different from 0; when the kernel is used, inputs
            with another number of columns.

    Examples:
        >>> import torch, apviz
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
        >>> along = apviz.kernels.Transformed(apviz.RBF(lengthscale=5.0), [[0.6, 0.8]])
        >>> along(x)  # exp(−½): 5 along (0.6, 0.8)
        tensor([[1.0000, 0.6065],
                [0.6065, 1.0000]], dtype=torch.float64)
    """

    kernel: Kernel
    matrix: tuple[tuple[float, ...], ...]

    def __init__(self, kernel: Kernel, matrix: Any) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be an apviz kernel such as apviz.RBF(), got {type(kernel).__name__}")
        try:
            # a tensor that wants gradients, or is on a GPU, is no array
            found = np.asarray(matrix.detach().cpu() if isinstance(matrix, Tensor) else matrix, dtype=np.float64)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            found = np.empty(0)
        if found.ndim != 2 or not np.isfinite(found).all() or not found.any():
            raise ValueError(
                f"matrix must be a matrix (k, d) of finite numbers, not all 0, got {shown(matrix)}; a row has a "
                "coefficient for each input"
            )
        object.__setattr__(self, "kernel", kernel)
        object.__setattr__(self, "matrix", tuple(map(tuple, found.tolist())))

    def around(self, kernel: Kernel) -> Self:
        return type(self)(kernel, self.matrix)

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        self._check_width(d)
        matrix = torch.tensor(self.matrix, dtype=torch.float64)
        return self.kernel.lowered(len(matrix), at).transformed(matrix)

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        self._check_width(d)
        matrix = torch.tensor(self.matrix, dtype=torch.float64)
        for scale, rows in self.kernel.shortest_scales(len(matrix)):
            change = torch.linalg.vector_norm(matrix[rows] / scale[:, None], dim=0)
            columns = change.nonzero().flatten()
            yield 1.0 / change[columns], columns.tolist()

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        """Return the same model in other units: of A diag(unit), and k itself if that is the identity.

        Raises:
            ValueError: k has no counterpart at another origin.
        """
        self._check_width(len(unit))
        matrix = _without_rounding(np.array(self.matrix) * np.asarray(unit, dtype=np.float64))
        origin = np.array(self.matrix) @ np.asarray(centre, dtype=np.float64)
        inner = self.kernel.rescaled(origin.tolist(), [1.0] * len(matrix))
        return inner if _is_identity(matrix) else type(self)(inner, matrix)

    def _check_width(self, d: int) -> None:
        if len(self.matrix[0]) != d:
            raise ValueError(f"the matrix of the kernel has {len(self.matrix[0])} columns, the inputs have {d}")

    def __repr__(self) -> str:
        return f"Transformed({self.kernel!r}, {[list(row) for row in self.matrix]})"


def _without_rounding(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix with 0 where rounding left something else."""
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    return np.where(np.abs(matrix) <= ROUNDING * largest, 0.0, matrix)


def _is_identity(matrix: NDArray[np.float64]) -> bool:
    square = matrix.shape[0] == matrix.shape[1]
    return square and np.allclose(matrix, np.eye(len(matrix)), rtol=0.0, atol=ROUNDING)
