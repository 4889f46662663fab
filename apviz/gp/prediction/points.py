"""Test inputs, checked before any work and read chunk by chunk, for test sets larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from apviz.operators.interface import MAX_SPAN
from apviz.system import DTYPES, KernelSystem, check_finite, tensor_of

#: largest number of test points in a chunk without n × batch arrays
CHUNK = 8192
#: advice when memory is short
FEWER_AT_ONCE = "predict fewer test points at once, or give a smaller batch_size"


class Points:
    """Test inputs (m, d) of a system, from any object that can be sliced by rows, which is neither moved nor copied."""

    def __init__(self, x_star: Any, system: KernelSystem) -> None:
        if isinstance(x_star, Tensor) or not hasattr(x_star, "shape"):
            x_star = tensor_of(x_star, "x_star")  # in float64; torch alone would convert to float32
        self._given, self._device = x_star, system.device
        self._only: Tensor | None = None  # a single chunk is converted once
        shape = tuple(x_star.shape)
        if len(shape) not in (1, 2) or (shape[1] if len(shape) == 2 else 1) != system.d:
            raise ValueError(f"x_star must have shape (m, {system.d}) as x has {system.d} columns, got {shape}")
        for rows, chunk in self.chunks(CHUNK):
            where = "x_star" if shape[0] <= CHUNK else f"x_star[{rows.start}:{rows.stop}]"
            check_finite(chunk, where)
            span = float(system.operator.scaled(chunk).abs().max())
            if not span < MAX_SPAN:
                raise ValueError(
                    f"{where} spans {span:.1e} lengthscales, more than {MAX_SPAN:.0e}: squared distances would "
                    "overflow; use the prior there, which equals the posterior"
                )
            self._only = chunk if len(chunk) == shape[0] else None

    def __len__(self) -> int:
        return int(self._given.shape[0])

    def __getitem__(self, rows: Any) -> Tensor:
        """Return some rows as (c, d) on the system's device, in their own dtype: they may be far from zero."""
        if self._only is not None:
            return self._only[rows]
        chunk = tensor_of(self._given[rows], "x_star")
        chunk = chunk.to(self._device, chunk.dtype if chunk.dtype in DTYPES else torch.float64)
        return chunk if chunk.ndim == 2 else chunk[:, None]

    def slices(self, size: int) -> Iterator[slice]:
        """Yield the rows [0, m) in the fewest chunks of at most `size` rows, of nearly equal size."""
        m, count = len(self), -(-len(self) // size)
        for i in range(count):
            yield slice(i * m // count, (i + 1) * m // count)

    def chunks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        """Yield the slices with their inputs."""
        for rows in self.slices(size):
            yield rows, self[rows]
