"""Files that visitors bring: checked and parsed as data before anything is done with them."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from apviz.dashboard.limits import Limits
from apviz.datasets import load_table
from apviz.datasets.tables import SUFFIXES

#: a compressed file may unpack to so many times what may be uploaded
MAX_UNPACKING: Final = 10
#: training rows under which there is nothing to solve
MIN_ROWS: Final = 10
_MAX_NAME_BYTES: Final = 100
_CHUNK_BYTES: Final = 2**20


@dataclass(frozen=True)
class Upload:
    """File of a visitor: where it lies for this session, the column to predict, and the rows to train on."""

    path: Path
    target: str | int
    rows: int


def receive(folder: Path, name: str, content: bytes | str, limits: Limits) -> tuple[Path, list[str]]:
    """Writes an uploaded file into the session's folder; returns its path and the names of its columns.

    Every file has a place of its own: an earlier one of its name, which may be in use, stays as it is.

    Raises:
        ValueError: another kind of file, an empty one, one that is too large, or no table.
    """
    plain = Path(name.replace("\\", "/")).name
    if not plain.lower().endswith(SUFFIXES) or plain.startswith("."):
        raise ValueError(f"{plain}: files ending in {', '.join(SUFFIXES)} are accepted")
    if len(plain.encode(errors="replace")) > _MAX_NAME_BYTES or not plain.isprintable():
        raise ValueError(f"{plain[:40]!r}… is no name for a file here; up to {_MAX_NAME_BYTES} characters are accepted")
    data = content.encode() if isinstance(content, str) else content
    if len(data) > limits.max_upload_mb * 1e6:
        raise ValueError(f"{plain} has {len(data) / 1e6:,.1f} MB; up to {limits.max_upload_mb:,} MB are accepted")
    path = Path(tempfile.mkdtemp(dir=folder)) / plain
    try:
        path.write_bytes(data)
        return path, _checked_columns(path, MAX_UNPACKING * limits.max_upload_mb * 1e6)
    except BaseException:
        discard(path)
        raise


def check(path: Path, target: str) -> int:
    """Reads the whole table; returns how many rows of it there are to train on.

    Raises:
        ValueError: columns that are not finite numbers, too few rows, or nothing that varies; without the folder.
    """
    try:
        rows = len(load_table(path, target).train_x)
        if rows < MIN_ROWS:
            raise ValueError(f"{path.name} leaves {rows} rows to train on; at least {MIN_ROWS} are needed")
    except ValueError as error:
        raise ValueError(without_folder(error, path)) from error
    return rows


def discard(path: Path) -> None:
    """Removes a file that `receive` wrote."""
    shutil.rmtree(path.parent, ignore_errors=True)


def without_folder(error: Exception, path: Path) -> str:
    """Message of an error about a file, without the folder in which the server keeps it."""
    return str(error).replace(f"{path.parent}/", "")


def _checked_columns(path: Path, most_bytes: float) -> list[str]:
    try:
        columns = _columns(path, most_bytes)
        if len(columns) < 2:
            raise ValueError("it has one column; a target and at least one input are needed, separated by commas")
    except Exception as error:
        # the readers raise errors of their own
        words = str(error)
        said = words.removeprefix("it ") if words.startswith("it ") else f"cannot be read as a table: {words}"
        raise ValueError(f"{path.name} {said}") from error
    return columns


def _columns(path: Path, most_bytes: float) -> list[str]:
    """Names of the columns; of a compressed file only if it does not unpack to more than `most_bytes`."""
    suffix = path.name.lower()
    if suffix.endswith((".parquet", ".pq")):
        import pyarrow.parquet

        about = pyarrow.parquet.read_metadata(path)
        _require_unpacked(8.0 * about.num_rows * about.num_columns, most_bytes)
        return list(pyarrow.parquet.read_schema(path).names)
    if suffix.endswith(".gz"):
        size = 0
        with gzip.open(path) as file:
            while part := file.read(_CHUNK_BYTES):
                size += len(part)
                _require_unpacked(size, most_bytes)
    return [str(column) for column in pd.read_csv(path, nrows=50).columns]


def _require_unpacked(size: float, most: float) -> None:
    if size > most:
        raise ValueError(f"it unpacks to more than {most / 1e6:,.0f} MB, which is what is accepted")
