"""Rules of block selection: which block is projected onto next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final, Literal, get_args

import numpy as np

from apviz.rkhs.kernels import Floats, require_one_of
from apviz.settings import require_seed

Rule = Literal["gauss-southwell", "cyclic", "random", "shuffled"]
RULES: Final[tuple[Rule, ...]] = get_args(Rule)


def selector(rule: str | None, owned: Sequence[Sequence[int]], seed: int = 0) -> Callable[[Floats], int]:
    """Return the function that chooses the next block for a residual (n,), from the points that each block owns."""
    require_one_of(rule, "rule", RULES)
    require_seed(seed)
    if rule == "gauss-southwell":
        rows = [list(block) for block in owned]
        return lambda r: int(np.argmax([r[block] @ r[block] for block in rows]))
    order = chosen_blocks(rule, len(owned), seed)
    return lambda r: next(order)


def chosen_blocks(rule: str | None, blocks: int, seed: int = 0) -> Iterator[int]:
    """Yield blocks by a rule that ignores the residual: cyclic, random or shuffled.

    Examples:
        >>> from itertools import islice
        >>> from apviz.rkhs.rules import chosen_blocks
        >>> list(islice(chosen_blocks("shuffled", 3), 6))
        [1, 0, 2, 0, 1, 2]
    """
    draws = Draws(seed)
    for number in count():
        if rule == "shuffled":
            yield from reversed(draws.permutation(blocks))
        else:
            yield number % blocks if rule == "cyclic" else draws.below(blocks)


class Draws:
    """The random numbers of `torch.Generator` on a CPU (Mersenne Twister), so that a seed gives the solver's blocks."""

    def __init__(self, seed: int) -> None:
        self._state = np.random.RandomState(seed % 2**32)

    def below(self, m: int) -> int:
        """Draw a whole number from 0 to m − 1, as `torch.randint(m, ())`."""
        return int(self._state.randint(2**32, dtype=np.uint32)) % m

    def permutation(self, n: int) -> list[int]:
        """Draw a permutation of 0, …, n − 1, as `torch.randperm(n)`."""
        order = list(range(n))
        for i in range(n - 1):
            j = i + self.below(n - i)
            order[i], order[j] = order[j], order[i]
        return order
