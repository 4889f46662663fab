"""Operators of ranks: K shared by the processes of a job, in two forms, both around the engine of a single process.

`DistributedOperator` is K for users and set-ups. Arrays of n rows are whole on every rank, and each rank evaluates its
share of the entries of a product or of derivatives. `ShardedOperator` is K in a solve. Of an n × p array, such as R or
W, each rank holds every P-th row, so that neighbours in space are spread over all ranks, and each rank has the same
work in an update or a pass. X is on every rank.

Messages: in an update, R_I goes to the rank with the factor of the block, and U comes from it; the norms of the blocks
are summed. In a pass or an iteration of CG, every rank's rows of W go to all others, one rank after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeVar

import torch
from torch import Tensor

from apviz.distributed import Ranks
from apviz.kernels import Gradients
from apviz.operators.interface import Noise, Operator, count
from apviz.operators.layout import Layout, Rows

T = TypeVar("T")


class Replica(Layout):
    """A layout with all rows on every rank."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks, self.ranks = ranks, ranks.size

    def agreed(self, value: T) -> T:
        return self._ranks.agreed(value)


class Shard(Layout):
    """A layout with every P-th row on a rank, starting at its own number; block j's home is rank j modulo P."""

    def __init__(self, ranks: Ranks, n: int) -> None:
        self._ranks, self._n = ranks, n
        self.ranks = ranks.size

    def rows_of(self, rank: int) -> slice:
        """Return the rows that a rank holds."""
        return slice(rank, self._n, self.ranks)

    def local(self, a: Tensor) -> Tensor:
        return a[self.rows_of(self._ranks.rank)].contiguous()

    def whole(self, a: Tensor) -> Tensor:
        longest = -(-self._n // self.ranks)
        padded = a.new_zeros(longest, *a.shape[1:])
        padded[: len(a)] = a
        out = a.new_empty(self._n, *a.shape[1:])
        for rank, part in enumerate(self._ranks.gathered(padded)):
            rows = out[self.rows_of(rank)]
            rows.copy_(part[: len(rows)])
        return out

    def here(self, rows: Tensor) -> Tensor:
        return self.held(rows) // self.ranks

    def held(self, rows: Tensor) -> Tensor:
        """Return those of some rows that this rank holds, by their global numbers."""
        return rows[rows % self.ranks == self._ranks.rank]

    def part(self, rows: Rows, u: Tensor) -> tuple[Rows, Tensor]:
        rank, size = self._ranks.rank, self.ranks
        if isinstance(rows, slice):
            first = (rank - rows.start) % size
            here = slice(-(-(rows.start - rank) // size), -(-(rows.stop - rank) // size))
            return here, u[first::size]
        # the index of a row on another rank becomes that of any local row, to which zero is added
        most = -(-(self._n - rank) // size) - 1
        return (rows // size).clamp_(max=most), u * (rows % size == rank)[:, None]

    def take(self, a: Tensor, rows: Rows) -> Tensor:
        return self.sum(self._mine(a, rows))

    def bring(self, a: Tensor, rows: Rows, block: int) -> Tensor:
        return self._ranks.reduce_(self._mine(a, rows), block % self.ranks)

    def _mine(self, a: Tensor, rows: Rows) -> Tensor:
        """Return local rows, and zeros for the others."""
        if isinstance(rows, slice):
            out = a.new_zeros(count(rows), a.shape[1])
            here, _ = self.part(rows, out)
            out[(self._ranks.rank - rows.start) % self.ranks :: self.ranks] = a[here]
            return out
        here, ones = self.part(rows, a.new_ones(len(rows), 1))
        return a[here].mul_(ones)

    def is_home(self, block: int) -> bool:
        return block % self.ranks == self._ranks.rank

    def made_at_home(self, block: int, make: Callable[[], Tensor], like: Tensor, rows: int) -> Tensor:
        made = make().contiguous() if self.is_home(block) else like.new_empty(rows, like.shape[1])
        return self._ranks.broadcast_(made, block % self.ranks)

    def sum(self, a: Tensor) -> Tensor:
        return self._ranks.sum_(a.contiguous())

    def agreed(self, value: T) -> T:
        return self._ranks.agreed(value)


class _OfEngine(Operator):
    """The part of both forms that every rank evaluates for itself."""

    def __init__(self, engine: Operator, ranks: Ranks) -> None:
        # skip Operator.__init__, which would scale the inputs again
        self._adopt(engine)
        self._engine, self._ranks = engine, ranks

    @property
    def traffic(self) -> tuple[int, int]:
        return self._ranks.traffic.messages, self._ranks.traffic.bytes

    @property
    def engine(self) -> str:
        return f"{self._ranks.size} ranks of {self._engine.engine}"

    def exact(self) -> Self:
        return type(self)(self._engine.exact(), self._ranks)

    def in_dtype(self, dtype: torch.dtype) -> Self:
        return type(self)(self._engine.in_dtype(dtype), self._ranks)

    def reordered(self, order: Tensor) -> Self:
        return type(self)(self._engine.reordered(order), self._ranks)

    def prepare(self, columns: int = 1) -> None:
        self._engine.prepare(columns)

    def fix_engine(self, expected_entries: float, columns: int) -> None:
        # one rank compiles, the others find its library
        with self._ranks.in_turn():
            self._engine.fix_engine(expected_entries, columns)

    def block(self, rows: Rows, out: Tensor | None = None) -> Tensor:
        return self._engine.block(rows, out)

    def _fill(self, rows: Tensor, columns: Tensor, out: Tensor | None = None) -> Tensor:
        return self._engine._fill(rows, columns, out)

    def of_rows(self, rows: Tensor, noise: Noise) -> Operator:
        return self._engine.of_rows(rows, noise)

    def squared_norms(self, r: Tensor, starts: Sequence[int], spare: Tensor) -> Tensor:
        return self._engine.squared_norms(r, starts, spare)

    def subtract_combination_(self, r: Tensor, images: Tensor, steps: Tensor) -> None:
        self._engine.subtract_combination_(r, images, steps)

    def gathered_products(self, updates: Tensor, rows: Tensor, a: Tensor) -> Tensor:
        return self._engine.gathered_products(updates, rows, a)


class DistributedOperator(_OfEngine):
    """K for arrays of n rows that are whole on every rank; each rank evaluates its share of the entries."""

    def __init__(self, engine: Operator, ranks: Ranks) -> None:
        super().__init__(engine, ranks)
        self.layout = Replica(ranks)

    def sharded(self) -> ShardedOperator:
        return ShardedOperator(self._engine, self._ranks)

    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        rank, size = self._ranks.rank, self._ranks.size
        if len(rows) >= len(columns):  # each rank has some of the rows
            layout = Shard(self._ranks, len(rows))
            mine = torch.zeros_like(layout.local(out))
            self._engine._accumulate(mine, layout.local(rows), columns, u)
            out += layout.whole(mine)
        else:  # each rank has some of the columns
            part = torch.zeros_like(out)
            self._engine._accumulate(part, rows, columns[rank::size].contiguous(), u[rank::size].contiguous())
            out += self._ranks.sum_(part)

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        layout = Shard(self._ranks, len(rows))
        found = self._engine._gradients(layout.local(rows), columns, layout.local(a), b)
        return Gradients(
            layout.whole(found.features.contiguous()),
            *(self._ranks.sum_(part.contiguous()) for part in (found.shapes, found.weights, found.numbers)),
        )


class ShardedOperator(_OfEngine):
    """K in a solve: arrays hold the local rows of n, in the order of the solve, while `rows` are global numbers."""

    def __init__(self, engine: Operator, ranks: Ranks) -> None:
        super().__init__(engine, ranks)
        self.layout = self._shard = Shard(ranks, engine.n)
        self._mine = self._shard.local(self.inputs)
        self._noises_here = None if self.noises is None else self._shard.local(self.noises[:, None]).to(self.x)

    @property
    def whole(self) -> DistributedOperator:
        return DistributedOperator(self._engine, self._ranks)

    def matmul(self, v: Tensor) -> Tensor:
        """Compute the local rows of K v from the local rows of v. Evaluates n² entries on all ranks together."""
        out = v * (self.noise if self._noises_here is None else self._noises_here.to(v))
        for rank in range(self._ranks.size):
            rows = self._shard.rows_of(rank)
            chunk = v.contiguous() if rank == self._ranks.rank else v.new_empty(len(self.x[rows]), v.shape[1])
            self._ranks.broadcast_(chunk, rank)
            self._engine._accumulate(out, self._mine, self.inputs[rows].contiguous(), chunk)
        return out

    def columns_matmul(self, rows: Rows, u: Tensor) -> Tensor:
        out = torch.zeros(len(self._mine), u.shape[1], dtype=u.dtype, device=u.device)
        self.subtract_columns_(out, rows, -u)
        return out

    def subtract_columns_(self, r: Tensor, rows: Rows, u: Tensor) -> None:
        self._check(u, count(rows), "u")
        self._engine._accumulate(r, self._mine, self.inputs[rows], -u)
        self._subtract_noise_(r, rows, u)

    def subtract_part_(self, r: Tensor, rows: Tensor, columns: Rows, u: Tensor) -> None:
        self._check(u, count(columns), "u")
        here = self._shard.here(rows)
        part = r[here]
        self._engine._accumulate(part, self._mine[here], self.inputs[columns], -u)
        r[here] = part
        self._subtract_noise_(r, columns, u)

    def _subtract_noise_(self, r: Tensor, rows: Rows, u: Tensor) -> None:
        here, mine = self.layout.part(rows, u)
        noise = self.noise if self._noises_here is None else self._noises_here[here].to(u)
        if isinstance(here, slice):
            r[here].sub_(mine * noise)
        else:
            r.index_add_(0, here, mine * noise, alpha=-1.0)

    def rows_matmul(self, rows: Rows, v: Tensor) -> Tensor:
        """Compute K[I, :] v on all ranks, from the local rows of v."""
        out = self._shard._mine(v * (self.noise if self._noises_here is None else self._noises_here.to(v)), rows)
        self._engine._accumulate(out, self.inputs[rows], self._mine, v.contiguous())
        return self._ranks.sum_(out)

    def squared_norms(self, r: Tensor, starts: Sequence[int], spare: Tensor) -> Tensor:
        rank, size = self._ranks.rank, self._ranks.size
        here = [-(-(start - rank) // size) for start in starts]
        return self.layout.sum(self._engine.squared_norms(r, here, spare))

    def _accumulate(self, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        self._engine._accumulate(out, rows, columns, u)

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        return self._engine._gradients(rows, columns, a, b)
