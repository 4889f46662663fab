"""Rules of block selection: frozen settings, whose `begin` returns the selector of one solve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

import torch
from torch import Tensor

from apviz.registry import Registry
from apviz.settings import require, require_seed

#: Selector of the next block from its number within the solve (from 0) and the squared residual norms (m, l+1) of the
#: blocks. A selection by norms may stay a tensor, a new one each time, so that the host does not wait for the device.
Selector = Callable[[int, Tensor], int | Tensor]


class Rule(Protocol):
    """A rule that selects the next block."""

    @property
    def name(self) -> str:
        """The name in traces and legends."""
        ...

    #: Whether `Selector` uses the norms; if not, they are computed only for recording.
    needs_norms: bool

    def begin(self, sizes: list[int]) -> Selector:
        """Return the selector of one solve, for blocks that own `sizes` rows."""
        ...


RULES: Final = Registry[Rule]("rule", "apviz.rules")

ShortBlock = Literal["alike", "end-of-epoch"]


@RULES.register("gauss-southwell")
@dataclass(frozen=True, kw_only=True)
class GaussSouthwell:
    """Greedy rule: the block with the largest ‖R_I‖_F (paper, equation 9).

    Args:
        short_block: `alike` treats a short last block as any other, as the paper does. `end-of-epoch` is the
            schedule of the authors' code, the source of their published numbers. It selects among the full
            blocks by the mean over right-hand sides of ‖R_I,i‖, and solves the short block once at the end of
            every epoch.
    """

    short_block: ShortBlock = "alike"
    needs_norms = True

    def __post_init__(self) -> None:
        known = isinstance(self.short_block, str) and self.short_block in get_args(ShortBlock)
        require(known, "short_block", self.short_block, "'alike' or 'end-of-epoch'")

    @property
    def name(self) -> str:
        return "gauss-southwell" if self.short_block == "alike" else "gauss-southwell (short block last)"

    def begin(self, sizes: list[int]) -> Selector:
        if self.short_block == "alike":
            return lambda number, norms: norms.sum(1).argmax()
        m = len(sizes)
        full = m - (sizes[-1] < sizes[0])

        def select(number: int, norms: Tensor) -> int | Tensor:
            if full < m and number % m == m - 1:
                return m - 1
            return norms[:full].sqrt().mean(1).argmax()

        return select


@RULES.register("cyclic")
@dataclass(frozen=True, kw_only=True)
class Cyclic:
    """Cyclic rule: block j mod m."""

    name = "cyclic"
    needs_norms = False

    def begin(self, sizes: list[int]) -> Selector:
        return lambda number, norms: number % len(sizes)


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """Base class of the rules that draw blocks."""

    seed: int = 0
    needs_norms = False

    def __post_init__(self) -> None:
        require_seed(self.seed)


@RULES.register("random")
@dataclass(frozen=True, kw_only=True)
class Random(_Drawn):
    """Random rule: a block drawn uniformly and independently each time."""

    name = "random"

    def begin(self, sizes: list[int]) -> Selector:
        generator = torch.Generator().manual_seed(int(self.seed))
        return lambda number, norms: int(torch.randint(len(sizes), (), generator=generator))


@RULES.register("shuffled")
@dataclass(frozen=True, kw_only=True)
class Shuffled(_Drawn):
    """Shuffled rule: every block once an epoch, in a new random order each epoch."""

    name = "shuffled"

    def begin(self, sizes: list[int]) -> Selector:
        generator = torch.Generator().manual_seed(int(self.seed))
        order: list[int] = []

        def select(number: int, norms: Tensor) -> int:
            if not order:
                order.extend(torch.randperm(len(sizes), generator=generator).tolist())
            return order.pop()

        return select


def rule_named(name: str | Rule, seed: int = 0) -> Rule:
    """Return the rule called `name`, with `seed` if it is random; return an object as it is."""
    if isinstance(name, type):
        raise ValueError(f"rule must be an object, such as {name.__name__}(), got the class")
    return name if not isinstance(name, str) and hasattr(name, "begin") else RULES.make(name, seed=seed)
