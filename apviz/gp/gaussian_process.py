"""`GaussianProcess`: the regressor with scikit-learn's conventions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from apviz.gp import metrics, saved
from apviz.gp.fitting import (
    DTYPES,
    check_settings,
    fitted_kernel,
    likelihood_of,
    scaling_of,
    theta_of,
    train,
    training_dtype,
)
from apviz.gp.gradient import Estimator
from apviz.gp.posterior import FEWER_AT_ONCE, METHODS, PAPER_LANCZOS_RANK, Method, Posterior
from apviz.gp.sampling import sampled
from apviz.gp.tables import array_of, inputs_of, rounding_notes
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel, centre_of
from apviz.memory import explained
from apviz.settings import in_full_precision, require, require_whole
from apviz.solvers import Hook, Solver, StopReason, checked_hooks
from apviz.solvers.interface import LESS_MEMORY
from apviz.system import check_finite

# of this machine and this run, not of the model: a file never brings them
LOCAL = ("path", "device")


class GaussianProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by a Gaussian process on many rows: training, prediction and saving by apviz's solvers.

    Inputs and targets are given raw. With `scale`, each input is scaled to [−1, 1] and the target standardised, as in
    the paper's preprocessing but by the training rows alone; predictions are in the target's own units, and
    **hyperparameters, given or fitted, are in scaled units**; `scaling_.to_raw` converts them to raw units, and
    `apviz.gp.Scaling.of(x, y).to_scaled` raw ones to scaled units. An input that does not vary in the training rows is
    then ignored. Arrays, pandas frames and tensors are taken; NumPy arrays (float64) are returned.

    Args:
        kernel: the name of one of `apviz.kernels.KERNELS`; or a kernel, such as
            `2.0 * apviz.Matern52().on([0, 1]) + apviz.Periodic().on(2)`, of which all numbers are trained, from those
            it has, in scaled units; or one of `sklearn.gaussian_process.kernels`, which means what it means there:
            its numbers are in the raw units of inputs and target whatever `scale` is, fixed numbers stay, bounds are
            kept. A `WhiteKernel` in it is the noise, whose bounds take the place of `noise_floor`. Unlike there the
            prior mean is trained, from the target's mean on, and without a `WhiteKernel` the noise is too. For the
            units of `normalize_y=True` standardise the target first. Given hyperparameters have their own kernel.
        ard: of a kernel by name: one lengthscale per input, else one for all.
        solver: of the mean and of the variances, with its own tolerance; None: one that is chosen, to the tolerance
            that predictions need: no mean off by more than a tenth of its posterior standard deviation.
        training_solver: of the training's steps; None: `solver`. The paper's is `apviz.gp.PAPER_SOLVER`.
        hyperparameters: to predict with; nothing is trained then. None: they are trained.
        optimiser: of the training: `l-bfgs`, on the exact likelihood in float64; `adam`, by stochastic gradients, one
            solve a step. `auto`: L-BFGS for up to 2,000 rows, where `training_solver` is a Cholesky factor anyway.
        max_steps: the most steps of Adam, or iterations of L-BFGS. A training ends before, once it has settled; one
            that has not by then warns.
        n_restarts: further starts, drawn at random. Every start is moved by L-BFGS on up to 500 rows, drawn at random,
            for 30 iterations, and the training goes on from the best.
        step_size, probes, noise_floor: of the training, as in `apviz.TrainingSettings`; σ² in scaled units.
        stages, max_epochs, trace_estimator: of Adam, to train with less work, as `stages`, `max_epochs` and
            `estimator` of `apviz.TrainingSettings`; L-BFGS makes no use of them. `stages=((0.25, 40), (0.5, 20))` takes
            the first 40 steps on a quarter of the rows and 20 on half of them, `max_epochs=1` ends the solve of a
            step after an epoch: with both, 70 steps from raw parameters of zero took 5 to 8 times less work than 50
            without, on five data sets of 8,000 rows, at a likelihood at most 0.005 nat a row below and an RMSE at
            most 1% above (benchmarks/README.md).
        scale: scale inputs and target; if not, nothing is changed, and everything is in its own units. Inputs of a
            scikit-learn kernel are never scaled.
        variance: `solves`, one batched solve per up to 1,024 rows predicted, or `lanczos`, the paper's way: cheaper
            for many rows, and too large by an unknown amount that falls with the rank.
        rank: of Lanczos.
        dtype: of the solves, `float32`, as in the paper, or `float64`; `auto`: float32 where that is faster and its
            rounding far below the noise, else float64. Predictions are float64 at any rate. A training takes float64
            for up to 2,000 rows, and where L-BFGS is asked for.
        device, operator: as in `apviz.KernelSystem`; the operator by its name.
        random_state: the seed of the training's probes; an int, a `numpy.random.RandomState`, or None for another
            one in every fit. A solver has its own seed.
        path: where to write the training's trace, by convention `*.zarr`. Beside it a checkpoint: a fit that was
            killed goes on from its last step when it is fitted again with the same data and settings.

    Attributes:
        hyperparameters_: those used, in scaled units.
        kernel_: the fitted scikit-learn kernel, in raw units; None where `kernel` is none or was not trained.
        theta_, theta_names_: (p,) logarithms of noise and kernel, as `log_marginal_likelihood` takes them, and their
            names: with a scikit-learn kernel its `kernel_.theta`; else in scaled units, and of numbers that may be
            negative, such as a factor of `apviz.Groups`, the numbers themselves.
        trace_: the `TrainingTrace`; None where nothing was trained, and after `load`.
        solution_: how the solve for the mean ended. Where `solution_.converged` is false, `fit` has warned.
        mean_error_: what no predicted mean is off by more, in posterior standard deviations of f: ‖y − μ − KW‖/σ. Where
            it is above 0.1, `fit` has warned.
        posterior_: the `Posterior` in scaled units; its `variance_solves` tell how the last variances were got.
        scaling_: from raw to scaled units, and back.
        n_features_in_: d.
        feature_names_in_: (d,) the columns' names, where the training inputs were a frame with names.

    Examples:
        >>> import numpy as np, apviz
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> gp = apviz.GaussianProcess(device="cpu").fit(x, np.sin(6 * x[:, 0]))
        >>> mean, std = gp.predict([[0.505]], return_std=True, include_noise=True)
        >>> bool(abs(mean[0] - np.sin(6 * 0.505)) < std[0] < 0.5)
        True
    """

    def __init__(
        self,
        kernel: str | Kernel | SklearnKernel = "matern52",
        *,
        ard: bool = True,
        solver: Solver | None = None,
        training_solver: Solver | None = None,
        hyperparameters: Hyperparameters | None = None,
        optimiser: str = "auto",
        max_steps: int = 200,
        n_restarts: int = 0,
        step_size: float = 0.1,
        probes: int = 15,
        noise_floor: float = 1e-4,
        stages: tuple[tuple[float, int], ...] = (),
        max_epochs: int | None = None,
        trace_estimator: Estimator = "standard",
        scale: bool = True,
        variance: Method = "solves",
        rank: int = PAPER_LANCZOS_RANK,
        dtype: str = "auto",
        device: str = "auto",
        operator: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        path: str | Path | None = None,
    ) -> None:
        self.kernel = kernel
        self.ard = ard
        self.solver = solver
        self.training_solver = training_solver
        self.hyperparameters = hyperparameters
        self.optimiser = optimiser
        self.max_steps = max_steps
        self.n_restarts = n_restarts
        self.step_size = step_size
        self.probes = probes
        self.noise_floor = noise_floor
        self.stages = stages
        self.max_epochs = max_epochs
        self.trace_estimator = trace_estimator
        self.scale = scale
        self.variance = variance
        self.rank = rank
        self.dtype = dtype
        self.device = device
        self.operator = operator
        self.random_state = random_state
        self.path = path

    def fit(self, x: Any, y: Any, hooks: Iterable[Hook] = ()) -> GaussianProcess:
        """Trains the hyperparameters where none are given, then solves for the mean.

        Args:
            x: (n, d) raw inputs, n ≥ 2.
            y: (n,) raw targets.
            hooks: told about every solve, and a `TrainingHook` about every step. One that stops a solve of the
                training ends the training: the steps before it are used, and a warning says how many there were.

        Raises:
            ValueError: a setting out of range, bad data, a kernel that takes inputs in their own units (`apviz.Groups`,
                user code) where they are scaled, or a checkpoint at `path` of another training.
            TrainingError: a training step failed; what was done before it is kept at `path`.
            RuntimeError: the solve for the mean diverged.
        """
        check_settings(self)
        hooks = checked_hooks(hooks)
        with in_full_precision(with_gradients=True), explained("a fit", LESS_MEMORY):
            x, y = validate_data(
                self, inputs_of(x), array_of(y, "y"), dtype=np.float64, y_numeric=True, ensure_min_samples=2
            )
            y = y.astype(np.float64)
            check_finite(torch.from_numpy(y)[:, None], "y")
            scaling = scaling_of(self, x, y)
            inputs, targets = torch.from_numpy(scaling.inputs(x)), torch.from_numpy(scaling.targets(y))
            names = getattr(self, "feature_names_in_", [f"x[:, {column}]" for column in range(x.shape[1])])
            # engines round inputs once they are centred
            for note in rounding_notes(names, x, y, inputs - centre_of(inputs), targets, training_dtype(self, len(x))):
                warnings.warn(f"{note} (dtype={self.dtype!r}, scale={self.scale})", stacklevel=2)
            hyperparameters, trace = train(self, inputs, targets, scaling, hooks)
            posterior = self._posterior(inputs, targets, hyperparameters, DTYPES.get(self.dtype, "auto"), hooks=hooks)
        solution = posterior.solution
        assert solution is not None  # no weights were given
        if solution.stop_reason is StopReason.DIVERGED:
            raise RuntimeError(f"the solve for the mean {solution.stop_message}")
        self.hyperparameters_, self.trace_, self.scaling_ = hyperparameters, trace, scaling
        self.posterior_, self.solution_, self.mean_error_ = posterior, solution, posterior.mean_error
        self.kernel_ = fitted_kernel(self, hyperparameters, scaling, x.shape[1])
        return self

    def predict(
        self,
        x: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predicts the mean at x: (m, d), to (m,), in the target's units.

        Args:
            return_std: also return the deviation, (m,).
            return_cov: also return the covariance, (m, m), in squared units; it holds (n, m) arrays.
            include_noise: of an observation y(x), with σ² in it; if not, of the function f(x).
            hooks: told about the solves for the deviations or the covariance; the mean needs none.

        Raises:
            RuntimeError: both were asked for.

        A solve for the deviations that does not converge warns; they are then too large, never too small.
        """
        check_is_fitted(self, "posterior_")
        if return_std and return_cov:
            raise RuntimeError("at most one of return_std and return_cov can be asked for")
        with in_full_precision(), explained("a prediction", FEWER_AT_ONCE):
            points = self._points(x)
            mean = self.scaling_.mean + self.scaling_.std * _float64(self.posterior_.mean(points))
            if not (return_std or return_cov):
                return mean
            if return_cov:
                covariance = self.posterior_.covariance(points, include_noise=include_noise, hooks=hooks)
                return mean, self.scaling_.std**2 * _float64(covariance)
            require(self.variance in METHODS, "variance", self.variance, f"one of {', '.join(METHODS)}")
            variance = self.posterior_.variance(
                points, self.variance, self.rank, include_noise=include_noise, hooks=hooks
            )
            return mean, self.scaling_.std * np.sqrt(_float64(variance))

    def sample_y(
        self,
        x: Any,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
        *,
        include_noise: bool = False,
        hooks: Iterable[Hook] = (),
    ) -> NDArray[np.float64]:
        """Draws samples of the posterior at x: (m, d), to (m, n_samples), in the target's units.

        At up to 2,000 points exactly, from their covariance; at more by pathwise conditioning (`Posterior.samples`).

        Args:
            random_state: an int, a `numpy.random.RandomState`, or None for others in every call.
            include_noise: samples of observations y(x); if not, of the function f(x).
            hooks: told about the solves.

        Raises:
            ValueError: more points, and a kernel of which no functions are drawn.
        """
        check_is_fitted(self, "posterior_")
        require_whole("n_samples", n_samples, 1)
        random = check_random_state(random_state)
        with explained("a sample", FEWER_AT_ONCE):
            samples = sampled(self.posterior_, self._points(x), n_samples, random, hooks)
        if include_noise:
            samples = samples + np.sqrt(self.hyperparameters_.noise) * random.standard_normal(samples.shape)
        found: NDArray[np.float64] = self.scaling_.mean + self.scaling_.std * samples
        return found

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False
    ) -> float | tuple[float, NDArray[np.float64]]:
        """Computes log p(y) of the training targets, in nats, in their own units.

        Exactly by a Cholesky factor in float64 for up to 2,000 rows, or where `solver` is `apviz.Cholesky`. Else it is
        estimated: log det K by stochastic Lanczos quadrature with as many vectors as there are `probes`. Then
        `log_marginal_likelihood_error_` is its standard error, and a warning says it.

        Args:
            theta: (p,) as `theta_`, whose entries `theta_names_` names; None: those fitted. The prior mean stays.
            eval_gradient: also return the gradient in theta, (p,).

        Raises:
            ValueError: theta of another shape, or not finite.
        """
        check_is_fitted(self, "posterior_")
        with explained("the likelihood", "take fewer probes, or fewer rows"):
            value, gradient, self.log_marginal_likelihood_error_ = likelihood_of(self, theta, eval_gradient)
        return value if gradient is None else (value, gradient)

    @property
    def theta_(self) -> NDArray[np.float64]:
        """The logarithms of noise and kernel: (p,)."""
        check_is_fitted(self, "posterior_")
        return theta_of(self)[1]

    @property
    def theta_names_(self) -> list[str]:
        """The names of `theta_`."""
        check_is_fitted(self, "posterior_")
        return list(theta_of(self)[0])

    def negative_log_likelihood(self, x: Any, y: Any, hooks: Iterable[Hook] = ()) -> float:
        """Averages −log p(y | x) over rows, in nats, y in its own units: x (m, d), y (m,).

        The paper's is of standardised targets: less by log of the training targets' standard deviation.
        """
        check_is_fitted(self, "posterior_")
        _, y = validate_data(self, inputs_of(x), array_of(y, "y"), dtype=np.float64, y_numeric=True, reset=False)
        mean, std = self.predict(x, return_std=True, include_noise=True, hooks=hooks)
        # in units in which no square overflows
        unit = self.scaling_.std
        nats = metrics.negative_log_likelihood(mean / unit, (std / unit) ** 2, y.astype(np.float64) / unit)
        return nats + float(np.log(unit))

    def save(self, path: str | Path) -> None:
        """Writes the fitted model to one file, whole or not at all; by convention `*.npz`. A model there is replaced.

        It holds the scaled training data, which prediction needs, the weights and all settings but `path`, `device`
        and a `random_state` that is no number. The trace is at `path`, not in it.

        Raises:
            FileExistsError: there is a file that is no saved model.
            ValueError: a solver that is not apviz's own.
        """
        check_is_fitted(self, "posterior_")
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in LOCAL}
        del settings["hyperparameters"]
        if isinstance(self.random_state, np.random.RandomState):
            settings["random_state"] = None
        names = getattr(self, "feature_names_in_", None)
        x, y = self._training_data()
        saved.write(
            path,
            saved.Saved(
                settings, x.numpy(), y.numpy(), self.hyperparameters_, self.hyperparameters is not None,
                replace(self.solution_, weights=self.solution_.weights.cpu()), self.mean_error_, self.scaling_,
                None if names is None else tuple(names), self.posterior_.system.dtype,
            ),
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> GaussianProcess:
        """Loads the model in a file that `save` wrote, ready to predict on this device; nothing is solved.

        Safe for files from strangers: nothing in a file is executed, and every entry is checked before it is used.

        Raises:
            OSError: no such file.
            ValueError: not such a file, or a damaged one; what is wrong with it.
        """
        found = saved.read(path)
        known = set(cls().get_params(deep=False)) - {*LOCAL, "hyperparameters"}
        if set(found.settings) != known:
            raise ValueError(f"{path}: the settings must be {', '.join(sorted(known))}")
        gp = cls(**found.settings, hyperparameters=found.hyperparameters if found.given else None, device=device)
        try:
            check_settings(gp)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        gp.n_features_in_ = found.x.shape[1]
        if found.feature_names is not None:
            gp.feature_names_in_ = np.array(found.feature_names, dtype=object)
        gp.hyperparameters_, gp.trace_ = found.hyperparameters, None
        gp.scaling_, gp.solution_, gp.mean_error_ = found.scaling, found.solution, found.mean_error
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is at its bounds was said by `fit`
            gp.kernel_ = fitted_kernel(gp, found.hyperparameters, found.scaling, found.x.shape[1])
        x, y = torch.from_numpy(found.x), torch.from_numpy(found.y)
        gp.posterior_ = gp._restored(x, y, found.solution.weights, found.dtype)
        return gp

    # --- inside ---------------------------------------------------------------------------------------------------

    def _points(self, x: Any) -> NDArray[np.float64]:
        x = validate_data(self, inputs_of(x), dtype=np.float64, reset=False)
        ignored = (self.scaling_.half_width == 0) & (x != self.scaling_.centre).any(axis=0)
        if ignored.any():
            column = int(ignored.argmax())
            warnings.warn(
                f"column {column} of X was {self.scaling_.centre[column]:g} in all training rows, and is ignored where "
                "it is not; a kernel takes it into account with scale=False",
                stacklevel=3,
            )
        return self.scaling_.inputs(x)

    def _posterior(
        self, x: Tensor, y: Tensor, hyperparameters: Hyperparameters, dtype: torch.dtype | Literal["auto"], **how: Any
    ) -> Posterior:
        return Posterior(
            x,
            y,
            hyperparameters,
            self.solver,
            dtype=dtype,
            device=self.device,
            operator=self.operator,
            **how,
        )

    def _restored(self, x: Tensor, y: Tensor, weights: Tensor, dtype: torch.dtype) -> Posterior:
        posterior = self._posterior(x, y, self.hyperparameters_, dtype, weights=weights)
        posterior.system.operator.fix_engine(0.0, 1)  # where nothing is solved, nothing else fixes the engine
        return posterior

    def _training_data(self) -> tuple[Tensor, Tensor]:
        """(n, d) and (n,) float64, scaled, on the CPU."""
        system = self.posterior_.system
        return system.operator.given.cpu(), system.given_b[:, 0].cpu() + self.hyperparameters_.mean

    def __getstate__(self) -> dict[str, Any]:
        """The training data and the weights in place of the posterior, which may hold n × n numbers."""
        state = dict(super().__getstate__())
        if "posterior_" in state:
            del state["posterior_"]
            state["_training"] = (*self._training_data(), self.posterior_.weights.cpu(), self.posterior_.system.dtype)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        training = state.pop("_training", None)
        super().__setstate__(state)
        if training is not None:
            self.posterior_ = self._restored(*training)


def _float64(values: Tensor) -> NDArray[np.float64]:
    return values.cpu().double().numpy()
