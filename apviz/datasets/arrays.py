"""Read Parquet, `.npy` and `.npz`, which say what they hold; limits on files of any kind from untrusted users."""

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

#: most characters quoted from the error message of another library
_MOST_QUOTED = 300


@dataclass(frozen=True)
class SizeLimits:
    """What a file of strangers may have; it is looked at before anything is read.

    Args:
        nbytes: that it unpacks to.
        columns: in it.
    """

    nbytes: float = math.inf
    columns: float = math.inf

    def check_bytes(self, path: Path, nbytes: float) -> None:
        """Refuses a file that unpacks to more.

        Raises:
            ValueError: with the limit.
        """
        if nbytes > self.nbytes:
            raise ValueError(f"{path} unpacks to more than {self.nbytes / 1e6:,.0f} MB, which is what is accepted")

    def check_columns(self, path: Path, count: int) -> None:
        """Refuses a file with more columns.

        Raises:
            ValueError: with the limit.
        """
        if count > self.columns:
            raise ValueError(f"{path} has {count:,} columns; up to {self.columns:,} are accepted")


UNLIMITED = SizeLimits()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """The errors of all readers and decompressors, in a sentence."""
    try:
        yield
    except Exception as error:
        if str(error).startswith(str(path)):
            raise
        # a library may say several lines, or the cell that it fails on, of any length
        said = textwrap.shorten(str(error), _MOST_QUOTED, placeholder=" …") or type(error).__name__
        raise ValueError(f"{path} cannot be read as a table: {said}") from error


def require_unique_names(names: Sequence[str], path: Path) -> None:
    """Refuse a table in which two columns have the same name.

    Raises:
        ValueError: with the names.
    """
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise ValueError(f"{path} has more than one column called {', '.join(twice)}; give each a name of its own")


def read_parquet(path: Path, limits: SizeLimits) -> pd.DataFrame:
    """Read a Parquet file, with columns that pandas wrote as an index.

    Raises:
        ValueError: no Parquet file, two columns of one name, more than the limits allow.
    """
    import pyarrow.parquet

    with readable(path):
        about = pyarrow.parquet.read_metadata(path)
        schema = pyarrow.parquet.read_schema(path)
    limits.check_columns(path, len(schema.names))
    size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    limits.check_bytes(path, max(float(size), 8.0 * about.num_rows * about.num_columns))
    require_unique_names(schema.names, path)
    texts = (pyarrow.types.is_string, pyarrow.types.is_large_string)
    with readable(path):
        # a text of megabytes that every row has takes its size once
        levels = [field.name for field in schema if any(is_text(field.type) for is_text in texts)]
        frame: pd.DataFrame = pyarrow.parquet.read_table(path, read_dictionary=levels).to_pandas()
        # pandas hides a column that it wrote as an index
        frame = frame.reset_index([each for each in frame.index.names if each is not None])
    frame.columns = pd.Index([str(name) for name in frame.columns])
    return frame


def read_arrays(path: Path, limits: SizeLimits) -> pd.DataFrame:
    """Columns of the arrays; objects are never unpickled."""
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
        said = ", ".join(f"{name} has {length:,}" for name, length in lengths.items())
        raise ValueError(f"{path}: its arrays are not of one length: {said}; one row of each makes a row of the table")
    with readable(path):
        return pd.DataFrame(columns)


def _check_characters(name: str, array: np.ndarray[Any, Any]) -> None:
    """Refuses texts with numbers that stand for no character, which Python fails on wherever they are looked at."""
    codes = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).view(np.uint32)
    if codes.size and codes.max() > sys.maxunicode:
        raise ValueError(f"{name} holds texts with bytes that stand for no character")
