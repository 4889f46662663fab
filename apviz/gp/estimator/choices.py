"""What the estimator chooses for settings that are `auto`: optimiser, dtype, stages and epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from apviz.distributed import current
from apviz.gp.training.settings import OptimiserName, TrainingSettings
from apviz.kernels import Kernel
from apviz.solvers import Automatic, Cholesky, Solver
from apviz.solvers.choosing.automatic import CHOLESKY_ROWS

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

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
# Rows used to search for the start of a training, by L-BFGS. With no more it is the training. From there scoring takes
# a third to all of the seconds of L-BFGS on 1,000 to 2,000 rows of registered sets, to the same likelihood or one 46
# nats larger. Of 36 odd tables of 500 to 800 rows 35 ended within 0.4 nats of L-BFGS, or above, and one with extreme
# outliers 65 below.
SEARCH_ROWS = 500


def training_dtype(gp: GaussianProcess, n: int) -> torch.dtype:
    """Return the dtype of a training on n rows. With dtype `auto` and nothing to train, float64."""
    if gp.dtype != "auto":
        return DTYPES[gp.dtype]
    is_exact = _is_exact_by_name(gp)
    return torch.float32 if n > CHOLESKY_ROWS and not is_exact and gp.hyperparameters is None else torch.float64


def training_settings(
    gp: GaussianProcess, n: int, kernel: str | Kernel, seed: int, noise_floor: float = 0.0
) -> TrainingSettings:
    """Return the settings of a training on n rows, in the units of the training."""
    optimiser = optimiser_of(gp, n, kernel)
    is_exact = takes_exact_steps(gp, n)
    saves = n > CHOLESKY_ROWS and not is_exact and gp.training_solver is gp.solver is None
    stages, budget = gp.stages, gp.max_epochs
    # exact steps have no stages: `auto` ignores them, others reject them
    if stages == "auto" or (is_exact and not _is_exact_by_name(gp)):
        stages = STAGES[optimiser]
        fits = gp.max_steps >= sum(count for _, count in stages) + LEAST_ON_ALL
        stages = stages if saves and n >= STAGED_ROWS and fits else ()
    if budget == "auto":
        budget = EPOCHS_OF_STEP if saves else None
    return TrainingSettings(
        kernel=kernel, solver=_solver_of(gp), steps=plain(gp.max_steps), step_size=plain(gp.step_size),
        probes=plain(gp.probes), noise_floor=noise_floor, ard=bool(gp.ard), seed=seed,
        optimiser=optimiser, until_settled=True, search_rows=SEARCH_ROWS, restarts=plain(gp.n_restarts),
        stages=stages, max_epochs=plain(budget),
        estimator="exact" if is_exact and optimiser == "scoring" else gp.trace_estimator,
    )  # fmt: skip


def _solver_of(gp: GaussianProcess) -> Solver:
    return gp.training_solver or gp.solver or Automatic()


def optimiser_of(gp: GaussianProcess, n: int, kernel: str | Kernel) -> OptimiserName:
    """Return the optimiser of a training on n rows."""
    if gp.optimiser != "auto":
        return cast(OptimiserName, gp.optimiser)  # checked by `check_settings`
    # from a poor start, Newton steps of a period or of several terms may lead astray
    takes_newton_steps = isinstance(kernel, str) and current() is None
    if _is_factored(gp, n) and (n <= SEARCH_ROWS or not takes_newton_steps):
        return "l-bfgs"
    return "scoring" if takes_newton_steps else "adam"


def _is_factored(gp: GaussianProcess, n: int) -> bool:
    """Test whether n rows are few enough for a factor of K in each step, and no iterative solver was given."""
    return n <= CHOLESKY_ROWS and isinstance(_solver_of(gp), Automatic | Cholesky)


def takes_exact_steps(gp: GaussianProcess, n: int) -> bool:
    """Test whether each step of a training on n rows factors K, in float64 whatever the dtype."""
    return _is_exact_by_name(gp) or (gp.optimiser == "auto" and _is_factored(gp, n))


def _is_exact_by_name(gp: GaussianProcess) -> bool:
    """Test whether settings ask for exact steps, whatever the number of rows."""
    return gp.optimiser == "l-bfgs" or gp.trace_estimator == "exact"


def plain(number: Any) -> Any:
    """Convert a NumPy number, as a grid search sets, to a Python number. Other values are returned unchanged."""
    return number.item() if isinstance(number, np.generic) else number
