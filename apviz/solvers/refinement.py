"""Refinement: B − KW exactly outside, a cheaper recursion inside; how far to go, when to look, where the floor is.

A recursion in float32, or one that takes a skeleton for most of a column, drifts from B − KW by a share of what its
residual was when it last was exact. So it need not go much further down than that share before B − KW is evaluated
again, in float64 and for weights in float64, and taken as the residual to go on from (Wilkinson, 1963, *Rounding Errors
in Algebraic Processes*; Carson & Higham, SIAM J. Sci. Comput. 40, 2018). Each of these passes costs n² entries; only
they may claim convergence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from apviz.solvers.stopping import Stopping

# of the tolerance, up to which the drift may be outweighed by going further down
DRIFT_SHARE = 0.6
# below its tolerance by so much, the recursion's residual and its drift together are expected to be found
CONFIDENT = 0.95
# beyond it a tolerance has no square
SQUARED = 1e150
# a pass after which the residual is more than this share of what it was has gained nothing
NO_GAIN = 0.9
# three passes after which the residual is more than this share of what it was have made no progress
NO_PROGRESS = 0.99
# caps of epochs, beyond which a tolerance is out of reach; and of the cap, the least between passes compared for that
OUT_OF_REACH = 10.0
SPACING = 0.04
# of the residual at the last pass, from which on a recursion that is not exact is no longer believed
RUNAWAY = 10.0
# of the residual, after which the drift is looked at
LOOK_STEP = 0.3
# a residual that the rounding of K W in float32 seldom comes near (`benchmarks/notes.md`)
FLOAT32_RESIDUAL = 0.02


@dataclass(frozen=True)
class Pass:
    """An evaluation of B − KW on all rows.

    Args:
        number: from 1.
        epoch: at whose end it was made.
        work, seconds: after it.
        claimed: the recursion's mean relative residual; NaN of a direct solve, which has none.
        residual: that of B − KW.
        drift: ‖R − (B − KW)‖_F/‖B‖_F; NaN of a direct solve.
        is_exact: whether in float64, as every claim of convergence is; else in the dtype of the recursion.
        is_adopted: whether the recursion goes on from it; else with the residual it has.
        traffic: where ranks share the solve, the messages so far that this one took part in, and their bytes.
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
    """Says how far the recursion is to go until the next pass, and when going on is in vain.

    Args:
        stopping: of the solve.
        residual: the mean relative residual at the start.
        dtype: of the recursion.
        reduction: the most by which the recursion lowers the residual between two passes; 0: by any amount.
        drifts: whether the recursion drifts by more than rounding, so that a look at some rows is worth its cost.
        more_digits: what would give it more digits, in words.
        jitter: the largest on a block, where that is more than σ²; else 0.
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
        self._rounding_share = 0.0  # of the residual at a pass, by which rounding moves it until the next
        self._passes: list[tuple[int, float, float]] = []  # (epoch, residual, energy)
        self._in_vain, self._bound, self._is_bound = 0, 0.0, False

    @property
    def aim(self) -> float:
        """How small the recursion's residual is to become before anything is evaluated anew.

        What is left and the drift are independent, so their squares add up. Below the drift there is no use in going.
        """
        tol, drift = self._stopping.tol, self._drift if self.drifts else self._rounding_share * self._start
        tol -= min(self._bound, 0.5 * tol)
        if drift > DRIFT_SHARE * tol:
            return max(drift, self._reduction * self._start, self._look_at if self.drifts else 0.5 * tol)
        margin = CONFIDENT if self.drifts else 1.0
        below = math.sqrt(min(margin * tol, SQUARED) ** 2 - drift**2)
        return max(below, self._look_at if self.drifts else self._reduction * self._start)

    def looked(self, claimed: float, drift: float) -> bool:
        """Takes note of the drift estimated from some rows; returns whether a pass is worth making."""
        self._drift = drift
        tol = self._stopping.tol
        if math.hypot(claimed, drift) < CONFIDENT * tol or (drift > DRIFT_SHARE * tol and drift > claimed):
            return True
        self._look_at = LOOK_STEP * claimed
        return False

    def needs_float64(self, claimed: float) -> bool:
        """Whether the pass to come is to be in float64: it may claim convergence, or float32 would round too much."""
        expected = math.hypot(claimed, self._drift)
        coarse = self.drifts and self._dtype == torch.float32
        return not coarse or expected < max(1.1 * self._stopping.tol, FLOAT32_RESIDUAL)

    def runs_away(self, claimed: float) -> bool:
        """Whether a recursion that drifts has a residual that it should not have."""
        return self.drifts and not claimed < RUNAWAY * max(self._start, self._stopping.tol)

    def exact_from_now(self) -> None:
        """Takes note that the recursion has given up what made it drift."""
        self.drifts, self._in_vain = False, 0
        self._passes.clear()

    def passed(self, found: Pass, energy: float, *, claims: bool) -> None:
        """Takes note of a pass; `claims`: the recursion was at its aim."""
        met = found.residual < self._stopping.tol
        # what neither the recursion nor its drift explains is the bound on rounding in float64
        self._bound = max(0.0, found.residual - (found.claimed + found.drift))
        self._is_bound = self._bound > found.claimed + found.drift
        if claims:
            self._in_vain = 0 if met or found.residual < NO_GAIN * self._start else self._in_vain + 1
            self._rounding_share = found.drift / self._start if self._start > 0 else 0.0
        if not met:
            self._passes.append((found.epoch, found.residual, energy))
        self._start, self._drift, self._look_at = found.residual, 0.0, LOOK_STEP * found.residual

    def floor(self) -> str | None:
        """Says why going on is in vain, or None.

        Two passes in a row gained nothing, or three found no progress, or, where jitter outweighs the noise, six so
        little that the tolerance is out of reach.
        """
        if self._in_vain >= 2:
            found = f"B − KW is {self._start:.2e} and two passes from there gained nothing"
            if self._is_bound or self._dtype == torch.float64:
                return f"stagnated: {found}: more float64 cannot vouch for; use more noise or a larger tolerance"
            return f"stagnated: {found} in {self._dtype}; {self._remedy}"
        if len(self._passes) < 3:
            return None
        (_, residual, energy), (_, now, energy_now) = self._passes[-3], self._passes[-1]
        within = 64 * torch.finfo(torch.float64).eps * max(abs(energy_now), 1e-300)
        if now > NO_PROGRESS * residual and abs(energy - energy_now) <= within:
            return "stagnated: three evaluations of B − KW found no progress"
        if self._jitter and (epochs := self._epochs_to_go()) > OUT_OF_REACH * self._stopping.max_epochs:
            far = f"{epochs:.0e} epochs away" if math.isfinite(epochs) else "out of reach"
            return (
                f"stagnated: the last passes gained next to nothing, and at their rate the tolerance is {far}, for "
                f"jitter of {self._jitter:.1e} on a block outweighs the noise; {self._remedy}"
            )
        return None

    def _epochs_to_go(self) -> float:
        """Estimates the epochs to the tolerance from six passes, of which the last three gained next to nothing; or 0.

        Where σ² is tiny beside the jitter of blocks, an update takes next to nothing of the error that only σ² holds
        back: h falls for ever, always by as much, and the residual is none the smaller.
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
        decay = math.log(before / after) / ((epochs[5] + epochs[3] - epochs[2] - epochs[0]) / 2)  # an epoch
        return 2 * math.log(residuals[-1] / self._stopping.tol) / decay if decay > 0 else math.inf
