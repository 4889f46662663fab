"""The tiled operator: at most one tile of K in memory per thread; compiled on the CPU, torch elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from apviz.kernels import Gradients, Kernel
from apviz.operators import native
from apviz.operators.interface import Noise, Operator

# size at which a tile and its two buffers stay in a CPU's or GPU's L2 cache
CPU_TILE = (768, 512)
GPU_TILE = (8192, 2048)
# number of inputs up to which direct differences cost about as much as a matrix product, and are exact
DIRECT_MAX_INPUTS = 4
# number of columns up to which evaluating an entry takes longer than using it twice
SYMMETRIC_MAX_COLUMNS = 16


class ByTiles(Operator):
    """An operator whose exact entries, and those of few points, are evaluated tile by tile."""

    def exact(self) -> Operator:
        found = TiledOperator(self.given, self.kernel, self.noise_of(), torch.float64, direct=True)
        found.fix_engine(0.0, 1)
        return found

    def of_rows(self, rows: Tensor, noise: Noise) -> TiledOperator:
        found = TiledOperator(self.given[rows.to(self.given.device)], self.kernel, noise, torch.float64)
        found.fix_engine(0.0, 1)
        return found


class TiledOperator(ByTiles):
    """An operator that evaluates K tile by tile.

    Two engines compute the same numbers up to rounding: `compiled` (C++ for the CPU, see `native.cpp`) and
    `in-place tiles` (torch, also on a GPU, and for kernels that `native.cpp` does not have). The latter compute squared
    distances from matrix products if the rounding is harmless for a solve, and never if `direct` differences are
    requested. The engine changes only in `prepare` and `fix_engine`, never inside a solve.
    """

    name = "tiled"

    def __init__(
        self,
        x: Tensor,
        kernel: Kernel,
        noise: Noise,
        dtype: torch.dtype | None = None,
        compiled: bool | None = None,
        direct: bool = False,
    ) -> None:
        super().__init__(x, kernel, noise, dtype)
        self._compiled = compiled
        self._direct = direct or self._needs_direct_differences()

    def _needs_direct_differences(self) -> bool:
        """Test whether ‖x‖² − 2xᵀz + ‖z‖² would lose near pairs to cancellation, or saves nothing.

        The product form errs by about eps·max‖x̃‖² in u, hence in K by up to that times outputscale. Summed over a
        row's near neighbours, the error must stay far below the noise, or K is no longer positive definite. For a
        kernel with a kink at u = 0 it is never safe.
        """
        radius = self.inputs.square().sum(1).max().item()
        error = torch.finfo(self.x.dtype).eps * radius * self.largest_signal
        return self.formula.has_kink or self.inputs.shape[1] <= DIRECT_MAX_INPUTS or error > 1e-4 * self.noise

    @cached_property
    def entry_rounding(self) -> float:
        # ‖x‖² − 2xᵀz + ‖z‖² is rounded relative to its largest term
        radius = 0.0 if self._direct else float(self.inputs.square().sum(1).max())
        return super().entry_rounding + 4.0 * torch.finfo(self.x.dtype).eps * radius

    @property
    def engine(self) -> str:
        if self._compiled:
            return "compiled C++ tiles, direct differences"
        return f"in-place torch tiles, {'direct differences' if self._direct else 'matrix-product distances'}"

    def prepare(self, columns: int = 1) -> None:
        if self._compiled is None:
            self._compiled = self.x.device.type == "cpu" and native.supports(self.formula)

    def fix_engine(self, expected_entries: float, columns: int) -> None:
        if native.is_wanted(self.formula, expected_entries):
            self.prepare()
        self._compiled = bool(self._compiled)

    def in_dtype(self, dtype: torch.dtype) -> TiledOperator:
        return TiledOperator(self.given, self.kernel, self.noise_of(), dtype, self._compiled)

    def reordered(self, order: Tensor) -> TiledOperator:
        return TiledOperator(
            self.given[order], self.kernel, self.noise_of(order), self.x.dtype, self._compiled, self._direct
        )

    def matmul(self, v: Tensor) -> Tensor:
        if not self._compiled or v.shape[1:] > (SYMMETRIC_MAX_COLUMNS,):
            return super().matmul(v)
        self._check(v, self.n, "v")
        out = self._noise_times(v).contiguous()
        native.symmetric_matmul_(out, self.formula, self.inputs, v)
        return out

    def matmul_price(self, columns: int) -> float:
        """Estimate from measurements: each pair is evaluated once, used twice; the use costs less with many inputs."""
        if not self._compiled or columns > SYMMETRIC_MAX_COLUMNS:
            return 1.0
        products = (columns - 1) / (SYMMETRIC_MAX_COLUMNS - 1) / (1 + self.inputs.shape[1] / 20)
        return 0.57 + 0.25 * products

    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        if self._compiled:
            dense = out.contiguous()  # the same tensor, except for unusual views
            native.columns_matmul_(dense, self.formula, rows.contiguous(), columns.contiguous(), u)
            if dense is not out:
                out.copy_(dense)
            return
        for c, tile_columns in self._tiles(columns, 1):
            for r, tile_rows in self._tiles(rows, 0):
                out[r].addmm_(self._tile(tile_rows, tile_columns), u[c])

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        if self._compiled:
            return native.gradients(self.formula, rows, columns, a, b)
        return super()._gradients(rows, columns, a, b)

    def squared_norms(self, r: Tensor, starts: Sequence[int], spare: Tensor) -> Tensor:
        if self._compiled and r.is_contiguous():
            return native.squared_norms(r, starts)
        return super().squared_norms(r, starts, spare)

    def subtract_combination_(self, r: Tensor, images: Tensor, steps: Tensor) -> None:
        if self._compiled and r.is_contiguous() and images.is_contiguous():
            native.subtract_combination_(r, images, steps.contiguous())
        else:
            super().subtract_combination_(r, images, steps)

    def gathered_products(self, updates: Tensor, rows: Tensor, a: Tensor) -> Tensor:
        if self._compiled and all(given.is_contiguous() for given in (updates, rows, a)):
            return native.gathered_products(updates, rows, a)
        return super().gathered_products(updates, rows, a)

    def _fill(self, rows: Tensor, columns: Tensor, out: Tensor | None = None) -> Tensor:
        if out is None:
            out = torch.empty(len(rows), len(columns), dtype=rows.dtype, device=rows.device)
        if self._compiled:
            native.fill(self.formula, rows.contiguous(), columns.contiguous(), out)
            return out
        for c, tile_columns in self._tiles(columns, 1):
            for r, tile_rows in self._tiles(rows, 0):
                out[r, c] = self._tile(tile_rows, tile_columns)
        return out

    def _tiles(self, inputs: Tensor, side: int) -> list[tuple[slice, Tensor]]:
        size = (CPU_TILE if inputs.device.type == "cpu" else GPU_TILE)[side]
        return [(slice(i, min(i + size, len(inputs))), inputs[i : i + size]) for i in range(0, len(inputs), size)]

    def _tile(self, x: Tensor, z: Tensor) -> Tensor:
        """Return K of two tiles of features."""
        return self.formula.values(x, z, direct_distances if self._direct else product_distances)


def direct_distances(x: Tensor, z: Tensor) -> Tensor:
    """Compute squared distances by differences, in place: x (n, width), z (m, width), to (n, m)."""
    u = torch.zeros(len(x), len(z), dtype=x.dtype, device=x.device)
    spare = torch.empty_like(u)
    for k in range(x.shape[1]):
        torch.sub(x[:, k, None], z[None, :, k], out=spare)
        u.addcmul_(spare, spare)
    return u


def product_distances(x: Tensor, z: Tensor) -> Tensor:
    """Compute squared distances from a matrix product, with cancellation: x (n, width), z (m, width), to (n, m)."""
    centre = z.mean(0)  # keeps the products small, so that near pairs in compact tiles lose less to cancellation
    x, z = x - centre, z - centre
    norms = z.square().sum(1) + x.square().sum(1)[:, None]
    return torch.addmm(norms, x, z.T, alpha=-2).clamp_(min=0)
