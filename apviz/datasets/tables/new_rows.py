"""Tables of new rows, batch by batch: the inputs of a model of another table, by the names of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow

from apviz.datasets.sphere import AnyEncoding
from apviz.datasets.tables.arrays import UNLIMITED, SizeLimits
from apviz.datasets.tables.batches import Batches, open_batches
from apviz.datasets.tables.columns import Array, Column, Reading, Unread, column_of, quoted, reading_of
from apviz.datasets.tables.encoding import MOST_UNSEEN, Encoding, unseen_note
from apviz.datasets.tables.table import Dates, Decimal, by_column, require_answers

#: smallest and largest training value of each input, by its name
Ranges = Mapping[str, tuple[float, float]]
# rounding of these values, as a share of the range
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows to predict, whose batches are read from the file each time.

    Attributes:
        schema: the columns of the file that hold plain values, and their types.
        names: (d,) names of the inputs.
        left_out: names of columns that are not in `schema`.
        notes: on the reading, one sentence each.
        count: number of rows.
        incomplete: number of rows without a value of every input.
        first_incomplete: position of the first of them, and the column without a value; None: all are complete.
        outside: number of rows with an input outside its training range.
    """

    schema: pyarrow.Schema
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    count: int
    incomplete: int
    first_incomplete: tuple[int, str] | None
    outside: int
    _table: Batches
    _inputs: _Inputs

    def batches(self, names: Sequence[str] | None = None) -> Iterator[tuple[pd.DataFrame, Array]]:
        """Yield the columns of `schema` and the inputs (m, d), in the order of names; NaN where a value is missing."""
        order = [self.names.index(name) for name in (self.names if names is None else names)]
        for frame in self._table.frames():
            yield frame[self.schema.names], self._inputs.of(frame)[0][:, order]

    def inputs(self, names: Sequence[str] | None = None) -> Array:
        """Return the inputs of all rows at once, (n, d)."""
        return np.concatenate([inputs for _, inputs in self.batches(names)])


def read_new_rows(
    path: str | Path,
    encodings: Sequence[AnyEncoding],
    *,
    decimal: Decimal = None,
    dates: Dates = None,
    ranges: Ranges | None = None,
    limits: SizeLimits = UNLIMITED,
) -> NewRows:
    """Read a table, whose columns may have any order, and convert those that the model needs as in its training rows.

    Dates that can be read in two ways have the order of the training rows, if these had one. The table is read batch by
    batch: once to decide how its texts are read, once to check that all rows can be converted.

    Args:
        ranges: of the inputs, to count the rows outside.
        limits: for files from untrusted users.

    Raises:
        ValueError: not a table; a column is missing, holds another kind of values, or can be read in two ways.
    """
    path = Path(path)
    needed = [name for each in encodings for name in each.columns]
    table = open_batches(path, name=needed[0], decimal=decimal, limits=limits)
    absent = [name for name in needed if name not in table.names]
    if absent:
        raise ValueError(
            f"{path} has no column {quoted(absent)}, which the model needs; it has {quoted(table.names, 40)}. "
            "Add or rename the column"
        )
    if dates is None or isinstance(dates, Mapping):
        known = {each.column: each.order for each in encodings if isinstance(each, Encoding) and each.order}
        dates = {**known, **(dates or {})}
    marks, orders = (by_column(*each, path, table.names) for each in (("decimal", decimal), ("dates", dates)))
    readings = {}
    for name, texts in table.texts(needed).items():
        levels, counts = texts.levels_and_counts
        if len(levels):
            readings[name] = reading_of(
                levels, counts, decimal=marks.get(name), points_are_open=table.points_are_open, order=orders.get(name)
            )
    require_answers(path, {name: each.question for name, each in readings.items()})
    inputs = _Inputs(path, tuple(encodings), readings)
    found = _Tally(inputs, ranges or {})
    for frame in table.frames():
        found.add(frame)
    if not found.count:
        raise ValueError(f"{path} has no rows")
    return NewRows(
        table.schema, inputs.names, table.left_out, found.notes(), found.count, found.incomplete,
        found.first_incomplete, found.outside, table, inputs,
    )  # fmt: skip


@dataclass(frozen=True)
class _Inputs:
    """The conversion of a batch to inputs."""

    path: Path
    encodings: tuple[AnyEncoding, ...]
    readings: Mapping[str, Reading]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for each in self.encodings for name in each.names)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the columns that the inputs come from."""
        return tuple(each.column for each in self.encodings for _ in each.names)

    def of(self, frame: pd.DataFrame) -> tuple[Array, list[list[Column]]]:
        """Return the inputs of a batch (m, d), and the columns of each encoding, of the same kinds."""
        own = [
            [column_of(name, frame[name], reading=self.readings.get(name)) for name in each.columns]
            for each in self.encodings
        ]  # fmt: skip
        try:
            parts = [encoding.inputs(*columns) for encoding, columns in zip(self.encodings, own, strict=True)]
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error
        return np.column_stack(parts), own


@dataclass(eq=False)
class _Tally:
    """What all batches together have: rows, rows without a value, and values that cannot be used."""

    inputs: _Inputs
    ranges: Ranges
    count: int = 0
    incomplete: int = 0
    outside: int = 0
    first_incomplete: tuple[int, str] | None = None
    unread: dict[str, Unread] = field(default_factory=dict)
    unseen: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, frame: pd.DataFrame) -> None:
        inputs, columns = self.inputs.of(frame)
        missing = np.isnan(inputs)
        lacking = np.flatnonzero(missing.any(axis=1))
        if len(lacking) and self.first_incomplete is None:
            column = self.inputs.sources[int(missing[lacking[0]].argmax())]
            self.first_incomplete = self.count + int(lacking[0]), column
        outside = np.zeros(len(inputs), dtype=bool)
        for values, name in zip(inputs.T, self.inputs.names, strict=True):
            low, high = self.ranges.get(name, (-np.inf, np.inf))
            margin = _ROUNDING * (high - low)
            outside |= (values < low - margin) | (values > high + margin)
        for encoding, own in zip(self.inputs.encodings, columns, strict=True):
            for each in own:
                self.unread[each.name] = self.unread.get(each.name, Unread()) + each.unread
            if texts := encoding.unseen(*own):
                known = self.unseen.setdefault(encoding.column, {})
                known.update(dict.fromkeys(texts[: MOST_UNSEEN - len(known)]))
        self.count, self.incomplete = self.count + len(inputs), self.incomplete + len(lacking)
        self.outside += int(outside.sum())

    def notes(self) -> tuple[str, ...]:
        notes = [unread.note(name) for name, unread in self.unread.items()]
        notes.append(unseen_note({name: list(texts) for name, texts in self.unseen.items()}) if self.unseen else "")
        return tuple(filter(None, notes))
