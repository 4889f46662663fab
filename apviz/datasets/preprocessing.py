"""The paper's preprocessing: from a raw table to scaled, shuffled and split tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from apviz.datasets.cards import Card
from apviz.rounding import unit
from apviz.settings import LARGEST_SEED, shown

if TYPE_CHECKING:
    from apviz.datasets.sphere import AnyEncoding

TRAIN_FRACTION = 0.8
MINIMUM_ROWS = 10
#: largest number of test rows in a comparison, unless there are more training rows: enough for two digits of an RMSE
TEST_ROWS = 10_000


@dataclass(frozen=True)
class RawTable:
    """Inputs (n, d) and target (n,) in float64, before any scaling.

    Attributes:
        notes: on the preparation of a user's own table, one sentence each.
        dropped: number of its rows with missing values, or dropped as duplicates.
        encodings: how the columns of a user's own table became inputs.
    """

    inputs: NDArray[np.float64]
    target: NDArray[np.float64]
    feature_names: tuple[str, ...]
    target_name: str
    notes: tuple[str, ...] = ()
    dropped: int = 0
    encodings: tuple[AnyEncoding, ...] = ()

    @property
    def d(self) -> int:
        """Number of inputs that vary."""
        return int(varying_inputs(self).sum())

    @property
    def train_rows(self) -> int:
        """Number of training rows: 80%."""
        return train_size(len(self.target))


@dataclass(frozen=True)
class Dataset:
    """A data set ready to solve: train_x (n, d), train_y (n,), test_x (m, d), test_y (m,).

    Attributes:
        train_x: scaled inputs, in [−1, 1].
        train_y: standardised target.
        grid_stride: for pictures only: pixels lie on the grid with this stride.
        grid_shape: (rows, columns) of that grid; (x + 1) / 2 · (shape − 1) gives a pixel's row and column in it.
        notes: on the preparation of a user's own table, the columns left out, and values made equal by rounding.
        preparation: choices and steps of that preparation as JSON, for traces; otherwise empty.
    """

    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    feature_names: tuple[str, ...]
    target_name: str
    card: Card
    seed: int
    grid_stride: int | None = None
    grid_shape: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    preparation: str = ""

    def with_test_rows(self, rows: int) -> Dataset:
        """Return the data set with at most the first `rows` of the shuffled test rows."""
        return replace(self, test_x=self.test_x[:rows], test_y=self.test_y[:rows])

    def for_comparison(self) -> Dataset:
        """Return the data set with at most 10,000 test rows, or n if that is more, and a note on the others.

        An epoch evaluates n² entries, and the test error after it m·n. With few training rows and many test rows, the
        test error would take most of the time.
        """
        rows, there = max(TEST_ROWS, len(self.train_x)), len(self.test_x)
        if there <= rows:
            return self
        note = f"test errors are of the first {rows:,} of {there:,} test rows, which were shuffled"
        return replace(self.with_test_rows(rows), notes=(*self.notes, note))


def train_size(rows: int) -> int:
    """Return the number of training rows among `rows`: the first floor(0.8 n) of the shuffled ones."""
    return floor(TRAIN_FRACTION * rows)


def check_settings(seed: object, n: object, dtype: object) -> None:
    """Refuse an invalid seed, n or dtype before anything is read."""
    if isinstance(seed, bool) or not isinstance(seed, int) or abs(seed) > LARGEST_SEED:
        raise ValueError(f"seed = {shown(seed)}: expected an integer, of at most {LARGEST_SEED}")
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise ValueError(f"n = {n!r}: expected a positive integer (training rows to keep), or None for all")
    if not isinstance(dtype, torch.dtype) or dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype = {shown(dtype)}: expected torch.float32 or torch.float64")


def check_enough(available: int, n: int | None, source: str) -> None:
    """Refuse an n beyond the number of training rows."""
    if n is not None and n > available:
        raise ValueError(f"n = {n:,}: {source} has {available:,} training rows; n must be at most that number")


def check_values(table: RawTable, source: str) -> None:
    """Refuse tables that no Gaussian process can be fitted to, and name the columns at fault."""
    rows = len(table.target)
    if rows < MINIMUM_ROWS:
        raise ValueError(f"{source} has {rows} rows; at least {MINIMUM_ROWS} are needed")
    columns = zip((*table.feature_names, table.target_name), (*table.inputs.T, table.target), strict=True)
    bad = [f"{name} ({int(count):,})" for name, column in columns if (count := np.count_nonzero(~np.isfinite(column)))]
    if bad:
        raise ValueError(f"{source} has NaN or infinite values in: {', '.join(bad)}. Drop or fill these rows")
    if table.target.min() == table.target.max():
        raise ValueError(f"{source}: the target {table.target_name} is constant ({table.target[0]:g})")
    if not varying_inputs(table).any():
        raise ValueError(f"{source}: no input column varies")


def varying_inputs(table: RawTable) -> NDArray[np.bool_]:
    """Return a mask of varying inputs, (d,), by extremes: a constant column's computed variance may not be zero."""
    return np.asarray(table.inputs.min(axis=0) != table.inputs.max(axis=0))


def shuffle(rows: int, seed: int) -> torch.Tensor:
    """Return the permutation of `torch.manual_seed(seed); torch.randperm(rows)` without touching the global state."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(int(seed)))


def scaled(table: RawTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scale the varying inputs to [−1, 1] and standardise the target; (n, d), (n,)."""
    inputs, _ = unit(table.inputs[:, varying_inputs(table)])
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    target, _ = unit(table.target)
    return 2.0 * ((inputs - low) / (high - low)) - 1.0, (target - target.mean()) / target.std(ddof=1)


def prepare(table: RawTable, card: Card, *, seed: int, n: int | None, dtype: torch.dtype, source: str) -> Dataset:
    """Drop constant inputs, scale the others to [−1, 1], standardise the target, shuffle and split.

    Scaling uses all rows, before the split, as in the paper's experiments. It is done in float64 and cast at the end
    (the authors scale in float32; the two differ by rounding only).
    """
    check_values(table, source)
    rows = len(table.target)
    kept = train_size(rows)
    check_enough(kept, n, source)
    varying = varying_inputs(table)
    inputs, target = scaled(table)
    order = shuffle(rows, seed)
    train, test = order[: kept if n is None else n], order[kept:]
    x, y = torch.from_numpy(inputs), torch.from_numpy(target)
    return Dataset(
        train_x=x[train].to(dtype), train_y=y[train].to(dtype), test_x=x[test].to(dtype), test_y=y[test].to(dtype),
        feature_names=tuple(name for name, varies in zip(table.feature_names, varying, strict=True) if varies),
        target_name=table.target_name, card=card, seed=seed,
    )  # fmt: skip
