"""Cost model: measured seconds of entries, factors and passes on this machine, for one kernel, d and columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from functools import cached_property, wraps
from typing import Any, ClassVar, Concatenate, ParamSpec

import torch
from torch import Tensor

from apviz.factors import cholesky_with_jitter
from apviz.operators import Operator

#: limits of the longest timing: its share of n² entries, its largest number of entries, its smallest number of rows
SHARE, MOST_ENTRIES, LEAST_ROWS = 0.02, 4e6, 16
#: a timing of more seconds is not repeated: the time to wake threads is negligible
LONG = 0.02
#: seconds until costs are measured again, because the load of the machine changes
KEPT_SECONDS = 600.0
#: seconds of an update in addition to its arithmetic, for calls from Python
CALLS = 3e-4

P = ParamSpec("P")


def _kept(measure: Callable[Concatenate[Any, P], float]) -> Callable[Concatenate[Any, P], float]:
    """Cache a cost, which is measured on first use in this process."""

    @wraps(measure)
    def price(self: Any, *of: P.args, **named: P.kwargs) -> float:
        key = (self._system, measure.__name__, of)
        measured, seconds = CostModel._known.get(key, (0.0, 0.0))
        if not measured or time.monotonic() - measured > KEPT_SECONDS:
            seconds = measure(self, *of, **named)
            CostModel._known[key] = time.monotonic(), seconds
        return seconds

    return price  # type: ignore[return-value]  # `wraps` forgets that self has no name


class CostModel:
    """Seconds of the parts of a solve, each measured on few rows on first use.

    Costs are cached for ten minutes in this process, for systems with the same kernel, rows, inputs, right-hand sides,
    dtype, engine and device. Advice for another tolerance or noise then needs no new measurements.

    Args:
        operator: K, with a fixed engine.
        columns: number of right-hand sides.
        seconds: clock of the measurements.
    """

    _known: ClassVar[dict[Hashable, tuple[float, float]]] = {}

    def __init__(self, operator: Operator, columns: int, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._operator, self._columns, self._seconds = operator, columns, seconds
        x = operator.x
        self._system = (
            repr(operator.kernel), operator.engine, tuple(x.shape), x.dtype, str(x.device), columns,
            torch.get_num_threads(), seconds,
        )  # fmt: skip

    @classmethod
    def forget(cls) -> None:
        """Clear the cache, so that all costs are measured again."""
        cls._known.clear()

    @cached_property
    def in_float32(self) -> CostModel:
        """Costs for the same kernel in float32."""
        return self.in_dtype(torch.float32)

    def in_dtype(self, dtype: torch.dtype) -> CostModel:
        """Return the costs for the same kernel in another dtype."""
        if self._operator.x.dtype == dtype:
            return self
        return CostModel(self._operator.in_dtype(dtype), self._columns, self._seconds)

    def of_columns(self, columns: int) -> CostModel:
        """Return the costs for another number of right-hand sides."""
        return CostModel(self._operator, columns, self._seconds)

    @property
    @_kept
    def entry(self) -> float:
        """Seconds of an entry of K in a product with some of its columns."""
        if self._operator.x.dtype == torch.float64:
            return self.entry_of_pass
        return self._of_columns(self._operator, self._operator.x.dtype)

    @property
    def entry_of_matmul(self) -> float:
        """Seconds of an entry of K in a product with all of K, which may evaluate each pair of rows once."""
        return self.entry * self._operator.matmul_price(self._columns)

    @property
    @_kept
    def entry_of_pass(self) -> float:
        """Seconds of an entry of K in float64, as in a pass."""
        return self._of_columns(self._operator.exact(), torch.float64)

    @_kept
    def block(self, rows: int) -> float:
        """Measure the entries and the factor of a block with this number of solved rows."""
        some = slice(0, min(rows, self._operator.n))
        scale = self._operator.largest_signal + self._operator.noise
        return self._least(lambda: cholesky_with_jitter(self._operator.block(some), "a block", scale))

    @_kept
    def projection(self, rows: int) -> float:
        """Measure a solve with the factor of a block of this number of rows."""
        factor = torch.eye(min(rows, self._operator.n)).to(self._operator.x)
        r = self._like(len(factor))
        return self._least(lambda: torch.cholesky_solve(r, factor))

    @_kept
    def low_rank(self, rank: int) -> float:
        """Measure V(Vᵀr) for V: (n, rank)."""
        rows = min(self._operator.n, 20_000)
        v, r = torch.randn(rows, rank).to(self._operator.x), self._like(rows)
        return self._least(lambda: v @ (v.T @ r)) * self._operator.n / rows

    @_kept
    def span(self, rank: int) -> float:
        """Measure an orthonormal basis of an (n, rank) matrix."""
        rows = min(self._operator.n, max(2_000, 2 * rank))
        v = torch.randn(rows, rank, generator=torch.Generator().manual_seed(0)).to(self._operator.x)
        return self._least(lambda: torch.linalg.qr(v)) * self._operator.n / rows

    @_kept
    def history(self, length: int) -> float:
        """Measure a step along this number of past updates."""
        rows = min(self._operator.n, 20_000)
        r = self._like(rows)
        images, taken = r.expand(length, -1, -1).contiguous(), self._like(length)
        return self._least(lambda: self._operator.subtract_combination_(r, images, taken)) * self._operator.n / rows

    def _of_columns(self, operator: Operator, dtype: torch.dtype) -> float:
        n = operator.n
        rows = min(n, max(LEAST_ROWS, round(min(SHARE * n, MOST_ENTRIES / n))))
        u = self._like(rows).to(dtype)
        return self._least(lambda: operator.columns_matmul(slice(0, rows), u)) / (n * rows)

    def _like(self, rows: int) -> Tensor:
        return torch.randn(rows, self._columns, generator=torch.Generator().manual_seed(0)).to(self._operator.x)

    def _least(self, act: Callable[[], object]) -> float:
        """Time an act twice and return the smaller time: the first may wake threads. A long act is timed once."""
        found = list[float]()
        while len(found) < 2 and (not found or found[0] < LONG):
            if self._operator.x.is_cuda:
                torch.cuda.synchronize()
            began = self._seconds()
            act()
            if self._operator.x.is_cuda:
                torch.cuda.synchronize()
            found.append(self._seconds() - began)
        return min(found)
