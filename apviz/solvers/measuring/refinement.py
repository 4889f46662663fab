"""Refinement: B − KW exactly outside, a cheaper recursion inside; aims, checks and the floor of the residual.

A recursion in float32, or one that replaces most of a column by a skeleton, drifts from B − KW. The drift is a share of
the residual when it was last exact. So the recursion need not go much below that share before B − KW is evaluated
again, in float64 for float64 weights, and becomes the residual of the recursion (Wilkinson, 1963, *Rounding Errors in
Algebraic Processes*; Carson & Higham, SIAM J. Sci. Comput. 40, 2018). Each such pass costs n² entries; only a pass
may claim convergence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from apviz.solvers.stopping import Stopping

# A drift up to this share of the tolerance may be offset by lowering the recursion's residual further.
DRIFT_SHARE = 0.6
# The recursion's residual and its drift together are expected to be at this share of the tolerance.
CONFIDENT = 0.95
# The square of a larger tolerance would overflow.
SQUARED = 1e150
# A pass has gained nothing if the residual is more than this share of the previous one.
NO_GAIN = 0.9
# Three passes have made no progress if the residual is more than this share of the earlier one.
NO_PROGRESS = 0.99
# A tolerance is out of reach beyond this many times the epoch limit. Passes compared for that are at least `SPACING`
# of the limit apart.
OUT_OF_REACH = 10.0
SPACING = 0.04
# A drifting recursion is no longer trusted if its residual exceeds this many times the one at the last pass.
RUNAWAY = 10.0
# The drift is estimated again after the residual has fallen to this share.
LOOK_STEP = 0.3
# Rounding of KW in float32 seldom reaches this residual (`benchmarks/notes.md`).
FLOAT32_RESIDUAL = 0.02


@dataclass(frozen=True)
class Pass:
    """An evaluation of B − KW on all rows.

    Args:
        number: number of the pass, from 1.
        epoch: the epoch that ended with it.
        work, seconds: totals after it.
        claimed: the recursion's mean relative residual; NaN for a direct solve.
        residual: the mean relative residual of B − KW.
        drift: ‖R − (B − KW)‖_F/‖B‖_F; NaN for a direct solve.
        is_exact: whether in float64, as every claim of convergence is; else in the dtype of the recursion.
        is_adopted: whether the recursion resumes from B − KW; else from its own residual.
        traffic: if ranks share the solve, the messages of this rank so far, and their bytes.
    """

    number: int
    epoch: int
    work: float
    seconds: float
    claimed: float
    residual: float
    drift: float
    is_exact: bool
    is_adopted: bool
    traffic: tuple[int, int] | None = None


class Refinement:
    """Decision when the recursion needs a pass, and when further passes are in vain.

    Args:
        residual: the mean relative residual at the start.
        reduction, drifts: as of `State`.
        more_digits, jitter: as of `Certifier.begin`.
    """

    def __init__(
        self,
        stopping: Stopping,
        residual: float,
        dtype: torch.dtype,
        *,
        reduction: float = 0.0,
        drifts: bool = False,
        more_digits: Sequence[str] = (),
        jitter: float = 0.0,
    ) -> None:
        self._stopping, self._dtype, self._jitter, self._reduction = stopping, dtype, jitter, reduction
        *first, last = *more_digits, "more noise", "a larger tolerance"
        self._remedy = f"use {', '.join(first)} or {last}"
        self.drifts = drifts
        self._start, self._drift, self._look_at = residual, 0.0, LOOK_STEP * residual
        self._rounding_share = 0.0  # rounding until the next pass, as a share of the residual at a pass
        self._passes: list[tuple[int, float, float]] = []  # (epoch, residual, energy)
        self._in_vain, self._bound, self._is_bound = 0, 0.0, False

    @property
    def aim(self) -> float:
        """Return the residual of the recursion at which to evaluate B − KW again; its square and the drift's add up."""
        tol, drift = self._stopping.tol, self._drift if self.drifts else self._rounding_share * self._start
        tol -= min(self._bound, 0.5 * tol)
        if drift > DRIFT_SHARE * tol:
            return max(drift, self._reduction * self._start, self._look_at if self.drifts else 0.5 * tol)
        margin = CONFIDENT if self.drifts else 1.0
        below = math.sqrt(min(margin * tol, SQUARED) ** 2 - drift**2)
        return max(below, self._look_at if self.drifts else self._reduction * self._start)

    def looked(self, claimed: float, drift: float) -> bool:
        """Record a drift estimated from some rows; return whether a pass is worth making."""
        self._drift = drift
        tol = self._stopping.tol
        if math.hypot(claimed, drift) < CONFIDENT * tol or (drift > DRIFT_SHARE * tol and drift > claimed):
            return True
        self._look_at = LOOK_STEP * claimed
        return False

    def needs_float64(self, claimed: float) -> bool:
        """Test whether the next pass must be in float64: it may claim convergence, or float32 would round too much."""
        expected = math.hypot(claimed, self._drift)
        coarse = self.drifts and self._dtype == torch.float32
        return not coarse or expected < max(1.1 * self._stopping.tol, FLOAT32_RESIDUAL)

    def runs_away(self, claimed: float) -> bool:
        """Test whether the residual of a drifting recursion has grown implausibly."""
        return self.drifts and not claimed < RUNAWAY * max(self._start, self._stopping.tol)

    def exact_from_now(self) -> None:
        """Record that the recursion no longer drifts."""
        self.drifts, self._in_vain = False, 0
        self._passes.clear()

    def passed(self, found: Pass, energy: float, *, claims: bool) -> None:
        """Record a pass; `claims`: the recursion had reached its aim."""
        met = found.residual < self._stopping.tol
        # The bound on float64 rounding is the part that neither the recursion nor its drift explains.
        self._bound = max(0.0, found.residual - (found.claimed + found.drift))
        self._is_bound = self._bound > found.claimed + found.drift
        if claims:
            self._in_vain = 0 if met or found.residual < NO_GAIN * self._start else self._in_vain + 1
            self._rounding_share = found.drift / self._start if self._start > 0 else 0.0
        if not met:
            self._passes.append((found.epoch, found.residual, energy))
        self._start, self._drift, self._look_at = found.residual, 0.0, LOOK_STEP * found.residual

    def floor(self) -> str | None:
        """Return why further passes are in vain, or None.

        Two passes in a row gained nothing, or three made no progress; or, if jitter outweighs the noise, six gained too
        little to reach the tolerance.
        """
        if self._in_vain >= 2:
            found = f"two more passes left B − KW at {self._start:.2e}"
            if self._is_bound or self._dtype == torch.float64:
                return f"stagnated: {found}, and float64 cannot certify less; use more noise or a larger tolerance"
            return f"stagnated: {found} in {str(self._dtype).removeprefix('torch.')}; {self._remedy}"
        if len(self._passes) < 3:
            return None
        (_, residual, energy), (_, now, energy_now) = self._passes[-3], self._passes[-1]
        within = 64 * torch.finfo(torch.float64).eps * max(abs(energy_now), 1e-300)
        if now > NO_PROGRESS * residual and abs(energy - energy_now) <= within:
            return f"stagnated: three passes found no progress; {self._remedy}"
        if self._jitter and (epochs := self._epochs_to_go()) > OUT_OF_REACH * self._stopping.max_epochs:
            far = f"{epochs:.0e} epochs away" if math.isfinite(epochs) else "out of reach"
            return (
                f"stagnated: jitter of {self._jitter:.1e} on a block outweighs the noise, and at the rate of the last "
                f"passes the tolerance is {far}; {self._remedy}"
            )
        return None

    def _epochs_to_go(self) -> float:
        """Estimate the epochs to the tolerance from six passes if the last three gained almost nothing; else return 0.

        If σ² is tiny compared to the jitter of blocks, an update removes almost none of the error that only σ² damps.
        Then h keeps falling by the same amount, and the residual does not shrink.

        Decreases of h are a sum of decaying exponentials, so they will not decay faster than they do now, nor the
        residual faster than their root.
        """
        spacing, chosen = SPACING * self._stopping.max_epochs, self._passes[-1:]
        for each in self._passes[-2::-1]:
            if len(chosen) < 6 and each[0] <= chosen[-1][0] - spacing:
                chosen.append(each)
        if len(chosen) < 6:
            return 0.0
        epochs, residuals, energies = zip(*reversed(chosen), strict=True)
        before = (energies[0] - energies[2]) / (epochs[2] - epochs[0])
        after = (energies[3] - energies[5]) / (epochs[5] - epochs[3])
        if min(before, after) <= 0 or min(residuals[3:]) < NO_GAIN * min(residuals[:3]):
            return 0.0
        decay = math.log(before / after) / ((epochs[5] + epochs[3] - epochs[2] - epochs[0]) / 2)  # per epoch
        return 2 * math.log(residuals[-1] / self._stopping.tol) / decay if decay > 0 else math.inf
