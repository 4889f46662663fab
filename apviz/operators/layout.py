"""Layouts: which rows of the n × p arrays of a solve this process holds. All, unless ranks share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor

T = TypeVar("T")

#: rows: a slice, or their indices without repetition
Rows = slice | Tensor


class Layout:
    """All rows are here. The layout of ranks is that of `operators.distributed`."""

    #: the processes that share the set-up of a solve
    ranks: int = 1

    def local(self, a: Tensor) -> Tensor:
        """Takes the rows that are held here out of all: (n, p)."""
        return a

    def whole(self, a: Tensor) -> Tensor:
        """Puts together all rows, (n, p), of those held here."""
        return a

    def here(self, rows: Tensor) -> Tensor:
        """Returns where those of some rows are that are held here; no more than there are."""
        return rows

    def part(self, rows: Rows, u: Tensor) -> tuple[Rows, Tensor]:
        """Returns where some rows are here, and what of u: (|I|, p) is theirs.

        A slice becomes a slice of those here, and u as short. Of indices those held elsewhere become any, with zeros.
        """
        return rows, u

    def take(self, a: Tensor, rows: Rows) -> Tensor:
        """Returns some rows of a, of which each process holds its own, on all: (|I|, p)."""
        return a[rows]

    def bring(self, a: Tensor, rows: Rows, block: int) -> Tensor:
        """Returns some rows of a, (|I|, p), where a block is at home; elsewhere the shape alone."""
        return a[rows]

    def is_home(self, block: int) -> bool:
        """Whether what was prepared for a block is held here."""
        return True

    def made_at_home(self, block: int, make: Callable[[], Tensor], like: Tensor, rows: int) -> Tensor:
        """Returns what is made where a block is at home, (rows, p) for like: (·, p), everywhere."""
        return make()

    def sum(self, a: Tensor) -> Tensor:
        """Adds what each process has of its own rows; may overwrite `a`."""
        return a

    def agreed(self, value: T) -> T:
        """Returns what all go on with, of something that each may have measured otherwise."""
        return value


#: of all operators but those of ranks
ALL_HERE = Layout()
