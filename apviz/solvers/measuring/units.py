"""The units of a run: every right-hand side divided by a power of two, so that no norm underflows or overflows."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Units:
    """Powers of two that divide the right-hand sides, so that their largest entries lie between 1 and 2.

    Division by a power of two is exact, so scaling B by a power of two does not change the solve. Solvers work in these
    units; hooks and users see the user's units.

    Args:
        b: (n, l+1) as the user gave them.

    Attributes:
        norms: (l+1,) float64 on the host, ‖b_i‖ in these units, with 1 instead of 0.
        is_zero: (l+1,) bool on the host, whether b_i is zero.
        share: (l+1,) the square of each power of two ÷ that of the largest.
        squares: (l+1,) squares of `norms`, on the device of b.
        largest: the largest of the powers of two.
    """

    def __init__(self, b: Tensor) -> None:
        self._given = b
        self._powers = _powers_of_two(b)
        self.norms = torch.linalg.vector_norm(self.b, dim=0, dtype=torch.float64).cpu()
        self.is_zero = self.norms == 0
        self.norms[self.is_zero] = 1.0
        self.share = (self._powers / self._powers.max()).square()
        self.squares = self.norms.to(b.device).square()
        self.largest = float(self._powers.max())
        self._is_alike = bool((self.share == 1).all())

    @property
    def b(self) -> Tensor:
        """The right-hand sides in these units and their given dtype, (n, l+1); a copy."""
        b: Tensor = self.of_users(self._given).to(self._given)
        return b

    @property
    def rhs_norms(self) -> Tensor:
        """The norms ‖b_i‖ in the user's units, (l+1,) float64 on the host, with 1 instead of 0; a copy."""
        norms: Tensor = self.norms * self._powers.cpu()
        return norms

    @property
    def energy(self) -> float:
        """The factor from energies in these units to the user's; NaN if it overflows or underflows float64."""
        return self.largest**2 if 1e-150 < self.largest < 1e150 else math.nan

    def of_users(self, a: Tensor) -> Tensor:
        """Convert a: (n, l+1) from the user's units to these, in float64."""
        return a.double() / self._powers

    def in_users(self, a: Tensor) -> Tensor:
        """Convert a: (n, l+1) from these units to the user's, in its dtype."""
        return (a.double() * self._powers).to(a)

    def energy_in_users(self, energy: float) -> float:
        """Convert an energy from these units to the user's."""
        return energy * self.energy if energy else 0.0

    def weighted(self, norms: Tensor) -> Tensor:
        """Weight squared norms of blocks and right-hand sides, (m, l+1), as in the user's units."""
        return norms if self._is_alike else norms * self.share.to(norms)

    def relative_per_rhs(self, squared: Tensor) -> Tensor:
        """Compute ‖r_i‖/‖b_i‖, (l+1,) on the host, from (l+1,) squared norms in these units."""
        relative: Tensor = squared.double().cpu().sqrt() / self.norms
        return relative

    def mean_relative(self, squared: Tensor) -> float:
        """Compute the mean of ‖r_i‖/‖b_i‖ from (l+1,) squared norms in these units."""
        return float(self.relative_per_rhs(squared).mean())

    def relative(self, squared: Tensor) -> float:
        """Compute ‖A‖_F/‖B‖_F in the user's units, from the (l+1,) squared norms of A in these units."""
        of_b = (self.norms.square() * self.share.cpu()).sum()
        return math.sqrt(float((squared * self.share).sum()) / float(of_b))

    def as_held(self, w: Tensor) -> Tensor:
        """Return W, in these units, as its dtype holds it in the user's; w itself if no significant digit is lost."""
        info, largest = torch.finfo(w.dtype), w.abs().amax(0).double() * self._powers
        # rounding of entries far smaller than the largest is not significant
        fits = (largest < 0.5 * info.max) & ((largest * info.eps > info.tiny) | (largest == 0))
        if bool(fits.all()):
            return w
        held = self.in_users(w).double() / self._powers
        return w if torch.equal(held, w.double()) else held


def _powers_of_two(b: Tensor) -> Tensor:
    """Return the power of two at or below the largest entry of each column of b: (n, l+1), as (l+1,) float64.

    A column of zeros takes the power of the largest other column, compared to which its weight is zero; or 1.
    """
    largest = b.abs().amax(0).double()
    largest = torch.where(largest > 0, largest, largest.max() if bool(largest.any()) else 1.0)
    return torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
