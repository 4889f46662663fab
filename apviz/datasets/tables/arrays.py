"""Readers of Parquet, `.npy` and `.npz` files, and size limits for files from untrusted users."""

from __future__ import annotations

import math
import sys
import textwrap
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: largest number of characters quoted from the error message of another library
_MOST_QUOTED = 300


@dataclass(frozen=True)
class SizeLimits:
    """Limits for untrusted files, checked before anything is read: unpacked size in bytes, number of columns."""

    nbytes: float = math.inf
    columns: float = math.inf

    def check_bytes(self, path: Path, nbytes: float) -> None:
        """Refuse a file that unpacks to more."""
        if nbytes > self.nbytes:
            raise ValueError(f"{path} unpacks to more than {self.nbytes / 1e6:,.0f} MB, the limit")

    def check_columns(self, path: Path, count: int) -> None:
        """Refuse a file with more columns."""
        if count > self.columns:
            raise ValueError(f"{path} has {count:,} columns; up to {self.columns:,} are accepted")


UNLIMITED = SizeLimits()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the errors of all readers and decompressors into a ValueError of one sentence."""
    try:
        yield
    except Exception as error:
        if str(error).startswith(str(path)):
            raise
        # a library's message may have several lines, or quote a cell of any length
        message = textwrap.shorten(str(error), _MOST_QUOTED, placeholder=" …") or type(error).__name__
        raise ValueError(f"{path} cannot be read as a table: {message}") from error


def require_unique_names(names: Sequence[str], path: Path) -> None:
    """Refuse a table in which two columns have the same name."""
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise ValueError(f"{path} has more than one column called {', '.join(twice)}; give each a name of its own")


def check_parquet(path: Path, limits: SizeLimits) -> Any:
    """Return the schema of a Parquet file of unique names within the limits, without reading its columns."""
    import pyarrow.parquet

    with readable(path):
        about = pyarrow.parquet.read_metadata(path)
        schema = pyarrow.parquet.read_schema(path)
    limits.check_columns(path, len(schema.names))
    size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    limits.check_bytes(path, max(float(size), 8.0 * about.num_rows * about.num_columns))
    require_unique_names(schema.names, path)
    return schema


def read_parquet(path: Path, limits: SizeLimits) -> pd.DataFrame:
    """Read a Parquet file that `check_parquet` accepts, with the index columns of pandas."""
    import pyarrow.parquet

    schema = check_parquet(path, limits)
    texts = (pyarrow.types.is_string, pyarrow.types.is_large_string)
    with readable(path):
        # a text repeated in every row is stored once, so megabytes may unpack to much more
        levels = [field.name for field in schema if any(is_text(field.type) for is_text in texts)]
        return without_index(pyarrow.parquet.read_table(path, read_dictionary=levels).to_pandas())


def without_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which what pandas wrote as an index is a column, with texts as names."""
    frame = frame.reset_index([each for each in frame.index.names if each is not None])
    frame.columns = pd.Index([str(name) for name in frame.columns])
    return frame


def read_arrays(path: Path, limits: SizeLimits) -> pd.DataFrame:
    """Read arrays as columns; objects are never unpickled."""
    with readable(path):
        if path.name.lower().endswith(".npz"):
            with zipfile.ZipFile(path) as members:
                limits.check_bytes(path, sum(each.file_size for each in members.infolist()))
            with np.load(path, allow_pickle=False) as arrays:
                found = {name: np.asarray(arrays[name]) for name in arrays.files}
        else:
            with path.open("rb") as file:
                found = {"column": np.lib.format.read_array(file, allow_pickle=False)}
        for name, array in found.items():
            if array.dtype.kind == "U":
                _check_characters(name, array)
    columns: dict[str, Any] = {}
    for name, array in found.items():
        if array.dtype.names:
            columns |= {field: array[field] for field in array.dtype.names}
        elif array.ndim == 2:
            columns |= {f"{name} {place + 1}": array[:, place] for place in range(array.shape[1])}
        elif array.ndim == 1:
            columns[name] = array
        else:
            raise ValueError(f"{path}: {name} has the shape {array.shape}; vectors and matrices of rows are accepted")
    limits.check_columns(path, len(columns))
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise ValueError(f"{path}: its arrays differ in length: {sizes}; each row of the table needs one row of each")
    with readable(path):
        return pd.DataFrame(columns)


def _check_characters(name: str, array: np.ndarray[Any, Any]) -> None:
    """Refuse texts with invalid characters, which would raise wherever Python encodes them."""
    codes = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).view(np.uint32)
    if codes.size and codes.max() > sys.maxunicode:
        raise ValueError(f"{name} holds texts with invalid characters")
