"""Running products: K Z for a Z that grows on one group of rows after another, as in a sweep over blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from apviz.operators.interface import Operator

#: counts kernel entries, or what other work is converted to
Count = Callable[[int], None]


class RunningProduct:
    """K Z, kept up to date while Z grows on groups of rows; here by n|I| entries for every addition.

    Args:
        groups: the rows I of each group, (|I|,) int64, each row once in a group.

    Attributes:
        z: (n, p) Z.
    """

    z: Tensor

    def __init__(self, operator: Operator, groups: Sequence[Tensor], evaluated: Count) -> None:
        self.operator, self.groups, self._evaluated = operator, groups, evaluated

    def begin(self, columns: int) -> None:
        """Start again from Z = 0 with this number of columns."""
        self.z = torch.zeros(self.operator.n, columns, dtype=self.operator.x.dtype, device=self.operator.x.device)
        self._kz = torch.zeros_like(self.z)

    def at(self, group: int) -> Tensor:
        """Return the rows of a group of K Z, (|I|, p)."""
        return self._kz[self.groups[group]]

    def add_(self, group: int, u: Tensor) -> None:
        """Add u: (|I|, p) to Z on the rows of a group."""
        rows = self.groups[group]
        self.z.index_add_(0, rows, u)
        self._evaluated(self.operator.n * len(rows))
        self.operator.subtract_columns_(self._kz, rows, -u)

    def product(self) -> Tensor:
        """Return K Z, (n, p)."""
        return self._kz
