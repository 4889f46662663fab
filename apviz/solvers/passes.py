"""Passes: B − KW evaluated anew in the course of a solve; when, in which dtype, and what follows from it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from apviz.operators import CountingOperator
from apviz.solvers.clock import Clock
from apviz.solvers.refinement import Limits, Pass, Recursion, Refinement
from apviz.solvers.steps import column_squares
from apviz.solvers.units import Units

# roundings of an entry of K and its product: of distance, exponential and sum, however long, for sums are of chunks
ROUNDINGS_PER_ENTRY = 8.0
# of the tolerance, that rounding in float64 may be without being looked at
NEGLIGIBLE_TOL_SHARE = 1e-3
# rows on which the drift is looked at: a share of all, but at least so many
LOOK_SHARE = 0.02
LOOK_ROWS = 256


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
        # an input is rounded by its size, its differences and so the entries of K by twice that
        largest = float(exact.inputs.abs().max())
        self._roundings = torch.finfo(torch.float64).eps * (ROUNDINGS_PER_ENTRY + 2.0 * largest)
        self._trace = float(exact.diagonal().sum())

    def residual(self, b: Tensor, w: Tensor, tol: float) -> tuple[Tensor, Tensor]:
        """Computes B − KW, (n, l+1) in float64, and its (l+1,) squared norms. Evaluates n² entries.

        Rounding is at most so many ‖K|W|‖, which is at most tr(K)‖W‖; it is evaluated where that may matter for `tol`.
        """
        columns, w, layout = w.shape[1], w.double(), self._operator.layout
        norms, of_b = layout.sum(torch.stack([column_squares(w), column_squares(b)])).sqrt()
        is_small = bool((self._roundings * self._trace * norms <= NEGLIGIBLE_TOL_SHARE * tol * of_b).all())
        products = self._operator.matmul(w if is_small else torch.cat([w, w.abs()], dim=1))
        r = products[:, :columns].neg_().add_(b)
        found = layout.sum(column_squares(r)).sqrt()
        if not is_small:
            found += self._roundings * layout.sum(column_squares(products[:, columns:])).sqrt()
        return r, found.square()

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

    def residual_of(self, b: Tensor, w: Tensor) -> Tensor:
        """Computes B − KW, (n, l+1) in float64, of weights to start from."""
        return self._exact.residual(b, w, math.inf)[0]

    def fresh_residual(self) -> tuple[Tensor, Tensor]:
        """Computes B − KW in float64, (n, l+1), and its (l+1,) squared norms: only these may claim convergence.

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

    def at_end_of(self, epoch: int, squared: Tensor) -> tuple[Pass, Tensor, Tensor] | None:
        """Makes a pass where one is due at the end of an epoch, from the recursion's (l+1,) squared norms.

        Returns:
            what was found, B − KW, (n, l+1), and its (l+1,) squared norms.
        """
        limits, refinement, claimed = self._limits, self._refinement, self._units.mean_relative(squared)
        last = epoch >= limits.maximum
        self._runs_away = refinement.runs_away(claimed)
        self._claims = False
        if epoch >= limits.minimum:
            self._claims = self._is_wanted or (claimed < limits.tol if last else self._is_due(claimed))
        self._is_wanted = False
        is_regular = math.isfinite(claimed) and epoch % limits.check_every == 0
        if not (self._claims or is_regular or self._runs_away):
            return None
        return self._make(epoch, claimed, last or refinement.needs_float64(claimed))

    def direct(self, epoch: int, squared: Tensor) -> Pass:
        """Makes a pass of the (l+1,) squared norms that `fresh_residual` gave a direct solve in this epoch."""
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

    def _make(self, epoch: int, claimed: float, is_exact: bool) -> tuple[Pass, Tensor, Tensor]:
        recursion = self._recursion
        if is_exact:
            fresh, squared = self.fresh_residual()
        else:
            fresh = recursion.b - self._operator.matmul(recursion.weights().to(recursion.r))
            squared = self._operator.layout.sum(column_squares(fresh))
        drift = self._units.relative(self._operator.layout.sum(column_squares(recursion.r - fresh)))
        # one that has drifted so far follows its own rounding
        is_adopted = not self.is_lost and recursion.adopt(fresh, self._claims or drift > claimed)
        residual = self._units.mean_relative(squared)
        found = self._found(epoch, claimed, residual, drift, is_exact=is_exact, is_adopted=is_adopted)
        return found, fresh, squared

    def _found(
        self, epoch: int, claimed: float, residual: float, drift: float, *, is_exact: bool, is_adopted: bool
    ) -> Pass:
        self._number += 1
        seconds = self._clock.seconds(self._clock.mark())
        work, traffic = self._operator.work, self._operator.traffic
        return Pass(self._number, epoch, work, seconds, claimed, residual, drift, is_exact, is_adopted, traffic)
