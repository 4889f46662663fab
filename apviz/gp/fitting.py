"""What fitting the estimator does before it solves: its settings checked, a kernel of any kind, and the training."""

from __future__ import annotations

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
from apviz.gp.gradient import ESTIMATORS
from apviz.gp.likelihood import MarginalLikelihood, estimated_marginal_likelihood, exact_marginal_likelihood
from apviz.gp.parametrisation import Parametrisation
from apviz.gp.posterior import METHODS
from apviz.gp.scaling import Scaling
from apviz.gp.sklearn_kernels import SklearnModel
from apviz.gp.training import Training
from apviz.gp.training_settings import OPTIMISERS, TrainingSettings, checked_stages, require_steps_beyond
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel
from apviz.operators import OPERATORS
from apviz.preconditioners import Whitening
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from apviz.settings import LARGEST_SEED, require, require_whole
from apviz.solvers import Automatic, Cholesky, Hook, Solver
from apviz.solvers.automatic import CHOLESKY_ROWS
from apviz.system import KernelSystem, tensor_of
from apviz.tracing.training_trace import TrainingTrace

if TYPE_CHECKING:
    from apviz.gp.gaussian_process import GaussianProcess

DTYPES = {"float32": torch.float32, "float64": torch.float64}
# rows on which the start of a training is searched for
SEARCH_ROWS = 500
# of the target's variance: the noise that a kernel without one starts from
START_NOISE = 0.1
# each takes a second; so many are a mistake
MOST_RESTARTS = 10_000
# of the matrix that log det K is whitened by
WHITENING_RANK = 500


def check_settings(gp: GaussianProcess) -> None:
    """Looks at all of them, before any data."""
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
    require_steps_beyond(checked_stages(gp.stages), "max_steps", gp.max_steps)
    given = gp.hyperparameters
    require(
        given is None or isinstance(given, Hyperparameters), "hyperparameters", given,
        "apviz.Hyperparameters, or None",
    )  # fmt: skip
    if not isinstance(gp.random_state, np.random.RandomState | None):
        require_whole("random_state", gp.random_state, 0, LARGEST_SEED)
    # a scikit-learn kernel is converted when the number of inputs is known; with many rows `auto` is Adam
    for n in (2, CHOLESKY_ROWS + 1):
        _training_settings(gp, n, "matern52" if isinstance(gp.kernel, SklearnKernel) else gp.kernel, seed=0)


def training_dtype(gp: GaussianProcess, n: int) -> torch.dtype:
    """Returns the dtype in which n rows are trained on; float64 where nothing is, and none is asked for."""
    if gp.dtype != "auto":
        return DTYPES[gp.dtype]
    is_coarse = n > CHOLESKY_ROWS and gp.optimiser != "l-bfgs" and gp.hyperparameters is None
    return torch.float32 if is_coarse else torch.float64


def _training_settings(gp: GaussianProcess, n: int, kernel: str | Kernel, seed: int) -> TrainingSettings:
    solver = gp.training_solver or gp.solver or Automatic()
    is_factored = n <= CHOLESKY_ROWS and isinstance(solver, Automatic | Cholesky)
    exact = gp.optimiser == "l-bfgs" or (gp.optimiser == "auto" and is_factored)
    # of Adam alone; where L-BFGS was asked for by name they are refused
    stages = () if exact and gp.optimiser == "auto" else gp.stages
    return TrainingSettings(
        kernel=kernel, solver=solver, steps=_plain(gp.max_steps), step_size=_plain(gp.step_size),
        probes=_plain(gp.probes), noise_floor=_plain(gp.noise_floor), ard=bool(gp.ard), seed=seed,
        optimiser="l-bfgs" if exact else "adam", until_settled=True, search_rows=SEARCH_ROWS,
        restarts=_plain(gp.n_restarts), stages=stages, max_epochs=_plain(gp.max_epochs),
        estimator=gp.trace_estimator,
    )  # fmt: skip


def scaling_of(gp: GaussianProcess, x: NDArray[np.float64], y: NDArray[np.float64]) -> Scaling:
    """Return the scaling of training rows x: (n, d), y: (n,). The inputs of a scikit-learn kernel stay as they are.

    Raises:
        ValueError: an apviz kernel that takes inputs in their own units, and is to be given scaled ones.
    """
    if not gp.scale:
        return Scaling.none(x)
    scaling = Scaling.of(x, y)
    if gp.hyperparameters is None and isinstance(gp.kernel, SklearnKernel):
        return scaling.with_inputs_as_given()
    kernel = gp.kernel if gp.hyperparameters is None else gp.hyperparameters.kernel
    if isinstance(kernel, Kernel):
        d = x.shape[1]
        kernel.rescaled([0.0] * d, [1.0] * d)  # refuses what does not fit the inputs
        try:
            kernel.rescaled([0.0] * d, [2.0] * d)
        except ValueError as error:
            raise ValueError(f"{error}; scale=True scales them to [−1, 1], so use scale=False") from None
    return scaling


def sklearn_model_of(gp: GaussianProcess, d: int) -> SklearnModel | None:
    """Return the model of a scikit-learn kernel that is to be trained; None where there is none."""
    is_trained = gp.hyperparameters is None and isinstance(gp.kernel, SklearnKernel)
    return SklearnModel(gp.kernel, d).within_bounds() if is_trained else None


def _training_of(gp: GaussianProcess, x: Tensor, y: Tensor, scaling: Scaling) -> Training:
    """The training of what was given: of a kernel from its own numbers, of a scikit-learn kernel within its bounds."""
    model = sklearn_model_of(gp, x.shape[1])
    kernel, noise, initial, noise_floor = gp.kernel, None, None, gp.noise_floor
    if model is not None:
        start = scaling.to_scaled(Hyperparameters.of(model.start, model.noise or 1.0))
        kernel = start.build_kernel()
        if model.noise is not None:
            noise, noise_floor = start.noise, 0.0  # its bounds are the WhiteKernel's
    if not isinstance(kernel, str):
        if noise is None:
            noise = max(START_NOISE * (float(y.var()) or 1.0), 2 * noise_floor)
        initial = Hyperparameters.of(kernel, noise, float(y.mean()))
    settings = replace(_training_settings(gp, len(x), kernel, seed_of(gp)), noise_floor=_plain(noise_floor))
    return Training(
        x, y, settings, path=gp.path, initial=initial, operator=gp.operator, dtype=training_dtype(gp, len(x)),
        device=gp.device, constraints=None if model is None else model.constraints(scaling),
    )  # fmt: skip


def train(
    gp: GaussianProcess, x: Tensor, y: Tensor, scaling: Scaling, hooks: list[Hook]
) -> tuple[Hyperparameters, TrainingTrace | None]:
    """Trains the hyperparameters, where none are given; warns where the training was stopped, or has not settled.

    Args:
        x, y: (n, d) and (n,), scaled.
        scaling: that was done.
    """
    if gp.hyperparameters is not None:
        return gp.hyperparameters, None
    training = _training_of(gp, x, y, scaling)
    hyperparameters = training.run(hooks)
    done, trace = training.steps_done, training.trace
    if not training.finished:
        warnings.warn(
            f"the training was stopped by a hook after {done} of at most {gp.max_steps} steps; the model is that of "
            "the hyperparameters they led to",
            stacklevel=3,
        )
    elif training.settled_at is None:
        found = diagnose_training(trace)
        message = trace.attrs.get("stop_message")
        why = f" {message}." if message else "" if found is None else f" {found.evidence}"
        warnings.warn(
            f"the training has not settled in {done} of at most {gp.max_steps} steps.{why} Raise max_steps; with a "
            "path it goes on from where it is. Where it never settles, take a smaller step_size, or more probes.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return hyperparameters, trace


def fitted_kernel(gp: GaussianProcess, h: Hyperparameters, scaling: Scaling, d: int) -> SklearnKernel | None:
    """Return the scikit-learn kernel that was trained, at its fitted numbers; warn of those at a bound."""
    model = sklearn_model_of(gp, d)
    if model is None:
        return None
    kernel = model.fitted(h, scaling)
    if found := SklearnModel(kernel, d).at_bounds():
        warnings.warn(
            f"{'; '.join(found)}: wider bounds may lead to a larger likelihood", ConvergenceWarning, stacklevel=3
        )
    return kernel


def theta_of(gp: GaussianProcess) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the names and values of θ: scikit-learn's of its kernel, else logarithms of noise and kernel."""
    if gp.kernel_ is not None:
        return SklearnModel(gp.kernel_, gp.n_features_in_).names, gp.kernel_.theta
    logarithmic = _logarithmic(gp.hyperparameters_)
    return logarithmic.names[1:], logarithmic.raw(gp.hyperparameters_)[1:].numpy()


def _logarithmic(h: Hyperparameters) -> Parametrisation:
    """The parametrisation by logarithms of which θ is all but the mean."""
    return Parametrisation(h.build_kernel(), 0.0, transform="log")


def likelihood_of(
    gp: GaussianProcess, theta: Any, with_gradient: bool
) -> tuple[float, NDArray[np.float64] | None, float]:
    """Returns the log marginal likelihood in the target's units, its gradient in θ, and the value's standard error.

    Args:
        theta: (p,), or None for what was fitted.

    Raises:
        ValueError: theta of another shape, or not finite.
    """
    h, kernel = gp.hyperparameters_, gp.kernel_
    if theta is not None:
        names, fitted = theta_of(gp)
        values = tensor_of(theta, "theta").double()
        if values.shape != fitted.shape or not torch.isfinite(values).all():
            raise ValueError(
                f"theta must be {len(fitted)} finite numbers ({', '.join(names)}), got {values.tolist()!r:.200}"
            )
        if kernel is not None:
            h = SklearnModel(kernel, gp.n_features_in_).at(values.numpy(), gp.scaling_, h)
            kernel = kernel.clone_with_theta(values.numpy())
        else:
            h = _logarithmic(h).hyperparameters(torch.cat([torch.tensor([h.mean]).double(), values]))
    found = _likelihood_at(gp, h, with_gradient)
    if found.standard_error:
        warnings.warn(
            f"the log marginal likelihood is an estimate with a standard error of {found.standard_error:.2g} nats, by "
            f"{gp.probes} probes; solver=apviz.Cholesky() makes it exact",
            stacklevel=3,
        )
    value = found.value - gp.posterior_.system.n * float(np.log(gp.scaling_.std))
    if found.gradient is None:
        return value, None, found.standard_error
    if kernel is not None:
        return value, SklearnModel(kernel, gp.n_features_in_).gradient(h, found.gradient), found.standard_error
    logarithmic = _logarithmic(h)
    return value, -logarithmic.chain(logarithmic.raw(h), found.gradient)[1:].numpy(), found.standard_error


def _likelihood_at(gp: GaussianProcess, h: Hyperparameters, with_gradient: bool) -> MarginalLikelihood:
    """Of the scaled targets: exact where K is factored anyway."""
    system, solver = gp.posterior_.system, gp.solver or Automatic()
    x, y = (each.to(system.device) for each in gp._training_data())
    if system.n <= CHOLESKY_ROWS or isinstance(solver, Cholesky):
        return exact_marginal_likelihood(x, y, h, with_gradient=with_gradient)
    other = KernelSystem(
        x, y - h.mean, h.build_kernel(), noise=h.noise, operator=gp.operator, dtype=system.dtype, device=system.device
    )
    # by what was fitted, so that values at all θ are of one function
    factor = randomly_pivoted_cholesky(system.operator, min(WHITENING_RANK, system.n // 4), seed=0)
    return estimated_marginal_likelihood(
        other, solver, gp.probes, seed_of(gp), with_gradient=with_gradient,
        whitening=Whitening(factor, system.operator.noise_of()),
    )  # fmt: skip


def seed_of(gp: GaussianProcess) -> int:
    """Returns the seed of what is drawn."""
    if gp.random_state is None or isinstance(gp.random_state, np.random.RandomState):
        return int(check_random_state(gp.random_state).randint(2**31))
    return int(gp.random_state)


def _plain(number: Any) -> Any:
    """One of NumPy's numbers, as a search over a grid has them, as Python's; all else as it is."""
    return number.item() if isinstance(number, np.generic) else number
