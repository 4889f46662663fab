"""Tables of visitors: inspected before use, and kept in the folder of runs."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from apviz import datasets
from apviz.dashboard.store.importing import require_inside
from apviz.datasets.preprocessing import RawTable
from apviz.datasets.tables.arrays import SizeLimits
from apviz.datasets.tables.preparing import dataset_of, prepare_table
from apviz.datasets.tables.reading import SUFFIXES, TEXT_SUFFIXES
from apviz.datasets.tables.table import Dates, Decimal, Table, TableChoices, inspect_table
from apviz.files import folder_made_whole, require_short_list

#: Limit on the unpacked size of a file, as a multiple of the upload limit.
MAX_UNPACKING: Final = 10
MAX_COLUMNS: Final = 2_000
#: Limit for a text file: a gigabyte of `1,` would take ten as numbers.
MAX_VALUES: Final = 20_000_000
#: Minimum number of rows of a table, of which 80% are training rows: at least 10.
MIN_ROWS: Final = 13
_MAX_NAME_BYTES: Final = 100
#: Name of the file with the record of the preparation.
_RECORD: Final = "table.json"
#: Choices by which the tables of two runs differ.
_COMPARED: Final = ("missing", "duplicates", "header", "decimal", "dates")


@dataclass(frozen=True)
class OwnTable:
    """A visitor's table: path of the file, its preparation, and its number of training rows.

    Attributes:
        sha256: hash of the file.
        notes: the steps of the preparation, a sentence each.
    """

    path: Path
    choices: TableChoices
    rows: int
    sha256: str = ""
    notes: tuple[str, ...] = ()

    def is_that_of(self, preparation: dict[str, Any]) -> bool:
        """Return whether a trace with that record was made of this table; an empty record tells nothing."""
        if not preparation:
            return True
        mine = asdict(self.choices)
        same = all(preparation.get(name) == mine[name] for name in _COMPARED)
        inputs = self.choices.inputs is None or list(self.choices.inputs) == preparation.get("inputs")
        return same and inputs and (preparation.get("sha256"), preparation.get("target")) == (
            self.sha256, self.choices.target,
        )  # fmt: skip


class OwnData:
    """Folder of visitors' tables, `.data` in the folder of runs. Each table has a folder of its name, with a record.

    A restarted dashboard on the same runs finds the tables again. Only files put there by apviz are removed.

    Args:
        path: None for an empty folder that can keep nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """Return the path of the folder, which need not exist.

        Raises:
            FileNotFoundError: the folder cannot exist.
        """
        if self._path is None:
            raise FileNotFoundError("this server keeps no tables")
        return self._path

    def names(self) -> list[str]:
        """Return the names of the tables, in order."""
        if self._path is None or not self._path.is_dir():
            return []
        return sorted(each.name for each in os.scandir(self.path) if (Path(each.path) / _RECORD).is_file())

    def find(self, name: str) -> OwnTable | None:
        """Return the table of that name; None if there is none."""
        try:
            folder = self._folder(name)
            record = json.loads((folder / _RECORD).read_text("utf-8"))
            choices = record["choices"]
            inputs = None if choices["inputs"] is None else tuple(choices["inputs"])
            return OwnTable(
                folder / Path(record["file"]).name, TableChoices(**choices | {"inputs": inputs}), int(record["rows"]),
                str(record["sha256"]), tuple(record["notes"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def add(self, table: OwnTable) -> str:
        """Keep a copy of a table, and return its name from then on, also in traces.

        The name is that of the file, unless a data set, another file or other choices have it, because recorded
        runs refer to their data by name.
        """
        own = table.path.name
        for name in chain([own], (f"{own} ({number})" for number in count(2))):
            if name in datasets.registry:
                continue
            known = self.find(name)
            if known is not None and (known.sha256, known.choices) == (table.sha256, table.choices):
                return name
            if known is None and self._place(table, name):
                return name
        raise AssertionError  # names do not end

    def remove(self, name: str) -> None:
        """Remove a table; other files in its folder stay.

        Raises:
            FileNotFoundError: no table has that name.
        """
        table = self.find(name)
        if table is None:
            raise FileNotFoundError(f"there is no table {name} here; it may have been removed already")
        (table.path.parent / _RECORD).unlink()
        table.path.unlink(missing_ok=True)
        for folder in (table.path.parent, self.path):
            with suppress(OSError):  # something else is in it
                folder.rmdir()

    def _folder(self, name: str) -> Path:
        require_inside(name)
        return self.path / name

    def _place(self, table: OwnTable, name: str) -> bool:
        """Write a table's folder whole, and give it its name, unless the name is taken."""
        folder = self._folder(name)
        if os.path.lexists(folder):
            return False
        record = {
            "file": table.path.name, "choices": asdict(table.choices), "rows": table.rows, "sha256": table.sha256,
            "notes": table.notes,
        }  # fmt: skip
        try:
            with folder_made_whole(folder) as made:
                shutil.copyfile(table.path, made / table.path.name)
                (made / _RECORD).write_text(json.dumps(record, ensure_ascii=False, indent=1), "utf-8")
        except OSError:
            # Another visitor may have taken the name first.
            if not os.path.lexists(folder):
                raise
            return False
        return True


# --- what arrives -----------------------------------------------------------------------------------------------------


def receive(path: Path, name: str) -> Path:
    """Give an uploaded file, which has a folder of its own, its name; nothing of it is read.

    Raises:
        ValueError: another kind of file, or an invalid name.
    """
    plain = Path(name.replace("\\", "/")).name
    if not plain.lower().endswith(SUFFIXES) or plain.startswith("."):
        raise ValueError(f"{plain}: files ending in {', '.join(SUFFIXES)} are accepted")
    if len(plain.encode(errors="replace")) > _MAX_NAME_BYTES or not plain.isprintable():
        raise ValueError(
            f"{plain[:40]!r}… is not an accepted file name; use at most {_MAX_NAME_BYTES} printable characters"
        )
    return path.rename(path.with_name(plain))


def look_into(
    path: Path, max_mb: float, header: bool | None = None, decimal: Decimal = None, dates: Dates = None
) -> Table:
    """Return the columns of a file, whose unpacked size may be up to ten times `max_mb`.

    Raises:
        ValueError: no table, or a table that is too large; the message omits the folder.
    """
    try:
        return inspect_table(path, header=header, decimal=decimal, dates=dates, limits=size_limits(path, max_mb))
    except ValueError as error:
        raise ValueError(without_folder(error, path)) from error


def size_limits(path: Path, max_mb: float) -> SizeLimits:
    """Return the limits for reading an uploaded file; refuse one that cannot be read within them.

    Raises:
        ValueError: too many values.
    """
    most = SizeLimits(nbytes=MAX_UNPACKING * max_mb * 1e6, columns=MAX_COLUMNS)
    if path.name.lower().endswith(TEXT_SUFFIXES):
        _require_few_values(path, most)
    elif path.suffix.lower() == ".npz":
        with path.open("rb") as file:
            require_short_list(file, MAX_COLUMNS)
    return most


def _require_few_values(path: Path, limits: SizeLimits) -> None:
    """Count possible separators while unpacking a file; reading it later reports any unreadable content."""
    size, lines, marks = 0, 0, dict.fromkeys((b",", b";", b"\t", b"|", b" "), 0)
    packed = path.name.lower().endswith(".gz")
    with suppress(EOFError, zlib.error, gzip.BadGzipFile), gzip.open(path) if packed else path.open("rb") as file:
        while part := file.read(2**20):
            size, lines = size + len(part), lines + part.count(b"\n")
            limits.check_bytes(path, size)
            marks = {mark: count + part.count(mark) for mark, count in marks.items()}
            if lines + max(marks.values()) > MAX_VALUES:
                raise ValueError(f"{path} has more than {MAX_VALUES:,} values, the limit")


def prepare(table: Table, choices: TableChoices) -> RawTable:
    """Return the prepared table.

    Raises:
        ValueError: choices that leave nothing to solve; the message omits the folder.
    """
    try:
        made = prepare_table(table, choices, fewest=MIN_ROWS) if table.rows >= MIN_ROWS else None
        rows = table.rows if made is None else len(made.target)
        if made is None or rows < MIN_ROWS:
            raise ValueError(f"{table.path.name} has {rows} rows; at least {MIN_ROWS} are needed, to train and to test")
    except ValueError as error:
        raise ValueError(without_folder(error, table.path)) from error
    return made


def check(table: Table, choices: TableChoices) -> OwnTable:
    """Return a table that can be solved, in the form in which it is kept.

    Raises:
        ValueError: choices that leave nothing to solve, or values lost to rounding; the message omits the folder.
    """
    prepare(table, choices)
    # Name the ticked inputs, because another version of apviz may tick others by default.
    inputs = tuple(each.name for each in table.inputs_for(choices)[0] if each.kind != "constant")
    choices = replace(choices, inputs=choices.inputs or inputs)
    try:
        data = dataset_of(table, choices)
    except ValueError as error:
        raise ValueError(without_folder(error, table.path)) from error
    return OwnTable(table.path, choices, len(data.train_x), table.sha256, data.notes)


def discard(path: Path) -> None:
    """Remove an uploaded file, with its folder."""
    shutil.rmtree(path.parent, ignore_errors=True)


def without_folder(error: Exception, path: Path) -> str:
    """Return the message of an error about a file, without the server's folder of the file."""
    return str(error).replace(f"{path.parent}/", "")
