"""Empirical variograms: half the mean squared difference of targets, by distance of their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from apviz.settings import positive, require, require_seed, require_whole
from apviz.system import check_finite, tensor_of

Array = NDArray[np.float64]
Estimator = Literal["matheron", "cressie"]
#: largest distance, as a share of the diagonal of the inputs' range: beyond it few pairs are of different rows
SHARE: Final = 1 / 3
#: largest number of bins, and of pairs, which take about 60 bytes each
MOST_BINS: Final = 10_000
MOST_PAIRS: Final = 100_000_000


@dataclass(frozen=True, eq=False)
class EmpiricalVariogram:
    """An empirical variogram by bins of distance.

    Attributes:
        distances: (b,) mean distance of the pairs in each bin, in units of the inputs; bins without a pair are left
            out.
        semivariances: (b,) estimates of γ, in squared units of the target.
        counts: (b,) pairs in each bin.
        rows: number of rows n.
        pairs: number of pairs that were looked at, also those beyond the largest distance.
        is_sampled: whether these are random pairs, with replacement, instead of all n(n − 1)/2.
        estimator: `matheron` or `cressie`.
    """

    distances: Array
    semivariances: Array
    counts: NDArray[np.int64]
    rows: int
    pairs: int
    is_sampled: bool
    estimator: str

    @property
    def sentence(self) -> str:
        """Say of how many pairs it is, and of how many."""
        total = self.rows * (self.rows - 1) // 2
        return f"{self.pairs:,} random pairs of {total:,}" if self.is_sampled else f"all {total:,} pairs"


def empirical_variogram(
    x: Any,
    y: Any,
    *,
    bins: int = 15,
    max_distance: float | None = None,
    estimator: Estimator = "matheron",
    max_pairs: int = 1_000_000,
    seed: int = 0,
) -> EmpiricalVariogram:
    """Estimate the variogram of targets from pairs of rows, in bins of equal width.

    For inputs with different ranges along their axes, pass `variogram.isotropic(x)`.

    Args:
        x: (n, d) inputs.
        y: (n,) targets.
        bins: number of bins.
        max_distance: largest distance; None: a third of the diagonal of the inputs' range, as in GSTools.
        estimator: `matheron`, half the mean squared difference; or `cressie`, which outliers change less (Cressie &
            Hawkins, 1980).
        max_pairs: number of random pairs if there are more.
        seed: of their choice.

    Raises:
        ValueError: a number that is out of range, shapes that do not fit, NaN or infinite values, no pair of rows
            within the largest distance.

    Examples:
        >>> import numpy as np, apviz
        >>> x = np.random.default_rng(0).uniform(size=(400, 2))
        >>> found = apviz.gp.empirical_variogram(x, np.sin(6 * x[:, 0]), bins=3)
        >>> found.sentence
        'all 79,800 pairs'
        >>> bool((np.diff(found.semivariances) > 0).all())
        True
    """
    require_whole("bins", bins, 1, MOST_BINS)
    require_whole("max_pairs", max_pairs, 1, MOST_PAIRS)
    require_seed(seed)
    require(estimator in _ESTIMATES, "estimator", estimator, f"one of {', '.join(_ESTIMATES)}")
    points, values = _arrays(x, y)
    limit = _third_of_diagonal(points) if max_distance is None else positive("max_distance", max_distance)
    is_sampled = (n := len(values)) * (n - 1) // 2 > max_pairs
    first, second = _drawn_pairs(n, max_pairs, seed) if is_sampled else np.triu_indices(n, 1)
    distance = np.linalg.norm(points[first] - points[second], axis=1)
    near = distance <= limit
    place = np.minimum((distance[near] * (bins / limit)).astype(np.int64), bins - 1)
    difference = np.abs(values[first[near]] - values[second[near]])
    kept = (counts := np.bincount(place, minlength=bins)) > 0
    if not kept.any():
        raise ValueError(f"no pair of rows is within the largest distance of {limit:g}: give a larger max_distance")

    def mean(each: Array) -> Array:
        return np.asarray(np.bincount(place, each, bins)[kept] / counts[kept])

    return EmpiricalVariogram(
        mean(distance[near]), _ESTIMATES[estimator](difference, mean, counts[kept]), counts[kept], n, len(first),
        is_sampled, estimator,
    )  # fmt: skip


def _arrays(x: Any, y: Any) -> tuple[Array, Array]:
    inputs, targets = tensor_of(x, "x").double().cpu(), tensor_of(y, "y").double().cpu()
    inputs = inputs[:, None] if inputs.ndim == 1 else inputs
    if inputs.ndim != 2 or targets.shape != inputs.shape[:1] or len(targets) < 2:
        raise ValueError(f"x must have shape (n, d) and y (n,), got {tuple(inputs.shape)} and {tuple(targets.shape)}")
    check_finite(inputs, "x")
    check_finite(targets[:, None], "y")
    return inputs.numpy(), targets.numpy()


def _drawn_pairs(n: int, count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    first = rng.integers(n, size=count)
    return first, (first + rng.integers(1, n, size=count)) % n


def _third_of_diagonal(points: Array) -> float:
    with np.errstate(over="ignore"):
        diagonal = float(np.linalg.norm(np.ptp(points, axis=0)))
    require(0 < diagonal < np.inf, "the diagonal of the range of x", diagonal, "finite and positive")
    return SHARE * diagonal


#: from differences of targets, the mean of each bin, and the counts
_ESTIMATES: Final[dict[str, Callable[[Array, Callable[[Array], Array], NDArray[Any]], Array]]] = {
    "matheron": lambda each, mean, n: 0.5 * mean(each**2),
    "cressie": lambda each, mean, n: 0.5 * mean(np.sqrt(each)) ** 4 / (0.457 + 0.494 / n + 0.045 / n**2),
}
