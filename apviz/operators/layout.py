"""Layouts: the rows of a solve's n × p arrays that this process holds. All, unless ranks share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor

T = TypeVar("T")

#: rows: a slice, or distinct indices
Rows = slice | Tensor


class Layout:
    """The layout of a single process, which holds all rows. For ranks, see `operators.distributed`."""

    #: the processes that share the set-up of a solve
    ranks: int = 1

    def local(self, a: Tensor) -> Tensor:
        """Return the local rows of all: (n, p)."""
        return a

    def whole(self, a: Tensor) -> Tensor:
        """Return all rows, (n, p), from the local ones of each process."""
        return a

    def here(self, rows: Tensor) -> Tensor:
        """Return local positions of some rows, of those held here; only as many as are held."""
        return rows

    def part(self, rows: Rows, u: Tensor) -> tuple[Rows, Tensor]:
        """Return the local positions of some rows, and their part of u: (|I|, p).

        A slice becomes a local slice, with a shorter u. Indices of rows elsewhere become any local index, with zeros.
        """
        return rows, u

    def take(self, a: Tensor, rows: Rows) -> Tensor:
        """Return some rows of a, each from the process that holds it, on all processes: (|I|, p)."""
        return a[rows]

    def bring(self, a: Tensor, rows: Rows, block: int) -> Tensor:
        """Return some rows of a, (|I|, p), on the home of a block; elsewhere only the shape is valid."""
        return a[rows]

    def is_home(self, block: int) -> bool:
        """Test whether this process is the home of a block, and holds its factor."""
        return True

    def made_at_home(self, block: int, make: Callable[[], Tensor], like: Tensor, rows: int) -> Tensor:
        """Run `make` on the home of a block, and return its result, (rows, p) for like: (·, p), everywhere."""
        return make()

    def sum(self, a: Tensor) -> Tensor:
        """Sum the contributions of all processes; may overwrite `a`."""
        return a

    def agreed(self, value: T) -> T:
        """Return one common value, where each process may have measured a different one."""
        return value


#: the layout of all operators but those of ranks
ALL_HERE = Layout()
