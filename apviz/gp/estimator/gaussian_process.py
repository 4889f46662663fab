"""`GaussianProcess`, a regressor with scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from apviz.datasets.sphere import AnyEncoding
from apviz.gp import metrics
from apviz.gp.estimator import saved
from apviz.gp.estimator.fitting import (
    check_settings,
    fitted_kernel,
    likelihood_of,
    report_near,
    scaled_rows,
    theta_of,
    train,
)
from apviz.gp.estimator.foreign_settings import refuse, refusing
from apviz.gp.estimator.posteriors import restore, solved, solved_weights
from apviz.gp.estimator.predictive import Predictive
from apviz.gp.estimator.prior import Prior
from apviz.gp.estimator.tables import checked_rows, points_of, scaled_points, unchanged_if_failed
from apviz.gp.prediction.lanczos import PAPER_LANCZOS_RANK
from apviz.gp.prediction.points import FEWER_AT_ONCE
from apviz.gp.prediction.prediction_accuracy import PredictionAccuracy
from apviz.gp.prediction.variance_methods import METHODS, Method
from apviz.gp.scaling import Scaling
from apviz.gp.training.gradient import Estimator
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel
from apviz.memory import explained
from apviz.settings import Auto, in_full_precision, require, require_torch_defaults, require_whole
from apviz.solvers import Hook, Solver, checked_hooks
from apviz.solvers.interface import LESS_MEMORY


@refusing
@dataclass(eq=False, repr=False)
class GaussianProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process regression on many rows, trained and evaluated by apviz's solvers.

    Give raw inputs and targets. With `scale`, each input is scaled to [−1, 1] and the target is standardised, as in the
    paper's preprocessing but from the training rows alone. Predictions are in the target's own units.
    **Hyperparameters, given or fitted, are in scaled units**: `scaling_.to_raw` converts them to raw units, and
    `apviz.gp.Scaling.of(x, y).to_scaled` converts raw ones to scaled units. With `scale`, an input that does not vary
    in the training rows is ignored. Inputs may be arrays, pandas frames or tensors; results are NumPy arrays (float64).

    Args:
        kernel: one of three. The name of one of `apviz.kernels.KERNELS`. A kernel in scaled units, such as
            `2.0 * apviz.Matern52().on([0, 1]) + apviz.Periodic().on(2)`: all its numbers are trained, starting from
            their values. Or a kernel of `sklearn.gaussian_process.kernels`, as scikit-learn defines it: in raw units
            whatever `scale` is, with its fixed numbers and bounds. Its `WhiteKernel` is the noise, whose bounds
            replace `noise_floor`. A class of your own is evaluated by its own code. Unlike in scikit-learn, the prior
            mean is trained, starting from the target's mean, and without a `WhiteKernel` so is the noise. For the
            units of `normalize_y=True` standardise the target first. Given hyperparameters have their own kernel.
        ard: for a kernel by name: one lengthscale per input, else one for all.
        drift: `constant`, `linear` or `quadratic`: a polynomial of the inputs is estimated with the predictions, as in
            universal kriging (`apviz.Kriging`), and standard deviations include its uncertainty. Hyperparameters are
            trained on what a least-squares fit of it leaves. None: the prior mean alone. For one output.
        solver: solver of the mean and the variances, with its own tolerance. None: apviz chooses the solver and the
            tolerance, from `accuracy`.
        accuracy: largest error of any mean, in posterior standard deviations of f: a stopping rule in addition to the
            solver's tolerance. None: 0.05 if apviz chooses the solver, and no rule for a given one.
        training_solver: solver of the training steps; None: `solver`. The paper's is `apviz.gp.PAPER_SOLVER`.
        hyperparameters: hyperparameters to predict with, instead of training. None: train them.
        optimiser: `l-bfgs`, by exact steps, which factor K in float64; `scoring` or `adam`. `auto`: L-BFGS for up to
            500 rows; beyond, for a kernel by name scoring, by exact steps up to 2,000 rows; for others L-BFGS up to
            2,000 and Adam beyond. A `training_solver` that iterates takes no exact steps.
        max_steps: largest number of steps. A training ends earlier once it has settled, and else warns.
        n_restarts: number of further random starts. L-BFGS improves every start for 30 iterations on up to 500
            random rows, and the training continues from the best.
        step_size, probes: the step size of Adam, and the number of probes of stochastic gradients.
        noise_floor: σ² in scaled units stays above this. `auto`: 1e-6 of the target's variance for exact steps and
            for scoring in float64, else 1e-4. Scoring in float32 by default that stays there continues in float64 by
            exact steps on up to 3,000 rows: to 1e-6, more beyond 10,000. `fit` warns if σ² ends on the floor.
        stages, max_epochs, trace_estimator: settings that save work, `stages`, `max_epochs` and `estimator` of
            `apviz.TrainingSettings`. Exact steps by `auto` ignore them. `auto`: beyond 2,000 rows, with a solver of
            apviz's choice, each solve ends after one epoch; from 8,000 rows on, 6 steps of scoring (40 of Adam) use a
            quarter of the rows and 3 (20) half. `stages=(), max_epochs=None` solves on all rows, to the tolerance.
        scale: scale inputs and target. If false, everything stays in its own units. Inputs of a scikit-learn kernel
            are never scaled.
        variance: `solves`: one batched solve per up to 1,024 predicted rows; `neighbours`: given training rows nearby,
            far cheaper for thousands of predicted rows, with the error measured on a sample; `lanczos`, the paper's
            method: too large by an unknown amount that falls with the rank. `auto`: `solves` for few predicted rows or
            with a Cholesky factor, else `neighbours`.
        rank: rank of Lanczos variances.
        dtype: dtype of the solves: `float32`, as in the paper, or `float64`; `auto`: float32 if it is faster and its
            rounding is far below the noise, else float64. Predictions are always float64. Training uses float64 for
            up to 2,000 rows, and for exact steps.
        device, operator: as in `apviz.KernelSystem`; the operator by name.
        random_state: seed of the training's probes: an int, a `numpy.random.RandomState`, or None for a new seed in
            every fit. Solvers have their own seeds.
        path: path of the training's trace, by convention `*.zarr`, with a checkpoint next to it; what continues in
            float64 is in `*-float64.zarr`. A killed fit resumes from its last step with the same data and settings.

    Attributes:
        hyperparameters_: the hyperparameters used, in scaled units. A drift replaces their mean.
        kernel_: the kernel in raw units: that of scikit-learn if one was trained, else one of apviz. With several
            outputs in different units, in units of the standardised outputs. None if it has no form in raw units.
        theta_, theta_names_: (p,) argument of `log_marginal_likelihood`, and its names. With a scikit-learn kernel it
            is `kernel_.theta`; else the logarithms of noise and kernel in scaled units, and untransformed the numbers
            that may be negative, such as a factor of `apviz.Groups`.
        trace_: the `TrainingTrace`, of the last training; None if nothing was trained, and after `load`.
        solution_: result of the solve for the mean; of p outputs, that with the largest error. `fit` has warned if
            `solution_.converged` is false.
        mean_error_: bound on the error of every predicted mean, in posterior standard deviations of f: ‖y − μ − KW‖/σ.
            `fit` has warned if it is above `accuracy`, or above 0.05 if that is None.
        posterior_: the `Posterior` in scaled units, of the first output, or of what the drift leaves; its
            `variance_solves` describe the solves for the last variances.
        drift_: the fitted drift in scaled units (`coefficients`, `root`), or None.
        scaling_: maps raw to scaled units and back.
        rows_: the rows that were solved, in scaled units: distinct inputs, mean targets, weights
            (`apviz.duplicates.DistinctRows`). `rows_.sentence` says what was merged; it is also logged.
        n_features_in_: d.
        feature_names_in_: (d,) names of the columns, if the training inputs were a frame with names.
        target_name_: name of the target, if it was a series with a name; else None.
        columns_: how columns of a table become the inputs, as `apviz fit` sets it; else None.

    Examples:
        >>> import numpy as np, apviz
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> gp = apviz.GaussianProcess(device="cpu").fit(x, np.sin(6 * x[:, 0]))
        >>> mean, std = gp.predict([[0.505]], return_std=True, include_noise=True)
        >>> bool(abs(mean[0] - np.sin(6 * 0.505)) < std[0] < 0.5)
        True
    """

    kernel: str | Kernel | SklearnKernel = "matern52"
    _: KW_ONLY
    ard: bool = True
    drift: str | None = None
    solver: Solver | None = None
    accuracy: float | None = None
    training_solver: Solver | None = None
    hyperparameters: Hyperparameters | None = None
    optimiser: str = "auto"
    max_steps: int = 200
    n_restarts: int = 0
    step_size: float = 0.1
    probes: int = 15
    noise_floor: float | Auto = "auto"
    stages: tuple[tuple[float, int], ...] | Auto = "auto"
    max_epochs: int | Auto | None = "auto"
    trace_estimator: Estimator = "standard"
    scale: bool = True
    variance: Method = "auto"
    rank: int = PAPER_LANCZOS_RANK
    dtype: str = "auto"
    device: str = "auto"
    operator: str = "auto"
    random_state: int | np.random.RandomState | None = 0
    path: str | Path | None = None

    def fit(self, x: Any, y: Any, sample_weight: Any = None, *, hooks: Iterable[Hook] = ()) -> GaussianProcess:
        """Train the hyperparameters unless they are given, then solve for the mean.

        Rows with equal inputs are merged into one, with the mean of their targets and less noise. That changes neither
        predictions nor the likelihood, and saves work. Rows that are nearly equal are reported.

        Args:
            x: (n, d) raw inputs. With a single row nothing is trained, and inputs are not scaled.
            y: (n,) raw targets, or (n, p) of p outputs. They share kernel and noise in scaled units, where each output
                is standardised; the prior mean too, which is relative to each output's own mean. With a scikit-learn
                kernel, in raw units, all are divided by the same number. `scale=False` changes no output.
            sample_weight: (n,) weights, or one number: a row of weight w has noise σ²/w, and weight 0 leaves it out.
                So a row of weight 2 moves predictions as much as two equal rows. None: all have weight 1, as have new
                observations.
            hooks: hooks of every solve; a `TrainingHook` is also called after every step. If a hook stops a solve of
                the training, the training ends: the steps before it are used, and a warning says how many.

        Raises:
            ValueError: a setting is out of range, the data are invalid, inputs are scaled though the kernel needs
                their own units (`apviz.Groups`, user code), or the checkpoint at `path` belongs to another training.
            TrainingError: a training step failed; the steps before it are kept at `path`.
            RuntimeError: the solve for the mean diverged.
        """
        check_settings(self)
        hooks, target_name = checked_hooks(hooks), getattr(y, "name", None)
        with in_full_precision(with_gradients=True), explained("a fit", LESS_MEMORY), unchanged_if_failed(self):
            require_torch_defaults()
            rows, scaling, numbers = scaled_rows(self, x, y, sample_weight)
            hyperparameters, trace = train(self, rows, scaling, hooks)
            report_near(rows.x, hyperparameters.build_kernel(), numbers)
            posterior, drift, outputs, solution, error = solved(self, rows, hyperparameters, hooks)
        self.hyperparameters_, self.trace_, self.scaling_ = hyperparameters, trace, scaling
        self.posterior_, self.solution_, self.mean_error_ = posterior, solution, error
        self.rows_, self._outputs, self.drift_ = rows, outputs, drift
        self._likelihood: float | None = None
        self.kernel_ = fitted_kernel(self, hyperparameters, scaling, self.n_features_in_)
        self.target_name_ = target_name if isinstance(target_name, str) else None
        self.columns_: tuple[AnyEncoding, ...] | None = None
        return self

    def predict(
        self, x: Any, return_std: bool = False, return_cov: bool = False, *, include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
        """Predict the mean at x: (m, d), to (m,) or (m, p), in the target's units.

        Before `fit`, predict the prior, as scikit-learn does: of `hyperparameters`, or of the kernel with its own
        numbers, or 1 for a kernel by name; with mean 0, and σ² = 0.1 if the kernel has no `WhiteKernel`. Nothing is
        scaled then.

        If a solve for standard deviations does not converge, it warns. They are then too large, never too small.

        Args:
            return_std: also return the standard deviation, (m,) or (m, p).
            return_cov: also return the covariance, (m, m) or (m, m, p), in squared units. It needs (n, m) arrays.
            include_noise: add σ²: predict an observation y(x) instead of the function f(x).
            hooks: hooks of the solves for standard deviations or covariance. The mean needs no solve, nor do standard
                deviations if `fit` left a Cholesky factor.

        Raises:
            RuntimeError: both return_std and return_cov are true.
        """
        if return_std and return_cov:
            raise RuntimeError("at most one of return_std and return_cov may be true")
        with in_full_precision(), explained("a prediction", FEWER_AT_ONCE):
            predictive, points = self._predictive_at(x)
            if return_std:
                require(self.variance in METHODS, "variance", self.variance, f"one of {', '.join(METHODS)}")
                return predictive.mean_and_std(points, self.variance, self.rank, include_noise, hooks)
            if return_cov:
                return predictive.mean_and_covariance(points, include_noise, hooks)
            return predictive.mean(points)

    @property
    def prediction_accuracy_(self) -> PredictionAccuracy:
        """Accuracy of the last predictions: at each point if its sd was solved for, else the proven bound."""
        check_is_fitted(self, "posterior_")
        found = self.posterior_.prediction_accuracy
        return Predictive.of(self).accuracy(found, self.solution_, self.mean_error_)

    def measure_accuracy(
        self, x: Any, count: int | None = None, *, seed: int = 0, hooks: Iterable[Hook] = ()
    ) -> PredictionAccuracy:
        """Measure how far predictions at x: (m, d) are from the exact GP, on a random sample of its rows.

        Args:
            count, seed, hooks: as in `Posterior.accuracy`.
        """
        check_is_fitted(self, "posterior_")
        with in_full_precision():
            found = self.posterior_.accuracy(scaled_points(self, x), count, seed=seed, hooks=hooks)
        return Predictive.of(self).accuracy(found, self.solution_, self.mean_error_)

    def sample_y(
        self, x: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0, *,
        include_noise: bool = False, hooks: Iterable[Hook] = (),
    ) -> NDArray[np.float64]:  # fmt: skip
        """Draw samples of the posterior at x: (m, d), to (m, n_samples) or (m, p, n_samples), in the target's units.

        Before `fit`, of the prior, as in `predict`. Up to 2,000 points are drawn exactly from their covariance, more by
        pathwise conditioning (`Posterior.samples`).

        Args:
            random_state: an int, a `numpy.random.RandomState`, or None for new samples in every call.
            include_noise: draw observations y(x) instead of the function f(x).
            hooks: hooks of the solves.

        Raises:
            ValueError: x has more than 2,000 points and the kernel has no random features.
        """
        require_whole("n_samples", n_samples, 1)
        random = check_random_state(random_state)
        with explained("a sample", FEWER_AT_ONCE):
            predictive, points = self._predictive_at(x)
            return predictive.samples(points, n_samples, random, include_noise, hooks)

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False
    ) -> float | tuple[float, NDArray[np.float64]]:
        """Compute log p(y) of the training targets in their own units, in nats.

        It is exact, by a Cholesky factor in float64, for up to 2,000 rows or if `solver` is `apviz.Cholesky`. Else it
        is an estimate: log det K comes from stochastic Lanczos quadrature with `probes` vectors. A warning then gives
        its standard error, which is also `log_marginal_likelihood_error_`.

        Args:
            theta: (p,) as `theta_`, in the order of `theta_names_`; None: the fitted one. The prior mean is fixed.
            eval_gradient: also return the gradient in theta, (p,).

        Raises:
            ValueError: theta has another shape or is not finite.
        """
        check_is_fitted(self, "posterior_")
        with explained("the likelihood", "use fewer probes, or fewer rows"):
            value, gradient, self.log_marginal_likelihood_error_ = likelihood_of(self, theta, eval_gradient)
        return value if gradient is None else (value, gradient)

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Value of log p(y) at the fitted hyperparameters, as `log_marginal_likelihood()`; computed when first read."""
        check_is_fitted(self, "posterior_")
        if self._likelihood is None:
            with explained("the likelihood", "use fewer probes, or fewer rows"):
                self._likelihood = likelihood_of(self, None, False)[0]
        return self._likelihood

    @property
    def theta_(self) -> NDArray[np.float64]:
        """Logarithms of noise and kernel: (p,)."""
        check_is_fitted(self, "posterior_")
        return theta_of(self)[1]

    @property
    def theta_names_(self) -> list[str]:
        """Names of the entries of `theta_`."""
        check_is_fitted(self, "posterior_")
        return list(theta_of(self)[0])

    def negative_log_likelihood(self, x: Any, y: Any, hooks: Iterable[Hook] = ()) -> float:
        """Average −log p(y | x) over rows, in nats, y in its own units: x (m, d), y (m,) or (m, p), summed over p.

        The paper's value is for standardised targets: smaller by the log of the training targets' standard deviation.
        """
        check_is_fitted(self, "posterior_")
        _, y = checked_rows(self, x, y, reset=False)
        mean, std = self.predict(x, return_std=True, include_noise=True, hooks=hooks)
        # scaled so that no square overflows
        unit, y = self.scaling_.std, y.reshape(mean.shape)
        scaled = (mean / unit, (std / unit) ** 2, y / unit)
        nats = metrics.negative_log_likelihood(*(each.ravel() for each in scaled))
        return nats * (mean.size // len(mean)) + float(np.log(unit).sum())

    def set_params(self, **params: Any) -> GaussianProcess:
        """Change settings, as in scikit-learn."""
        try:
            return super().set_params(**params)  # type: ignore[no-any-return]
        except ValueError:
            try:
                refuse((name.partition("__")[0] for name in params), self._get_param_names())
            except TypeError as error:
                raise ValueError(str(error)) from None
            raise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit, tags.target_tags.multi_output = False, True
        return tags

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file atomically, by convention `*.npz`. A model at this path is replaced.

        The file holds the scaled training data, which prediction needs, the weights and the settings. It does not hold
        `path`, `device`, the trace, or a `random_state` that is not a number.

        Raises:
            FileExistsError: the path exists and is not a saved model.
            ValueError: a solver is not one of apviz's own.
        """
        check_is_fitted(self, "posterior_")
        saved.save(self, path)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> GaussianProcess:
        """Load a model that `save` wrote, ready to predict on this device without a solve.

        Untrusted files are safe: nothing in a file is executed, and every entry is checked before it is used.

        Raises:
            OSError: there is no such file.
            ValueError: the file is not a saved model or is damaged; the message says what is wrong.
        """
        return saved.load(cls, path, device)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _predictive_at(self, x: Any) -> tuple[Predictive, NDArray[np.float64]]:
        """Return the predictions of the posterior, or before a fit of the prior, and the scaled points, (m, d)."""
        if hasattr(self, "posterior_"):
            return Predictive.of(self), scaled_points(self, x)
        check_settings(self)
        points = points_of(self, x)
        return Predictive(Prior.of(self.kernel, self.hyperparameters, points.shape[1]), Scaling.none(points)), points

    def __getstate__(self) -> dict[str, Any]:
        """Pickle `rows_` and the weights instead of the posterior, which may hold n × n numbers."""
        state = dict(super().__getstate__())
        if "posterior_" in state:
            del state["posterior_"], state["_outputs"]
            state["_solved"] = solved_weights(self), self.posterior_.system.dtype
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        solved = state.pop("_solved", None)
        super().__setstate__(state)
        if solved is not None:
            restore(self, *solved)
