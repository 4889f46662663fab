"""Prediction at test points: the posterior mean by any solver, its variance by solves or by Lanczos."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from apviz.gp.prediction.accuracy_sample import drawn, errors_of
from apviz.gp.prediction.lanczos import PAPER_LANCZOS_RANK, check_ranks
from apviz.gp.prediction.mean_products import MeanProducts
from apviz.gp.prediction.mean_solve import MeanSolve
from apviz.gp.prediction.mean_system import MeanSystem, check_settings
from apviz.gp.prediction.pathwise import FEATURES, PosteriorSamples, PriorBy
from apviz.gp.prediction.points import FEWER_AT_ONCE, Points
from apviz.gp.prediction.prediction_accuracy import PointErrors, PredictionAccuracy, how_known
from apviz.gp.prediction.variance_methods import Asked, Known, Method, VarianceMethods
from apviz.gp.prediction.variances import VarianceSolve
from apviz.hyperparameters import Hyperparameters
from apviz.memory import explained
from apviz.operators import Operator
from apviz.settings import require
from apviz.solvers import Hook, NotConverged, Prepared, Solution, Solver, checked_hooks


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
        check_settings(hyperparameters, {"solver": solver, "variance_solver": variance_solver}, accuracy, batch_size)
        require(
            weights is None or initial_weights is None,
            "weights and initial_weights", "both", "one or the other: with weights nothing is solved",
        )  # fmt: skip
        systems = MeanSystem(
            x, y, hyperparameters, noises, dtype=dtype, device=device, operator=operator, dataset=dataset
        )
        mean = MeanSolve(solver, accuracy)
        if weights is None:
            mean.run(systems, hooks, initial_weights)
        else:
            mean.take(systems, weights)
        self.hyperparameters, self.accuracy_wanted, self.batch_size = hyperparameters, mean.accuracy, batch_size
        self.solver, self.operator, self.double = mean.solver, mean.operator, mean.double
        self._means = MeanProducts(self.operator, self.double)
        self._methods = VarianceMethods(mean, variance_solver, batch_size)
        self.variance_solver = self._methods.by_solves.solver
        self._predict_by(mean)
        if weights is None:
            mean.warn(stacklevel=3)

    def _predict_by(self, mean: MeanSolve) -> None:
        """Predict by these weights."""
        self._mean_solve, self.system, self.solution = mean, mean.system, mean.solution
        self.weights, self.mean_error = mean.weights, mean.error
        self._known = Known()  # of the last predictions
        self.variance_solves: list[VarianceSolve] = self._known.solves

    def with_targets(self, y: Any, hooks: Iterable[Hook] = (), initial_weights: Any = None) -> Posterior:
        """Return the posterior for other targets y: (n,) at the same inputs.

        The set-up for variances is shared. The set-up for the mean is built once for all such posteriors.
        """
        made = copy.copy(self)
        made._predict_by(self._mean_solve.of_targets(y, self.hyperparameters.mean, hooks, initial_weights))
        made._mean_solve.warn(stacklevel=3)
        return made

    def variance_method(self, method: Method, points: int) -> Method:
        """Return the method of variances itself, or the one that `auto` takes for a number of test points."""
        return self._methods.chosen(method, points)

    def variance_setup(self, columns: int) -> Prepared:
        """Return the set-up of the solver of variances for at most `columns` right-hand sides, built once."""
        return self._methods.by_solves.prepared_for(columns)

    @property
    def has_factor(self) -> bool:
        """Whether the solve for the mean left a Cholesky factor of K, so that other right-hand sides cost little."""
        return self._mean_solve.has_factor

    @property
    def work(self) -> float:
        """Kernel entries evaluated or read so far ÷ n², by the solve for the mean and all predictions."""
        return self._mean_solve.work + self._methods.by_solves.work + self.operator.work

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
        self, x_star: Any, method: Method = "solves", rank: int = PAPER_LANCZOS_RANK, *, include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> Tensor:  # fmt: skip
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
            asked = self._asked(x_star, hooks, rank, include_noise)
            out: Tensor = self.weights.new_empty(len(asked.points))
            for batch in self._methods.batches(method, asked):
                out[batch.rows] = batch.variance + asked.known.noise
            return out

    def mean_and_variance(
        self, x_star: Any, method: Method = "solves", rank: int = PAPER_LANCZOS_RANK, *, include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Predict `mean` and `variance`, (m,) each, which share kernel entries where they can. Arguments as there."""
        with explained("a prediction", FEWER_AT_ONCE):
            asked, done = self._asked(x_star, hooks, rank, include_noise), 0
            means, variances = (self.weights.new_empty(len(asked.points)) for _ in range(2))
            for batch in self._methods.batches(method, asked):
                variances[batch.rows] = batch.variance + asked.known.noise
                if batch.columns is not None:
                    means[batch.rows] = batch.columns.T @ self.weights + self.hyperparameters.mean
                    done += len(batch.points)
            return means if done == len(asked.points) else self._mean(x_star), variances

    def covariance(self, x_star: Any, *, include_noise: bool = False, hooks: Iterable[Hook] = ()) -> Tensor:
        """Predict the covariance of f(x*): (m, d) to (m, m). It uses the solves of `variance`, which is its diagonal.

        With W ≈ K⁻¹C and R = C − KW, k(z, z) − ½((C + R)ᵀW + Wᵀ(C + R)) exceeds the exact covariance by RᵀK⁻¹R, a
        positive semi-definite matrix. Holds (n, m) arrays. Arguments as in `variance`.
        """
        with explained("a covariance", "use fewer test points at once: it holds (n, m) arrays"):
            asked = self._asked(x_star, hooks)
            out: Tensor = self._methods.covariances(asked, len(asked.points))[0][0]
        out.diagonal().add_(self.hyperparameters.noise if include_noise else 0.0)
        return out

    def covariance_of_groups(self, x_star: Any, size: int, hooks: Iterable[Hook] = ()) -> tuple[Tensor, Tensor]:
        """Predict the covariances within groups of `size` consecutive test points.

        Returns:
            The covariances without noise, (m ÷ size, size, size), and the weights W ≈ K⁻¹C, (n, m).
        """
        return self._methods.covariances(self._asked(x_star, hooks), size)

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
        return self._mean_solve.attempt(b, solver, hooks, prepared)

    def variance_by_rank(self, x_star: Any, ranks: Sequence[int], *, include_noise: bool = False) -> Tensor:
        """Predict the variance by Lanczos at several ranks at the cost of the largest: (m, d) to (m, len(ranks))."""
        check_ranks(ranks)
        with explained("a prediction", FEWER_AT_ONCE):
            found = [self._methods.by_ranks(chunk, ranks) for _, chunk in self.chunks(x_star)]
            out: Tensor = torch.cat([self.weights.new_empty(0, len(ranks)), *found])
        return out + self.hyperparameters.noise if include_noise else out

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
        order = drawn(len(points), count, seed)
        with explained("an accuracy", FEWER_AT_ONCE):
            errors = errors_of(self._mean_solve, self._methods.by_solves, points, order, count is None, hooks)
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
            hooks=hooks, may_tighten=self._methods.by_solves.may_tighten,
        )  # fmt: skip
        found.warn(stacklevel=3)
        return found

    def chunks(self, x_star: Any) -> Iterator[tuple[slice, Tensor]]:
        """Check test inputs (m, d), and return them chunk by chunk with their rows, on the system's device."""
        return Points(x_star, self.system).chunks(self._methods.chunk())

    def _accuracy(self, errors: list[PointErrors], points: int, noise: float = 0.0) -> PredictionAccuracy:
        how = how_known(self.solution)
        return PredictionAccuracy.of(errors, points, self.mean_error, how, self._means.error, noise)

    def _asked(self, x_star: Any, hooks: Iterable[Hook], rank: int = 1, include_noise: bool = False) -> Asked:
        """Return what variances are asked for; errors of predictions are then those of the answer."""
        points = Points(x_star, self.system)
        self._known = Known(noise=self.hyperparameters.noise if include_noise else 0.0)
        self.variance_solves = self._known.solves
        return Asked(points, checked_hooks(hooks), self._mean_solve, self._known, rank)
