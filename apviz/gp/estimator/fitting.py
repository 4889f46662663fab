"""Fitting the estimator: checks of its settings, the training of any kernel, and the likelihood of the fitted model."""

from __future__ import annotations

import logging
import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.utils import check_random_state
from torch import Tensor

from apviz.analysis.diagnosis.training import diagnose_training
from apviz.duplicates import NEAR, DistinctRows, as_two, first_of, groups_of, merged, near_duplicates
from apviz.gp.estimator.choices import DTYPES, training_dtype, training_settings
from apviz.gp.estimator.noise_floor import (
    EndOnFloor,
    continued_in_float64,
    is_on_floor,
    lower_floor,
    noise_floor_of,
    require_free,
)
from apviz.gp.estimator.prior import Prior
from apviz.gp.estimator.sklearn_kernels import SklearnModel
from apviz.gp.estimator.tables import training_data, warn_of_rounding
from apviz.gp.kriging.drift import DEGREES, without_drift
from apviz.gp.prediction.accuracy import require_accuracy
from apviz.gp.prediction.variance_methods import METHODS
from apviz.gp.scaling import Scaling
from apviz.gp.training.gradient import ESTIMATORS
from apviz.gp.training.likelihood import MarginalLikelihood, estimated_marginal_likelihood, exact_marginal_likelihood
from apviz.gp.training.parametrisation import Parametrisation
from apviz.gp.training.settings import OPTIMISERS, checked_stages, require_steps_beyond
from apviz.gp.training.training import Training
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel
from apviz.kernels.own_sklearn import check_entries
from apviz.operators import OPERATORS
from apviz.preconditioners import whitening_of
from apviz.settings import LARGEST_SEED, require, require_number, require_whole
from apviz.solvers import Automatic, Cholesky, Hook, Solver
from apviz.solvers.choosing.automatic import CHOLESKY_ROWS
from apviz.system import KernelSystem, tensor_of
from apviz.tracing.training_trace import TrainingTrace

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

log = logging.getLogger("apviz")

# initial noise of a kernel without a noise term, as a share of the target's variance
START_NOISE = 0.1
# A restart takes about a second: a larger number is a mistake.
MOST_RESTARTS = 10_000
# share of nearly equal rows from which a warning says so
NEAR_SHARE = 0.01
# factor by which the warning suggests to lower the floor
LOWER_BY = 100


def check_settings(gp: GaussianProcess) -> None:
    """Check all settings of the estimator, before any data."""
    for name in ("ard", "scale"):
        value = getattr(gp, name)
        require(isinstance(value, bool | np.bool_), name, value, "True or False")
    for name in ("solver", "training_solver"):
        value = getattr(gp, name)
        require(value is None or isinstance(value, Solver), name, value, "a solver, such as apviz.Automatic(), or None")
    for name, names in (
        ("dtype", ("auto", *DTYPES)), ("variance", METHODS), ("operator", ("auto", *OPERATORS)),
        ("optimiser", ("auto", *OPTIMISERS)), ("trace_estimator", ESTIMATORS),
    ):  # fmt: skip
        value = getattr(gp, name)
        require(isinstance(value, str) and value in names, name, value, f"one of {', '.join(names)}")
    for name, low, high in (("rank", 1, math.inf), ("max_steps", 1, math.inf), ("n_restarts", 0, MOST_RESTARTS)):
        require_whole(name, getattr(gp, name), low, high)
    if gp.stages != "auto":
        require_steps_beyond(checked_stages(gp.stages), "max_steps", gp.max_steps)
    require_accuracy(gp.accuracy)
    require(
        gp.drift is None or (isinstance(gp.drift, str) and gp.drift in DEGREES), "drift", gp.drift,
        f"one of {', '.join(DEGREES)}, or None",
    )  # fmt: skip
    given = gp.hyperparameters
    require(
        given is None or isinstance(given, Hyperparameters), "hyperparameters", given,
        "apviz.Hyperparameters, or None",
    )  # fmt: skip
    if not isinstance(gp.random_state, np.random.RandomState | None):
        require_whole("random_state", gp.random_state, 0, LARGEST_SEED)
    # A scikit-learn kernel is converted once the number of inputs is known. `auto` differs by their number.
    if gp.noise_floor != "auto":
        require_number("noise_floor", gp.noise_floor, 0.0, "a number, at least 0, or 'auto'")
    for n in (2, CHOLESKY_ROWS + 1):
        training_settings(gp, n, "matern52" if isinstance(gp.kernel, SklearnKernel) else gp.kernel, seed=0)


def scaling_of(gp: GaussianProcess, x: NDArray[np.float64], y: NDArray[np.float64]) -> Scaling:
    """Return the scaling of training rows x: (n, d), y: (n,) or (n, p). Inputs of a scikit-learn kernel are not scaled.

    Raises:
        ValueError: an apviz kernel does not fit the inputs; or it needs them in their own units, and `scale` is true.
    """
    d = x.shape[1]
    kernel = gp.kernel if gp.hyperparameters is None else gp.hyperparameters.build_kernel()
    if isinstance(kernel, Kernel):
        kernel.rescaled([0.0] * d, [1.0] * d)  # raises if the kernel does not fit the inputs
    if not gp.scale:
        none, outputs = Scaling.none(x), y.shape[1:]
        return replace(none, mean=np.zeros(outputs), std=np.ones(outputs)) if outputs else none
    scaling = Scaling.of(x, y)
    if gp.hyperparameters is None and isinstance(gp.kernel, SklearnKernel):
        return scaling.with_inputs_as_given().with_common_units()
    if isinstance(kernel, Kernel):
        try:
            kernel.rescaled([0.0] * d, [2.0] * d)
        except ValueError as error:
            raise ValueError(f"{error}; scale=True scales them to [−1, 1], so use scale=False") from None
    return scaling


def sklearn_model_of(gp: GaussianProcess, d: int) -> SklearnModel | None:
    """Return the model of the scikit-learn kernel to train, or None if there is none."""
    is_trained = gp.hyperparameters is None and isinstance(gp.kernel, SklearnKernel)
    return SklearnModel(gp.kernel, d).within_bounds() if is_trained else None


def rows_of(x: Tensor, y: Tensor, weights: NDArray[np.float64] | None) -> tuple[DistinctRows, NDArray[np.intp]]:
    """Merge rows with equal inputs and log what was merged; also return the first row of each group."""
    groups = groups_of(x)
    rows = merged(x, y, None if weights is None else torch.from_numpy(weights), groups)
    rows = as_two(rows) if len(rows.x) == 1 else rows
    if rows.are_merged:
        log.info("%s", rows.sentence)
    return rows, first_of(groups).numpy()


def scaled_rows(
    gp: GaussianProcess, x: Any, y: Any, sample_weight: Any
) -> tuple[DistinctRows, Scaling, NDArray[np.intp]]:
    """Return the rows to solve in scaled units, the scaling, and their places in the user's table."""
    x, y, weights, numbers = training_data(gp, x, y, sample_weight)
    scaling = scaling_of(gp, x, y)
    inputs, targets = torch.from_numpy(scaling.inputs(x)), torch.from_numpy(scaling.targets(y))
    rows, first = rows_of(inputs, targets, weights)
    warn_of_rounding(gp, x, y, inputs, targets, training_dtype(gp, len(rows.x)))
    return rows, scaling, numbers[first]


def report_near(x: Tensor, kernel: Kernel, numbers: NDArray[np.intp]) -> None:
    """Log how many different rows x: (m, d) are nearly equal; warn if merging them would save work.

    `numbers` are their places in the user's table.
    """
    values = x.numpy()
    scales = values.std(axis=0)
    shortest = np.full(len(scales), np.inf)
    for each, columns in kernel.shortest_scales(len(scales)):
        shortest[columns] = np.minimum(shortest[columns], each.numpy())
    # all values of an input of no influence, with a huge lengthscale or none, would be near; a constant one has any
    scales = np.minimum(shortest, np.where(scales > 0, scales, 1.0))
    pairs = near_duplicates(values, scales)
    pairs = pairs[(values[pairs[:, 0]] != values[pairs[:, 1]]).any(axis=1)]  # of equal rows two may be left
    if not len(pairs):
        return
    count, (first, second) = len(np.unique(pairs)), numbers[pairs[0]]
    message = f"{count:,} rows are within {NEAR:g} lengthscales of another, such as rows {first} and {second}"
    if count < NEAR_SHARE * len(values):
        log.info("%s", message)
    else:
        warnings.warn(f"{message}: round their inputs, so that apviz merges them and saves work", stacklevel=3)


def _training_of(gp: GaussianProcess, rows: DistinctRows, scaling: Scaling) -> Training:
    """Return the training: a kernel starts from its own values, a scikit-learn kernel keeps its bounds."""
    scaling = scaling.of_model()
    x, y = rows.x, rows.y
    model = sklearn_model_of(gp, x.shape[1])
    kernel, noise, initial = gp.kernel, None, None
    noise_floor = noise_floor_of(gp, y)
    if model is not None:
        if model.start.is_evaluated:
            check_entries(model.kernel, x)
        start = scaling.to_scaled(Hyperparameters.of(model.start, model.noise or 1.0))
        kernel = start.build_kernel()
        if model.noise is not None:
            noise, noise_floor = start.noise, 0.0  # the WhiteKernel has the bounds
    if not isinstance(kernel, str):
        if noise is None:
            noise = max(START_NOISE * (float(y.var()) or 1.0), 2 * noise_floor)
        initial = Hyperparameters.of(kernel, noise, float(y.mean()))
    settings = training_settings(gp, len(x), kernel, seed_of(gp), noise_floor)
    return Training(
        x, y, settings, path=gp.path, initial=initial, operator=gp.operator, dtype=training_dtype(gp, len(x)),
        device=gp.device, constraints=None if model is None else model.constraints(scaling), rows=rows,
    )  # fmt: skip


def train(
    gp: GaussianProcess, rows: DistinctRows, scaling: Scaling, hooks: list[Hook], n: int = 0
) -> tuple[Hyperparameters, TrainingTrace | None]:
    """Train the hyperparameters unless they are given. Warns if the training was stopped or has not settled.

    Args:
        n: number of rows that the model will be fitted to; 0: those of the training.
    """
    if gp.hyperparameters is not None:
        return gp.hyperparameters, None
    if rows.n == 1:
        warnings.warn("a single row cannot train hyperparameters: the kernel keeps its initial values", stacklevel=3)
        prior = Prior.of(gp.kernel, None, rows.x.shape[1]).hyperparameters
        in_units = scaling.to_scaled(prior) if isinstance(gp.kernel, SklearnKernel) else prior
        return replace(in_units, mean=float(rows.y.mean())), None
    drift: Any = gp.drift
    rows = without_drift(rows, drift)
    training = _training_of(gp, rows, scaling)
    floor, ending = lower_floor(gp, training, rows.y, n or len(rows.x)), EndOnFloor(training)
    if floor is not None:
        require_free(gp.path, training)
    hyperparameters = training.run(hooks if floor is None else [*hooks, ending])
    # not after its last allowed step: with more steps it would end elsewhere, and float64 would start from there
    has_ended = ending.has_ended or (training.finished and training.settled_at is not None)
    if has_ended and floor is not None and is_on_floor(hyperparameters, training):
        log.info("σ² = %.2g is on the floor of float32: training continues in float64", hyperparameters.noise)
        first, training = training, continued_in_float64(gp, rows, training, hyperparameters, floor)
        hyperparameters = training.run(hooks)
        before = f"after {first.steps_done} in float32 on {rows.n:,} rows"
        hyperparameters = replace(hyperparameters, provenance=f"{hyperparameters.provenance} in float64, {before}")
    _warn_of_end(gp, training, hyperparameters)
    return hyperparameters, training.trace


def _warn_of_end(gp: GaussianProcess, training: Training, hyperparameters: Hyperparameters) -> None:
    """Warn if the training was stopped, has not settled, or ended on the floor of its noise."""
    done, trace = training.steps_done, training.trace
    if not training.finished:
        warnings.warn(
            f"the training was stopped by a hook after {done} of at most {gp.max_steps} steps; the model uses the "
            "hyperparameters of the last step",
            stacklevel=4,
        )
    elif training.settled_at is None:
        found = diagnose_training(trace)
        message = trace.attrs.get("stop_message")
        why = f" {message}." if message else "" if found is None else f" {found.evidence}"
        warnings.warn(
            f"the training has not settled in {done} of at most {gp.max_steps} steps.{why} Raise max_steps; with a "
            "path it resumes from the last step. If it never settles, use more probes, or a smaller step_size of Adam.",
            ConvergenceWarning,
            stacklevel=4,
        )
    if is_on_floor(hyperparameters, training):
        floor = training.settings.noise_floor
        also = ", dtype='float64'" if training.dtype is torch.float32 else ""
        warnings.warn(
            f"σ² = {hyperparameters.noise:.2g} is on its lower bound, noise_floor = {floor:.2g}, and the likelihood "
            f"still rises below it: if the data have so little noise, noise_floor={floor / LOWER_BY:.0e}{also} may "
            "predict better",
            ConvergenceWarning,
            stacklevel=4,
        )


def fitted_kernel(gp: GaussianProcess, h: Hyperparameters, scaling: Scaling, d: int) -> SklearnKernel | Kernel | None:
    """Return the kernel in raw units: a trained scikit-learn kernel with its fitted values, else one of apviz.

    None if apviz's kernel has no form in raw units. Warns about values at a bound.
    """
    model, scaling = sklearn_model_of(gp, d), scaling.of_model()
    if model is None:
        widths = np.where(scaling.half_width > 0, scaling.half_width, 1.0)  # any unit for an input that is ignored
        try:
            return replace(scaling, half_width=widths).to_raw(h).build_kernel()
        except (ValueError, OverflowError):
            return None
    kernel = model.fitted(h, scaling)
    if found := SklearnModel(kernel, d).at_bounds():
        warnings.warn(f"{'; '.join(found)}: wider bounds may increase the likelihood", ConvergenceWarning, stacklevel=3)
    return kernel


def theta_of(gp: GaussianProcess) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the names and values of θ: that of a scikit-learn kernel, else logarithms of noise and kernel."""
    if isinstance(gp.kernel_, SklearnKernel):
        return SklearnModel(gp.kernel_, gp.n_features_in_).names, gp.kernel_.theta
    logarithmic = _logarithmic(gp.hyperparameters_)
    return logarithmic.names[1:], logarithmic.raw(gp.hyperparameters_)[1:].numpy()


def _logarithmic(h: Hyperparameters) -> Parametrisation:
    """Return the logarithmic parametrisation; θ is its raw vector without the mean."""
    return Parametrisation(h.build_kernel(), 0.0, transform="log")


def likelihood_of(
    gp: GaussianProcess, theta: Any, with_gradient: bool
) -> tuple[float, NDArray[np.float64] | None, float]:
    """Return the log marginal likelihood in the target's units, its gradient in θ, and the value's standard error.

    Raises:
        ValueError: theta has another shape or is not finite, or the model has a drift.
    """
    require(gp.drift_ is None, "drift", gp.drift, "None for a likelihood: its coefficients have no prior")
    h = gp.hyperparameters_
    kernel = gp.kernel_ if isinstance(gp.kernel_, SklearnKernel) else None
    if theta is not None:
        names, fitted = theta_of(gp)
        values = tensor_of(theta, "theta").double()
        if values.shape != fitted.shape or not torch.isfinite(values).all():
            raise ValueError(
                f"theta must be {len(fitted)} finite numbers ({', '.join(names)}), got {values.tolist()!r:.200}"
            )
        if kernel is not None:
            h = SklearnModel(kernel, gp.n_features_in_).at(values.numpy(), gp.scaling_.of_model(), h)
            kernel = kernel.clone_with_theta(values.numpy())
        else:
            h = _logarithmic(h).hyperparameters(torch.cat([torch.tensor([h.mean]).double(), values]))
    found = _likelihood_at(gp, h, with_gradient)
    if found.standard_error:
        warnings.warn(
            f"the log marginal likelihood is an estimate with a standard error of {found.standard_error:.2g} nats from "
            f"{gp.probes} probes; solver=apviz.Cholesky() makes it exact",
            stacklevel=3,
        )
    value = found.value - gp.rows_.n * float(np.log(gp.scaling_.std).sum())
    if found.gradient is None:
        return value, None, found.standard_error
    if kernel is not None:
        return value, SklearnModel(kernel, gp.n_features_in_).gradient(h, found.gradient), found.standard_error
    logarithmic = _logarithmic(h)
    return value, -logarithmic.chain(logarithmic.raw(h), found.gradient)[1:].numpy(), found.standard_error


def _likelihood_at(gp: GaussianProcess, h: Hyperparameters, with_gradient: bool) -> MarginalLikelihood:
    """Compute the likelihood of the scaled targets: exactly for few rows or a Cholesky solver, else an estimate."""
    system, rows, solver = gp.posterior_.system, gp.rows_, gp.solver or Automatic()
    x, y, noises = rows.x.to(system.device), rows.y.to(system.device), rows.noises(h.noise)
    if system.n <= CHOLESKY_ROWS or isinstance(solver, Cholesky):
        return exact_marginal_likelihood(x, y, h, noises=noises, with_gradient=with_gradient).of_all(rows, h.noise)
    other = KernelSystem(
        x, y - h.mean, h.build_kernel(), noise=noises, operator=gp.operator, dtype=system.dtype, device=system.device
    )
    # whiten by the fitted model, so that values at all θ belong to one function
    return estimated_marginal_likelihood(
        other, solver, gp.probes, seed_of(gp), with_gradient=with_gradient,
        whitening=whitening_of(system.operator, seed=0),
    ).of_all(rows, h.noise)  # fmt: skip


def seed_of(gp: GaussianProcess) -> int:
    """Return a seed from `random_state`."""
    if gp.random_state is None or isinstance(gp.random_state, np.random.RandomState):
        return int(check_random_state(gp.random_state).randint(2**31))
    return int(gp.random_state)
