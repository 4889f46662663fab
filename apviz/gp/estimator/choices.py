"""What the estimator chooses for settings that are `auto`: optimiser, dtype, stages, epochs and noise floor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from apviz.distributed import current
from apviz.gp.training.settings import OptimiserName, TrainingSettings
from apviz.kernels import Kernel
from apviz.solvers import Automatic, Cholesky, Solver
from apviz.solvers.choosing.automatic import CHOLESKY_ROWS

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess
    from apviz.gp.training.training import Training

DTYPES = {"float32": torch.float32, "float64": torch.float64}
# Each solve of a step ends after an epoch; scoring starts it from the last step's weights. From STAGED_ROWS on the
# first steps use a quarter and half of the rows. `benchmarks/default_fit.py` measures what this saves, and what it
# costs in likelihood. Of 4,000 rows of protein Adam lost 0.04 nat a row by stages: a quarter has too few neighbours to
# tell noise from detail.
EPOCHS_OF_STEP, STAGED_ROWS = 1, 8_000
STAGES: dict[OptimiserName, tuple[tuple[float, int], ...]] = {
    "adam": ((0.25, 40), (0.5, 20)), "scoring": ((0.25, 6), (0.5, 3)), "l-bfgs": (),
}  # fmt: skip
# no stages if they would leave fewer steps than this for all rows
LEAST_ON_ALL = 10
# rows used to search for the start of a training
SEARCH_ROWS = 500
# Floors as shares of the target's variance. With exact likelihoods in float64, 300 to 1,000 rows without noise trained
# without a failed factor at 1e-6 and often not at 1e-8, and scoring bears it there. Float32 needs the paper's.
EXACT_FLOOR, ESTIMATED_FLOOR = 1e-6, 1e-4
# Rows on which a training continues below the floor of float32. With so little noise an epoch leaves residuals above 1,
# and gradients from probes vary too much; so every step factors K in float64, which takes a core 4 s.
FACTORED_ROWS = 3_000
# Rows of a map up to which float64 certifies means to 0.05 posterior sd with the exact floor. With 30,000 rows it does
# so with 27 times as much noise, and not with 10 times.
CERTIFIED_ROWS = 10_000


def training_dtype(gp: GaussianProcess, n: int) -> torch.dtype:
    """Return the dtype of a training on n rows. With dtype `auto` and nothing to train, float64."""
    if gp.dtype != "auto":
        return DTYPES[gp.dtype]
    is_exact = gp.optimiser == "l-bfgs" or gp.trace_estimator == "exact"
    return torch.float32 if n > CHOLESKY_ROWS and not is_exact and gp.hyperparameters is None else torch.float64


def training_settings(
    gp: GaussianProcess, n: int, kernel: str | Kernel, seed: int, noise_floor: float = 0.0
) -> TrainingSettings:
    """Return the settings of a training on n rows, in the units of the training."""
    optimiser = _optimiser_of(gp, n, kernel)
    is_exact = optimiser == "l-bfgs" or gp.trace_estimator == "exact"
    saves = n > CHOLESKY_ROWS and not is_exact and gp.training_solver is gp.solver is None
    stages, budget = gp.stages, gp.max_epochs
    # L-BFGS has no stages: `auto` ignores them, L-BFGS by name rejects them
    if stages == "auto" or (optimiser == "l-bfgs" and gp.optimiser == "auto"):
        stages = STAGES[optimiser]
        fits = gp.max_steps >= sum(count for _, count in stages) + LEAST_ON_ALL
        stages = stages if saves and n >= STAGED_ROWS and fits else ()
    if budget == "auto":
        budget = EPOCHS_OF_STEP if saves else None
    return TrainingSettings(
        kernel=kernel, solver=_solver_of(gp), steps=plain(gp.max_steps), step_size=plain(gp.step_size),
        probes=plain(gp.probes), noise_floor=noise_floor, ard=bool(gp.ard), seed=seed,
        optimiser=optimiser, until_settled=True, search_rows=SEARCH_ROWS, restarts=plain(gp.n_restarts),
        stages=stages, max_epochs=plain(budget), estimator=gp.trace_estimator,
    )  # fmt: skip


def _solver_of(gp: GaussianProcess) -> Solver:
    return gp.training_solver or gp.solver or Automatic()


def _optimiser_of(gp: GaussianProcess, n: int, kernel: str | Kernel) -> OptimiserName:
    if gp.optimiser != "auto":
        return cast(OptimiserName, gp.optimiser)  # checked by `check_settings`
    if n <= CHOLESKY_ROWS and isinstance(_solver_of(gp), Automatic | Cholesky):
        return "l-bfgs"
    # from a poor start, Newton steps of a period or of several terms may lead astray
    return "scoring" if isinstance(kernel, str) and current() is None else "adam"


def noise_floor_of(gp: GaussianProcess, y: Tensor) -> float:
    """Return the floor of σ² for targets y: (n,) or (n, p), in the units in which they are trained."""
    if gp.noise_floor != "auto":
        return float(gp.noise_floor)
    optimiser = _optimiser_of(gp, len(y), "")
    is_in_float64 = optimiser == "scoring" and training_dtype(gp, len(y)) is torch.float64
    return share_of_variance(EXACT_FLOOR if optimiser == "l-bfgs" or is_in_float64 else ESTIMATED_FLOOR, y)


def share_of_variance(share: float, y: Tensor) -> float:
    """Return a share of the variance of targets y: (n,) or (n, p), or of 1 if they do not vary."""
    variance = float(y.double().var()) if y.numel() > 1 else 0.0
    return share * (variance or 1.0)


def lower_floor(gp: GaussianProcess, training: Training, y: Tensor, n: int) -> float | None:
    """Return the floor down to which a training that ends on its own one continues in float64, for a model of n rows.

    None: a setting was given that forbids it, or float64 bears hardly less. Only scoring continues, in a few steps.
    """
    is_coarse = training.settings.optimiser == "scoring" and training.dtype is torch.float32
    is_free = gp.dtype == gp.noise_floor == "auto" and gp.training_solver is gp.solver is None
    share = EXACT_FLOOR * max(1.0, n / CERTIFIED_ROWS) ** 3
    return share_of_variance(share, y) if is_coarse and is_free and share < ESTIMATED_FLOOR / 2 else None


def plain(number: Any) -> Any:
    """Convert a NumPy number, as a grid search sets, to a Python number. Other values are returned unchanged."""
    return number.item() if isinstance(number, np.generic) else number
