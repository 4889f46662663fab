"""The dense operator: K stored, for small n and as the reference."""

from __future__ import annotations

import torch
from torch import Tensor

from apviz.kernels import Gradients, Kernel
from apviz.operators import native
from apviz.operators.interface import Noise, count
from apviz.operators.layout import Rows
from apviz.operators.tiled import ByTiles
from apviz.settings import without_tf32

#: rows of unstored entries that are evaluated together: 16 MB in float32 at n = 4,000
ROWS_AT_ONCE = 1_000


class DenseOperator(ByTiles):
    """An operator that stores K once, n² numbers; reading a stored entry counts as evaluating it."""

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

    @without_tf32()
    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        # entries that are not stored, for example of test inputs, of which there may be many times n
        if self._is_compiled:
            native.columns_matmul_(out, self.formula, rows.contiguous(), columns.contiguous(), u)
            return
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            out[some] += self._fill(rows[some], columns) @ u

    @without_tf32()
    def subtract_columns_(self, r: Tensor, rows: Rows, u: Tensor) -> None:
        self._check(u, count(rows), "u", r)
        if isinstance(rows, slice):
            r.addmm_(self.matrix[:, rows], u, alpha=-1)
        else:  # K is symmetric, and its rows are contiguous
            r.addmm_(self.matrix.index_select(0, rows).T, u, alpha=-1)

    @without_tf32()
    def rows_matmul(self, rows: Rows, v: Tensor) -> Tensor:
        self._check(v, self.n, "v")
        return self.matrix[rows] @ v

    @without_tf32()
    def subtract_part_(self, r: Tensor, rows: Tensor, columns: Rows, u: Tensor) -> None:
        self._check(u, count(columns), "u", r)
        # K is symmetric: select few rows before the many columns
        r[rows] -= self.matrix[columns].index_select(1, rows).T @ u

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        # the stored entries do not help
        if self._is_compiled:
            return native.gradients(self.formula, rows, columns, a, b)
        return super()._gradients(rows, columns, a, b)

    def _fill(self, rows: Tensor, columns: Tensor, out: Tensor | None = None) -> Tensor:
        if not self._is_compiled:
            return super()._fill(rows, columns, out)
        out = rows.new_empty(len(rows), len(columns)) if out is None else out
        native.fill(self.formula, rows.contiguous(), columns.contiguous(), out)
        return out

    def _weighted_gradients(self, m: Tensor) -> Gradients:
        if self._is_compiled:
            return native.weighted_gradients(self.formula, self.inputs, self.inputs, m + m.T)
        return super()._weighted_gradients(m)

    @property
    def _is_compiled(self) -> bool:
        """Test whether unstored entries are evaluated by the compiled engine, 30 times faster, without waiting."""
        return self.x.device.type == "cpu" and native.is_wanted(self.formula) and native.supports(self.formula)

    def block(self, rows: Rows, out: Tensor | None = None) -> Tensor:
        block = self.matrix[rows, rows] if isinstance(rows, slice) else _of(self.matrix, rows)
        return block.clone() if out is None else out.copy_(block)

    def columns(self, rows: Rows) -> Tensor:
        columns = self.matrix[:, rows].clone()
        indices = torch.arange(self.n, device=self.x.device)[rows]
        columns[indices, torch.arange(len(indices), device=self.x.device)] = self.signal()[indices].to(columns)
        return columns

    def in_dtype(self, dtype: torch.dtype) -> DenseOperator:
        # a dtype with more digits than the stored entries needs a new evaluation
        stored = self.matrix.to(dtype) if torch.finfo(dtype).eps >= torch.finfo(self.x.dtype).eps else None
        return DenseOperator(self.given, self.kernel, self.noise_of(), dtype, stored)

    def reordered(self, order: Tensor) -> DenseOperator:
        return DenseOperator(
            self.given[order], self.kernel, self.noise_of(order), self.x.dtype, _of(self.matrix, order)
        )


def _of(matrix: Tensor, rows: Tensor) -> Tensor:
    """Return rows and columns of a matrix; for many of them ten times as fast as `matrix[rows][:, rows]`."""
    return matrix.index_select(0, rows).index_select(1, rows)
