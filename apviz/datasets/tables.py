"""Your own table: a CSV or Parquet file with a target column."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from apviz.datasets.cards import Card
from apviz.datasets.preprocessing import (
    Dataset,
    RawTable,
    check_settings,
    check_values,
    prepare,
    scaled,
    varying_inputs,
)
from apviz.rounding import copies, lost, merged_rows

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")
# how pandas calls a column whose name is empty
UNNAMED = re.compile(r"Unnamed: \d+(\.\d+)?")
# beyond it float64 does not tell one whole number from the next
_WHOLE = 2**53


def load_table(
    path: str | Path,
    target: str | int,
    *,
    seed: int = 0,
    n: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Dataset:
    """Reads a table of numbers and preprocesses it as `load` does; every column but the target is an input.

    What is left out of the table, or becomes alike by rounding, is warned about and in the `notes` of the data set.

    Args:
        target: a name: the first line of a CSV file holds the names; or a position (−1 is the last column): a CSV file
            has no header. A Parquet file has names in any case and takes either.
        seed: of the shuffle before the split.
        n: keeps the first n of the shuffled training rows; all test rows stay.
        dtype: torch.float32 or torch.float64.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no table of numbers: a row that is longer or shorter than the header, two columns of one name,
            values that are missing or no numbers, or a column whose values its largest leaves no room for.
    """
    check_settings(seed, n, dtype)
    path = Path(path)
    table = read_table(path, target)
    check_values(table, str(path))
    card = Card(
        # whole: no data set of apviz is called so, and houses.2023.csv is not houses.2024.csv
        name=path.name,
        title=path.name,
        n=len(table.target),
        d=int(varying_inputs(table).sum()),
        d_raw=table.inputs.shape[1],
        target=table.target_name,
        licence="not stated: your own table",
        citation="",
        page="",
        documented="",
        reading="Every column but the target is an input.",
        files=(path.name,),
    )
    data = prepare(table, card, seed=seed, n=n, dtype=dtype, source=str(path))
    notes = _notes(table, path, dtype)
    for note in notes:
        warnings.warn(f"{path}: {note}", stacklevel=2)
    return replace(data, notes=tuple(notes))


def _notes(table: RawTable, path: Path, dtype: torch.dtype) -> list[str]:
    """What was left out, and what rounding to dtype makes alike.

    Raises:
        ValueError: a column of which not even float64 keeps the values apart.
    """
    notes, varying = [], varying_inputs(table)
    names = tuple(name for name, varies in zip(table.feature_names, varying, strict=True) if varies)
    constant = [name for name in table.feature_names if name not in names]
    if constant:
        notes.append(f"left out, for every row has the same value: {', '.join(constant)}")
    unnamed = [name for name in names if UNNAMED.fullmatch(name)]
    if unnamed:
        notes.append(
            f"a column without a name in the file is an input: {', '.join(unnamed)}; if it only numbers the rows, as "
            "pandas writes them, write the file with index=False, or drop it"
        )
    raw = np.column_stack([table.inputs[:, varying], table.target])
    twice = copies(raw)
    if twice:
        notes.append(f"{twice:,} of {len(raw):,} rows are exact copies of another; they are kept")
    exact, columns = np.column_stack(scaled(table)), (*names, table.target_name)
    rounded = exact.astype(str(dtype).removeprefix("torch."))
    fewer = lost(columns, raw, rounded)
    # what is lost in float64 is lost in float32 too
    hopeless = lost(columns, raw, exact) if fewer else []
    if hopeless:
        raise ValueError(f"{path}: {hopeless[0]}. Correct or drop such rows, or take the logarithm of the column")
    return [*notes, *fewer, *merged_rows(raw[:, :-1], exact[:, :-1], rounded[:, :-1])]


def read_table(path: Path, target: str | int) -> RawTable:
    """Raw table of a CSV or Parquet file (see `load_table` for `target`).

    Raises:
        FileNotFoundError: no such file.
        ValueError: no table of numbers.
    """
    frame = _read_frame(path, headerless=not isinstance(target, str))
    position = _target_position(frame, target, path)
    _check_numeric(frame, path, headerless=frame.columns.inferred_type == "integer")
    columns = [str(name) for name in frame.columns]
    values = np.column_stack([_numbers(frame.iloc[:, place]) for place in range(len(columns))])
    return RawTable(
        inputs=np.delete(values, position, axis=1),
        target=values[:, position],
        feature_names=tuple(columns[:position] + columns[position + 1 :]),
        target_name=columns[position],
    )


def _read_frame(path: Path, headerless: bool) -> pd.DataFrame:
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise ValueError(f"{path}: expected a file ending in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise FileNotFoundError(f"No such file: {path}")
    if name.endswith((".parquet", ".pq")):
        import pyarrow.parquet

        with _readable(path):
            columns = pyarrow.parquet.read_schema(path).names
        _require_one_of_each(columns, path)
        with _readable(path):
            frame = pd.read_parquet(path)
            # pandas hides a column that it wrote as an index
            return frame.reset_index([each for each in frame.index.names if each is not None])
    with _readable(path), _lines(path) as lines:
        first = next((row for row in lines if row), list[str]())
    if not headerless:
        _require_one_of_each(first, path)
    try:
        with _readable(path):
            frame = pd.read_csv(path, header=None if headerless else 0)
    except ValueError as error:
        if isinstance(error.__cause__, pd.errors.ParserError):
            _require_even(path, len(first), headerless)
        raise
    # pandas takes the first columns for an index where the first row is longer, and fills up rows that are shorter
    if not isinstance(frame.index, pd.RangeIndex) or frame.isna().any(axis=None):
        _require_even(path, len(first), headerless)
    return frame


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """The errors of all readers and decompressors, in a sentence."""
    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty") from error
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error


@contextmanager
def _lines(path: Path) -> Iterator[Any]:
    """The rows of a CSV file as lists of text, with the number of the line in `line_num`."""
    compressed = path.name.lower().endswith(".gz")
    with gzip.open(path, "rb") if compressed else path.open("rb") as file:
        yield csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""))


def _require_even(path: Path, width: int, headerless: bool) -> None:
    """Refuse a file with a row that has more or fewer values than the first line; blank lines do not count."""
    with _readable(path), _lines(path) as lines:
        uneven = next(((lines.line_num, len(row)) for row in lines if row and len(row) != width), None)
    if uneven:
        raise ValueError(
            f"{path}: line {uneven[0]} has {uneven[1]} values, {'the first' if headerless else 'the header'} has "
            f"{width}; every row needs one for each column. Look for a comma too many or too few, or a column without "
            "a name"
        )


def _require_one_of_each(names: Sequence[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise ValueError(f"{path} has more than one column called {', '.join(twice)}; give each a name of its own")


def _numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """As float64; whole numbers too large for it less their smallest, for scaling takes no notice of that."""
    if pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any():
        low, high = int(column.min()), int(column.max())
        if max(-low, high) > _WHOLE:
            whole = column.to_numpy(dtype=np.uint64 if high >= 2**63 else np.int64).astype(np.uint64)
            return np.asarray((whole - np.uint64(low % 2**64)).astype(np.float64))
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _target_position(frame: pd.DataFrame, target: str | int, path: Path) -> int:
    count = len(frame.columns)
    if count < 2:
        raise ValueError(f"{path} has {count} column: a target and at least one input are needed, separated by commas")
    if not isinstance(target, str):
        if not -count <= target < count:
            raise ValueError(f"target = {target}: {path} has {count} columns, so −{count} to {count - 1} are accepted")
        return target % count
    columns = [str(name) for name in frame.columns]
    if target not in columns:
        raise ValueError(f"target = {target!r}: {path} has no such column; its columns are {', '.join(columns)}")
    return columns.index(target)


def _check_numeric(frame: pd.DataFrame, path: Path, headerless: bool) -> None:
    bad = [
        str(name)
        for name, kind in frame.dtypes.items()
        if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind)
    ]
    if bad:
        hint = " If the first line holds column names, give the target by name." if headerless else ""
        raise ValueError(f"{path}: not numeric: {', '.join(bad)}. Encode these columns as numbers or drop them.{hint}")
