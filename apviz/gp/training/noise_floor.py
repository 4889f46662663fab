"""The lower bound of σ² in the estimator's training: what `auto` means, and the warning if σ² ends on it."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from apviz.analysis.diagnosis.data import ON_FLOOR_FACTOR
from apviz.gp.training.parametrisation import ABOVE_FLOOR
from apviz.hyperparameters import Hyperparameters
from apviz.settings import Auto, require_number

# Floors as shares of the target's variance. With exact likelihoods in float64, 300 to 1,000 rows without noise trained
# without a failed factor at 1e-6 and often not at 1e-8. Iterative solves in float32 need the paper's.
EXACT_FLOOR, ESTIMATED_FLOOR = 1e-6, 1e-4
# factor by which the warning suggests to lower the floor
LOWER_BY = 100


def require_floor(value: object) -> None:
    """Check the setting `noise_floor`."""
    if value != "auto":
        require_number("noise_floor", value, 0.0, "a number, at least 0, or 'auto'")


def floor_of(noise_floor: float | Auto, is_exact: bool, y: Tensor) -> float:
    """Return the floor of σ² for targets y: (n,) or (n, p), in the units in which they are trained.

    Args:
        is_exact: whether the training computes exact likelihoods in float64.
    """
    if not isinstance(noise_floor, str):
        return float(noise_floor)
    variance = float(y.double().var()) if y.numel() > 1 else 0.0
    return (EXACT_FLOOR if is_exact else ESTIMATED_FLOOR) * (variance or 1.0)


def warn_if_on_floor(h: Hyperparameters, floor: float, is_exact: bool) -> None:
    """Warn if σ² ended on its floor: the likelihood still rises where σ² is smaller.

    An optimiser with bounds ends on one only if the gradient points beyond it. Adam approaches the floor from above.
    """
    if floor and h.noise <= floor * (1 + 2 * ABOVE_FLOOR if is_exact else ON_FLOOR_FACTOR):
        warnings.warn(
            f"σ² = {h.noise:.2g} is on its lower bound, noise_floor = {floor:.2g}, and the likelihood still rises "
            f"below it: if the data have so little noise, noise_floor={floor / LOWER_BY:.0e} may predict better",
            ConvergenceWarning,
            stacklevel=4,
        )
