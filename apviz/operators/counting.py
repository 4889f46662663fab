"""An operator that counts the kernel entries evaluated by another operator.

A product that evaluates no entries, such as that of the Fourier operator, counts as the entries that its seconds would
have evaluated at the measured rate (`Operator.counted_entries`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from apviz.operators.derivatives import CrossDerivatives, KernelDerivatives
from apviz.operators.interface import Noise, Operator, count
from apviz.operators.layout import Rows
from apviz.operators.running_product import Count, RunningProduct


@dataclass
class Entries:
    """A count of kernel entries."""

    number: int = 0


class CountingOperator(Operator):
    """An operator that counts the kernel entries of another operator; work = entries ÷ n².

    Args:
        operator: evaluates the entries.
        entries: a count to continue, shared by all operators made from this one; None: from 0.
    """

    def __init__(self, operator: Operator, entries: Entries | None = None) -> None:
        # skip Operator.__init__, which would scale the inputs again
        self._operator, self._entries = operator, entries or Entries()
        self._adopt(operator)

    @property
    def entries(self) -> int:
        """The number of kernel entries so far."""
        return self._entries.number

    @property
    def work(self) -> float:
        """The number of kernel entries so far ÷ n²."""
        return self.entries / self.n**2

    @property
    def uncounted(self) -> Operator:
        """The operator itself, for work outside of a solve."""
        return self._operator

    def of(self, operator: Operator) -> CountingOperator:
        """Wrap another operator, whose entries are added to the same count."""
        return CountingOperator(operator, self._entries)

    def reordered(self, order: Tensor) -> CountingOperator:
        return self.of(self._operator.reordered(order))

    def sharded(self) -> CountingOperator:
        return self.of(self._operator.sharded())

    @property
    def whole(self) -> CountingOperator:
        return self.of(self._operator.whole)

    def evaluated_elsewhere(self, entries: int) -> None:
        """Count entries that another rank evaluates."""
        self._entries.number += entries

    # --- counted --------------------------------------------------------------------------------------------------

    def matmul(self, v: Tensor) -> Tensor:
        out = self._operator.matmul(v)
        self._entries.number += self._operator.counted_entries(self.n, v.shape[1])  # the product may have been timed
        return out

    def columns_matmul(self, rows: Rows, u: Tensor) -> Tensor:
        self._entries.number += self.n * count(rows)
        return self._operator.columns_matmul(rows, u)

    def rows_matmul(self, rows: Rows, v: Tensor) -> Tensor:
        self._entries.number += self.n * count(rows)
        return self._operator.rows_matmul(rows, v)

    def subtract_columns_(self, r: Tensor, rows: Rows, u: Tensor) -> None:
        self._entries.number += self.n * count(rows)
        self._operator.subtract_columns_(r, rows, u)

    def subtract_part_(self, r: Tensor, rows: Tensor, columns: Rows, u: Tensor) -> None:
        self._entries.number += count(rows) * count(columns)
        self._operator.subtract_part_(r, rows, columns, u)

    def part(self, rows: Rows, columns: Rows) -> Tensor:
        self._entries.number += count(rows) * count(columns)
        return self._operator.part(rows, columns)

    def block(self, rows: Rows, out: Tensor | None = None) -> Tensor:
        self._entries.number += count(rows) ** 2
        return self._operator.block(rows, out)

    def columns(self, rows: Rows) -> Tensor:
        self._entries.number += self.n * count(rows)
        return self._operator.columns(rows)

    def cross_matmul(self, z: Tensor, v: Tensor) -> Tensor:
        out = self._operator.cross_matmul(z, v)
        self._entries.number += self._operator.counted_entries(len(z), v.shape[1])
        return out

    def running_product(self, groups: Sequence[Tensor], evaluated: Count | None = None) -> RunningProduct:
        return self._operator.running_product(groups, self.evaluated_elsewhere)

    def cross_columns(self, z: Tensor) -> Tensor:
        self._entries.number += len(z) * self.n
        return self._operator.cross_columns(z)

    def bilinear_derivatives(self, a: Tensor, b: Tensor, with_inputs: bool = False) -> KernelDerivatives:
        found = self._operator.bilinear_derivatives(a, b, with_inputs)  # may have been timed
        entries = self._operator.counted_entries(self.n, a.shape[1], derivatives=True, with_inputs=with_inputs)
        self._entries.number += entries
        return found

    def weighted_derivatives(self, m: Tensor, with_inputs: bool = False) -> KernelDerivatives:
        self._entries.number += self.n**2
        return self._operator.weighted_derivatives(m, with_inputs)

    def cross_derivatives(self, z: Tensor, a: Tensor, b: Tensor) -> CrossDerivatives:
        self._entries.number += 2 * len(z) * self.n
        return self._operator.cross_derivatives(z, a, b)

    def prior_derivatives(self, z: Tensor, m: Tensor) -> CrossDerivatives:
        return self._operator.prior_derivatives(z, m)

    # --- without entries ------------------------------------------------------------------------------------------

    @property
    def engine(self) -> str:
        return self._operator.engine

    @cached_property
    def entry_rounding(self) -> float:
        return self._operator.entry_rounding

    def product_error(self, dtype: torch.dtype) -> float:
        return self._operator.product_error(dtype)

    @property
    def traffic(self) -> tuple[int, int] | None:
        return self._operator.traffic

    def prepare(self, columns: int = 1) -> None:
        self._operator.prepare(columns)

    def fix_engine(self, expected_entries: float, columns: int) -> None:
        self._operator.fix_engine(expected_entries, columns)

    def scaled(self, z: Tensor) -> Tensor:
        return self._operator.scaled(z)

    def counted_entries(self, rows: int, columns: int, *, derivatives: bool = False, with_inputs: bool = False) -> int:
        return self._operator.counted_entries(rows, columns, derivatives=derivatives, with_inputs=with_inputs)

    def signal(self) -> Tensor:
        return self._operator.signal()

    @property
    def largest_signal(self) -> float:
        return self._operator.largest_signal

    def diagonal(self) -> Tensor:
        return self._operator.diagonal()

    def decay_(self, squared: Tensor) -> Tensor:
        return self._operator.decay_(squared)

    def exact(self) -> CountingOperator:
        return self.of(self._operator.exact())

    def certifying(self) -> CountingOperator:
        return self.of(self._operator.certifying())

    def compensated(self) -> CountingOperator:
        return self.of(self._operator.compensated())

    def of_rows(self, rows: Tensor, noise: Noise) -> CountingOperator:
        return self.of(self._operator.of_rows(rows, noise))

    def squared_norms(self, r: Tensor, starts: Sequence[int], spare: Tensor) -> Tensor:
        return self._operator.squared_norms(r, starts, spare)

    def subtract_combination_(self, r: Tensor, images: Tensor, steps: Tensor) -> None:
        self._operator.subtract_combination_(r, images, steps)

    def gathered_products(self, updates: Tensor, rows: Tensor, a: Tensor) -> Tensor:
        return self._operator.gathered_products(updates, rows, a)

    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        self._operator._accumulate(out, rows, columns, u)
