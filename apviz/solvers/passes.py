"""Passes: B − KW evaluated anew in the course of a solve; when, in which dtype, and what follows from it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers.clock import Clock
from apviz.solvers.refinement import Limits, Pass, Recursion, Refinement
from apviz.solvers.steps import column_inner, column_squares
from apviz.solvers.units import Units

# of the tolerance, that rounding in float64 may be without being looked at
NEGLIGIBLE_TOL_SHARE = 1e-3
# roundings of a sum of n products in float64, besides the root of n: sums are of chunks
SUM_ROUNDINGS = 64.0
# rows on which the drift is looked at: a share of all, but at least so many
LOOK_SHARE = 0.02
LOOK_ROWS = 256


class Measured(NamedTuple):
    """B − KW in float64 for some weights, and what follows from it, in the units of the run.

    Args:
        r: (n, l+1) B − KW.
        squared: (l+1,) its squared norms; where rounding may matter, of the norms plus the bound on it.
        rounding: (l+1,) bounds on what float64 may have rounded the norms by.
        energy: (l+1,) terms −½wᵀ(b + r) of h(W).
        energy_rounding: (l+1,) bounds on what float64 may have rounded these by.
    """

    r: Tensor
    squared: Tensor
    rounding: Tensor
    energy: Tensor
    energy_rounding: Tensor


class ExactResidual:
    """Evaluates the residual in float64: what a user would find, not what the operator's dtype believes in.

    In float32 both K and B − KW are rounded, by up to the condition number more than W is: where σ² is small, the
    residual of the rounded K may be below the tolerance while that of K is far above it.

    What float64 itself rounds is bounded too, and added where it may be more than a thousandth of the tolerance.

    Args:
        operator: K, in the solver's order of rows; what is evaluated here counts as its work.
    """

    def __init__(self, operator: CountingOperator) -> None:
        self._operator = exact = operator.exact()
        self._roundings = exact.entry_rounding
        self._trace = float(exact.diagonal().sum())

    def residual(self, b: Tensor, w: Tensor, tol: float) -> Measured:
        """Computes B − KW, (n, l+1) in float64, its norms and h(W). Evaluates n² entries.

        Rounding is at most so many ‖K|W|‖, which is at most tr(K)‖W‖; it is evaluated where that may matter for `tol`.
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
        """Estimates the mean over columns of ‖r − (b − Kw)‖/‖b‖ from a random few per cent of the rows.

        Args:
            norms: (l+1,) ‖b‖ on the host.
        """
        n, layout = self._operator.n, self._operator.layout
        size = min(n, max(LOOK_ROWS, round(LOOK_SHARE * n)))
        rows = torch.randperm(n, generator=generator)[:size].to(r.device)
        missed = layout.take(r, rows) - (layout.take(b, rows) - self._operator.rows_matmul(rows, w.double()))
        return float((torch.linalg.vector_norm(missed, dim=0).cpu() / norms).mean()) * math.sqrt(n / size)


class Passes:
    """The passes of one solve, in the order of rows and the units of its run.

    Args:
        operator: K; what is evaluated here counts as its work.

    Attributes:
        is_lost: whether the weights last evaluated are beyond what float64 holds in the user's units.
    """

    def __init__(self, operator: CountingOperator, units: Units, clock: Clock) -> None:
        self._operator, self._units, self._clock = operator, units, clock
        self._exact = ExactResidual(operator)
        self.is_lost = False
        self._number = 0
        self._is_wanted = self._claims = self._runs_away = False
        self._generator = torch.Generator().manual_seed(0)  # of the rows on which the drift is looked at

    def begin(self, recursion: Recursion, limits: Limits, refinement: Refinement) -> None:
        """Takes note of what is at work, its limits, and what says how far it is to go."""
        self._recursion, self._limits, self._refinement = recursion, limits, refinement

    def measured_at(self, b: Tensor, w: Tensor) -> Measured:
        """Evaluates B − KW in float64 for weights to start from."""
        return self._exact.residual(b, w, math.inf)

    def measure(self) -> Measured:
        """Evaluates B − KW in float64 for the weights so far: only this may claim convergence.

        W is as the user gets it: where it is beyond float64 in the user's units, or loses digits, so is the residual.
        """
        w = self._recursion.weights()
        held = self._units.as_held(w)
        lost = torch.tensor(float(held is not w), dtype=torch.float64, device=w.device)
        self.is_lost = bool(self._operator.layout.sum(lost))
        return self._exact.residual(self._recursion.b, held, self._limits.tol)

    def wants_one(self, squared: Tensor) -> bool:
        """Tests whether an epoch is to end here for a pass, from the recursion's (l+1,) squared norms."""
        self._is_wanted = self._is_due(self._units.mean_relative(squared))
        return self._is_wanted

    def at_end_of(
        self, epoch: int, squared: Tensor, *, exploded: bool
    ) -> tuple[Pass, Tensor, Tensor, Measured | None] | None:
        """Makes a pass where one is due at the end of an epoch, from the recursion's (l+1,) squared norms.

        One is due after the last epoch whatever the recursion claims, so that the residual is that of the weights.

        Args:
            exploded: the recursion's residual is so large that the solve has diverged, if B − KW bears it out.

        Returns:
            what was found, B − KW, (n, l+1), its (l+1,) squared norms, and the rest where that was in float64.
        """
        limits, refinement, claimed = self._limits, self._refinement, self._units.mean_relative(squared)
        last = epoch >= limits.maximum
        self._runs_away = refinement.runs_away(claimed)
        self._claims = exploded
        if epoch >= limits.minimum:
            self._claims |= self._is_wanted or (claimed < limits.tol if last else self._is_due(claimed))
        self._is_wanted = False
        is_regular = math.isfinite(claimed) and (last or epoch % limits.check_every == 0)
        if not (self._claims or is_regular or self._runs_away):
            return None
        return self._make(epoch, claimed, last or exploded or refinement.needs_float64(claimed))

    def direct(self, epoch: int, squared: Tensor) -> Pass:
        """Makes a pass of the (l+1,) squared norms that `measure` gave a direct solve in this epoch."""
        residual = self._units.mean_relative(squared)
        return self._found(epoch, math.nan, residual, math.nan, is_exact=True, is_adopted=True)

    def floor(self, found: Pass, energy: float) -> str | None:
        """Says why going on from a pass is in vain, or None; what drifts is told to be exact first.

        Args:
            energy: h(W) after the pass, in any unit.
        """
        refinement, go_exact = self._refinement, self._limits.go_exact
        refinement.passed(found, energy, claims=self._claims)
        floor = refinement.floor()
        if refinement.drifts and go_exact is not None and (floor or self._runs_away):
            go_exact()
            refinement.exact_from_now()
            return None
        return floor

    def _is_due(self, claimed: float) -> bool:
        """Whether B − KW is to be evaluated: the recursion is at its aim, and what drifts does not rather go on."""
        refinement, recursion = self._refinement, self._recursion
        if refinement.runs_away(claimed):
            return True
        if not claimed < refinement.aim:
            return False
        if not refinement.drifts:
            return True
        drift = self._exact.drift(recursion.r, recursion.b, recursion.weights(), self._units.norms, self._generator)
        return refinement.looked(claimed, drift)

    def _make(self, epoch: int, claimed: float, is_exact: bool) -> tuple[Pass, Tensor, Tensor, Measured | None]:
        recursion, measured = self._recursion, self.measure() if is_exact else None
        if measured is not None:
            fresh, squared = measured.r, measured.squared
        else:
            fresh = recursion.b - self._operator.matmul(recursion.weights().to(recursion.r))
            squared = self._operator.layout.sum(column_squares(fresh))
        drift = self._units.relative(self._operator.layout.sum(column_squares(recursion.r - fresh)))
        # one that has drifted so far follows its own rounding
        is_adopted = not self.is_lost and recursion.adopt(fresh, self._claims or drift > claimed)
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
