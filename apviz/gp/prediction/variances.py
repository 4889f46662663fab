"""Posterior variances by solves for batches of test points, to the tolerance that the variances need."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from apviz.gp.prediction.accuracy import weighted_norms
from apviz.gp.prediction.factor_variances import FactorVariances
from apviz.gp.prediction.mean_products import operator_for
from apviz.gp.prediction.prediction_accuracy import LEAST_ERROR, MeanResidual, PointErrors
from apviz.memory import free_memory
from apviz.operators import CountingOperator
from apviz.solvers import Epoch, Hook, Prepared, Run, Solution, Solver, StopReason, attempt
from apviz.solvers.recommended import HISTORY_SHARE, solved_rows
from apviz.system import KernelSystem

# relative residual of the solves for variances
VARIANCE_TOL = 1e-4
# Largest excess that is accepted without a tighter solve or a warning, as a share of variance + σ², and of the variance
# alone (there the standard deviation is too large by a tenth).
SMALL_EXCESS, SMALL_EXCESS_OF_F = 0.01, 1 - 1 / 1.1**2
# Below this share of the accepted excess, a solve that missed its tolerance does not warn either.
NO_EXCESS = 1e-4
# rounding error of an entry of k(X, x*) times a weight, in ε; it remains if the sum cancels
ROUNDINGS = 8.0
# largest number of tighter solves, and the smallest factor by which one lowers the residual
TIGHTENINGS = 4
TIGHTEN_BY = 1e-3
# work limit of all tighter solves, in units of the first solve's work
TIGHTENING_WORK = 10.0
# largest number of columns in a solve for variances; wider batches gain little, as the set-up is shared anyway
MAX_BATCH = 1024
# n × batch arrays in memory: of solvers and preconditioners, in the system's dtype; and in float64, C, W and R, and B
# and W of the solve
BATCH_ARRAYS, DOUBLE_ARRAYS = 15, 5
# numbers in an n × batch array that fit any memory
FEW_NUMBERS = 2**17
# share of the free memory for these arrays; the factors of the blocks use up to 0.4 of the rest
BATCH_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class VarianceSolve:
    """Record of the solves for one batch of test points.

    Args:
        rows: rows of the test inputs.
        stop_reason, stop_message: as in `Solution`, of the first solve.
        residual: smallest residual of the first solve and the tighter ones that resumed from it; a bound on it if a
            kept Cholesky factor needs no solve.
        epochs, work, seconds: as in `Solution`, summed over all these solves.
        excess: (c,) float64 on the CPU, a bound on the excess of the returned variance over the exact one: ‖r‖²/σ²,
            or Σᵢ rᵢ²/σᵢ² for rows with their own noises, plus rounding in float64. Without a solve, a bound on the
            error of the factor.
        errors: bounds on the errors of the predictions.
    """

    rows: slice
    stop_reason: StopReason
    stop_message: str
    residual: float
    epochs: int
    work: float
    seconds: float
    excess: Tensor
    errors: PointErrors

    @property
    def converged(self) -> bool:
        """Whether the recomputed residual is below the tolerance."""
        return self.stop_reason is StopReason.CONVERGED


class Batch(NamedTuple):
    """Variances of one batch of test points.

    Attributes:
        rows: rows of the test inputs.
        points: their inputs, (c, d).
        variance: (c,) float64.
        columns: k(X, x*), (n, c) float64, if the variances left it unchanged, for the means; else None.
    """

    rows: slice
    points: Tensor
    variance: Tensor
    columns: Tensor | None = None


class Variances:
    """Variances k(x*, x*) − cᵀK⁻¹c of batches of test points, with a single set-up of the solver.

    Args:
        may_tighten: resume with smaller tolerances if the bound on the excess is large.
        batch_size: number of test points in a solve; `auto`: from the free memory.
    """

    def __init__(
        self,
        system: KernelSystem,
        operator: CountingOperator,
        solver: Solver,
        may_tighten: bool,
        batch_size: int | Literal["auto"],
    ) -> None:
        self.system, self.solver, self.may_tighten, self.batch_size = system, solver, may_tighten, batch_size
        self.work = 0.0
        self._operator = operator
        #: the solver's set-up, and the number of right-hand sides it was built for
        self.prepared: tuple[Prepared, float] | None = None
        # the set-up whose factor was looked at, and the variances by this factor
        self._by_factor: tuple[Prepared, FactorVariances | None] | None = None
        self._products: CountingOperator | None = None

    @property
    def has_factor(self) -> bool:
        """Whether the set-up has a Cholesky factor of K in float64."""
        return self.prepared is not None and FactorVariances.fits(self.prepared[0])

    def width(self, points: float = math.inf) -> int:
        """Return the largest number of right-hand sides in a solve, for a number of points in all."""
        if self.batch_size != "auto":
            return self.batch_size
        if points * self.system.n <= FEW_NUMBERS:  # asking for the free memory takes longer than such a solve
            return MAX_BATCH
        n, item = self.system.n, self.system.x.element_size()
        history = getattr(getattr(self.solver, "step", None), "length", 0)
        arrays = BATCH_ARRAYS + 8 / item * DOUBLE_ARRAYS + (history if isinstance(history, int) else 0)
        free = free_memory(self.system.device) / item
        # an automatic history holds at most half as many columns as a block solves rows, for any batch
        chosen = min(n * solved_rows(n, self.system.d) / 2, HISTORY_SHARE * free)
        numbers = BATCH_SHARE * free - chosen
        return max(1, min(MAX_BATCH, int(numbers / (n * arrays))))

    def prior(self, chunk: Tensor) -> Tensor:
        """Return k(x*, x*) of test inputs (c, d), to (c,) float64."""
        if (same := self._operator.formula.variance) is not None:
            return torch.full((len(chunk),), same, dtype=torch.float64, device=chunk.device)
        return self._operator.formula.diagonal(self._operator.scaled(chunk))

    def from_explained(self, explained: Tensor, chunk: Tensor) -> Tensor:
        """Return prior minus explained variance, (c,) or (c, ranks), clipped to [0, prior] because of rounding."""
        prior = self.prior(chunk).reshape(-1, *[1] * (explained.ndim - 1))
        return (prior - explained).clamp_(min=0.0).minimum(prior)

    def by_solves(
        self,
        batches: Sequence[slice],
        chunk_of: Callable[[slice], Tensor],
        hooks: list[Hook],
        done: list[VarianceSolve],
        mean: MeanResidual,
        keep: Sequence[Tensor] | None = None,
    ) -> Iterator[Batch]:
        """Solve batch by batch. Warns about the first batch whose variances may be too large.

        If the set-up has a Cholesky factor in float64 that is accurate enough, it needs no solve, so no hook is called.

        Args:
            chunk_of: returns the test inputs of rows, (c, d).
            done: list to which the records are appended.
            mean: residual of the mean's weights, whose errors are found on the way.
            keep: two (n, m) arrays to fill with W and C + R of all points.
        """
        warned = False
        widest = max((rows.stop - rows.start for rows in batches), default=0)
        for rows in batches:
            chunk, prepared = chunk_of(rows), self.prepared_for(widest)
            if keep is None and (direct := self._directly(chunk, rows, prepared, done, mean)) is not None:
                yield direct
                continue
            w, c_and_r, solved = self._solve(chunk, rows, hooks, prepared, mean)
            variance = self._variance_of(w, c_and_r, chunk)
            if not warned and (warning := self._warning(variance, solved, chunk)):
                warned = True
                others = ". Later batches do not warn again; `variance_solves` lists them all"
                warnings.warn(f"{warning}{others if len(batches) > 1 else ''}", stacklevel=3)
            done.append(solved)
            if keep:
                keep[0][:, rows], keep[1][:, rows] = w, c_and_r
            yield Batch(rows, chunk, variance)

    def errors(self, chunk: Tensor, rows: slice, hooks: list[Hook], mean: MeanResidual) -> PointErrors:
        """Return the errors at test inputs (c, d) of a mean with this residual, and of these variances."""
        return self._solve(chunk, rows, hooks, self.prepared_for(len(chunk)), mean)[2].errors

    def inverse_diagonal(self, rows: Tensor, hooks: list[Hook]) -> Tensor:
        """Return the diagonal entries of K⁻¹ in some rows: (c,) indices, to (c,) float64. Warns if unconverged.

        With unit vectors e and weights w ≈ K⁻¹e they are 2eᵀw − wᵀKw, which is too small by rᵀK⁻¹r, never too large.
        """
        places = torch.arange(len(rows), device=rows.device)
        e = torch.zeros(self.system.n, len(rows), dtype=torch.float64, device=rows.device)
        e[rows, places] = 1.0
        batch = self.system.with_right_hand_sides(e)
        solution = attempt(batch, self.solver, hooks, prepared=self.prepared_for(len(rows)))
        self.work += solution.work
        if not solution.converged:
            end = f"(residual {solution.residual:.2e}): it {solution.stop_message}"
            warnings.warn(f"a solve for the diagonal of K⁻¹ did not converge {end}", stacklevel=3)
        w = solution.weights.to(e)
        products = self._products_for(solution)
        # products that are not exact could make it too large, by at most this
        error = products.uncounted.entry_error * w.abs().sum(0).square()
        found = 2 * w[rows, places] - torch.sum(w * products.matmul(w), 0) - error
        least: Tensor = 1 / self._operator.diagonal()[rows].to(found)  # [K⁻¹]ᵢᵢ ≥ 1/Kᵢᵢ
        return found.maximum(least)

    def _warning(self, variance: Tensor, solved: VarianceSolve, chunk: Tensor) -> str | None:
        """Return the warning for a batch, or None."""
        where = f"rows {solved.rows.start} to {solved.rows.stop}"
        ratio = self._excess_ratio(variance, solved.excess)
        # no warning for a missed tolerance without effect, such as an excess of 4e-30
        if not solved.converged and not (ratio <= NO_EXCESS).all():
            return (
                f"the solve for the variances of {where} did not converge (residual {solved.residual:.2e} after "
                f"{solved.epochs} epochs): they are too large, by at most {float(solved.excess.max()):.2e} "
                f"(k(x*, x*) is up to {float(self.prior(chunk).max()):.2e}); it {solved.stop_message}"
            )
        if not (ratio > 1).any():
            return None
        share = (solved.excess / variance.cpu()).max()
        times = f"{1 / math.sqrt(1 - share):.2g} times" if share < 1 else "any factor"
        float64 = "" if self.system.dtype is torch.float64 else "float64, "
        return (
            f"the variances of {where} may be too large: at {int((ratio > 1).sum())} of {len(ratio)} points the bound "
            f"‖r‖²/σ² on the excess is over {SMALL_EXCESS:.0%} of variance + σ² or {SMALL_EXCESS_OF_F:.0%} of the "
            f"variance; at worst the standard deviation of f may be too large by {times} (residual "
            f"{solved.residual:.1e}); use {float64}a solver with a smaller tol, or variance_solver=apviz.Cholesky()"
        )

    def _excess_ratio(self, variance: Tensor, excess: Tensor) -> Tensor:
        """Return the bound on the excess ÷ the accepted excess, (c,) on the CPU."""
        variance = variance.cpu()
        small = torch.minimum(SMALL_EXCESS * (variance + self.system.noise), SMALL_EXCESS_OF_F * variance)
        return excess / small.clamp_min(torch.finfo(small.dtype).tiny)

    def _solve(
        self, chunk: Tensor, rows: slice, hooks: list[Hook], prepared: Prepared, mean: MeanResidual
    ) -> tuple[Tensor, Tensor, VarianceSolve]:
        """Return W and C + R of the batch, (n, c) each, and the record of its solve."""
        c = self._operator.cross_columns(chunk)
        # covariances that underflow in the system's dtype explain nothing
        c[:, c.abs().amax(0) < torch.finfo(self.system.dtype).tiny] = 0.0
        batch = self.system.with_right_hand_sides(c)
        solution = attempt(batch, self.solver, hooks, prepared=prepared)
        w, products = solution.weights.to(c), self._products_for(solution)
        solutions, r = [solution], c - products.matmul(w)
        while self.may_tighten and solution.converged and len(solutions) <= TIGHTENINGS:
            ratio = float(self._excess_ratio(self._variance_of(w, c + r, chunk), self._excess_of(r)).max())
            if ratio <= 1:
                break
            tol = solution.residual * max(0.5 / math.sqrt(ratio), TIGHTEN_BY)
            left = (1 + TIGHTENING_WORK) * solutions[0].work - sum(each.work for each in solutions)
            tighter = to_tolerance(self.solver, tol)
            solution = attempt(batch, tighter, [*hooks, _WorkLimit(left)], w, prepared=prepared)
            solutions.append(solution)
            found = solution.weights.to(c)
            fresh = c - products.matmul(found)
            better = torch.linalg.vector_norm(fresh, dim=0) < torch.linalg.vector_norm(r, dim=0)
            w, r = torch.where(better, found, w), torch.where(better, fresh, r)
        self.work += sum(each.work for each in solutions)
        first = solutions[0]
        rounding = ROUNDINGS * torch.finfo(c.dtype).eps * torch.einsum("nc,nc->c", c.abs(), w.abs()).cpu()
        # products that are not exact move rᵀw by at most an entry's error times (Σᵢ |wᵢ|)²
        rounding += products.uncounted.entry_error * w.abs().sum(0).square().cpu()
        excess = self._excess_of(r) + rounding
        return w, c + r, VarianceSolve(
            rows, first.stop_reason, first.stop_message, min(each.residual for each in solutions),
            sum(each.epochs for each in solutions), sum(each.work for each in solutions),
            sum(each.seconds for each in solutions), excess,
            mean.errors(c, w, self._variance_of(w, c + r, chunk), excess),
        )  # fmt: skip

    def _directly(
        self, chunk: Tensor, rows: slice, prepared: Prepared, done: list[VarianceSolve], mean: MeanResidual
    ) -> Batch | None:
        """Return the variances of a batch by a kept factor of K; None if it is not accurate enough."""
        if self._by_factor is None or self._by_factor[0] is not prepared:
            self._by_factor = prepared, FactorVariances.of(prepared, self._operator)
        by_factor = self._by_factor[1]
        if by_factor is None:
            return None
        start = time.perf_counter()
        c = self._operator.cross_columns(chunk)
        # weights K⁻¹c also tell the errors of a mean whose solve ended early
        for tightly in (False, True) if mean.bound <= LEAST_ERROR else (True,):
            found = by_factor.explained(c, tightly=tightly)
            variance, excess = self.from_explained(found.values, chunk), found.error.cpu()
            if (self._excess_ratio(variance, excess) <= 1).all():
                errors = mean.proven_errors(variance, excess)
                if found.w is not None:
                    errors = mean.errors(c, found.w, variance, excess)
                solved = VarianceSolve(
                    rows, StopReason.CONVERGED, "a kept Cholesky factor needs no solve", found.residual, 0,
                    len(chunk) / self.system.n, time.perf_counter() - start, excess, errors,
                )  # fmt: skip
                done.append(solved)
                return Batch(rows, chunk, variance, c)
        return None

    def _products_for(self, solution: Solution) -> CountingOperator:
        """Return the operator of a solve's residual in float64, kept for all batches."""
        if self._products is None:
            found = operator_for(self._operator, solution)
            self._products = self._operator if found is self._operator else found.certifying()
        return self._products

    def prepared_for(self, columns: int) -> Prepared:
        """Return the solver's set-up, built once for all batches of at most `columns` points."""
        if self.prepared is None or self.prepared[1] < columns:
            self.prepared = self.solver.prepare(self.system.operator, columns), columns
        return self.prepared[0]

    def _variance_of(self, w: Tensor, c_and_r: Tensor, chunk: Tensor) -> Tensor:
        """Return k(x*, x*) − cᵀw − rᵀw, (c,), from W and C + R: (n, c), summed in float64."""
        return self.from_explained(torch.sum(c_and_r * w, 0, dtype=torch.float64), chunk)

    def _excess_of(self, r: Tensor) -> Tensor:
        """Return rᵀD⁻¹r ≥ rᵀK⁻¹r for each column, where D holds the noises."""
        return weighted_norms(r, self.system.operator.noise_of()).square()


class _WorkLimit(Hook):
    """A hook that stops a solve at the end of the epoch in which its work exceeds `limit`."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def on_start(self, run: Run) -> None:
        self.run = run

    def on_epoch(self, epoch: Epoch) -> None:
        if epoch.number and epoch.work > self.limit:
            self.run.request_stop("tighter solves for variances reached ten times the work of the first solve")


def to_tolerance(solver: Solver, tol: float) -> Solver:
    """Return the solver with a tolerance of at most `tol`. A solver without a tolerance is returned unchanged."""
    given = getattr(solver, "tol", 0.0)
    return dataclasses.replace(solver, tol=tol) if given > tol else solver  # type: ignore[call-arg]
