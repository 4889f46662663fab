"""Your own tables: files of numbers, texts and dates, and choices for their preparation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from apviz.datasets.tables.arrays import UNLIMITED, SizeLimits
from apviz.datasets.tables.columns import ORDERS, Column, column_of, quoted
from apviz.datasets.tables.decimals import MARKS, Question
from apviz.datasets.tables.oddities import ROW_KINDS, Oddity, OddityKind, find_oddities, id_columns
from apviz.datasets.tables.reading import HEAD_ROWS, TextFormat, read_columns

Missing = Literal["drop", "fill", "refuse"]
Duplicates = Literal["keep", "drop"]
Ids = Literal["keep", "drop"]
#: decimal mark of all ambiguous columns, or one per column name
Decimal = str | Mapping[str, str] | None
#: order of day and month of all ambiguous dates, day-first or month-first, or one per column name
Dates = str | Mapping[str, str] | None
MISSING: tuple[Missing, ...] = ("drop", "fill", "refuse")
DUPLICATES: tuple[Duplicates, ...] = ("keep", "drop")
IDS: tuple[Ids, ...] = ("keep", "drop")
_HEAD_CHARACTERS = 60


@dataclass(frozen=True, kw_only=True)
class TableChoices:
    """Choices for the preparation of a table, each checked; see `load_table`."""

    target: str | int
    inputs: tuple[str, ...] | None = None
    missing: Missing = "drop"
    duplicates: Duplicates = "keep"
    header: bool | None = None
    decimal: Decimal = None
    ids: Ids = "keep"
    dates: Dates = None

    def __post_init__(self) -> None:
        if not _is_place(self.target):
            raise ValueError(f"target = {self.target!r}: expected the name of a column, or its position")
        named = isinstance(self.inputs, tuple) and self.inputs and all(map(_is_place, self.inputs))
        if self.inputs is not None and not named:
            raise ValueError(f"inputs = {self.inputs!r}: expected names of columns, at least one, or None for all")
        for setting, value, known in (
            ("missing", self.missing, MISSING), ("duplicates", self.duplicates, DUPLICATES), ("ids", self.ids, IDS),
        ):  # fmt: skip
            if value not in known:
                raise ValueError(f"{setting} = {value!r}: expected {' or '.join(known)}")
        for setting, given, answers in (("decimal", self.decimal, MARKS), ("dates", self.dates, tuple(ORDERS))):
            values = given.values() if isinstance(given, Mapping) else [answers[0] if given is None else given]
            if not all(value in answers for value in values):
                raise ValueError(
                    f"{setting} = {given!r}: expected {' or '.join(map(repr, answers))}, or one of them by name of the "
                    "column"
                )


def _is_place(value: object) -> bool:
    """Test whether a value can be a column's name or position."""
    return isinstance(value, str | int) and not isinstance(value, bool)


@dataclass(frozen=True, eq=False)
class Table:
    """A file that was read: its columns, and their interpretation.

    Attributes:
        text: format of a text file; None for other files.
        head: the first rows as text, a cell a column.
        sha256: of the file.
    """

    path: Path
    rows: int
    columns: tuple[Column, ...]
    text: TextFormat | None
    head: tuple[tuple[str, ...], ...]
    sha256: str

    def column(self, name: str | int) -> Column:
        """Return a column by its name or position.

        Raises:
            ValueError: there is none; with the existing columns.
        """
        count, names = len(self.columns), [each.name for each in self.columns]
        if not isinstance(name, str):
            if not -count <= name < count:
                raise ValueError(
                    f"target = {name}: {self.path} has {count} columns, so −{count} to {count - 1} are accepted"
                )
            return self.columns[name]
        if name not in names:
            nameless = self.text is not None and not self.text.header
            hint = ". Its first line holds numbers instead of names: use such a name, or the column's position"
            raise ValueError(
                f"target = {name!r}: {self.path} has no such column; its columns are {quoted(names, 40)}"
                f"{hint if nameless else ''}"
            )
        return self.columns[names.index(name)]

    def cells(self, column: Column) -> tuple[str, ...]:
        """Return the first rows of a column as in the file, with their interpretation if it differs."""
        place = self.columns.index(column)
        return tuple(
            _with_reading(row[place], column, value) for row, value in zip(self.head, column.values, strict=False)
        )

    def oddities(self) -> list[Oddity]:
        """Return outliers, duplicate rows, equal columns and similar oddities; see `find_oddities`."""
        used = [each for each in self.columns if each.kind != "unusable" and not each.names_rows]
        numeric = [each for each in used if each.kind in ("number", "date")]
        found = without_dates(
            find_oddities(_matrix(numeric, self.rows), names=[each.name for each in numeric]), numeric
        )
        if len(used) == len(numeric):
            return found
        # equal rows must have equal texts too; for all other oddities texts do not count as numbers
        of_rows = [each for each in find_oddities(_matrix(used, self.rows)) if each.kind in ROW_KINDS]
        return [each for each in found if each.kind not in ROW_KINDS] + of_rows

    def default_target(self) -> str:
        """Return the name of the last column that can be predicted, otherwise of the last column."""
        able = [each.name for each in self.columns if each.can_be_target]
        return able[-1] if able else self.columns[-1].name

    def counting_columns(self) -> list[str]:
        """Return the names of columns of whole numbers that only count the rows, such as an ID.

        `find_oddities` defines them. Fractions on a grid are more likely times or places.
        """
        numbers = [each for each in self.columns if each.kind == "number"]
        found = [numbers[place] for place in id_columns(_matrix(numbers, self.rows))]
        return [each.name for each in found if (np.mod(each.values[~np.isnan(each.values)], 1) == 0).all()]

    def inputs_for(self, choices: TableChoices) -> tuple[list[Column], Column]:
        """Return the input columns and the target.

        Raises:
            ValueError: a missing column, one that cannot be input or target, or no input.
        """
        target = self.column(choices.target)
        if not target.can_be_target:
            why = {
                "constant": f"is constant ({target.about})",
                "text": f"is text ({target.about}): only numbers and dates can be predicted",
            }.get(target.kind, f"holds {target.about}")
            raise ValueError(f"{self.path}: the target {target.name} {why}. Choose another column")
        if choices.inputs is None:
            inputs = [
                each for each in self.columns if each is not target and (each.is_usable or each.kind == "constant")
            ]
            if choices.ids == "drop":
                ids = id_columns(_matrix(inputs, self.rows))
                inputs = [each for place, each in enumerate(inputs) if place not in ids or each.kind != "number"]
        else:
            inputs = [self.column(name) for name in dict.fromkeys(choices.inputs)]
            for each in inputs:
                if each is target:
                    raise ValueError(f"{self.path}: {each.name} is the target, so it cannot also be an input")
                if each.kind == "unusable":
                    raise ValueError(f"{self.path}: {each.name} holds {each.about}, which cannot be used as an input")
        require_answers(self.path, {each.name: each.question for each in (*inputs, target)})
        if not any(each.kind != "constant" for each in inputs):
            raise ValueError(
                f"{self.path}: no input column varies; the others are "
                f"{quoted([f'{each.name} ({each.about})' for each in self.columns if each is not target])}"
            )
        return inputs, target


def require_answers(path: Path, questions: Mapping[str, Question | None]) -> None:
    """Refuse columns of numbers or dates that can be read in two ways, and name the option that decides."""
    asked = [(name, question) for name, question in questions.items() if question]
    if asked:
        name, question = asked[0]
        raise ValueError(
            f"{path}: {quoted([each.of(column) for column, each in asked], 3)}. Say which: "
            f"{question.settings_of(name)} ({question.options_of(name)}), or leave the column out"
        )


def inspect_table(
    path: str | Path,
    *,
    header: bool | None = None,
    target: str | int | None = None,
    decimal: Decimal = None,
    dates: Dates = None,
    limits: SizeLimits = UNLIMITED,
) -> Table:
    """Read a file and interpret its columns; nothing is prepared.

    Args:
        path: CSV and similar files (`.csv`, `.tsv`, `.txt`, also `.gz`; separated by commas, semicolons, tabs, bars or
            spaces, decimal points or commas, in UTF-8, UTF-16 or Latin-1), Parquet, `.npy` or `.npz`.
        header: whether the first line of a text file holds names; None: yes, unless it has numbers instead of names.
        target: the requested column; if the first line has it, that line holds names.
        decimal: decimal mark, `.` or `,`, of ambiguous numbers (see `load_table`).
        dates: order of ambiguous dates, `day-first` or `month-first` (see `load_table`).
        limits: for files from untrusted users.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a table: a row that is longer or shorter than the first, two columns of one name, or only one
            column.
    """
    path = Path(path)
    name = target if isinstance(target, str) else None
    frame, text = read_columns(path, header=header, name=name, decimal=decimal, limits=limits)
    if len(frame.columns) < 2:
        raise ValueError(
            f"{path} has {len(frame.columns)} column: a target and at least one input are needed, separated by commas, "
            "semicolons, tabs, bars or spaces"
        )
    columns = columns_of(path, frame, text, decimal, dates)
    if text is not None:
        text = replace(text, marks=frozenset(each.mark for each in columns if each.mark))
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    first = frame.head(HEAD_ROWS)
    head = text.head if text else tuple(first.astype(object).where(first.notna(), "").itertuples(index=False))
    shown = tuple(tuple(str(cell)[:_HEAD_CHARACTERS] for cell in row) for row in head)
    return Table(path, len(frame), columns, text, shown, sha256)


def columns_of(
    path: Path, frame: pd.DataFrame, text: TextFormat | None, decimal: Decimal, dates: Dates
) -> tuple[Column, ...]:
    """Interpret the columns of a file that was read."""
    marks, orders = (by_column(*each, path, frame.columns) for each in (("decimal", decimal), ("dates", dates)))
    return tuple(
        column_of(
            name, frame[name], decimal=marks.get(name), points_are_open=text is not None and text.points_are_open,
            order=orders.get(name),
        )
        for name in frame.columns
    )  # fmt: skip


def by_column(setting: str, given: Decimal | Dates, path: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Return a decision for all columns, or for some of these names, by name; ValueError for an unknown one."""
    names = list(names)
    found: dict[str, str | None] = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    unknown = [name for name in found if name not in names]
    if unknown:
        raise ValueError(f"{setting} = {given!r}: {path} has no column {quoted(unknown)}; it has {quoted(names)}")
    return found


def _matrix(columns: Sequence[Column], rows: int) -> NDArray[np.float64]:
    return np.column_stack([each.values for each in columns]) if columns else np.empty((rows, 0))


def without_dates(found: Sequence[Oddity], columns: Sequence[Column]) -> list[Oddity]:
    """Drop the finding that dates look like an ID column, because days are on a grid."""
    dates = {each.name for each in columns if each.kind == "date"}
    return [each for each in found if each.kind is not OddityKind.ID_COLUMN or not dates & set(each.columns)]


def _with_reading(text: str, column: Column, value: float) -> str:
    if column.kind == "date" and column.first is not None and text and not np.isnan(value):
        day = f"{column.first + timedelta(days=value):%Y-%m-%d}"
        return text if text.startswith(day) else f"{text} (?)" if column.question else f"{text} → {day}"
    if column.kind != "number" or np.isnan(value) or not text:
        return text
    with suppress(ValueError):
        if float(text) == value:
            return text
    return f"{text} (?)" if column.question else f"{text} → {value:.10g}"
