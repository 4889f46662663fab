"""Tables of any origin as columns by name: how a text file is written is found, and said."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import re
import sys
import textwrap
import zipfile
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
ARRAY_SUFFIXES = (".npy", ".npz")
SUFFIXES = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES, *ARRAY_SUFFIXES)
#: characters at the beginning, by which separator and decimals are found
_SAMPLE = 2**18
_CHUNK = 2**20
#: characters of what another library says
_MOST_SAID = 300
#: in which order separators are tried where more than one fits; spaces only where none does
_SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_SPACES = r"\s+"
#: what stands for a missing value, beside what pandas knows (nothing, NA, N/A, NaN, null, …)
_MISSING = ("-", "–", "—", "?", ".", "..", "n.a.", "k.A.", "na", "Na", "NAN", "missing")
_BYTE_ORDERS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_ENCODINGS = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "cp1252": "Latin-1 (Windows-1252)", "latin-1": "Latin-1"}
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")
#: 12,345: also a number with a comma between thousands
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
#: Excel's first line in some files
_SEP_LINE = re.compile(r'"?sep=(.)"?')


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


@dataclass(frozen=True)
class TextFormat:
    """How a text file is written.

    Attributes:
        separator: between values; a regular expression where they are spaces.
        decimal: point or comma.
        header: whether the first line holds the names of the columns.
        skipped: lines before that.
    """

    encoding: str
    separator: str
    decimal: str
    header: bool
    skipped: int = 0

    def __str__(self) -> str:
        decimals = "decimal commas" if self.decimal == "," else "decimal points"
        names = "names in the first line" if self.header else "no names in the first line"
        separators = _SEPARATORS.get(self.separator, "spaces" if self.separator == _SPACES else f"“{self.separator}”")
        return f"{_ENCODINGS[self.encoding]}, separated by {separators}, {decimals}, {names}"


@dataclass(frozen=True)
class RawColumns:
    """Columns of a file as they are read, before anything is made of them.

    Attributes:
        text: how the file is written; None for one that says so itself.
    """

    frame: pd.DataFrame
    text: TextFormat | None = None


def read_columns(
    path: Path, *, header: bool | None = None, name: str | None = None, limits: SizeLimits = UNLIMITED
) -> RawColumns:
    """Reads CSV and its like, Parquet, `.npy` or `.npz`; separators, decimals and encoding are found.

    Columns without names are called `column 1` and so on. The arrays of an `.npz` file stand side by side: a vector is
    a column with its name, a matrix as many as it has columns.

    Args:
        header: whether the first line of a text file holds names; None: it does unless it has numbers where names
            would stand.
        name: a column that is wanted; the first line that has it holds names.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another kind of file, no table, a row longer or shorter than the others, two columns of one name,
            more than the limits allow.
    """
    kind = path.name.lower()
    if not kind.endswith(SUFFIXES):
        raise ValueError(f"{path}: expected a file ending in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise FileNotFoundError(f"No such file: {path}")
    if kind.endswith(PARQUET_SUFFIXES):
        return RawColumns(_read_parquet(path, limits))
    if kind.endswith(ARRAY_SUFFIXES):
        return RawColumns(_read_arrays(path, limits))
    return _read_text(path, header, name, limits)


# --- text -------------------------------------------------------------------------------------------------------------


def _read_text(path: Path, header: bool | None, name: str | None, limits: SizeLimits) -> RawColumns:
    with _readable(path):
        found = _find_format(path, header, name, limits)
    with closing(_numbered_rows(path, found)) as rows:
        _, first = next(rows, (0, list[str]()))
    if not first:
        raise ValueError(f"{path} is empty")
    limits.check_columns(path, len(first))
    names = [each.strip() for each in first] if found.header else _numbered(len(first))
    _require_one_of_each(names, path)
    try:
        with _readable(path):
            frame = pd.read_csv(
                path, sep=found.separator, decimal=found.decimal, encoding=found.encoding,
                header=0 if found.header else None, skiprows=found.skipped, na_values=list(_MISSING),
                low_memory=False, skipinitialspace=True,
            )  # fmt: skip
    except ValueError as error:
        if isinstance(error.__cause__, pd.errors.ParserError):
            _require_even(path, found, len(first))
        raise
    # pandas takes the first columns for an index where the first row is longer, and fills up rows that are shorter
    if not isinstance(frame.index, pd.RangeIndex) or frame.isna().any(axis=None):
        _require_even(path, found, len(first))
    # pandas has made names where there are none, and told apart what they would be
    frame.columns = pd.Index([str(made).strip() for made in frame.columns] if found.header else names)
    return RawColumns(frame, found)


def _find_format(path: Path, header: bool | None, name: str | None, limits: SizeLimits) -> TextFormat:
    """Encoding by the whole file, everything else by its beginning.

    Raises:
        ValueError: no text.
    """
    encoding = _find_encoding(path, limits)
    with _open(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        sample = text.read(_SAMPLE)
    whole = len(sample) < _SAMPLE
    lines = sample.splitlines()[: None if whole else -1]
    skipped, separator = 0, ""
    if lines and (said := _SEP_LINE.fullmatch(lines[0].strip(" "))):
        skipped, separator, lines = 1, said[1], lines[1:]
    lines = [line for line in lines if line.strip()]
    separator = separator or _find_separator(lines)
    rows = _split(lines, separator)
    body = [cell.strip() for row in rows[1:] for cell in row]
    decimal = _find_decimal(body, separator)
    if header is None:
        header = _has_header(rows, decimal) or (bool(rows) and name in [cell.strip() for cell in rows[0]])
    return TextFormat(encoding, separator, decimal, header, skipped)


def _find_encoding(path: Path, limits: SizeLimits) -> str:
    """Encoding of a whole file, which is looked through also for how much it unpacks to."""
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
                raise ValueError("it holds bytes that no text has")
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
    """Separator by which most lines have as many values as the first; of several, a comma last.

    A comma may be within numbers and texts of a file that another sign separates; hardly ever the other way round.
    """
    best, most = ",", 0.0
    for separator in _SEPARATORS:
        widths = [len(row) for row in _split(lines, separator)]
        if widths and widths[0] > 1:
            share = sum(width == widths[0] for width in widths) / len(widths)
            if share > most:
                best, most = separator, share
    if not most and lines:
        widths = [len(line.split()) for line in lines]
        if widths[0] > 1 and len(set(widths)) == 1:
            return _SPACES
    return best


def _split(lines: Sequence[str], separator: str) -> list[list[str]]:
    if separator == _SPACES:
        return [line.split() for line in lines]
    return list(csv.reader(lines, delimiter=separator))


def _find_decimal(cells: Sequence[str], separator: str) -> str:
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    # in quotes between commas 1,234 has thousands
    if separator == ",":
        commas = [cell for cell in commas if not _THOUSANDS.fullmatch(cell)]
    points = sum(1 for cell in cells if _POINT.fullmatch(cell))
    return "," if len(commas) > points else "."


def _has_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether the first line holds names: no number at all, or words above numbers."""
    if not rows:
        return True
    is_number = [_is_number(cell, decimal) for cell in rows[0]]
    if not any(is_number):
        return True
    for place, numeric in enumerate(is_number):
        below = [row[place] for row in rows[1:] if len(row) > place and row[place].strip()]
        if not numeric and rows[0][place].strip() and below and all(_is_number(cell, decimal) for cell in below):
            return True
    return False


def _is_number(text: str, decimal: str) -> bool:
    try:
        float(text.replace(decimal, ".") if decimal != "." else text)
    except ValueError:
        return False
    return True


def _numbered_rows(path: Path, found: TextFormat) -> Generator[tuple[int, list[str]]]:
    """Rows with the number of the line, from 1; without blank ones."""
    with _readable(path), _open(path) as file, io.TextIOWrapper(file, found.encoding, newline="") as text:
        for _ in range(found.skipped):
            text.readline()
        if found.separator == _SPACES:
            for number, line in enumerate(text, found.skipped + 1):
                if line.strip():
                    yield number, line.split()
            return
        lines = csv.reader(text, delimiter=found.separator)
        for row in lines:
            if row:
                yield lines.line_num + found.skipped, row


def _require_even(path: Path, found: TextFormat, width: int) -> None:
    """Refuse a file with a row that has more or fewer values than the first line; blank lines do not count."""
    with closing(_numbered_rows(path, found)) as rows:
        uneven = next(((number, len(row)) for number, row in rows if len(row) != width), None)
    if uneven:
        raise ValueError(
            f"{path}: line {uneven[0]} has {uneven[1]} values, {'the header' if found.header else 'the first'} has "
            f"{width}; every row needs one for each column. Look for a separator too many or too few, or a column "
            "without a name"
        )


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    compressed = path.name.lower().endswith(".gz")
    with gzip.open(path, "rb") if compressed else path.open("rb") as file:
        yield file  # type: ignore[misc]


# --- files that say what they hold ------------------------------------------------------------------------------------


def _read_parquet(path: Path, limits: SizeLimits) -> pd.DataFrame:
    import pyarrow
    import pyarrow.parquet

    with _readable(path):
        about = pyarrow.parquet.read_metadata(path)
        schema = pyarrow.parquet.read_schema(path)
    limits.check_columns(path, len(schema.names))
    size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    limits.check_bytes(path, max(float(size), 8.0 * about.num_rows * about.num_columns))
    _require_one_of_each(schema.names, path)
    texts = (pyarrow.types.is_string, pyarrow.types.is_large_string)
    with _readable(path):
        # a text of megabytes that every row has takes its size once
        levels = [field.name for field in schema if any(is_text(field.type) for is_text in texts)]
        frame: pd.DataFrame = pyarrow.parquet.read_table(path, read_dictionary=levels).to_pandas()
        # pandas hides a column that it wrote as an index
        frame = frame.reset_index([each for each in frame.index.names if each is not None])
    frame.columns = pd.Index([str(name) for name in frame.columns])
    return frame


def _read_arrays(path: Path, limits: SizeLimits) -> pd.DataFrame:
    """Columns of the arrays; objects are never unpickled."""
    with _readable(path):
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
    with _readable(path):
        return pd.DataFrame(columns)


def _check_characters(name: str, array: np.ndarray[Any, Any]) -> None:
    """Refuses texts with numbers that stand for no character, which Python fails on wherever they are looked at."""
    codes = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).view(np.uint32)
    if codes.size and codes.max() > sys.maxunicode:
        raise ValueError(f"{name} holds texts with bytes that stand for no character")


# --- what holds for all -----------------------------------------------------------------------------------------------


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """The errors of all readers and decompressors, in a sentence."""
    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty") from error
    except Exception as error:
        if str(error).startswith(str(path)):
            raise
        # a library may say several lines, or the cell that it fails on, of any length
        said = textwrap.shorten(str(error), _MOST_SAID, placeholder=" …") or type(error).__name__
        raise ValueError(f"{path} cannot be read as a table: {said}") from error


def _numbered(count: int) -> list[str]:
    return [f"column {place + 1}" for place in range(count)]


def _require_one_of_each(names: Sequence[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise ValueError(f"{path} has more than one column called {', '.join(twice)}; give each a name of its own")
