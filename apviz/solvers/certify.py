"""Certification: evaluate B − KW during a solve, choose when and in which dtype, and decide whether the solve is over.

No other module claims convergence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers.clock import Clock
from apviz.solvers.interface import StopReason
from apviz.solvers.refinement import Pass, Refinement
from apviz.solvers.state import State, column_inner, column_squares
from apviz.solvers.stopping import Stopping
from apviz.solvers.units import Units

# Float64 rounding below this share of the tolerance is neglected.
NEGLIGIBLE_TOL_SHARE = 1e-3
# A solve has diverged if its residual exceeds this many times the initial residual (or 1, if larger).
EXPLODED = 1e4
# Rounding errors of a float64 sum of n products, in addition to √n, because sums are made in chunks.
SUM_ROUNDINGS = 64.0
# The drift is estimated on this share of the rows, with a minimum number of rows.
LOOK_SHARE = 0.02
LOOK_ROWS = 256


class Measured(NamedTuple):
    """B − KW in float64 for some weights, with derived quantities, in the units of the run.

    Args:
        r: (n, l+1) B − KW.
        squared: (l+1,) its squared norms; if rounding may matter, of the norms plus their rounding bound.
        rounding: (l+1,) bounds on the float64 rounding of the norms.
        energy: (l+1,) terms −½wᵀ(b + r) of h(W).
        energy_rounding: (l+1,) bounds on the float64 rounding of these terms.
    """

    r: Tensor
    squared: Tensor
    rounding: Tensor
    energy: Tensor
    energy_rounding: Tensor


class ExactResidual:
    """The residual in float64 of the K that the user gave, not of K rounded to the operator's dtype.

    In float32 both K and B − KW are rounded, by up to the condition number more than W is. If σ² is small, the
    residual of the rounded K may be below the tolerance while that of K is far above it.
    The rounding of float64 is bounded too, and added if it may exceed a thousandth of the tolerance.

    Args:
        operator: K, in the solver's order of rows; evaluations count as its work.
    """

    def __init__(self, operator: CountingOperator) -> None:
        self._operator = exact = operator.exact()
        self._roundings = exact.entry_rounding
        self._trace = float(exact.diagonal().sum())

    def residual(self, b: Tensor, w: Tensor, tol: float) -> Measured:
        """Compute B − KW, (n, l+1) in float64, its norms and h(W), from n² entries.

        The rounding bound is a multiple of ‖K|W|‖ ≤ tr(K)‖W‖; ‖K|W|‖ is evaluated if it may matter for `tol`.
        """
        columns, w, layout = w.shape[1], w.double(), self._operator.layout
        norms, of_b = layout.sum(torch.stack([column_squares(w), column_squares(b)])).sqrt()
        eps, rounding = torch.finfo(torch.float64).eps, self._roundings * self._trace * norms
        is_small = bool((rounding <= NEGLIGIBLE_TOL_SHARE * tol * of_b).all())
        products = self._operator.matmul(w if is_small else torch.cat([w, w.abs()], dim=1))
        r = products[:, :columns].neg_().add_(b)
        inner, squares = layout.sum(torch.stack([column_inner(w, b + r), column_squares(r)]))
        found = size = squares.sqrt()
        if not is_small:
            rounding = self._roundings * layout.sum(column_squares(products[:, columns:])).sqrt()
            found = size + rounding
        rounding = rounding + eps * of_b
        of_sum = eps * (SUM_ROUNDINGS + math.sqrt(self._operator.n))
        return Measured(r, found.square(), rounding, -0.5 * inner, 0.5 * norms * (rounding + of_sum * (of_b + size)))

    def drift(self, r: Tensor, b: Tensor, w: Tensor, norms: Tensor, generator: torch.Generator) -> float:
        """Estimate the mean over columns of ‖r − (b − Kw)‖/‖b‖ from a random few per cent of the rows.

        Args:
            norms: (l+1,) ‖b‖ on the host.
        """
        n, layout = self._operator.n, self._operator.layout
        size = min(n, max(LOOK_ROWS, round(LOOK_SHARE * n)))
        rows = torch.randperm(n, generator=generator)[:size].to(r.device)
        missed = layout.take(r, rows) - (layout.take(b, rows) - self._operator.rows_matmul(rows, w.double()))
        return float((torch.linalg.vector_norm(missed, dim=0).cpu() / norms).mean()) * math.sqrt(n / size)


class Certifier:
    """The passes of one solve and its stop reason, in the order of rows and the units of its run.

    Args:
        operator: K; evaluations count as its work.
        stopping: tolerance and limits of the solve.

    Attributes:
        message: message on the end of the solve, instead of the text of its reason; "" to keep that text.
    """

    def __init__(self, operator: CountingOperator, units: Units, clock: Clock, stopping: Stopping) -> None:
        self._operator, self._units, self._clock, self.stopping = operator, units, clock, stopping
        self._exact = ExactResidual(operator)
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
            largest_b: the largest |b|, for messages.
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
        return self._exact.residual(b, w, math.inf)

    def measure(self) -> Measured:
        """Evaluate B − KW in float64 for the current weights; only this evaluation may claim convergence.

        W is as the user gets it. If W overflows or loses digits in the user's units, the residual does too.
        """
        w = self._state.weights()
        held = self._units.as_held(w)
        lost = torch.tensor(float(held is not w), dtype=torch.float64, device=w.device)
        self._is_lost = bool(self._operator.layout.sum(lost))
        return self._exact.residual(self._state.b, held, self.stopping.tol)

    def wants_one(self, squared: Tensor) -> bool:
        """Test whether to end the epoch here for a pass, from the recursion's (l+1,) squared norms."""
        self._is_wanted = self._is_due(self._units.mean_relative(squared))
        return self._is_wanted

    def at_end_of(self, epoch: int, squared: Tensor) -> tuple[Pass, Tensor, Tensor, Measured | None] | None:
        """Make a pass at the end of an epoch if one is due, from the recursion's (l+1,) squared norms.

        A pass is always due after the last epoch, so that the final residual is that of the weights.

        Returns:
            the pass, B − KW (n, l+1), its (l+1,) squared norms, and the measurement if it was in float64.
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

        Args:
            energy: h(W), in any unit.
            is_recursion: whether to look for progress in the passes; a solver that requests B − KW does so itself.
        """
        stopping, residual = self.stopping, self._state.residual
        is_exact = found is not None and found.is_exact
        if self._has_exploded(residual):
            self.message = f"diverged: {self._lost('beyond', 'divide')}" if self._is_lost else self._diverged()
            return StopReason.DIVERGED
        if is_exact and residual < stopping.tol and epoch >= stopping.min_epochs:
            return StopReason.CONVERGED
        if is_exact and residual >= stopping.tol and self._is_lost:
            self.message = f"stagnated: {self._lost('so small that digits are lost in', 'multiply')}"
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
        drift = self._exact.drift(state.r, state.b, state.weights(), self._units.norms, self._generator)
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
        dtype = self._state.r.dtype
        return f"diverged: the residual has exploded, as where rounding K to {dtype} outweighs the noise; use {remedy}"

    def _lost(self, what: str, do: str) -> str:
        return f"the weights of right-hand sides up to {self._largest_b:.1e} are {what} {torch.float64}; {do} B"
