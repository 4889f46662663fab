"""Decreases of the energy h in the updates of a solve: computed at once, or together at the end of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(eq=False)
class Waiting:
    """Decreases of h by an update, to be computed later: ½ uᵀ(r + r′) of every column, on the rows of its block.

    Args:
        u, before, after: (|I|, l+1) the update, and the residual before and after it.
        in_users: 0-d, the decrease of all columns in the user's units, once it is computed.
    """

    u: Tensor
    before: Tensor
    after: Tensor
    in_users: Tensor | None = None


def settled(waiting: Sequence[Waiting]) -> Tensor:
    """Compute the decreases of several updates, (k, l+1) float64; updates of equal size share few operations."""
    if len({len(each.u) for each in waiting}) > 1:
        return torch.cat([settled([each]) for each in waiting])
    u, before, after = (torch.stack([getattr(each, of) for each in waiting]) for of in ("u", "before", "after"))
    return 0.5 * torch.sum(u * before.add_(after), 1, dtype=torch.float64)


class Decreases:
    """Sum of the decreases of h, in the units of the run; hooks get them in the user's, by the factor `unit`.

    Attributes:
        total: 0-d float64 on the device, without waiting decreases.
    """

    def __init__(self, share: Tensor, unit: float) -> None:
        self._share, self._unit = share, unit
        self.total = torch.zeros((), dtype=torch.float64, device=share.device)
        self._waiting: list[Waiting] = []

    def add(self, decrease: Tensor | Waiting, *, for_hooks: bool) -> Tensor | Callable[[], Tensor]:
        """Add the decreases of an update; return them for hooks, as a 0-d tensor or a function that computes it."""
        share, unit = self._share, self._unit
        if isinstance(decrease, Tensor):
            of_all = (decrease * share).sum()
            self.total += of_all
            return of_all * unit if for_hooks else of_all

        def lowered() -> Tensor:
            if decrease.in_users is None:  # a hook may ask before the end of the epoch
                decrease.in_users = (settled([decrease])[0] * share).sum() * unit
            return decrease.in_users

        self._waiting.append(decrease)
        return lowered

    def settle(self) -> None:
        """Compute the waiting decreases at the end of the epoch."""
        if self._waiting:
            of_all = (settled(self._waiting) * self._share).sum(1)
            self.total += of_all.sum()
            for each, in_users in zip(self._waiting, (of_all * self._unit).unbind(), strict=True):
                each.in_users = in_users
            self._waiting = []

    def restart(self) -> None:
        """Restart from zero after an evaluation of h."""
        self.settle()
        self.total = torch.zeros_like(self.total)
