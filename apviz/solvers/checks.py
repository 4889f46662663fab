"""What recomputing B − KW shows about rounding: how far to go below a tolerance, and when to give up."""

from __future__ import annotations

import math

import torch

from apviz.solvers.interface import StopReason


class Checks:
    """The recomputed residuals of one solve.

    Args:
        dtype: of the system.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._seen: list[tuple[float, float]] = []  # (residual, energy)
        self._claimed: list[float] = []
        self._rounding = 0.0

    def aim(self, tol: float) -> float:
        """How small the recursion's residual must be before B − KW is asked: `tol`, until a claim was false.

        The recursion's residual and what rounding adds to B − KW are independent, so their squares add up.
        """
        return math.sqrt(max(tol**2 - self._rounding**2, (0.5 * tol) ** 2))

    def add(self, claimed: float | None, checked: float, energy: float) -> None:
        """A check that found the tolerance not met.

        Args:
            claimed: the recursion's mean relative residual where it was below the aim, else None.
            checked: that of B − KW.
        """
        self._seen.append((checked, energy))
        if claimed is not None:
            self._claimed.append(checked)
            self._rounding = math.sqrt(max(0.0, checked**2 - claimed**2))

    def stagnation(self) -> str | None:
        """Why going on is in vain, or None: three claims were false, or three checks found no progress."""
        if len(self._claimed) >= 3 and self._claimed[-1] > 0.9 * self._claimed[-3]:
            exact = self._dtype == torch.float64
            return (
                f"stagnated: the recursion in {self._dtype} claimed a residual below the tolerance three times, but "
                f"B − KW in float64 is {self._claimed[-1]:.2e}{', rounding included' if exact else ''}; use "
                f"{'more noise' if exact else 'float64'} or a larger tolerance"
            )
        if len(self._seen) < 3:
            return None
        (residual, energy), (now, energy_now) = self._seen[-3], self._seen[-1]
        within = 4 * torch.finfo(self._dtype).eps * max(abs(energy_now), 1e-300)
        progress = now <= 0.99 * residual or abs(energy - energy_now) > within
        return None if progress else StopReason.STAGNATED.value
