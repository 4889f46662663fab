"""The floor of the estimated noise: as low as the dtype bears, and trainings that continue below that of float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from apviz.analysis.diagnosis.data import ON_FLOOR_FACTOR
from apviz.duplicates import DistinctRows
from apviz.gp.estimator.choices import optimiser_of, takes_exact_steps, training_dtype
from apviz.gp.training.parametrisation import ABOVE_FLOOR
from apviz.gp.training.settings import TrainingHook
from apviz.gp.training.training import Training
from apviz.hyperparameters import Hyperparameters
from apviz.solvers import Run

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

# Floors as shares of the target's variance. With exact likelihoods in float64, 300 to 1,000 rows without noise trained
# without a failed factor at 1e-6 and often not at 1e-8, and scoring bears it there. Float32 needs the paper's.
EXACT_FLOOR, ESTIMATED_FLOOR = 1e-6, 1e-4
# Rows on which a training continues below the floor of float32. With so little noise an epoch leaves residuals above 1,
# and gradients from probes vary too much; so every step factors K in float64, which takes a core 4 s.
FACTORED_ROWS = 3_000
# Rows of a map up to which float64 certifies means to 0.05 posterior sd with the exact floor. With 30,000 rows it does
# so with 27 times as much noise, and not with 10 times.
CERTIFIED_ROWS = 10_000
# Steps in a row with σ² on its floor, after which a training that may continue below it ends.
STEPS_ON_FLOOR = 2


def noise_floor_of(gp: GaussianProcess, y: Tensor) -> float:
    """Return the floor of σ² for targets y: (n,) or (n, p), in the units in which they are trained."""
    if gp.noise_floor != "auto":
        return float(gp.noise_floor)
    n = len(y)
    is_in_float64 = optimiser_of(gp, n, gp.kernel) == "scoring" and training_dtype(gp, n) is torch.float64
    return share_of_variance(EXACT_FLOOR if takes_exact_steps(gp, n) or is_in_float64 else ESTIMATED_FLOOR, y)


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


class EndOnFloor(TrainingHook):
    """A hook that ends a training once σ² stays on its floor and does not rise, as it will continue below it.

    Steps with some of the rows do not count, because few rows may not tell noise from detail.

    Args:
        training: the training that it ends.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self.has_ended = False

    def on_start(self, run: Run) -> None:
        training = self._training
        if run.must_stop or training.steps_done - training.settings.steps_in_stages < STEPS_ON_FLOOR:
            return
        # at the start of each step, and now
        latest = [*training.trace["step"]["noise"].values[-STEPS_ON_FLOOR:], training.hyperparameters.noise]
        if max(latest) <= ON_FLOOR_FACTOR * training.settings.noise_floor and latest[-1] <= latest[-2]:
            self.has_ended = True
            run.request_stop("σ² is on the floor of float32; the training continues in float64")


def continued_in_float64(
    gp: GaussianProcess, rows: DistinctRows, first: Training, initial: Hyperparameters, floor: float
) -> Training:
    """Return a training that continues with exact steps in float64 and a lower floor, on some of the rows at random.

    Its trace is next to that of the first.
    """
    if len(rows.x) > FACTORED_ROWS:
        # not the rows of the search and the stages, which may have misled the first
        generator = torch.Generator().manual_seed(first.settings.seed + 1)
        rows = rows.of(torch.randperm(len(rows.x), generator=generator)[:FACTORED_ROWS].sort().values)
    settings = replace(
        first.settings, noise_floor=floor, estimator="exact", max_epochs=None, stages=(), search_rows=0, restarts=0
    )  # fmt: skip
    return Training(
        rows.x, rows.y, settings, path=path_of_continued(gp.path), initial=initial, operator=gp.operator,
        dtype=torch.float64, device=gp.device, rows=rows,
    )  # fmt: skip


def path_of_continued(path: str | Path | None) -> Path | None:
    """Return the path of the trace of a continued training, next to that of the first."""
    return None if path is None else Path(path).with_name(f"{Path(path).stem}-float64{Path(path).suffix}")


def require_free(path: str | Path | None, first: Training) -> None:
    """Check, before the first training starts, that nothing is where it would continue.

    Raises:
        FileExistsError: something is there.
    """
    neighbour = path_of_continued(path)
    if neighbour is not None and neighbour.exists() and not first.steps_done:
        raise FileExistsError(
            f"{neighbour} exists, where a training at {path} would continue in float64; delete it, or use another path"
        )


def is_on_floor(h: Hyperparameters, training: Training) -> bool:
    """Return whether σ² ended on its floor: the likelihood still rises where σ² is smaller.

    L-BFGS ends on a bound only if the gradient points beyond it. The others approach the floor from above.
    """
    floor, is_by_lbfgs = training.settings.noise_floor, training.settings.optimiser == "l-bfgs"
    return floor > 0 and h.noise <= floor * (1 + 2 * ABOVE_FLOOR if is_by_lbfgs else ON_FLOOR_FACTOR)
