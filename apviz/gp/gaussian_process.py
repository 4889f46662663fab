"""`GaussianProcess`: the regressor with scikit-learn's conventions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from apviz.gp import metrics, saved
from apviz.gp.posterior import METHODS, PAPER_LANCZOS_RANK, Method, Posterior
from apviz.gp.scaling import Scaling
from apviz.gp.training import Training
from apviz.gp.training_settings import TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.operators import OPERATORS
from apviz.rounding import lost, merged_rows
from apviz.settings import require, require_whole
from apviz.solvers import Automatic, Hook, Solver, StopReason
from apviz.tracing.training_trace import TrainingTrace

DTYPES = {"float32": torch.float32, "float64": torch.float64}
# of this machine and this run, not of the model: a file never brings them
LOCAL = ("path", "device")


class GaussianProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by a Gaussian process on many rows: training, prediction and saving by apviz's solvers.

    Inputs and targets are given raw. With `scale`, each input is scaled to [−1, 1] and the target standardised, as in
    the paper's preprocessing but by the training rows alone; predictions are in the target's own units, and
    **hyperparameters, given or fitted, are in scaled units**. An input that does not vary in the training rows is
    ignored. Arrays, pandas frames and tensors are taken; NumPy arrays (float64) are returned.

    Args:
        kernel: the name of one of `apviz.kernels.KERNELS`; given hyperparameters have their own.
        ard: one lengthscale per input, else one for all.
        solver: of the mean and of the variances; None: `apviz.Automatic(tol=1e-2)`.
        training_solver: of the training's steps; None: `solver`. The paper's is `apviz.gp.training.PAPER_SOLVER`.
        hyperparameters: to predict with; nothing is trained then. None: they are trained.
        steps, step_size, probes, noise_floor: of the training, as in `apviz.TrainingSettings`; σ² in scaled units.
        scale: scale inputs and target; if not, everything is taken in its own units.
        variance: `solves`, one batched solve per up to 1,024 rows predicted, or `lanczos`, the paper's way: cheaper
            for many rows, and too large by an unknown amount that falls with the rank.
        rank: of Lanczos.
        dtype: `float32`, as in the paper, or `float64`.
        device, operator: as in `apviz.KernelSystem`; the operator by its name.
        random_state: the seed of the training's probes; an int, a `numpy.random.RandomState`, or None for another
            one in every fit. A solver has its own seed.
        path: where to write the training's trace, by convention `*.zarr`. Beside it a checkpoint: a fit that was
            killed goes on from its last step when it is fitted again with the same data and settings.

    Attributes:
        hyperparameters_: those used, in scaled units.
        trace_: the `TrainingTrace`; None where nothing was trained, and after `load`.
        solution_: how the solve for the mean ended. Where `solution_.converged` is false, `fit` has warned.
        posterior_: the `Posterior` in scaled units; its `variance_solves` tell how the last variances were got.
        scaling_: from raw to scaled units, and back.
        n_features_in_: d.
        feature_names_in_: (d,) the columns' names, where the training inputs were a frame with names.

    Examples:
        >>> import numpy as np, apviz
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> gp = apviz.GaussianProcess(steps=20, device="cpu").fit(x, np.sin(6 * x[:, 0]))
        >>> mean, std = gp.predict([[0.505]], return_std=True, include_noise=True)
        >>> bool(abs(mean[0] - np.sin(6 * 0.505)) < std[0] < 0.5)
        True
    """

    def __init__(
        self,
        kernel: str = "matern52",
        *,
        ard: bool = True,
        solver: Solver | None = None,
        training_solver: Solver | None = None,
        hyperparameters: Hyperparameters | None = None,
        steps: int = 50,
        step_size: float = 0.1,
        probes: int = 15,
        noise_floor: float = 1e-4,
        scale: bool = True,
        variance: Method = "solves",
        rank: int = PAPER_LANCZOS_RANK,
        dtype: str = "float32",
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
        self.steps = steps
        self.step_size = step_size
        self.probes = probes
        self.noise_floor = noise_floor
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
            ValueError: a setting out of range, bad data, or a checkpoint at `path` of another training.
            TrainingError: a training step failed; what was done before it is kept at `path`.
            RuntimeError: the solve for the mean diverged.
        """
        settings, hooks = self._checked_settings(), list(hooks)
        x, y = validate_data(self, _array(x), _array(y), dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = y.astype(np.float64)
        scaling = Scaling.of(x, y) if self.scale else Scaling.none(x)
        inputs, targets = torch.from_numpy(scaling.inputs(x)), torch.from_numpy(scaling.targets(y))
        self._warn_of_rounding(x, y, inputs, targets)
        hyperparameters, trace = self._train(inputs, targets, settings, hooks)
        posterior = self._posterior(inputs, targets, hyperparameters, DTYPES[self.dtype], hooks=hooks)
        solution = posterior.solution
        assert solution is not None  # no weights were given
        if solution.stop_reason is StopReason.DIVERGED:
            raise RuntimeError(f"the solve for the mean {solution.stop_message}")
        self.hyperparameters_, self.trace_, self.scaling_ = hyperparameters, trace, scaling
        self.posterior_, self.solution_ = posterior, solution
        return self

    def predict(
        self, x: Any, return_std: bool = False, *, include_noise: bool | None = None, hooks: Iterable[Hook] = ()
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predicts the mean at x: (m, d), to (m,), and with `return_std` the deviation, (m,), in the target's units.

        Args:
            include_noise: the deviation of an observation y(x), with σ² in it; if not, that of the function f(x), as
                everywhere else in apviz. None: with σ² in this release, which warns; without in the next.
            hooks: told about the solves for the deviations; the mean needs none.

        A solve for the deviations that does not converge warns; they are then too large, never too small.
        """
        check_is_fitted(self, "posterior_")
        points = self.scaling_.inputs(validate_data(self, _array(x), dtype=np.float64, reset=False))
        mean = self.scaling_.mean + self.scaling_.std * _float64(self.posterior_.mean(points))
        if not return_std:
            return mean
        if include_noise is None:
            warnings.warn(
                "the standard deviation has the noise σ in it, and will be that of the function in the next release; "
                "say which with include_noise=True or False",
                FutureWarning,
                stacklevel=2,
            )
            include_noise = True
        require(self.variance in METHODS, "variance", self.variance, f"one of {', '.join(METHODS)}")
        variance = self.posterior_.variance(points, self.variance, self.rank, include_noise=include_noise, hooks=hooks)
        return mean, self.scaling_.std * np.sqrt(_float64(variance))

    def negative_log_likelihood(self, x: Any, y: Any, hooks: Iterable[Hook] = ()) -> float:
        """Averages −log p(y | x) over rows, in nats, y in its own units: x (m, d), y (m,).

        The paper's is of standardised targets: less by log of the training targets' standard deviation.
        """
        check_is_fitted(self, "posterior_")
        _, y = validate_data(self, _array(x), _array(y), dtype=np.float64, y_numeric=True, reset=False)
        mean, std = self.predict(x, return_std=True, include_noise=True, hooks=hooks)
        # in units in which no square overflows
        unit = self.scaling_.std
        nats = metrics.negative_log_likelihood(mean / unit, (std / unit) ** 2, y.astype(np.float64) / unit)
        return nats + float(np.log(unit))

    def save(self, path: str | Path) -> None:
        """Writes the fitted model to one file, whole or not at all; by convention `*.npz`. A model there is replaced.

        It holds the scaled training data, which prediction needs, the weights and all settings but `path`, `device`
        and a `random_state` that is no number. The trace is not in it: it is at `path`.

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
                replace(self.solution_, weights=self.solution_.weights.cpu()), self.scaling_,
                None if names is None else tuple(names),
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
            gp._checked_settings()
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        gp.n_features_in_ = found.x.shape[1]
        if found.feature_names is not None:
            gp.feature_names_in_ = np.array(found.feature_names, dtype=object)
        gp.hyperparameters_, gp.trace_ = found.hyperparameters, None
        gp.scaling_, gp.solution_ = found.scaling, found.solution
        x, y = torch.from_numpy(found.x), torch.from_numpy(found.y)
        gp.posterior_ = gp._restored(x, y, found.solution.weights)
        return gp

    # --- inside ---------------------------------------------------------------------------------------------------

    def _checked_settings(self) -> TrainingSettings:
        """The settings of the training; all others are looked at too."""
        for name in ("ard", "scale"):
            value = getattr(self, name)
            require(isinstance(value, bool | np.bool_), name, value, "True or False")
        for name in ("solver", "training_solver"):
            value = getattr(self, name)
            require(
                value is None or isinstance(value, Solver), name, value, "a solver, such as apviz.Automatic(), or None"
            )
        require(
            isinstance(self.dtype, str) and self.dtype in DTYPES, "dtype", self.dtype, f"one of {', '.join(DTYPES)}"
        )
        require(self.variance in METHODS, "variance", self.variance, f"one of {', '.join(METHODS)}")
        names = ("auto", *OPERATORS)
        require(self.operator in names, "operator", self.operator, f"one of {', '.join(names)}")
        require_whole("rank", self.rank, 1)
        given = self.hyperparameters
        require(
            given is None or isinstance(given, Hyperparameters), "hyperparameters", given,
            "apviz.Hyperparameters, or None",
        )  # fmt: skip
        return TrainingSettings(
            kernel=self.kernel, solver=self.training_solver or self.solver or Automatic(),
            steps=_plain(self.steps), step_size=_plain(self.step_size), probes=_plain(self.probes),
            noise_floor=_plain(self.noise_floor), ard=bool(self.ard), seed=self._seed(),
        )  # fmt: skip

    def _warn_of_rounding(
        self, x: NDArray[np.float64], y: NDArray[np.float64], inputs: Tensor, targets: Tensor
    ) -> None:
        """Where values or rows as they are solved with have become alike: x, inputs (n, d), y, targets (n,)."""
        dtype = DTYPES[self.dtype]
        rounded_x, rounded_y = inputs.to(dtype).numpy(), targets.to(dtype)[:, None].numpy()
        named = getattr(self, "feature_names_in_", (f"x[:, {column}]" for column in range(x.shape[1])))
        fewer = *lost(tuple(named), x, rounded_x), *lost(("y",), y[:, None], rounded_y)
        for note in (*fewer, *merged_rows(x, inputs.numpy(), rounded_x)):
            warnings.warn(f"{note} (dtype={self.dtype!r}, scale={self.scale})", stacklevel=3)

    def _seed(self) -> int:
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return int(check_random_state(self.random_state).randint(2**31))
        require_whole("random_state", self.random_state, 0)
        return int(self.random_state)

    def _train(
        self, x: Tensor, y: Tensor, settings: TrainingSettings, hooks: list[Hook]
    ) -> tuple[Hyperparameters, TrainingTrace | None]:
        if self.hyperparameters is not None:
            return self.hyperparameters, None
        training = Training(
            x, y, settings, path=self.path, operator=self.operator, dtype=DTYPES[self.dtype], device=self.device
        )
        hyperparameters = training.run(hooks)
        if training.steps_done < settings.steps:
            warnings.warn(
                f"the training was stopped by a hook after {training.steps_done} of {settings.steps} steps; the model "
                "is that of the hyperparameters they led to",
                stacklevel=3,
            )
        return hyperparameters, training.trace

    def _posterior(
        self, x: Tensor, y: Tensor, hyperparameters: Hyperparameters, dtype: torch.dtype, **how: Any
    ) -> Posterior:
        return Posterior(
            # inputs are centred, so that rounding loses little, and what is fitted is what `save` writes
            x.to(dtype),
            y,
            hyperparameters,
            self.solver,
            dtype=dtype,
            device=self.device,
            operator=self.operator,
            **how,
        )

    def _restored(self, x: Tensor, y: Tensor, weights: Tensor) -> Posterior:
        posterior = self._posterior(x, y, self.hyperparameters_, x.dtype, weights=weights)
        posterior.system.operator.fix_engine(0.0, 1)  # where nothing is solved, nothing else fixes the engine
        return posterior

    def _training_data(self) -> tuple[Tensor, Tensor]:
        """(n, d) and (n,), scaled, on the CPU."""
        system = self.posterior_.system
        return system.x.cpu(), system.b[:, 0].cpu().double() + self.hyperparameters_.mean

    def __getstate__(self) -> dict[str, Any]:
        """The training data and the weights in place of the posterior, which may hold n × n numbers."""
        state = dict(super().__getstate__())
        if "posterior_" in state:
            del state["posterior_"]
            state["_training"] = (*self._training_data(), self.posterior_.weights.cpu())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        training = state.pop("_training", None)
        super().__setstate__(state)
        if training is not None:
            self.posterior_ = self._restored(*training)


def _array(values: Any) -> Any:
    """A tensor as an array, wherever it is; all else as it is."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _plain(number: Any) -> Any:
    """One of NumPy's numbers, as a search over a grid has them, as Python's; all else as it is."""
    return number.item() if isinstance(number, np.generic) else number


def _float64(values: Tensor) -> NDArray[np.float64]:
    return values.cpu().double().numpy()
