"""Tables of new rows: the inputs of a model that was fitted to another table, by the names of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from apviz.datasets.arrays import UNLIMITED, SizeLimits
from apviz.datasets.columns import Array, quoted
from apviz.datasets.encoding import Encoding, unseen_note
from apviz.datasets.reading import read_columns
from apviz.datasets.sphere import AnyEncoding
from apviz.datasets.tables import Dates, Decimal, columns_of, require_answers

#: kinds of values that a table of predictions can hold
_SIMPLE = ("string", "integer", "floating", "mixed-integer-float", "boolean", "categorical", "datetime64", "date")


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows to predict.

    Attributes:
        frame: the columns of the file that hold plain values, as read.
        inputs: (m, d) inputs of the model; NaN where a value is missing.
        names: (d,) names of the inputs.
        sources: (d,) names of the columns that they come from.
        left_out: names of columns that are not in `frame`.
        notes: on the reading, one sentence each.
    """

    frame: pd.DataFrame
    inputs: Array
    names: tuple[str, ...]
    sources: tuple[str, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def incomplete(self) -> NDArray[np.bool_]:
        """Mask of the rows without a value of every input, (m,)."""
        return np.asarray(np.isnan(self.inputs).any(axis=1))


def read_new_rows(
    path: str | Path,
    encodings: Sequence[AnyEncoding],
    *,
    decimal: Decimal = None,
    dates: Dates = None,
    limits: SizeLimits = UNLIMITED,
) -> NewRows:
    """Read a table, whose columns may have any order, and convert those that the model needs as in its training rows.

    Dates that can be read in two ways have the order of the training rows, if these had one.

    Args:
        limits: for files from untrusted users.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a table; a column is missing, holds another kind of values, or can be read in two ways.
    """
    path = Path(path)
    needed = [name for each in encodings for name in each.columns]
    frame, text = read_columns(path, name=needed[0], decimal=decimal, limits=limits)
    absent = [name for name in needed if name not in frame.columns]
    if absent:
        raise ValueError(
            f"{path} has no column {quoted(absent)}, which the model needs; it has {quoted(list(frame.columns), 40)}. "
            "Add or rename the column"
        )
    if not len(frame):
        raise ValueError(f"{path} has no rows")
    if dates is None or isinstance(dates, Mapping):
        known = {each.column: each.order for each in encodings if isinstance(each, Encoding) and each.order}
        dates = {**known, **(dates or {})}
    columns = columns_of(path, frame, text, decimal, dates, needed)
    require_answers(path, columns)
    by_name = dict(zip(needed, columns, strict=True))
    pairs = [(each, [by_name[name] for name in each.columns]) for each in encodings]
    try:
        parts = [encoding.inputs(*own) for encoding, own in pairs]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    unseen = {encoding.column: texts for encoding, own in pairs if (texts := encoding.unseen(*own))}
    notes = [column.note for column in columns if column.note] + ([unseen_note(unseen)] if unseen else [])
    left_out = [name for name in frame.columns if pd.api.types.infer_dtype(frame[name], skipna=True) not in _SIMPLE]
    left_out = [name for name in left_out if not frame[name].isna().all()]
    made = [(name, each.column) for each in encodings for name in each.names]
    names, sources = zip(*made, strict=True)
    return NewRows(
        frame.drop(columns=left_out), np.column_stack(parts), names, sources, tuple(left_out), tuple(notes)
    )  # fmt: skip
