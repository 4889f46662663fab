"""Reading of any table file into named columns; the format of a text file is detected and described."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

import pandas as pd
import pyarrow
import pyarrow.csv

from apviz.datasets.tables.arrays import (
    UNLIMITED,
    SizeLimits,
    read_arrays,
    read_parquet,
    readable,
    require_unique_names,
)
from apviz.datasets.tables.decimals import are_numbers
from apviz.datasets.tables.text_types import MISSING, TextTypes, trimmed

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
#: readers of other files, by the endings of their names
READERS: Final[Mapping[tuple[str, ...], Callable[[Path, SizeLimits], pd.DataFrame]]] = {
    (".parquet", ".pq"): read_parquet,
    (".npy", ".npz"): read_arrays,
}
SUFFIXES = (*TEXT_SUFFIXES, *(ending for endings in READERS for ending in endings))
#: all kinds of files, in the words of commands and pages
FORMATS: Final = "CSV or other text, Parquet, .npy or .npz"
#: number of first rows that are kept as text, for display
HEAD_ROWS = 5
#: number of characters at the beginning in which separator and names are detected
_SAMPLE = 2**20
_CHUNK = 2**20
#: number of rows that decide whether the first one holds names
_HEADER_ROWS = 1_000
#: number of rows that are rewritten at once
_REWRITTEN = 1_000
#: largest size of a row in bytes
_BLOCK = 2**24
#: separators, in the order of trial if more than one fits; spaces only if no other does
_SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_SPACES = r"\s+"
_BYTE_ORDERS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_ENCODINGS = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "cp1252": "Latin-1 (Windows-1252)", "latin-1": "Latin-1"}
_LINE_END = re.compile(r"\r\n|\r|\n")
#: the first line that Excel writes into some files
_SEP_LINE = re.compile(r'"?sep=(.)"?')


@dataclass(frozen=True)
class TextFormat:
    """The format of a text file.

    Attributes:
        separator: between values; a regular expression for spaces.
        header: whether the first line holds the names of the columns.
        skipped: number of lines before that.
        is_spaced: whether spaces follow separators, before quoted texts.
        marks: decimal marks of its columns.
        head: the first rows as text.
        points_are_open: whether a point may separate thousands.
    """

    encoding: str
    separator: str
    header: bool
    skipped: int = 0
    is_spaced: bool = False
    marks: frozenset[str] = frozenset()
    head: tuple[tuple[str, ...], ...] = ()
    points_are_open: bool = False

    def __str__(self) -> str:
        decimals = "decimal commas" if "," in self.marks else "decimal points"
        if len(self.marks) > 1:
            decimals = "decimal commas and decimal points"
        names = "names in the first line" if self.header else "no names in the first line"
        separators = _SEPARATORS.get(self.separator, "spaces" if self.separator == _SPACES else f"“{self.separator}”")
        return f"{_ENCODINGS[self.encoding]}, separated by {separators}, {decimals}, {names}"


def read_columns(
    path: Path,
    *,
    header: bool | None = None,
    name: str | None = None,
    decimal: str | Mapping[str, str] | None = None,
    limits: SizeLimits = UNLIMITED,
) -> tuple[pd.DataFrame, TextFormat | None]:
    """Read CSV and similar files, Parquet, `.npy` or `.npz`; return the columns, and the format of a text file or None.

    Columns without names are called `column 1` and so on. The arrays of an `.npz` file are put side by side: a vector
    becomes a column with its name, a matrix one for each of its columns.

    Args:
        header: whether the first line of a text file holds names; None: yes, unless it has numbers instead of names.
        name: a requested column; if the first line has it, that line holds names.
        decimal: the user's decimal mark, for all columns or by name: if it is a comma, 1.234 stays a text.

    Raises:
        ValueError: another kind of file, not a table, a row longer or shorter than the others, two columns of one name,
            or beyond the limits.
    """
    require_table(path)
    kind = path.name.lower()
    for endings, read in READERS.items():
        if kind.endswith(endings):
            return read(path, limits), None
    return _read_text(path, header, name, decimal, limits)


def require_table(path: Path) -> None:
    """Check that a file exists and that its name has the ending of a table."""
    if not path.name.lower().endswith(SUFFIXES):
        raise ValueError(f"{path}: expected a file ending in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise FileNotFoundError(f"No such file: {path}")


# --- text -------------------------------------------------------------------------------------------------------------


def _read_text(
    path: Path, header: bool | None, name: str | None, decimal: str | Mapping[str, str] | None, limits: SizeLimits
) -> tuple[pd.DataFrame, TextFormat]:
    found, names = layout_of(path, header, name, limits)
    empty = pyarrow.table({each: pyarrow.array([], pyarrow.string()) for each in names})
    table = pyarrow.concat_tables([empty, *text_parts(path, found, names)])
    types = TextTypes(names)
    types.add(table)
    kinds, are_open = types.decide(
        found.separator, columns_with_commas(decimal, names), lambda each: trimmed(table[each]).unique().drop_null()
    )
    return types.frame(table, kinds), replace(found, head=head_of(table), points_are_open=are_open)


def layout_of(path: Path, header: bool | None, name: str | None, limits: SizeLimits) -> tuple[TextFormat, list[str]]:
    """Return the format of a text file, and the names of its columns; see `read_columns`."""
    with readable(path):
        found, first = _find_format(path, header, name, limits)
    if not first:
        raise ValueError(f"{path} is empty")
    limits.check_columns(path, len(first))
    names = [f"column {place + 1}" for place in range(len(first))]
    if found.header:
        given = [each.strip() for each in first]
        unnamed = [f"Unnamed: {place}" for place in range(len(given))]
        names = [
            name or (each if each not in given else f"{each}.1") for name, each in zip(given, unnamed, strict=True)
        ]
    require_unique_names(names, path)
    return found, names


def text_parts(path: Path, found: TextFormat, names: Sequence[str]) -> Iterator[pyarrow.Table]:
    """Yield a text file part by part, all columns as texts; missing values are null, uneven rows a ValueError."""
    uneven: list[tuple[int, int]] = []

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        if not row.text.strip():
            return "skip"
        uneven.append((row.number or 0, row.actual_columns))
        return "error"

    skipped = 0
    try:
        with readable(path), _as_csv(path, found) as (file, encoding, separator, skipped):
            reader = pyarrow.csv.open_csv(
                file,
                # pyarrow numbers rows in a single thread only
                pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK, encoding=encoding, column_names=list(names),
                    skip_rows=skipped, skip_rows_after_names=int(found.header),
                ),
                pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=refuse),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pyarrow.string()), null_values=MISSING, strings_can_be_null=True
                ),
            )  # fmt: skip
            for part in reader:
                yield pyarrow.Table.from_batches([part])
    except ValueError as error:
        if not uneven:
            raise
        (row, values), width = uneven[0], len(names)
        raise ValueError(
            f"{path}: row {row - skipped} has {values} values, {'the header' if found.header else 'the first'} has "
            f"{width} (blank lines do not count); every row needs one for each column. Look for a surplus or missing "
            "separator, or a column without a name"
        ) from error


def head_of(table: pyarrow.Table) -> tuple[tuple[str, ...], ...]:
    """Return the first rows as text, for display."""
    head = [[each or "" for each in column.to_pylist()] for column in table.slice(0, HEAD_ROWS).columns]
    return tuple(zip(*head, strict=True))


def columns_with_commas(decimal: str | Mapping[str, str] | None, names: Sequence[str]) -> list[str]:
    """Return the names of columns with decimal commas, as the user says."""
    if isinstance(decimal, Mapping):
        return [column for column, mark in decimal.items() if mark == ","]
    return list(names) if decimal == "," else []


@contextmanager
def _as_csv(path: Path, found: TextFormat) -> Iterator[tuple[IO[bytes], str, str, int]]:
    """Open a file for the CSV reader, rewritten if necessary; with encoding, separator and lines to skip."""
    if found.separator != _SPACES and not found.is_spaced:
        with _open(path) as file:
            yield file, "utf8" if found.encoding == "utf-8-sig" else found.encoding, found.separator, found.skipped
        return
    with _open(path) as file, io.TextIOWrapper(file, found.encoding, newline="") as lines:
        for _ in range(found.skipped):
            lines.readline()
        rows = csv.reader(lines, delimiter=found.separator, skipinitialspace=True) if found.is_spaced else (
            line.split() for line in lines
        )  # fmt: skip
        yield io.BufferedReader(_Rewritten(row for row in rows if row), _CHUNK), "utf8", ",", 0


class _Rewritten(io.RawIOBase):
    """A CSV file of rows, which are written as they are read."""

    def __init__(self, rows: Iterator[list[str]]) -> None:
        self._rows, self._ready = rows, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready:
            text = io.StringIO(newline="")
            csv.writer(text).writerows(itertools.islice(self._rows, _REWRITTEN))
            self._ready = text.getvalue().encode()
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size


def _find_format(path: Path, header: bool | None, name: str | None, limits: SizeLimits) -> tuple[TextFormat, list[str]]:
    """Detect the encoding in the whole file, and the rest at its beginning; return it with the first row."""
    encoding = _find_encoding(path, limits)
    with _open(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        sample = text.read(_SAMPLE)
    whole = len(sample) < _SAMPLE
    lines = _LINE_END.split(sample)[: None if whole else -1]
    if not lines:
        raise ValueError(f"its first line is longer than {_SAMPLE:,} characters")
    skipped, separator = 0, ""
    if match := _SEP_LINE.fullmatch(lines[0].strip(" ")):
        skipped, separator = 1, match[1]
    while skipped < len(lines) and not lines[skipped].strip():
        skipped += 1
    separator = separator or _find_separator([line for line in lines[skipped:] if line.strip()])
    is_spaced = separator != _SPACES and any(re.search(rf'{re.escape(separator)} +"', line) for line in lines)
    # with line ends, because a quoted text may have several lines
    ends = "\n".join(lines[skipped:])
    if separator == _SPACES:
        rows = [line.split() for line in ends.split("\n") if line.strip()]
    else:
        rows = [row for row in csv.reader(io.StringIO(ends), delimiter=separator, skipinitialspace=True) if row]
    if header is None:
        header = _has_header(rows) or (bool(rows) and name in [cell.strip() for cell in rows[0]])
    return TextFormat(encoding, separator, header, skipped, is_spaced), rows[0] if rows else []


def _find_encoding(path: Path, limits: SizeLimits) -> str:
    """Detect the encoding of a whole file, and check its unpacked size."""
    with _open(path) as file:
        beginning = file.read(4)
    marked = next((name for mark, name in _BYTE_ORDERS.items() if beginning.startswith(mark)), "")
    candidates = {name: codecs.getincrementaldecoder(name)() for name in ("utf-8-sig", "cp1252")}
    size = 0
    with _open(path) as file:
        while part := file.read(_CHUNK):
            size += len(part)
            limits.check_bytes(path, size)
            if marked:
                continue
            if b"\0" in part:
                raise ValueError("it holds bytes that are not text")
            for name, decoder in list(candidates.items()):
                try:
                    decoder.decode(part)
                except UnicodeDecodeError:
                    del candidates[name]
    if marked:
        return marked
    if "utf-8-sig" in candidates:
        try:
            candidates["utf-8-sig"].decode(b"", final=True)
        except UnicodeDecodeError:  # cut within a character
            del candidates["utf-8-sig"]
    return next(iter(candidates), "latin-1")


def _find_separator(lines: Sequence[str]) -> str:
    """Return the separator that gives most lines as many values as the first; of several, a comma last.

    Files with another separator often have commas within numbers and texts; the reverse is rare.
    """
    best, most = ",", 0.0
    for separator in _SEPARATORS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=separator)]
        except csv.Error:  # a value longer than the reader's limit, so this is not the separator
            continue
        if widths and widths[0] > 1:
            share = sum(width == widths[0] for width in widths) / len(widths)
            if share > most:
                best, most = separator, share
    if not most and lines:
        widths = [len(line.split()) for line in lines]
        if widths[0] > 1 and len(set(widths)) == 1:
            return _SPACES
    return best


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Test whether the first line holds names: no number at all, or words above numbers."""
    if not rows:
        return True
    is_number = are_numbers(rows[0])
    if not is_number.any():
        return True
    for place, numeric in enumerate(is_number):
        below = [row[place] for row in rows[1:_HEADER_ROWS] if len(row) > place and row[place].strip() not in MISSING]
        if not numeric and rows[0][place].strip() and below and are_numbers(below).all():
            return True
    return False


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    compressed = path.name.lower().endswith(".gz")
    with gzip.open(path, "rb") if compressed else path.open("rb") as file:
        yield file  # type: ignore[misc]
