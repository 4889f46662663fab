"""Prices: what an entry, a block's factor and a pass cost on this machine, for this kernel, d and right-hand sides."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, cached_property

import torch
from torch import Tensor

from apviz.factors import cholesky_with_jitter
from apviz.operators import Operator

#: of n² entries, what the longest of the timings may take, and the fewest rows of it
SHARE, LEAST_ROWS = 0.02, 16
#: seconds of an update beside its arithmetic: calls from Python
CALLS = 3e-4


class Prices:
    """Seconds of the parts of a solve, each measured when it is asked for, on few rows.

    Args:
        operator: K, whose engine is fixed.
        columns: right-hand sides.
        seconds: the clock.
    """

    def __init__(self, operator: Operator, columns: int, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._operator, self._columns, self._seconds = operator, columns, seconds
        self.block, self.projection = cache(self._block), cache(self._projection)
        self.low_rank, self.span, self.history = cache(self._low_rank), cache(self._span), cache(self._history)

    @cached_property
    def in_float32(self) -> Prices:
        """Those of the same kernel in float32."""
        if self._operator.x.dtype == torch.float32:
            return self
        return Prices(self._operator.in_dtype(torch.float32), self._columns, self._seconds)

    @cached_property
    def entry(self) -> float:
        """An entry of K in a product of some of its columns."""
        return self._of_columns(self._operator, self._operator.x.dtype)

    @cached_property
    def entry_of_matmul(self) -> float:
        """An entry of K in a product with all of it, which may evaluate each pair of rows once."""
        return self.entry * self._operator.matmul_price(self._columns)

    @cached_property
    def entry_of_pass(self) -> float:
        """An entry of K in float64, as a pass evaluates it."""
        return self._of_columns(self._operator.exact(), torch.float64)

    def _block(self, rows: int) -> float:
        """A block of so many solved rows: its entries and its factor."""
        some = slice(0, min(rows, self._operator.n))
        scale = self._operator.largest_signal + self._operator.noise
        return self._least(lambda: cholesky_with_jitter(self._operator.block(some), "a block", scale))

    def _projection(self, rows: int) -> float:
        """The solve with the factor of a block of so many rows."""
        factor = torch.eye(min(rows, self._operator.n)).to(self._operator.x)
        r = self._like(len(factor))
        return self._least(lambda: torch.cholesky_solve(r, factor))

    def _low_rank(self, rank: int) -> float:
        """V(Vᵀr) for V: (n, rank)."""
        rows = min(self._operator.n, 20_000)
        v, r = torch.randn(rows, rank).to(self._operator.x), self._like(rows)
        return self._least(lambda: v @ (v.T @ r)) * self._operator.n / rows

    def _span(self, rank: int) -> float:
        """An orthonormal basis of (n, rank)."""
        rows = min(self._operator.n, max(2_000, 2 * rank))
        v = torch.randn(rows, rank, generator=torch.Generator().manual_seed(0)).to(self._operator.x)
        return self._least(lambda: torch.linalg.qr(v)) * self._operator.n / rows

    def _history(self, length: int) -> float:
        """A step along so many past updates."""
        rows = min(self._operator.n, 20_000)
        r = self._like(rows)
        images, taken = r.expand(length, -1, -1).contiguous(), self._like(length)
        return self._least(lambda: self._operator.subtract_combination_(r, images, taken)) * self._operator.n / rows

    def _of_columns(self, operator: Operator, dtype: torch.dtype) -> float:
        rows = max(LEAST_ROWS, round(SHARE * operator.n))
        u = self._like(min(rows, operator.n)).to(dtype)
        some = slice(0, len(u))
        return self._least(lambda: operator.columns_matmul(some, u)) / (operator.n * len(u))

    def _like(self, rows: int) -> Tensor:
        return torch.randn(rows, self._columns, generator=torch.Generator().manual_seed(0)).to(self._operator.x)

    def _least(self, act: Callable[[], object]) -> float:
        """The less of two, for the first may have had to wake up threads."""
        found = []
        for _ in range(2):
            if self._operator.x.is_cuda:
                torch.cuda.synchronize()
            began = self._seconds()
            act()
            if self._operator.x.is_cuda:
                torch.cuda.synchronize()
            found.append(self._seconds() - began)
        return min(found)
