"""Certification: choose when B − KW is evaluated and in which dtype, and decide whether the solve is over.

No other module claims convergence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers.interface import StopReason
from apviz.solvers.measuring.clock import Clock
from apviz.solvers.measuring.refinement import Pass, Refinement
from apviz.solvers.measuring.residuals import Certify, Measured, residual_for
from apviz.solvers.measuring.units import Units
from apviz.solvers.state import State, column_squares
from apviz.solvers.stopping import Stopping

# A solve has diverged if its residual exceeds this many times the initial residual (or 1, if larger).
EXPLODED = 1e4


class Certifier:
    """The passes of one solve and its stop reason, in the order of rows and the units of its run.

    Attributes:
        message: message on the end of the solve, instead of the text of its reason; "" to keep that text.
    """

    def __init__(
        self, operator: CountingOperator, units: Units, clock: Clock, stopping: Stopping, certify: Certify = "operator"
    ) -> None:
        self._operator, self._units, self._clock, self.stopping = operator, units, clock, stopping
        self._residual = residual_for(operator, certify)
        self.message = ""
        self._first_residual: float | None = None
        self._number = 0
        self._is_lost = False  # the last evaluated weights overflow float64 in the user's units
        self._is_wanted = self._claims = self._runs_away = False
        self._generator = torch.Generator().manual_seed(0)  # draws the rows that estimate the drift

    def begin(self, state: State, *, more_digits: Sequence[str], jitter: float, largest_b: float) -> None:
        """Start to certify a state.

        Args:
            more_digits: ways to give its recursion more digits, in words; empty if it has the most available.
            jitter: the largest jitter of a block if that exceeds σ², else 0.
        """
        self._state, self._more_digits, self._largest_b = state, more_digits, largest_b
        if self._first_residual is None:
            self._first_residual = state.residual
        self._refinement = Refinement(
            self.stopping, state.residual, state.r.dtype, reduction=state.reduction, drifts=state.drifts,
            more_digits=more_digits, jitter=jitter,
        )  # fmt: skip

    def measured_at(self, b: Tensor, w: Tensor) -> Measured:
        """Evaluate B − KW in float64 for initial weights."""
        return self._residual.residual(b, w, math.inf)

    def measure(self) -> Measured:
        """Evaluate B − KW in float64 for the current weights; only this evaluation may claim convergence.

        W is as the user gets it. If W overflows or loses digits in the user's units, the residual does too.
        """
        w = self._state.weights()
        held = self._units.as_held(w)
        lost = torch.tensor(float(held is not w), dtype=torch.float64, device=w.device)
        self._is_lost = bool(self._operator.layout.sum(lost))
        return self._residual.residual(self._state.b, held, self.stopping.tol)

    def needs_pass(self, squared: Tensor) -> bool:
        """Test whether to end the epoch here for a pass, from the recursion's (l+1,) squared norms."""
        self._is_wanted = self._is_due(self._units.mean_relative(squared))
        return self._is_wanted

    def at_end_of(self, epoch: int, squared: Tensor) -> tuple[Pass, Tensor, Tensor, Measured | None] | None:
        """Make a pass at the end of an epoch if one is due, as it is after the last; `squared` is of the recursion.

        Return the pass, B − KW (n, l+1), its (l+1,) squared norms, and the measurement if it was in float64.
        """
        stopping, refinement, claimed = self.stopping, self._refinement, self._units.mean_relative(squared)
        last, exploded = epoch >= stopping.max_epochs, self._has_exploded(claimed)
        self._runs_away = refinement.runs_away(claimed)
        self._claims = exploded
        if epoch >= stopping.min_epochs:
            self._claims |= self._is_wanted or (claimed < stopping.tol if last else self._is_due(claimed))
        self._is_wanted = False
        is_regular = math.isfinite(claimed) and (last or epoch % stopping.check_every == 0)
        if not (self._claims or is_regular or self._runs_away):
            return None
        return self._make(epoch, claimed, last or exploded or refinement.needs_float64(claimed))

    def direct(self, epoch: int, squared: Tensor) -> Pass:
        """Make a pass from the (l+1,) squared norms that `measure` returned at the end of this epoch."""
        residual = self._units.mean_relative(squared)
        return self._found(epoch, math.nan, residual, math.nan, is_exact=True, is_adopted=True)

    def ending(self, epoch: int, found: Pass | None, energy: float, *, is_recursion: bool) -> StopReason | None:
        """Return why the solve is over after an epoch and its pass, if any, or None if it continues.

        Passes are looked at for progress if `is_recursion`: a solver that requests B − KW does that itself.
        """
        stopping, residual = self.stopping, self._state.residual
        is_exact = found is not None and found.is_exact
        if self._has_exploded(residual):
            self.message = f"diverged: {self._lost('overflow', 'down')}" if self._is_lost else self._diverged()
            return StopReason.DIVERGED
        if is_exact and residual < stopping.tol and epoch >= stopping.min_epochs:
            return StopReason.CONVERGED
        if is_exact and residual >= stopping.tol and self._is_lost:
            self.message = f"stagnated: {self._lost('are so small that they lose digits in', 'up')}"
            return StopReason.STAGNATED
        if found is not None and is_recursion and (floor := self._floor(found, energy)):
            self.message = floor
            return StopReason.STAGNATED
        return None

    def returned(self) -> StopReason:
        """Return the stop reason of a solve whose generator has returned, from a measured residual."""
        return StopReason.CONVERGED if self._state.residual < self.stopping.tol else StopReason.STAGNATED

    def _floor(self, found: Pass, energy: float) -> str | None:
        """Return why further passes are in vain, or None; make a drifting recursion exact first."""
        refinement, state = self._refinement, self._state
        refinement.passed(found, energy, claims=self._claims)
        floor = refinement.floor()
        if refinement.drifts and (floor or self._runs_away):
            state.go_exact()
            refinement.exact_from_now()
            return None
        return floor

    def _is_due(self, claimed: float) -> bool:
        """Test whether to evaluate B − KW: the recursion has reached its aim, and a drifting one need not continue."""
        refinement, state = self._refinement, self._state
        if refinement.runs_away(claimed):
            return True
        if not claimed < refinement.aim:
            return False
        if not refinement.drifts:
            return True
        drift = self._residual.drift(state.r, state.b, state.weights(), self._units.norms, self._generator)
        return refinement.looked(claimed, drift)

    def _make(self, epoch: int, claimed: float, is_exact: bool) -> tuple[Pass, Tensor, Tensor, Measured | None]:
        state, measured = self._state, self.measure() if is_exact else None
        if measured is not None:
            fresh, squared = measured.r, measured.squared
        else:
            fresh = state.b - self._operator.matmul(state.weights().to(state.r))
            squared = self._operator.layout.sum(column_squares(fresh))
            if self._has_exploded(self._units.mean_relative(squared)):  # the solve ends with a measured residual
                return self._make(epoch, claimed, True)
        drift = self._units.relative(self._operator.layout.sum(column_squares(state.r - fresh)))
        # a recursion that has drifted this far follows its own rounding
        is_adopted = not self._is_lost and state.adopt(fresh, self._claims or drift > claimed)
        residual = self._units.mean_relative(squared)
        found = self._found(epoch, claimed, residual, drift, is_exact=is_exact, is_adopted=is_adopted)
        return found, fresh, squared, measured

    def _found(
        self, epoch: int, claimed: float, residual: float, drift: float, *, is_exact: bool, is_adopted: bool
    ) -> Pass:
        self._number += 1
        seconds = self._clock.seconds(self._clock.mark())
        work, traffic = self._operator.work, self._operator.traffic
        return Pass(self._number, epoch, work, seconds, claimed, residual, drift, is_exact, is_adopted, traffic)

    def _has_exploded(self, residual: float) -> bool:
        return not residual <= EXPLODED * max(1.0, self._first_residual or 0.0)  # or is NaN

    def _diverged(self) -> str:
        """Return why a recursion diverges and the remedy; float64 is not recommended if it is in use."""
        remedy = " or ".join([*self._more_digits, "more noise"])
        dtype = str(self._state.r.dtype).removeprefix("torch.")
        return (
            f"diverged: the residual exploded, as it does if rounding of K to {dtype} outweighs the noise; use {remedy}"
        )

    def _lost(self, what: str, way: str) -> str:
        b = f"right-hand sides of up to {self._largest_b:.1e}"
        return f"the weights for {b} {what} float64; scale the targets {way}"
