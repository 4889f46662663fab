"""Detection of oddities in tables of numbers: outliers, duplicates, row numbers.

The units of columns do not matter, so raw and scaled numbers give the same findings. Missing and infinite values
are ignored. Definitions, and why healthy columns are not reported:

- *Outlier*: more than 20 robust deviations (1.4826 × median absolute deviation) from the median. In honest
  heavy-tailed columns (lognormal, Cauchy) many values are that far out, but they follow each other closely. So an
  outlier must also lie at least 3 times farther out than the next value, and farther than chance does in 3 of
  1,000 such columns. In a tail of weight α (Hill's estimate from the next 10% of the values, at least 5) the k
  farthest lie t times farther out than the next with probability t^(−αk), corrected for the error of an estimate
  from few values. Outliers are at most 2% of the values; more are a second cluster, unless they are all equal, as
  codes for missing values such as −999 are. If more than half of the values are equal, as in zero-inflated columns,
  only the others count. Among 11 rows, only gross outliers can be distinguished from a tail.
- *Duplicate rows*: inputs equal to those of an earlier row; with `y` the message says whether targets agree.
- *Near-duplicate rows*: different rows that no column separates by more than 1e-6 of its range (between its 5% and
  95% quantiles, so that an outlier does not make all others neighbours), unless chance explains them: many points
  on a line come as close. Chance is extrapolated from the numbers of pairs 1e-4 to 1e-3 and 1e-3 to 1e-2 apart, by
  the power law of the distance through both. The number found must have a Poisson probability below 0.1% even
  if three times as many are expected.
- *Equal columns*: correlation ±1 up to rounding, so copies and changes of units: standardised, they differ by less
  than 1e-5 (RMS), apart from rows with outliers.
- *Target among the inputs*: an input that is equal to the target in the same sense. Such an input predicts perfectly,
  and is usually not known where one predicts.
- *Two target values*: the target has only two different values, so it says a class rather than a number.
- *ID-like column*: different values, each a whole number of steps from the smallest, so densely that independent
  numbers would collide: n(n − 1) / 2 > 14 (largest − smallest) / step, a chance of 1e-6. Row numbers, customer
  numbers, and also times on a regular grid. If every column is like this, they are a design, and none is reported.
- *Constant column*: at most one value.

The cost is O(n d + n log n) for n rows and d columns. Medians and ranges use at most 100,000 evenly chosen rows,
and the expected number of near-duplicates 4,000; everything else uses every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from scipy.special import gammainc

from apviz.datasets.tables.outliers import (
    FEWEST_ROWS,
    SAMPLE,
    centre_and_deviation,
    counts_rows,
    outliers,
    spread_evenly,
    varies,
)
from apviz.duplicates import near_pairs

Array = NDArray[np.float64]

#: what is said of an ID-like column
NUMBERS_ROWS: Final = "only counts the rows"
#: what is said of an input that is the target
LEAK: Final = ", and one is the target: leave out an input that is not known before the target is"
#: near-duplicate rows differ by at most this fraction of each column's range
NEAR: Final = 1e-6
_TREE_SAMPLE = 4_000
# columns are affine copies if they differ by less than this many standard deviations (RMS)
_SAME = 1e-5
_SHOWN_ROWS = 5
# whole numbers below this are written with all their digits
_ALL_DIGITS = 1e15
_SHOWN_COLUMNS = 3


class OddityKind(StrEnum):
    """The kinds of oddities in data."""

    OUTLIER_IN_INPUTS = "outlier in inputs"
    OUTLIER_IN_TARGETS = "outlier in targets"
    DUPLICATE_ROWS = "duplicate rows"
    NEAR_DUPLICATE_ROWS = "near-duplicate rows"
    TARGET_IN_INPUTS = "target among the inputs"
    TWO_TARGET_VALUES = "two target values"
    EQUAL_COLUMNS = "equal columns"
    ID_COLUMN = "ID-like column"
    CONSTANT_COLUMN = "constant column"


ROW_KINDS: Final = frozenset({OddityKind.DUPLICATE_ROWS, OddityKind.NEAR_DUPLICATE_ROWS})


@dataclass(frozen=True)
class Oddity:
    """One oddity of a table of numbers.

    Attributes:
        columns: names of the affected columns; empty for whole rows.
        count: number of affected rows.
        rows: the first few of them, counted from 0.
        message: a sentence without a full stop; rows are counted from 1.
    """

    kind: OddityKind
    columns: tuple[str, ...]
    count: int
    rows: tuple[int, ...]
    message: str


def find_oddities(
    x: ArrayLike, y: ArrayLike | None = None, names: Sequence[str] | None = None, numbers: ArrayLike | None = None
) -> list[Oddity]:
    """Return the oddities of inputs and targets, the most harmful kind first.

    Definitions are at the head of this module.

    Args:
        x: (n, d), inputs.
        y: (n,) or (n, m), targets.
        names: of the d columns, followed by those of the targets if they have names.
        numbers: (n,), positions of the rows in the table that they were selected from, from 0; None: all rows.

    Raises:
        ValueError: x is not a matrix, or y, names or numbers do not match it.

    Examples:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).uniform(size=(50, 2))
        >>> x[3, 0] = 1e6
        >>> [each.kind.value for each in find_oddities(x)]
        ['outlier in inputs']
    """
    x, targets, named, of_targets, rows = _checked(x, y, names, numbers)
    n, d = x.shape
    varying = np.array([varies(column) for column in x.T], dtype=bool)
    far_out = {int(place): far for place in np.flatnonzero(varying) if len(far := outliers(x[:, place]))}
    in_targets = {place: far for place, column in enumerate(targets.T) if len(far := outliers(column))}
    ordinary = np.ones(n, dtype=bool)
    for each in [*far_out.values(), *in_targets.values()]:
        ordinary[each] = False
    shown = [name for name, kept in zip(named[:d], varying, strict=True) if kept]
    numbered = id_columns(x)
    found = [
        *_report_outliers(OddityKind.OUTLIER_IN_INPUTS, x, far_out, named[:d], rows),
        *_report_outliers(OddityKind.OUTLIER_IN_TARGETS, targets, in_targets, of_targets, rows),
        *_row_oddities(x[:, varying], targets, rows),
        *_two_values(targets, of_targets, rows),
        *_equal_columns(np.hstack([x[:, varying], targets])[ordinary], [*shown, *of_targets], len(shown)),
    ]
    found += [_report_id(x[:, place], named[place], rows) for place in numbered]
    constant = [place for place in range(d) if not varying[place]]
    if constant:
        messages = [f"{named[place]} is constant{_value(x[:, place])}" for place in constant]
        found.append(_oddity(OddityKind.CONSTANT_COLUMN, [named[place] for place in constant], rows, messages))
    return found


def _checked(
    x: ArrayLike, y: ArrayLike | None, names: Sequence[str] | None, numbers: ArrayLike | None
) -> tuple[Array, Array, Sequence[str], Sequence[str], NDArray[np.intp]]:
    """Return inputs and targets with NaN for what is not finite, their names, and the positions of the rows.

    Raises:
        ValueError: x is not a matrix, or y, names or numbers do not match it.
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2:
        raise ValueError(f"x has shape {x.shape}; expected rows and columns, (n, d)")
    n, d = x.shape
    targets = np.empty((n, 0)) if y is None else np.asarray(y, dtype=np.float64)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if targets.ndim != 2 or len(targets) != n:
        raise ValueError(f"y has shape {targets.shape}; expected one row for each of the {n:,} rows of x")
    named = tuple(names) if names is not None else tuple(f"column {place + 1}" for place in range(d))
    if len(named) not in (d, d + targets.shape[1]):
        raise ValueError(f"names has {len(named)} entries; expected {d}, one for each column of x")
    of_targets = named[d:] or [f"target {place + 1}" for place in range(targets.shape[1])]
    rows = np.arange(n) if numbers is None else np.asarray(numbers, dtype=np.intp)
    if rows.shape != (n,):
        raise ValueError(f"numbers has shape {rows.shape}; expected ({n},), one for each row of x")
    return np.where(np.isfinite(x), x, np.nan), np.where(np.isfinite(targets), targets, np.nan), named, of_targets, rows


def id_columns(x: Array) -> list[int]:
    """Return the places of ID-like columns, none if every column that varies is one.

    Args:
        x: (n, d); missing values are NaN.
    """
    varying = [place for place, column in enumerate(x.T) if varies(column)]
    found = [place for place in varying if counts_rows(x[:, place])]
    return found if len(found) < len(varying) else []


# --- rows -------------------------------------------------------------------------------------------------------------


def _row_oddities(x: Array, targets: Array, numbers: NDArray[np.intp]) -> Iterator[Oddity]:
    """Yield duplicate and near-duplicate rows."""
    n = len(x)
    if not x.shape[1] or n < 2:
        return
    is_first = _is_first(x)
    first, again = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    if len(again):
        text = f"{len(again):,} of {n:,} rows have the inputs of an earlier row"
        if targets.shape[1]:
            same = n - np.count_nonzero(_is_first(np.column_stack([x, targets])))
            text += f", {same:,} of them with the same targets"
        again = numbers[again]
        yield _oddity(OddityKind.DUPLICATE_ROWS, (), again, [text + _which(again)])
    complete = first[~np.isnan(x[first]).any(axis=1)]
    pairs = _near_pairs(x[complete]) if len(complete) > 1 else np.empty((0, 2), dtype=np.intp)
    near = numbers[complete[np.unique(pairs[:, 1])]]
    if len(near):
        text = f"{len(near):,} of {n:,} rows differ from another row by less than {NEAR:g} of every column's range"
        yield _oddity(OddityKind.NEAR_DUPLICATE_ROWS, (), near, [text + _which(near)])


def _is_first(x: Array) -> NDArray[np.bool_]:
    """Test for each row whether no earlier row is equal: −0.0 equals 0.0, and all NaN are equal.

    It compares 64-bit hashes: two of a million different rows share one with a chance of 3 in 10⁸.
    """
    hashes = pd.util.hash_pandas_object(pd.DataFrame(x + 0.0), index=False)
    return np.asarray(~hashes.duplicated())


def _near_pairs(x: Array) -> NDArray[np.intp]:
    """Return pairs of near-duplicate rows, the smaller position first; see above."""
    sample = spread_evenly(x, SAMPLE)
    low, high = np.quantile(sample, [0.05, 0.95], axis=0)
    span = np.where(high > low, high - low, x.max(axis=0) - x.min(axis=0))
    kept = span > 0
    scaled = (x[:, kept] - np.median(sample[:, kept], axis=0)) / span[kept]
    direction = np.random.default_rng(0).uniform(0.5, 1.0, kept.sum())
    pairs = near_pairs(scaled, NEAR, direction)
    if not len(pairs) or gammainc(len(pairs), 3 * _expected_pairs(scaled)) > 1e-3:
        return np.empty((0, 2), dtype=np.intp)
    return np.asarray(pairs)


def _expected_pairs(scaled: Array) -> float:
    """Return the expected number of pairs within `NEAR` by chance; see above."""
    sample = spread_evenly(scaled, _TREE_SAMPLE)
    tree, size = cKDTree(sample), len(sample)
    counts = tree.count_neighbors(tree, [1e-4, 1e-3, 1e-2], p=np.inf) / 2
    # too few pairs for an estimate: use points on a line, with 10 times as many pairs within 10 times the distance
    inner, outer = np.diff(counts) + np.array([0.1, 1.0])
    growth = max(outer / inner, 1.1)
    within = inner / (1 - 1 / growth)
    return float((len(scaled) / size) ** 2 * within * growth ** np.log10(NEAR / 1e-3))


# --- several columns --------------------------------------------------------------------------------------------------


def _two_values(targets: Array, names: Sequence[str], numbers: NDArray[np.intp]) -> Iterator[Oddity]:
    """Yield targets with only two different values."""
    for column, name in zip(targets.T, names, strict=True):
        values = np.unique(column[~np.isnan(column)])
        if len(values) == 2 and len(column) >= FEWEST_ROWS:
            text = f"{name} is only {written(values[0])} or {written(values[1])}: predictions are numbers, not classes"
            yield _oddity(OddityKind.TWO_TARGET_VALUES, [name], numbers, [text])


def _equal_columns(x: Array, names: Sequence[str], inputs: int) -> Iterator[Oddity]:
    """Yield groups of columns that are affine functions of each other; x without outliers, the inputs first."""
    n, d = x.shape
    if n < FEWEST_ROWS or d < 2:
        return
    standard = np.zeros((d, n))
    for place, column in enumerate(x.T):
        if np.isnan(column).all():
            continue
        scale = np.nanmax(np.abs(column), initial=0.0) or 1.0
        centred = column / scale - np.nanmean(column / scale)
        deviation = np.sqrt(np.nanmean(centred**2))
        if deviation > 0:
            standard[place] = np.nan_to_num(centred / deviation)
    # copies have the same size along a random direction; candidates are then compared row by row
    along = np.abs(standard @ np.random.default_rng(0).standard_normal(n)) / np.sqrt(n)
    order = np.argsort(along, kind="stable")
    group = np.arange(d)
    for place, one in enumerate(order):
        for other in order[place + 1 :]:
            if along[other] - along[one] > 6 * _SAME:
                break
            if _rms_apart(standard[one], standard[other]) <= _SAME:
                group[group == group[other]] = group[one]
    for each in np.unique(group):
        members = np.flatnonzero(group == each).tolist()
        if len(members) < 2 or not standard[members[0]].any():
            continue
        of_inputs = [member for member in members if member < inputs]
        if len(of_inputs) != 1:  # several inputs, or targets alone
            yield _of_equal(OddityKind.EQUAL_COLUMNS, x, names, of_inputs or members)
        if of_inputs and of_inputs != members:
            yield _of_equal(OddityKind.TARGET_IN_INPUTS, x, names, members, LEAK)


def _of_equal(kind: OddityKind, x: Array, names: Sequence[str], members: Sequence[int], more: str = "") -> Oddity:
    """Return the oddity of columns that are equal up to their units."""
    equal = all(np.array_equal(x[:, members[0]], x[:, other], equal_nan=True) for other in members[1:])
    which = [names[member] for member in members]
    how = "are equal" if equal else "are the same column in different units (correlation ±1)"
    text = f"{', '.join(which[:-1])} and {which[-1]} {how}{more}"
    return _oddity(kind, which, np.empty(0, dtype=np.intp), [text])


def _rms_apart(one: Array, other: Array) -> float:
    """Return the root mean square of the difference, or of the sum if that is smaller."""
    return float(min(np.sqrt(np.mean((one - other) ** 2)), np.sqrt(np.mean((one + other) ** 2))))


# --- wording ----------------------------------------------------------------------------------------------------------


def _report_outliers(
    kind: OddityKind,
    values: Array,
    outliers: dict[int, NDArray[np.intp]],
    names: Sequence[str],
    numbers: NDArray[np.intp],
) -> Iterator[Oddity]:
    if not outliers:
        return
    messages = []
    for place, rows in outliers.items():
        centre, deviation = centre_and_deviation(values[:, place])
        worst = values[rows[0], place]
        text = f"{names[place]} is {worst:.4g} in row {numbers[rows[0]] + 1:,}, {abs(worst - centre) / deviation:,.3g} "
        text += f"robust deviations from its median {centre:.4g}"
        is_code = len(rows) > 1 and (values[rows, place] == worst).all()
        many = f"{len(rows):,} {'equal values; a code for missing ones?' if is_code else 'such values'}"
        messages.append(text + (f" ({many})" if len(rows) > 1 else ""))
    rows = np.unique(np.concatenate(list(outliers.values())))
    yield _oddity(kind, [names[place] for place in outliers], numbers[rows], messages)


def _report_id(column: Array, name: str, numbers: NDArray[np.intp]) -> Oddity:
    there = column[~np.isnan(column)]
    steps = np.diff(there)
    ordered = ", in row order" if (steps > 0).all() or (steps < 0).all() else ""
    text = f"{name} {NUMBERS_ROWS}: {len(there):,} different values in whole steps from {written(there.min())} to "
    text += f"{written(there.max())}{ordered}. Leave it out unless it is a time or a place"
    return _oddity(OddityKind.ID_COLUMN, [name], numbers, [text])


def written(number: float) -> str:
    """Format a number of a column: a whole one with all its digits, as in the file, any other with four."""
    return f"{number:.0f}" if number == round(number) and abs(number) < _ALL_DIGITS else f"{number:.4g}"


def _oddity(kind: OddityKind, columns: Sequence[str], rows: NDArray[np.intp], messages: Sequence[str]) -> Oddity:
    more = len(messages) - _SHOWN_COLUMNS
    message = "; ".join(messages[:_SHOWN_COLUMNS]) + (f"; and {more:,} more columns" if more > 0 else "")
    return Oddity(kind, tuple(columns), len(rows), tuple(int(row) for row in rows[:_SHOWN_ROWS]), message)


def _which(rows: NDArray[Any]) -> str:
    shown = ", ".join(f"{row + 1:,}" for row in rows[:_SHOWN_ROWS])
    return f" (row{'s' if len(rows) > 1 else ''} {shown}{', …' if len(rows) > _SHOWN_ROWS else ''})"


def _value(column: Array) -> str:
    there = column[~np.isnan(column)]
    return f" ({there[0]:.6g})" if there.size else " (no values)"
