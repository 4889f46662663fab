"""Prediction in chunks of test points: the posterior mean by any solver, its variance by solves or by Lanczos."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from apviz.gp.prediction.accuracy import (
    ACCURACY,
    FactorKeeper,
    mean_error,
    mean_tolerance,
    require_accuracy,
    warning_of,
    ways,
)
from apviz.gp.prediction.accuracy_sample import (
    SAMPLE,
    SAMPLE_SECONDS,
    SAMPLE_SHARE,
    corrected,
    residual_of,
    sampled_errors,
)
from apviz.gp.prediction.lanczos import check_ranks
from apviz.gp.prediction.mean_products import MeanProducts, operator_for
from apviz.gp.prediction.pathwise import FEATURES, PosteriorSamples, PriorBy
from apviz.gp.prediction.points import Points
from apviz.gp.prediction.prediction_accuracy import MeanResidual, PointErrors, PredictionAccuracy, how_known
from apviz.gp.prediction.variance_methods import Asked, Known, Method, VarianceMethods
from apviz.gp.prediction.variances import VARIANCE_TOL, Batch, Variances, VarianceSolve, to_tolerance
from apviz.hyperparameters import Hyperparameters
from apviz.memory import explained
from apviz.operators import CountingOperator, Operator
from apviz.operators.fused import FusedOperator, FusedTF32Operator
from apviz.settings import require, require_kind, require_number, require_seed, require_whole
from apviz.solvers import Hook, NotConverged, Prepared, Solution, Solver, StopReason, attempt, checked_hooks
from apviz.solvers.cholesky import Factored
from apviz.system import KernelSystem, check_finite, dtype_of, tensor_of

#: Lanczos rank of the paper's variances (section 5.1)
PAPER_LANCZOS_RANK = 1000

# engines that work in float32; naming one selects this dtype
SINGLE_PRECISION = (FusedOperator.name, FusedTF32Operator.name)

#: advice when memory is short
FEWER_AT_ONCE = "predict fewer test points at once, or give a smaller batch_size"


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions for one chunk of test points.

    Args:
        rows: rows of the test inputs.
        mean, variance: (c,) float64, on the system's device.
        solve: record of the solve for this variance; None for Lanczos.
    """

    rows: slice
    mean: Tensor
    variance: Tensor
    solve: VarianceSolve | None


class Posterior:
    """The posterior of f given y at fixed hyperparameters (paper, section 2).

    With K = k(X, X) + σ²I and c = k(X, x*), the mean is μ + cᵀK⁻¹(y − μ) and the variance k(x*, x*) − cᵀK⁻¹c. The
    constructor solves for the mean once, unless its weights are given. Weights and predictions are always float64,
    whatever the dtype of the solve.

    **The mean** is off by at most ‖y − μ − KW‖/σ posterior standard deviations of f, at any input (`accuracy.py`
    has the proof). Without a given solver, the tolerance keeps this bound below `accuracy`, and cost decides the
    solver: a Cholesky factor in float64 for a few thousand rows, `Automatic` for more. If that fails and memory allows,
    it falls back to the factor. If the bound stays above `accuracy`, a warning gives its value. Errors are usually far
    below the bound; `prediction_accuracy` says what they are.

    **Variance by solves**: W ≈ K⁻¹C for a batch of test points. With R = C − KW recomputed, the variance is
    k(x*, x*) − cᵀw − rᵀw, with an error of second order in the residual. A solve that stops early makes the variance
    too large, never too small, up to rounding; the excess is at most ‖r‖²/σ². A Cholesky factor of K in float64 needs
    no solve. Without a given `variance_solver`, the bound should be at most 1% of variance + σ² at every point, and the
    standard deviation of f at most a tenth too large. Otherwise the solve resumes with smaller tolerances, for at most
    ten times the work, and warns if the bound stays large.

    **Variance by Lanczos** (`LanczosInverse`), the paper's method, is cheaper for many test points. It over-estimates
    the variance by an unknown amount that falls with the rank. It costs rank + 1 products with K once and holds n·rank
    numbers.

    **Variance given near rows** (`neighbour_variances.py`) conditions on up to 2,048 rows near a group of test
    points instead of on all, or up to 8,192 if n is far larger: for thousands of points, far cheaper than solves. It is
    never too small; where it has not settled, apviz solves. Solves for a random sample of up to 64 points show by how
    much standard deviations are too large; above 5% it warns.

    Args:
        x: (n, d) training inputs.
        y: (n,) training targets.
        hyperparameters: kernel, lengthscales, outputscale, noise and mean.
        noises: (n,) σ² of each training row; None: that of the hyperparameters, which new observations always have.
        solver: solver of the mean, used as given. None: apviz chooses one, with the tolerance that the mean needs.
        hooks: hooks of the solve for the mean, also of a second solve if the first fails.
        variance_solver: solver of variances and covariances, used as given. None: `solver`, with a tolerance of at most
            1e-4, and smaller ones if variances are too large.
        weights: (n,) K⁻¹(y − μ) if already known; then nothing is solved.
        initial_weights: (n,) weights to start the solve from.
        accuracy: largest error of any mean, in posterior standard deviations of f: the solve for the mean gets a
            tolerance at which none is larger, if it is not below that already. None: 0.05 if apviz chooses the solver;
            a given one has its own tolerance, and a warning says if the bound exceeds 0.05.
        batch_size: number of test points in a batch; `auto`: from the free memory, at most 1,024 in a solve and 8,192
            otherwise. A solve holds a dozen n × batch arrays, and one for each past update of a `Subspace`.
        dtype: dtype of the solves, as in `KernelSystem`; `auto`: float32 if its rounding is far below the noise and n
            is large, else float64.
        device, operator, dataset: as in `KernelSystem`. KeOps compiles again for every batch width and is slow for
            many columns: use the tiled engine for variances.

    Attributes:
        system: K and y − μ.
        solution: result of the solve for the mean; None if the weights were given. If it did not converge, a warning
            was issued.
        weights: (n,) float64.
        mean_error: bound on the error of every predicted mean, in posterior standard deviations of f; NaN if the
            weights were given.
        operator: the system's operator, which counts the kernel entries of predictions.
        double: the same operator in float64, used for predictions.
        variance_solves: records of the solves of the last call for variances, one for each finished batch. Their
            `errors` are those of the predictions.

    Raises:
        TypeError, ValueError: as in `KernelSystem` and `solve`, or targets or weights have another shape or are not
            finite.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> h = apviz.Hyperparameters("matern52", lengthscale=(0.2,), outputscale=1.0, noise=1e-4)
        >>> posterior = apviz.Posterior(x, torch.sin(6 * x), h, device="cpu")
        >>> near_and_far = torch.tensor([[0.5], [100.0]])
        >>> mean, variance = posterior.mean(near_and_far), posterior.variance(near_and_far)
        >>> mean.round(decimals=4) + 0.0, variance.round(decimals=2)  # far away the prior's
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
        noises: Any = None,
        variance_solver: Solver | None = None,
        weights: Any = None,
        initial_weights: Any = None,
        accuracy: float | None = None,
        batch_size: int | Literal["auto"] = "auto",
        dtype: torch.dtype | Literal["auto"] | None = None,
        device: str | torch.device = "auto",
        operator: str | Operator = "auto",
        dataset: str = "",
    ) -> None:
        _check_settings(hyperparameters, {"solver": solver, "variance_solver": variance_solver}, accuracy, batch_size)
        require(
            weights is None or initial_weights is None,
            "weights and initial_weights", "both", "one or the other: with weights nothing is solved",
        )  # fmt: skip
        x = tensor_of(x, "x")
        y = _targets_of(y, x)
        self.hyperparameters, self._accuracy_asked = hyperparameters, accuracy
        self.accuracy_wanted = ACCURACY if accuracy is None else float(accuracy)
        self._asked, self._variances_by, self.batch_size = solver, variance_solver, batch_size
        self._solve_work, self.mean_error = 0.0, math.nan
        self.solution: Solution | None = None
        self.variance_solves: list[VarianceSolve] = []
        self._known = Known()  # of the last predictions

        def system_in(dtype: torch.dtype) -> KernelSystem:
            return KernelSystem(
                x, y.double() - float(hyperparameters.mean), hyperparameters.build_kernel(),
                noise=hyperparameters.noise if noises is None else noises,
                operator=operator, dtype=dtype, device=device, dataset=dataset,
            )  # fmt: skip

        is_free = dtype == "auto" and isinstance(operator, str) and operator not in SINGLE_PRECISION
        if dtype is None or isinstance(dtype, str):
            of_engine = torch.float32 if operator in SINGLE_PRECISION else dtype_of(x, y)
            dtype = torch.float64 if is_free else of_engine
        self.system = system_in(dtype)
        for way in ways(self.system, solver, is_free, self.accuracy_wanted):
            if way[0] is not self.system.dtype:
                self.system = system_in(way[0])
            self._set_up(way[1])
            if weights is not None:
                self.weights = self._given(weights)
                return
            self.weights = self._solve(hooks, initial_weights)
            if self._is_done(solver):
                break
            initial_weights = self.weights if bool(torch.isfinite(self.weights).all()) else None
        self._warn_of_mean()

    def _set_up(self, solver: Solver) -> None:
        """Set up predictions for a new `self.system` and the solver of its mean."""
        self.solver = solver
        self.variance_solver = to_tolerance(solver, VARIANCE_TOL) if self._variances_by is None else self._variances_by
        self.operator = CountingOperator(self.system.operator)
        self.double = self.operator if self.system.dtype is torch.float64 else self.operator.certifying()
        self._by_batches = Variances(
            self.system, self.double, self.variance_solver, self._variances_by is None, self.batch_size
        )
        self._means = MeanProducts(self.operator, self.double)
        self._methods = VarianceMethods(self.operator, self.double, self._by_batches, self.batch_size)
        # the solver's set-up, in a list that posteriors from `with_targets` share
        self._of_mean: list[Prepared] = []
        self._measured: MeanResidual | None = None

    def _is_done(self, given: Solver | None) -> bool:
        """Return whether the solve for the mean is good enough, or another attempt would end the same way."""
        assert self.solution is not None  # just solved
        reason = self.solution.stop_reason
        capped = given is not None and reason is StopReason.MAX_EPOCHS
        is_over = self.solution.converged or capped or reason is StopReason.STOPPED
        return is_over or self.mean_error <= self.accuracy_wanted

    def with_targets(self, y: Any, hooks: Iterable[Hook] = (), initial_weights: Any = None) -> Posterior:
        """Return the posterior for other targets y: (n,) at the same inputs.

        The set-up for variances is shared. The set-up for the mean is built once for all such posteriors.
        """
        y = tensor_of(y, "y")
        if y.shape != (self.system.n,):
            raise ValueError(f"y must have shape ({self.system.n},), got {tuple(y.shape)}")
        if not self._of_mean:
            self._of_mean.append(self.solver.prepare(self.system.operator))
        made = copy.copy(self)
        made.system = self.system.with_right_hand_sides(y.double() - self.hyperparameters.mean)
        made.variance_solves, made._known, made._solve_work, made._measured = [], Known(), 0.0, None
        made.weights = made._solve(hooks, initial_weights)
        made._warn_of_mean()
        return made

    def _given(self, weights: Any) -> Tensor:
        given: Tensor = tensor_of(weights, "weights").to(self.system.device, torch.float64)
        if given.shape != (self.system.n,):
            raise ValueError(f"weights must have shape ({self.system.n},), got {tuple(given.shape)}")
        check_finite(given[:, None], "weights")
        self.system.operator.fix_engine(10.0 * self.system.n**2, 1)  # as a solve would
        return given

    def _solve(self, hooks: Iterable[Hook], initial_weights: Any) -> Tensor:
        solver = self.solver
        if self._asked is None or self._accuracy_asked is not None:
            solver = to_tolerance(solver, mean_tolerance(self.system, self.accuracy_wanted))
        keeper = FactorKeeper()
        self.solution = solution = attempt(
            self.system, solver, [*checked_hooks(hooks), keeper], initial_weights,
            prepared=self._of_mean[0] if self._of_mean else None,
        )  # fmt: skip
        if keeper.factored is not None and not self._of_mean:
            self._of_mean.append(keeper.factored)
            if self._variances_by is None:
                self._by_batches.prepared = keeper.factored, math.inf
        self._solve_work += solution.work
        self.mean_error = mean_error(self.system, solution, self.double)
        return solution.weights.to(self.system.device, torch.float64)

    def _warn_of_mean(self) -> None:
        assert self.solution is not None  # just solved
        if (warning := warning_of(self.system, self.solution, self.mean_error, self.accuracy_wanted)) is not None:
            warnings.warn(warning, stacklevel=3)

    def variance_method(self, method: Method, points: int) -> Method:
        """Return the method of variances itself, or the one that `auto` takes for a number of test points."""
        return self._methods.chosen(method, points)

    def variance_setup(self, columns: int) -> Prepared:
        """Return the set-up of the solver of variances for at most `columns` right-hand sides, built once."""
        return self._by_batches.prepared_for(columns)

    @property
    def has_factor(self) -> bool:
        """Whether the solve for the mean left a Cholesky factor of K, so that other right-hand sides cost little."""
        return bool(self._of_mean) and isinstance(self._of_mean[0], Factored)

    @property
    def work(self) -> float:
        """Kernel entries evaluated or read so far ÷ n², by the solve for the mean and all predictions."""
        return self._solve_work + self._by_batches.work + self.operator.work

    def mean(self, x_star: Any) -> Tensor:
        """Predict the mean μ + k(x*, X) W: x_star (m, d), to (m,).

        Evaluates mn entries without an n × m array; or, for many points and rows of up to three inputs, a Fourier
        series that was compared with entries at some of the points (`apviz.gp.prediction.mean_products`).
        """
        self._known = Known()
        with explained("a prediction", FEWER_AT_ONCE):
            return self._mean(x_star)

    def _mean(self, x_star: Any) -> Tensor:
        found = [data for _, _, data in self.products(x_star, self.weights)]
        return torch.cat([self.weights[:0], *found]) + self.hyperparameters.mean

    def products(self, x_star: Any, weights: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Evaluate k(x*, X) weights, for weights (n,) or (n, p) float64: rows, inputs and values of each chunk.

        Test inputs (m, d) are checked at once.
        """
        points, usual = Points(x_star, self.system), self._methods.chunk()
        size = self._means.chunk(len(points), usual) if self.batch_size == "auto" else usual
        return ((rows, chunk, self._means.product(chunk, weights)) for rows, chunk in points.chunks(size))

    def variance(
        self,
        x_star: Any,
        method: Method = "solves",
        rank: int = PAPER_LANCZOS_RANK,
        *,
        include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> Tensor:
        """Predict the variance of f(x*), between 0 and the prior variance: x_star (m, d), to (m,).

        Args:
            method: `solves`, `lanczos` or `neighbours`, as described in the class; `auto`: `neighbours` for 256 test
                points or more with over 4,096 rows and no Cholesky factor, else `solves`.
            rank: rank of Lanczos; at most n is used.
            include_noise: add σ²: predict the variance of an observation y(x*). Near rows then suffice where the noise
                hides what further rows would change.
            hooks: hooks of the solves, one solve a batch. A solve that a hook stops counts as not converged.

        Raises:
            ValueError: x_star has another width, or NaN or infinite values (the message says where), the method is
                unknown, or the rank is below 1.
        """
        with explained("a prediction", FEWER_AT_ONCE):
            points = Points(x_star, self.system)
            out: Tensor = self.weights.new_empty(len(points))
            added = self.hyperparameters.noise if include_noise else 0.0
            for batch in self._variances(points, method, hooks, rank, noise=added):
                out[batch.rows] = batch.variance + added
            return out

    def mean_and_variance(
        self,
        x_star: Any,
        method: Method = "solves",
        rank: int = PAPER_LANCZOS_RANK,
        *,
        include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> tuple[Tensor, Tensor]:
        """Predict `mean` and `variance`, (m,) each, which share kernel entries where they can. Arguments as there."""
        with explained("a prediction", FEWER_AT_ONCE):
            points = Points(x_star, self.system)
            means, variances = (self.weights.new_empty(len(points)) for _ in range(2))
            done, added = 0, self.hyperparameters.noise if include_noise else 0.0
            for batch in self._variances(points, method, hooks, rank, noise=added):
                variances[batch.rows] = batch.variance + added
                if batch.columns is not None:
                    means[batch.rows] = self._mean_of(batch)
                    done += len(batch.points)
            if done < len(points):
                means = self._mean(x_star)
            return means, variances

    def covariance(self, x_star: Any, *, include_noise: bool = False, hooks: Iterable[Hook] = ()) -> Tensor:
        """Predict the covariance of f(x*): (m, d) to (m, m). It uses the solves of `variance`, which is its diagonal.

        With W ≈ K⁻¹C and R = C − KW, k(z, z) − ½((C + R)ᵀW + Wᵀ(C + R)) exceeds the exact covariance by RᵀK⁻¹R, a
        positive semi-definite matrix. Holds (n, m) arrays. Arguments as in `variance`.
        """
        with explained("a covariance", "use fewer test points at once: it holds (n, m) arrays"):
            points = Points(x_star, self.system)
            out: Tensor = self._covariances(points, len(points), hooks)[0][0]
        out.diagonal().add_(self.hyperparameters.noise if include_noise else 0.0)
        return out

    def covariance_of_groups(self, x_star: Any, size: int, hooks: Iterable[Hook] = ()) -> tuple[Tensor, Tensor]:
        """Predict the covariances within groups of `size` consecutive test points.

        Returns:
            The covariances without noise, (m ÷ size, size, size), and the weights W ≈ K⁻¹C, (n, m).
        """
        return self._covariances(Points(x_star, self.system), size, hooks)

    def _covariances(self, points: Points, size: int, hooks: Iterable[Hook]) -> tuple[Tensor, Tensor]:
        z = points[:]
        w, c = (self.weights.new_empty(self.system.n, len(z)) for _ in range(2))
        variance = self.weights.new_empty(len(z))
        for batch in self._variances(points, "solves", hooks, keep=(w, c)):
            variance[batch.rows] = batch.variance
        explained = torch.einsum("ngi,ngj->gij", *(each.reshape(self.system.n, -1, size) for each in (c, w)))
        out = -0.5 * (explained + explained.mT)
        for group, rows in enumerate(z.reshape(-1, size, z.shape[1])):
            out[group] += self.system.kernel(rows.to(out))
        # `variance` is summed in float64 and lies between 0 and the prior variance
        out.diagonal(dim1=1, dim2=2).copy_(variance.reshape(-1, size))
        return out, w

    def solve(self, b: Tensor, hooks: Iterable[Hook] = ()) -> Tensor:
        """Solve K w = b, (n,), by the solver of the mean, or K W = B, (n, p), by that of variances; may warn."""
        solution = self.attempt(b, self.solver if b.ndim == 1 else self.variance_solver, hooks)
        if not solution.converged:
            end = f"(residual {solution.residual:.2e} after {solution.epochs} epochs): it {solution.stop_message}"
            warnings.warn(NotConverged(f"a solve for gradients did not converge {end}", solution), stacklevel=3)
        return solution.weights.to(self.system.device, torch.float64).reshape(b.shape)

    def inverse_diagonal(self, rows: Tensor, hooks: Iterable[Hook] = ()) -> Tensor:
        """Return the diagonal entries of K⁻¹ in some rows, (m,) indices to (m,), from near rows or by solves.

        Both make them too small, if not exact: never too large, up to rounding.
        """
        return self._methods.inverse_diagonal(rows, checked_hooks(hooks))

    def attempt(
        self, b: Tensor, solver: Solver, hooks: Iterable[Hook] = (), prepared: Prepared | None = None
    ) -> Solution:
        """Solve K W = B, (n,) or (n, p), by any solver, without a warning if it does not converge."""
        if prepared is None and self._of_mean and solver is self.solver:
            prepared = self._of_mean[0]
        solution = attempt(self.system.with_right_hand_sides(b), solver, hooks, prepared=prepared)
        self._solve_work += solution.work
        return solution

    def variance_by_rank(self, x_star: Any, ranks: Sequence[int], *, include_noise: bool = False) -> Tensor:
        """Predict the variance by Lanczos at several ranks at the cost of the largest: (m, d) to (m, len(ranks))."""
        check_ranks(ranks)
        with explained("a prediction", FEWER_AT_ONCE):
            points = Points(x_star, self.system)
            out: Tensor = self.weights.new_empty(len(points), len(ranks))
            for rows, chunk in points.chunks(self._methods.chunk()):
                out[rows] = self._methods.by_ranks(chunk, ranks)
        return out + self.hyperparameters.noise if include_noise else out

    def predict(
        self,
        x_star: Any,
        method: Method = "solves",
        rank: int = PAPER_LANCZOS_RANK,
        *,
        include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> Iterator[Prediction]:
        """Predict mean and variance chunk by chunk, for test sets larger than memory. Arguments as in `variance`.

        `x_star` may be any object that can be sliced by rows, such as a `numpy.memmap`. All of it is read once to
        check it before any work.
        """
        added = self.hyperparameters.noise if include_noise else 0.0
        batches = self._variances(Points(x_star, self.system), method, hooks, rank, noise=added)
        return (Prediction(each.rows, self._mean_of(each), each.variance + added, each.solve) for each in batches)

    def accuracy(
        self, x_star: Any, count: int | None = None, *, seed: int = 0, hooks: Iterable[Hook] = ()
    ) -> PredictionAccuracy:
        """Measure how far predictions at x_star: (m, d) are from the exact posterior, on a random sample of its rows.

        Solves for the variances of the sample, and first for a correction of the mean if its weights are poor. Neither
        weights nor predictions change.

        Args:
            count: number of rows to sample; None: 64, or as many as take half the seconds of the solve for the mean or
                one second, at least 8.
            seed: of the sample.
            hooks: hooks of the solves.

        Raises:
            ValueError: x_star as in `variance`, no rows, a count below 1, or an invalid seed.
        """
        points, hooks = Points(x_star, self.system), checked_hooks(hooks)
        require(len(points) > 0, "x_star", "no rows", "at least one test point")
        if count is not None:
            require_whole("count", count, 1)
        require_seed(seed)
        order = torch.randperm(len(points), generator=Generator().manual_seed(seed))[: count or SAMPLE].numpy()
        seconds = math.inf
        if count is None and self.solution is not None:
            seconds = max(SAMPLE_SECONDS, SAMPLE_SHARE * self.solution.seconds)
        with explained("an accuracy", FEWER_AT_ONCE):
            exact, found = self._reference(), self._mean_residual()
            residual = corrected(found, self.system, self._residual_operator, self.weights, exact.solver, hooks)

            def own(chunk: Tensor, rows: slice, _: PointErrors) -> Tensor:
                return self._by_batches.errors(chunk, rows, hooks, residual).predicted_sd

            is_own = exact is self._by_batches
            errors = sampled_errors(points, order, residual, None if is_own else own, exact, seconds, hooks)
            self._means.measure(points[order], self.weights, len(points))
        return self._accuracy(errors, len(points))

    @property
    def prediction_accuracy(self) -> PredictionAccuracy:
        """Accuracy of the last predictions: at each point if their variances were solved for, else the proven bound."""
        return self._accuracy(*self._known.errors, self._known.noise)

    def samples(
        self, count: int, seed: int = 0, *, prior: PriorBy = "auto", features: int = FEATURES, around: Any = None,
        hooks: Iterable[Hook] = (),
    ) -> PosteriorSamples:  # fmt: skip
        """Draw functions from the posterior of f by one solve. Evaluating them needs no further solve.

        Args:
            count: number of functions.
            seed: the same seed gives the same functions.
            prior: how samples of the prior are drawn: `features`, by random features, whose covariance has an error;
                `series`, by a Fourier series, for the kernels and inputs of the Fourier operator, with an error of at
                most 1e-3 of the prior's variance, in a box that is a tenth wider than that of the training inputs;
                `auto`: the latter for 30,000 rows and more, where it is possible.
            features: number of cosines and sines for each term of the kernel, for `features`.
            around: (m, d) points that the box of the series must contain too.
            hooks: hooks of the solve.

        Returns:
            A callable that maps test inputs (m, d) to values (count, m).

        Raises:
            ValueError: a number is out of range, or a part of the kernel has no known spectrum.

        Examples:
            >>> import torch, apviz
            >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
            >>> h = apviz.Hyperparameters("matern52", lengthscale=(0.2,), outputscale=1.0, noise=1e-4)
            >>> samples = apviz.Posterior(x, torch.sin(6 * x), h, device="cpu").samples(64)
            >>> values = samples(torch.tensor([[0.5], [100.0]]))
            >>> values.shape, values.std(1).shape, bool(values[:, 0].std() < 0.01)
            (torch.Size([64, 2]), torch.Size([64]), True)
        """
        found = PosteriorSamples(
            self, count, seed, features, prior=prior, around=None if around is None else Points(around, self.system)[:],
            hooks=hooks, may_tighten=self._by_batches.may_tighten,
        )  # fmt: skip
        found.warn(stacklevel=3)
        return found

    def chunks(self, x_star: Any) -> Iterator[tuple[slice, Tensor]]:
        """Check test inputs (m, d), and return them chunk by chunk with their rows, on the system's device."""
        return Points(x_star, self.system).chunks(self._methods.chunk())

    # --- inside ---------------------------------------------------------------------------------------------------

    def _mean_residual(self) -> MeanResidual:
        if self._measured is None:
            self._measured = residual_of(self.system, self._residual_operator, self.weights)
        return self._measured

    @cached_property
    def _residual_operator(self) -> CountingOperator:
        return operator_for(self.operator, self.solution)

    def _accuracy(self, errors: list[PointErrors], points: int, noise: float = 0.0) -> PredictionAccuracy:
        how = how_known(self.solution)
        return PredictionAccuracy.of(errors, points, self.mean_error, how, self._means.error, noise)

    def _reference(self) -> Variances:
        """Return variances by the solver that apviz chooses, from which the errors of a given one are known."""
        if self._asked is None and self._variances_by is None:
            return self._by_batches
        solver = next(ways(self.system, None, False, self.accuracy_wanted))[1]
        return Variances(self.system, self.double, to_tolerance(solver, VARIANCE_TOL), True, self.batch_size)

    def _mean_of(self, batch: Batch) -> Tensor:
        """Return the means of a batch of variances, without evaluating k(X, x*) again if the batch has it."""
        columns, mean = batch.columns, self.hyperparameters.mean
        if columns is None:
            return self._means.product(batch.points, self.weights) + mean
        return columns.T @ self.weights + mean

    def _variances(
        self,
        points: Points,
        method: Method,
        hooks: Iterable[Hook],
        rank: int = 1,
        keep: Sequence[Tensor] | None = None,
        *,
        noise: float = 0.0,
    ) -> Iterator[Batch]:
        """Return an iterator of batches of variances of f; `noise` is what predictions add. Checks immediately."""
        self._known = Known(noise=noise)
        self.variance_solves = self._known.solves
        seconds = 0.0 if self.solution is None else self.solution.seconds
        asked = Asked(points, checked_hooks(hooks), self._mean_residual, self._known, seconds, rank, keep)
        return self._methods.batches(method, asked)


def _targets_of(given: Any, x: Tensor) -> Tensor:
    y: Tensor = tensor_of(given, "y")
    if y.ndim != 1 or (x.ndim and len(y) != len(x)):
        raise ValueError(f"y must have shape (n,), one target for each row of x, got {tuple(y.shape)}")
    check_finite(y[:, None], "y")
    return y


def _check_settings(
    hyperparameters: Any, solvers: Mapping[str, Any], accuracy: float | None, batch_size: int | Literal["auto"]
) -> None:
    """Check the settings of a posterior."""
    if not isinstance(hyperparameters, Hyperparameters):
        raise TypeError(f"hyperparameters must be apviz Hyperparameters, got {type(hyperparameters).__name__}")
    require_number("the mean of hyperparameters", hyperparameters.mean, -math.inf, "a finite number")
    require_accuracy(accuracy)
    if batch_size != "auto":
        require_whole("batch_size", batch_size, 1)
    for name, given in solvers.items():
        if given is not None:
            require_kind(name, given, Solver, "a solver, such as apviz.Automatic(), or None")
