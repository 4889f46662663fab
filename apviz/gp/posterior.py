"""Prediction: the posterior's mean by any solver, its variance by solves or by Lanczos, in chunks of test points."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from apviz.gp.lanczos import LanczosInverse
from apviz.hyperparameters import Hyperparameters
from apviz.memory import free_memory
from apviz.operators import CountingOperator, Operator
from apviz.operators.interface import MAX_SPAN
from apviz.settings import require, require_whole
from apviz.solvers import Automatic, Epoch, Hook, NotConverged, Prepared, Run, Solution, Solver, StopReason, attempt
from apviz.solvers.choices import solved_rows
from apviz.system import DTYPES, KernelSystem, check_finite, dtype_of

Method = Literal["solves", "lanczos"]
METHODS = ("solves", "lanczos")
#: Lanczos vectors of the paper's variances (section 5.1)
PAPER_LANCZOS_RANK = 1000

# relative residual of the solves for variances
VARIANCE_TOL = 1e-4
# of the variance with the noise: a bound on its excess that is larger is solved on for, and warned of if it stays
SMALL_EXCESS = 0.01
# how often a solve for variances goes on to a smaller tolerance, and the smallest part of its residual aimed at at once
TIGHTENINGS = 4
TIGHTEN_BY = 1e-3
# and for how many times the work of the first solve, all together
TIGHTENING_WORK = 10.0
# test points at a time where nothing is held per training point
CHUNK = 8192
# columns of a solve for variances: wider gains little, once the set-up is shared by so many
MAX_BATCH = 1024
# n × batch arrays at once: C, W, R, and what the solvers and the preconditioners hold beside them
BATCH_ARRAYS = 20
# of the prior's standard deviation, by which a prior mean may be rounded
COARSE_MEAN = 1e-3
# of the free memory, for them; the factors of the blocks take up to 0.4 of what is left
BATCH_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class VarianceSolve:
    """A record of how the solve of one batch of test points ended.

    Args:
        rows: of the test inputs.
        stop_reason, stop_message: as in `Solution`, of the first solve that the weights are of.
        residual: the least of that and those that went on from it for a smaller excess.
        epochs, work, seconds: as in `Solution`, of all that was solved on for a smaller excess too.
        excess: (c,) float64 on the CPU, ‖r‖²/σ²: the variance returned is above the exact one by at most this.
    """

    rows: slice
    stop_reason: StopReason
    stop_message: str
    residual: float
    epochs: int
    work: float
    seconds: float
    excess: Tensor

    @property
    def converged(self) -> bool:
        """Whether its residual, recomputed, is below the tolerance."""
        return self.stop_reason is StopReason.CONVERGED


@dataclass(frozen=True, eq=False)
class Prediction:
    """A chunk of the posterior.

    Args:
        rows: of the test inputs.
        mean, variance: (c,), on the system's device in its dtype.
        solve: how the solve of this variance ended; None by Lanczos.
    """

    rows: slice
    mean: Tensor
    variance: Tensor
    solve: VarianceSolve | None


class Posterior:
    """Predicts by the posterior of f given y at fixed hyperparameters (paper, section 2).

    With K = k(X, X) + σ²I and c = k(X, x*), the mean is μ + cᵀK⁻¹(y − μ), the variance k(x*, x*) − cᵀK⁻¹c. The solve
    for the mean is done here, once, or not at all where its weights are given.

    **Variance by solves**: W ≈ K⁻¹C for a batch of test points. With R = C − KW computed afresh, the variance is
    k(x*, x*) − cᵀw − rᵀw. The last two terms are 2cᵀw − wᵀKw, which is −2h(w): at most cᵀK⁻¹c whatever w is, and
    below it by rᵀK⁻¹r. So the error is of second order in the residual, and a solve that is stopped early makes the
    variance too large, never too small, beyond rounding. How much too large is known: at most ‖r‖²/σ². Every
    batch costs one solve and one product with K; the set-up (the factors of the blocks) is made for the first, and
    kept. Where `variance_solver` is not given, and the bound is more than 1% of variance + σ² at any point, the solve
    goes on from its weights to smaller tolerances, for at most ten times the work, and warns if the bound stays large.
    Where K is badly conditioned variances need a smaller residual than the mean: with 4,500 points of kin40k
    (λmax/σ² near 10⁶) 0.01 left them ten times too large with the noise, 0.001 twice, 1e-4 by a few per cent.

    **Variance by Lanczos** (`LanczosInverse`): the paper's way, cheaper for many test points and an over-estimate
    whose size is not known; it falls with the rank. rank + 1 products with K once, n·rank numbers held.

    Args:
        x: (n, d) training inputs.
        y: (n,) training targets.
        hyperparameters: kernel, lengthscales, outputscale, noise and mean.
        solver: of the mean; None: `Automatic(tol=1e-2)`.
        hooks: told about the solve of the mean.
        variance_solver: of variances and covariances, taken as it is; None: `solver`, but to a tolerance of 1e-4 if its
            own is larger, and on to smaller ones where that leaves variances too large.
        weights: (n,) K⁻¹(y − μ) if it is known already; nothing is solved then.
        initial_weights: (n,) weights to start the solve from.
        batch_size: test points at a time; `auto`: by the free memory, at most 1,024 in a solve and 8,192 else. A
            solve for so many right-hand sides holds a dozen n × batch arrays, and one for each step of `history`.
        dtype, device, operator, dataset: as in `KernelSystem`. KeOps compiles anew for every width of a batch, and
            is slow for many columns: tiled is the better engine for variances.

    Attributes:
        system: K and y − μ.
        solution: of the mean's solve; None where the weights were given. A solve that did not converge warns.
        weights: (n,).
        variance_solves: of the last call that solved for variances, one for each batch done so far.

    Raises:
        TypeError, ValueError: as `KernelSystem` and `solve` do; targets or weights of another shape, or not finite.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> h = apviz.Hyperparameters("matern52", lengthscale=(0.2,), outputscale=1.0, noise=1e-4)
        >>> posterior = apviz.Posterior(x, torch.sin(6 * x), h, device="cpu")
        >>> near_and_far = torch.tensor([[0.5], [100.0]])
        >>> posterior.mean(near_and_far), posterior.variance(near_and_far).round(decimals=2)  # far away the prior's
        (tensor([0.1411, 0.0000], dtype=torch.float64), tensor([0., 1.], dtype=torch.float64))
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        hyperparameters: Hyperparameters,
        solver: Solver | None = None,
        *,
        hooks: Iterable[Hook] = (),
        variance_solver: Solver | None = None,
        weights: Any = None,
        initial_weights: Any = None,
        batch_size: int | Literal["auto"] = "auto",
        dtype: torch.dtype | None = None,
        device: str | torch.device = "auto",
        operator: str | Operator = "auto",
        dataset: str = "",
    ) -> None:
        if not isinstance(hyperparameters, Hyperparameters):
            raise TypeError(f"hyperparameters must be apviz Hyperparameters, got {type(hyperparameters).__name__}")
        require(
            weights is None or initial_weights is None,
            "weights and initial_weights", "both", "one or the other: given weights are not solved for",
        )  # fmt: skip
        if batch_size != "auto":
            require_whole("batch_size", batch_size, 1)
        y = torch.as_tensor(y).detach()
        if y.ndim != 1:
            raise ValueError(f"y must have shape (n,), got {tuple(y.shape)}")
        check_finite(y[:, None], "y")
        self.hyperparameters = hyperparameters
        self.solver = solver or Automatic()
        self.variance_solver = variance_solver or to_tolerance(self.solver, VARIANCE_TOL)
        self._may_tighten = variance_solver is None
        self.batch_size = batch_size
        self.system = KernelSystem(
            x, y.double() - hyperparameters.mean, hyperparameters.build_kernel(), noise=hyperparameters.noise,
            operator=operator, dtype=dtype or dtype_of(x, y), device=device, dataset=dataset,
        )  # fmt: skip
        spacing = torch.finfo(self.system.dtype).eps * abs(hyperparameters.mean)
        deviation = math.sqrt(self.system.operator.largest_signal)
        if spacing > COARSE_MEAN * deviation:
            warnings.warn(
                f"the prior mean {hyperparameters.mean:g} leaves means in {self.system.dtype} known to {spacing:.2g} "
                f"only, {spacing / deviation:.2g} of the prior's standard deviation; "
                "use dtype=torch.float64, or subtract it from the targets",
                stacklevel=2,
            )
        self.solution: Solution | None = None
        self.variance_solves: list[VarianceSolve] = []
        self._operator = CountingOperator(self.system.operator)
        self._prepared: tuple[Prepared, int] | None = None
        self._inverse = LanczosInverse(self._operator)
        self._solve_work = 0.0
        self.weights = self._solve(hooks, initial_weights) if weights is None else self._given(weights)

    def _given(self, weights: Any) -> Tensor:
        given: Tensor = torch.as_tensor(weights).detach().to(self.system.x)
        if given.shape != (self.system.n,):
            raise ValueError(f"weights must have shape ({self.system.n},), got {tuple(given.shape)}")
        check_finite(given[:, None], "weights")
        self.system.operator.fix_engine(10.0 * self.system.n**2, 1)  # as a solve would
        return given

    def _solve(self, hooks: Iterable[Hook], initial_weights: Any) -> Tensor:
        self.solution = solution = attempt(self.system, self.solver, hooks, initial_weights)
        self._solve_work += solution.work
        if not solution.converged:
            end = f"residual {solution.residual:.2e} after {solution.epochs} epochs; {solution.stop_message}"
            warnings.warn(NotConverged(f"the mean's solve is not converged, {end}", solution), stacklevel=3)
        return solution.weights.to(self.system.x)

    @property
    def work(self) -> float:
        """The kernel entries evaluated or read so far ÷ n²: of the mean's solve, and of all predictions."""
        return self._solve_work + self._operator.work

    def prior_variance(self, x_star: Any) -> Tensor:
        """Returns the prior's variance k(x*, x*): x_star (m, d), to (m,) float64."""
        points = self._points(x_star)
        return self._prior(self._chunk_of(points, slice(0, len(points))))

    def _prior(self, chunk: Tensor) -> Tensor:
        operator = self.system.operator
        return operator.formula.diagonal(operator.scaled(chunk))

    def mean(self, x_star: Any) -> Tensor:
        """Predicts the mean μ + k(x*, X) weights: x_star (m, d), to (m,). Evaluates mn entries; no n × m array."""
        points = self._points(x_star)
        out: Tensor = self.system.x.new_empty(len(points))
        for rows in _chunks(len(points), self._chunk()):
            out[rows] = self._mean(self._chunk_of(points, rows))
        return out

    def variance(
        self,
        x_star: Any,
        method: Method = "solves",
        rank: int = PAPER_LANCZOS_RANK,
        *,
        include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> Tensor:
        """Predicts the variance of f(x*), from 0 to the prior's: x_star (m, d), to (m,).

        Args:
            method: `solves` or `lanczos`, as the class describes.
            rank: of Lanczos; at most n is used.
            include_noise: of an observation y(x*), so with σ² added.
            hooks: told about the solves, one a batch; a hook may stop one, which then counts as not converged.

        Raises:
            ValueError: test inputs of another width, NaN or infinite values (which column, how many), an unknown
                method, a rank below 1.
        """
        points = self._points(x_star)
        out: Tensor = self.system.x.new_empty(len(points))
        for rows, _, variance, _ in self._variances(points, method, rank, list(hooks)):
            out[rows] = variance
        return out + self.system.noise if include_noise else out

    def covariance(self, x_star: Any, *, include_noise: bool = False, hooks: Iterable[Hook] = ()) -> Tensor:
        """Predicts the covariance of f(x*), whose diagonal `variance` is, by the same solves: (m, d) to (m, m).

        With W ≈ K⁻¹C and R = C − KW, k(z, z) − ½((C + R)ᵀW + Wᵀ(C + R)) is above the exact covariance by RᵀK⁻¹R, in the
        order of positive semi-definite matrices. Holds (n, m) arrays; arguments as in `variance`.
        """
        points = self._points(x_star)
        out: Tensor = self.covariance_of_groups(points, len(points), hooks)[0][0]
        out.diagonal().add_(self.system.noise if include_noise else 0.0)
        return out

    def covariance_of_groups(self, x_star: Any, size: int, hooks: Iterable[Hook] = ()) -> tuple[Tensor, Tensor]:
        """Predicts the covariances within groups of `size` consecutive test points, and returns what they are made of.

        Returns:
            (m ÷ size, size, size), without noise, and the weights W ≈ K⁻¹C, (n, m).
        """
        points, hooks, self.variance_solves = self._points(x_star), list(hooks), []
        z = self._chunk_of(points, slice(0, len(points)))
        w, c = (self.system.x.new_empty(self.system.n, len(z)) for _ in range(2))
        variance = self.system.x.new_empty(len(z))
        for rows, _, found, _ in self._by_solves(points, hooks, self.variance_solves, keep=(w, c)):
            variance[rows] = found
        explained = torch.einsum("ngi,ngj->gij", *(each.reshape(self.system.n, -1, size) for each in (c, w)))
        out = -0.5 * (explained + explained.mT)
        for group, rows in zip(out, z.reshape(-1, size, z.shape[1]), strict=True):
            group += self.system.kernel(rows).to(group)
        # the sums of `variance` are in float64, and between 0 and the prior's
        out.diagonal(dim1=1, dim2=2).copy_(variance.reshape(-1, size))
        return out, w

    def solve(self, b: Tensor, hooks: Iterable[Hook] = ()) -> Tensor:
        """Solves K w = b, (n,), by the solver of the mean; one that does not converge warns."""
        s = self.system
        other = KernelSystem(
            s.x, b, s.kernel, noise=s.noise, operator=s.operator, dtype=s.dtype, device=s.device, dataset=s.dataset
        )
        solution = attempt(other, self.solver, hooks)
        self._solve_work += solution.work
        if not solution.converged:
            end = f"residual {solution.residual:.2e} after {solution.epochs} epochs; {solution.stop_message}"
            warnings.warn(NotConverged(f"a solve for gradients is not converged, {end}", solution), stacklevel=2)
        return solution.weights.to(s.x).reshape(-1)

    def variance_by_rank(self, x_star: Any, ranks: Sequence[int], *, include_noise: bool = False) -> Tensor:
        """Predicts the variance by Lanczos at several ranks for the price of the largest: (m, d) to (m, len(ranks))."""
        require(len(ranks) > 0, "ranks", ranks, "at least one rank")
        for rank in ranks:
            require_whole("rank", rank, 1)
        points = self._points(x_star)
        out: Tensor = self.system.x.new_empty(len(points), len(ranks))
        for rows in _chunks(len(points), self._chunk()):
            chunk = self._chunk_of(points, rows)
            out[rows] = self._from_explained(self._inverse.explained(chunk, ranks), chunk)
        return out + self.system.noise if include_noise else out

    def predict(
        self,
        x_star: Any,
        method: Method = "solves",
        rank: int = PAPER_LANCZOS_RANK,
        *,
        include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> Iterator[Prediction]:
        """Predicts mean and variance chunk by chunk, for test sets larger than memory; arguments as in `variance`.

        `x_star` is sliced by rows and may be anything that can be, such as a `numpy.memmap`; all of it is read once
        before any work, to check it.
        """
        points = self._points(x_star)
        added = self.system.noise if include_noise else 0.0
        variances = self._variances(points, method, rank, list(hooks))
        return (
            Prediction(rows, self._mean(chunk), variance + added, solved) for rows, chunk, variance, solved in variances
        )

    # --- inside ---------------------------------------------------------------------------------------------------

    def _mean(self, chunk: Tensor) -> Tensor:
        mean = self._operator.cross_matmul(chunk, self.weights[:, None])[:, 0]
        return (mean.double() + self.hyperparameters.mean).to(mean)

    def _variances(
        self, points: Any, method: Method, rank: int, hooks: list[Hook]
    ) -> Iterator[tuple[slice, Tensor, Tensor, VarianceSolve | None]]:
        """Rows, their inputs, their variances and how they were solved; settings are checked at once."""
        require(method in METHODS, "method", method, f"one of {', '.join(METHODS)}")
        if method == "lanczos":
            require_whole("rank", rank, 1)
            return self._by_lanczos(points, rank)
        self.variance_solves = []
        return self._by_solves(points, hooks, self.variance_solves)

    def _by_lanczos(self, points: Any, rank: int) -> Iterator[tuple[slice, Tensor, Tensor, None]]:
        for rows in _chunks(len(points), self._chunk()):
            chunk = self._chunk_of(points, rows)
            yield rows, chunk, self._from_explained(self._inverse.explained(chunk, [rank]), chunk)[:, 0], None

    def _by_solves(
        self, points: Any, hooks: list[Hook], done: list[VarianceSolve], keep: tuple[Tensor, Tensor] | None = None
    ) -> Iterator[tuple[slice, Tensor, Tensor, VarianceSolve]]:
        """As `_variances`; W and C + R of all points into `keep`, two (n, m) arrays."""
        warned = False
        batches = list(_chunks(len(points), self._batch()))
        widest = max((rows.stop - rows.start for rows in batches), default=0)
        for rows in batches:
            chunk = self._chunk_of(points, rows)
            w, c_and_r, solved = self._solve_batch(chunk, rows, hooks, self._prepared_for(widest))
            variance = self._variance_of(w, c_and_r, chunk)
            if not warned and (warning := self._warning(variance, solved, chunk)):
                warned = True
                others = ". Later batches do not warn again; `variance_solves` lists them all"
                warnings.warn(f"{warning}{others if len(batches) > 1 else ''}", stacklevel=3)
            done.append(solved)
            if keep:
                keep[0][:, rows], keep[1][:, rows] = w, c_and_r
            yield rows, chunk, variance, solved

    def _warning(self, variance: Tensor, solved: VarianceSolve, chunk: Tensor) -> str | None:
        """What is to be said of a batch, if anything."""
        where = f"rows {solved.rows.start} to {solved.rows.stop}"
        if not solved.converged:
            return (
                f"the solve for the variances of {where} is not converged, residual {solved.residual:.2e} after "
                f"{solved.epochs} epochs: they are too large, by at most {float(solved.excess.max()):.2e} "
                f"(k(x*, x*) is up to {float(self._prior(chunk).max()):.2e}); {solved.stop_message}"
            )
        ratio = self._excess_ratio(variance, solved.excess)
        if not (ratio > SMALL_EXCESS).any():
            return None
        float64 = "" if self.system.dtype is torch.float64 else "float64, "
        return (
            f"the variances of {where} may be too large: at {int((ratio > SMALL_EXCESS).sum())} of {len(ratio)} points "
            f"the bound ‖r‖²/σ² on the excess is over {SMALL_EXCESS:.0%} of variance + σ², at worst {ratio.max():.2g} "
            f"times it (residual {solved.residual:.1e}); take {float64}a solver with a smaller tol, or "
            "variance_solver=apviz.Cholesky()"
        )

    def _excess_ratio(self, variance: Tensor, excess: Tensor) -> Tensor:
        """(c,) the bound on the excess ÷ (variance + σ²), float64 on the CPU."""
        return excess / (variance.double().cpu() + self.system.noise)

    def _solve_batch(
        self, chunk: Tensor, rows: slice, hooks: list[Hook], prepared: Prepared
    ) -> tuple[Tensor, Tensor, VarianceSolve]:
        """W and C + R of the batch, (n, c) each, and how its solve ended."""
        s = self.system
        c = self._operator.cross_columns(chunk)
        batch = KernelSystem(
            s.x, c, s.kernel, noise=s.noise, operator=s.operator, dtype=s.dtype, device=s.device, dataset=s.dataset
        )
        solution = attempt(batch, self.variance_solver, hooks, prepared=prepared)
        w = solution.weights.to(c)
        solutions, r = [solution], c - self._operator.matmul(w)
        while self._may_tighten and solution.converged and len(solutions) <= TIGHTENINGS:
            ratio = float(self._excess_ratio(self._variance_of(w, c + r, chunk), self._excess_of(r)).max())
            if ratio <= SMALL_EXCESS:
                break
            tol = solution.residual * max(0.5 * math.sqrt(SMALL_EXCESS / ratio), TIGHTEN_BY)
            left = (1 + TIGHTENING_WORK) * solutions[0].work - sum(each.work for each in solutions)
            tighter = to_tolerance(self.variance_solver, tol)
            solution = attempt(batch, tighter, [*hooks, _WorkLimit(left)], w, prepared=prepared)
            solutions.append(solution)
            found = solution.weights.to(c)
            fresh = c - self._operator.matmul(found)
            better = torch.linalg.vector_norm(fresh, dim=0) < torch.linalg.vector_norm(r, dim=0)
            w, r = torch.where(better, found, w), torch.where(better, fresh, r)
        self._solve_work += sum(each.work for each in solutions)
        first = solutions[0]
        return w, c + r, VarianceSolve(
            rows, first.stop_reason, first.stop_message, min(each.residual for each in solutions),
            sum(each.epochs for each in solutions), sum(each.work for each in solutions),
            sum(each.seconds for each in solutions), self._excess_of(r),
        )  # fmt: skip

    def _prepared_for(self, columns: int) -> Prepared:
        """The set-up of the variance solver, made once for all batches of so many points or fewer."""
        if self._prepared is None or self._prepared[1] < columns:
            self._prepared = self.variance_solver.prepare(self.system.operator, columns), columns
        return self._prepared[0]

    def _variance_of(self, w: Tensor, c_and_r: Tensor, chunk: Tensor) -> Tensor:
        """k(x*, x*) − cᵀw − rᵀw, (c,), for W and C + R: (n, c); summed in float64."""
        return self._from_explained(torch.sum(c_and_r * w, 0, dtype=torch.float64), chunk)

    def _excess_of(self, r: Tensor) -> Tensor:
        """‖r‖²/σ² per column; in units in which no square underflows or overflows."""
        unit = r.abs().amax(0).double().clamp_min(torch.finfo(torch.float64).tiny)
        norms: Tensor = torch.linalg.vector_norm(r.double() / unit, dim=0) * (unit / math.sqrt(self.system.noise))
        return norms.square().cpu()

    def _from_explained(self, explained: Tensor, chunk: Tensor) -> Tensor:
        """The variance from what the data explain, between 0, below which rounding may fall, and the prior's.

        explained: (c,) or (c, ranks).
        """
        prior = self._prior(chunk).reshape(-1, *[1] * (explained.ndim - 1))
        return (prior - explained).clamp_(min=0.0).minimum(prior).to(self.system.dtype)

    def _chunk(self) -> int:
        """Test points at a time in products; a quarter of n, for the dense operator forms k(x*, X) beside its K."""
        return min(CHUNK, max(1, self.system.n // 4)) if self.batch_size == "auto" else self.batch_size

    def _batch(self) -> int:
        """Right-hand sides of a solve for variances, from the free memory."""
        if self.batch_size != "auto":
            return self.batch_size
        n, item = self.system.n, self.system.x.element_size()
        history = getattr(self.variance_solver, "history", 0)
        arrays = BATCH_ARRAYS + (history if isinstance(history, int) else 0)
        # a history that is chosen holds at most half as many columns as a block solves rows, whatever the batch
        chosen = n * solved_rows(n, self.system.d) / 2
        numbers = BATCH_SHARE * free_memory(self.system.device) / item - chosen
        return max(1, min(MAX_BATCH, int(numbers / (n * arrays))))

    def _points(self, x_star: Any) -> Any:
        """x_star, checked; something whose rows can be sliced, not moved or copied."""
        if not hasattr(x_star, "shape"):
            x_star = np.asarray(x_star)  # in float64, as torch would not
        d, shape = self.system.d, tuple(x_star.shape)
        if len(shape) not in (1, 2) or (shape[1] if len(shape) == 2 else 1) != d:
            raise ValueError(f"x_star must have shape (m, {d}) as x has {d} columns, got {shape}")
        for rows in _chunks(shape[0], CHUNK):
            chunk = self._chunk_of(x_star, rows)
            where = "x_star" if shape[0] <= CHUNK else f"x_star[{rows.start}:{rows.stop}]"
            check_finite(chunk, where)
            span = float(self.system.operator.scaled(chunk).abs().max())
            if not span < MAX_SPAN:
                raise ValueError(
                    f"{where} spans {span:.1e} lengthscales, more than {MAX_SPAN:.0e}: squared distances would "
                    "overflow; there the posterior is the prior"
                )
        return x_star

    def _chunk_of(self, points: Any, rows: slice) -> Tensor:
        """points[rows] as (c, d) on the system's device, in the dtype they are given in: it may be far from zero."""
        chunk = points[rows]
        chunk = chunk.detach() if isinstance(chunk, Tensor) else torch.tensor(np.asarray(chunk))
        chunk = chunk.to(self.system.device, chunk.dtype if chunk.dtype in DTYPES else torch.float64)
        return chunk if chunk.ndim == 2 else chunk[:, None]


class _WorkLimit(Hook):
    """Stops a solve at the end of the epoch in which its work passes `limit`."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def on_start(self, run: Run) -> None:
        self.run = run

    def on_epoch(self, epoch: Epoch) -> None:
        if epoch.number and epoch.work > self.limit:
            self.run.request_stop("going on for smaller variances has taken ten times the work of the first solve")


def to_tolerance(solver: Solver, tol: float) -> Solver:
    """Returns the solver with a tolerance of at most `tol`, or as it is where it has none."""
    given = getattr(solver, "tol", 0.0)
    return dataclasses.replace(solver, tol=tol) if given > tol else solver  # type: ignore[call-arg]


def _chunks(m: int, size: int) -> Iterator[slice]:
    """The rows [0, m) in as few chunks of at most `size` as there can be, of nearly one size."""
    count = -(-m // size)
    for i in range(count):
        yield slice(i * m // count, (i + 1) * m // count)
