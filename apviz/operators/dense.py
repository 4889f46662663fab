"""The dense operator: K stored, for small n and as the reference."""

from __future__ import annotations

import torch
from torch import Tensor

from apviz.kernels import Gradients, Kernel
from apviz.operators import native
from apviz.operators.interface import Noise, Operator, Rows, count
from apviz.operators.tiled import TiledOperator, exact, of_rows


class DenseOperator(Operator):
    """Stores K once, n² numbers; reading a stored entry counts as evaluating it."""

    name = "dense"

    def __init__(
        self,
        x: Tensor,
        kernel: Kernel,
        noise: Noise,
        dtype: torch.dtype | None = None,
        matrix: Tensor | None = None,
    ) -> None:
        super().__init__(x, kernel, noise, dtype)
        self.matrix = super().block(slice(0, self.n)) if matrix is None else matrix

    @property
    def engine(self) -> str:
        return "stored matrix"

    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        out += self._fill(rows, columns) @ u

    def subtract_columns_(self, r: Tensor, rows: Rows, u: Tensor) -> None:
        self._check(u, count(rows), "u", r)
        if isinstance(rows, slice):
            r.addmm_(self.matrix[:, rows], u, alpha=-1)
        else:  # K is symmetric, and its rows lie together
            r.addmm_(self.matrix.index_select(0, rows).T, u, alpha=-1)

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        # nothing stored helps here; what is compiled already takes a thirtieth of the time
        if self.x.device.type == "cpu" and native.is_built(self.formula) and native.supports(self.formula):
            return native.gradients(self.formula, rows, columns, a, b)
        return super()._gradients(rows, columns, a, b)

    def block(self, rows: Rows, out: Tensor | None = None) -> Tensor:
        block = self.matrix[rows, rows] if isinstance(rows, slice) else _of(self.matrix, rows)
        return block.clone() if out is None else out.copy_(block)

    def columns(self, rows: Rows) -> Tensor:
        columns = self.matrix[:, rows].clone()
        indices = torch.arange(self.n, device=self.x.device)[rows]
        columns[indices, torch.arange(len(indices), device=self.x.device)] = self.signal()[indices].to(columns)
        return columns

    def in_dtype(self, dtype: torch.dtype) -> DenseOperator:
        # entries in more digits than the stored ones have are evaluated anew
        stored = self.matrix.to(dtype) if torch.finfo(dtype).eps >= torch.finfo(self.x.dtype).eps else None
        return DenseOperator(self.given, self.kernel, self.noise_of(), dtype, stored)

    def reordered(self, order: Tensor) -> DenseOperator:
        return DenseOperator(
            self.given[order], self.kernel, self.noise_of(order), self.x.dtype, _of(self.matrix, order)
        )

    def exact(self) -> TiledOperator:
        return exact(self)

    def of_rows(self, rows: Tensor, noise: Noise) -> TiledOperator:
        return of_rows(self, rows, noise)


def _of(matrix: Tensor, rows: Tensor) -> Tensor:
    """Rows and columns of a matrix; for many of them ten times as fast as `matrix[rows][:, rows]`."""
    return matrix.index_select(0, rows).index_select(1, rows)
