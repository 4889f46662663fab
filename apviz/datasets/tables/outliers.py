"""Values of one column: outliers, and whether they number the rows; `oddities.py` defines both."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: robust deviations from the median beyond which a value may be an outlier
ROBUST_DEVIATIONS: Final = 20.0
# an outlier lies at least this many times farther out than the next value ...
_LEAST_GAP = 3.0
# ... which happens by chance, given the weight of the column's tail, less often than this
_GAP_CHANCE = 3e-3
# smallest log of the mean ratio of the tail's values to its end, which matters if values are equal
_LEAST_MEAN_LOG = 0.05
# largest share of outliers; more of them are a second cluster
_MOST_OUTLIERS = 0.02
# share of the values that must not be codes for missing values
_MOST_CODES = 0.5
# number of rows that estimate medians, ranges and densities; everything else uses all rows
SAMPLE = 100_000
# smallest number of rows for comparing columns; two columns of fewer rows may agree by chance
FEWEST_ROWS = 8
# independent whole numbers are all different with a chance below exp(−14) ≈ 1e-6
_BIRTHDAY = 14.0


def varies(column: Array) -> bool:
    """Test whether a column has two different values."""
    there = column[~np.isnan(column)]
    return bool(there.size and there.min() != there.max())


def spread_evenly(values: Array, most: int) -> Array:
    """Return at most `most` rows, evenly chosen."""
    return values if len(values) <= most else values[np.linspace(0, len(values) - 1, most).astype(np.intp)]


def centre_and_deviation(column: Array) -> tuple[float, float]:
    """Return median and 1.4826 × median absolute deviation; if most values equal the median, of the others."""
    sample = spread_evenly(column[~np.isnan(column)], SAMPLE)
    centre = float(np.median(sample))
    deviations = np.abs(sample - centre)
    deviation = float(np.median(deviations))
    if deviation == 0 and deviations.any():
        deviation = float(np.median(deviations[deviations > 0]))
    return centre, 1.4826 * deviation


def outliers(column: Array) -> NDArray[np.intp]:
    """Return rows whose values are outliers, the farthest first."""
    none = np.empty(0, dtype=np.intp)
    there = np.flatnonzero(~np.isnan(column))
    if len(there) < FEWEST_ROWS:
        return none
    with np.errstate(over="ignore"):
        centre, deviation = centre_and_deviation(column)
        distance = np.abs(column[there] - centre)
    rows, distance = there[distance > 0], distance[distance > 0]
    if deviation == 0 or len(distance) < FEWEST_ROWS or distance.max() <= ROBUST_DEVIATIONS * deviation:
        return none
    most = max(1, int(_MOST_OUTLIERS * len(distance)))
    tail = max(5, len(distance) // 10)
    farthest = np.argsort(-distance, kind="stable")[: most + tail + 1]
    ordered = distance[farthest]
    for count in range(most, 0, -1):
        below = ordered[count]
        if ordered[count - 1] <= ROBUST_DEVIATIONS * deviation or ordered[count - 1] < _LEAST_GAP * below:
            continue
        logs = np.log(ordered[count : count + tail + 1])
        gap = count * np.log(ordered[count - 1] / below) / max(float((logs[:-1] - logs[-1]).mean()), _LEAST_MEAN_LOG)
        # the ratio of an exponential variable to the mean of others, whose number is the length of the tail
        if gap > tail * (_GAP_CHANCE ** (-1 / tail) - 1):
            return np.asarray(rows[farthest[:count]])
    return rows[_are_codes(column[rows], distance, ROBUST_DEVIATIONS * deviation)]


def _are_codes(values: Array, distance: Array, least: float) -> NDArray[np.bool_]:
    """Return a mask of one or two values that recur, farther from the median than `least` and than all others."""
    found = np.zeros(len(values), dtype=bool)
    for _ in range(2):
        farthest = values[~found][distance[~found].argmax()]
        same, others = values == farthest, distance[~found & (values != farthest)]
        is_far = distance[same][0] > max(least, _LEAST_GAP * others.max(initial=0.0))
        if not (is_far and same.sum() > 1 and others.size > _MOST_CODES * len(values)):
            break
        found |= same
    return found


def counts_rows(column: Array) -> bool:
    """Test whether a column numbers the rows."""
    there = np.sort(column[~np.isnan(column)])
    gaps = np.diff(there)
    n = len(there)
    if n < FEWEST_ROWS or (step := float(gaps.min())) <= 0:
        return False
    places = (there - there[0]) / step
    whole = bool((np.abs(places - np.round(places)) < 0.05).all())
    return whole and n * (n - 1) / 2 > _BIRTHDAY * float(places[-1])
