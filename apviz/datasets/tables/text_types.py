"""Types of the columns of a text file: numbers where every text has one meaning, otherwise texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import pandas as pd
import pyarrow
import pyarrow.compute as pc

from apviz.datasets.tables.decimals import proven_mark

#: texts that mark a missing value
MISSING: Final = (
    "", "-", "–", "—", "?", ".", "..", "n.a.", "k.A.", "NA", "na", "Na", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A",
    "#NA", "NaN", "nan", "NAN", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "NULL", "null", "None",
    "missing",
)  # fmt: skip
#: types of numbers, in the order of trial
_NUMBERS: Final = (pyarrow.int64(), pyarrow.uint64(), pyarrow.float64())
#: types of whole numbers with gaps
WHOLE: Final = {pyarrow.int64(): pd.Int64Dtype(), pyarrow.uint64(): pd.UInt64Dtype()}
#: separators of files that may have decimal commas
_OF_DECIMAL_COMMAS: Final = ";\t|"


class TextTypes:
    """The type of each column, found in all parts of a table of texts."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self.rows = list(names), 0
        self._fitting = {name: list(_NUMBERS) for name in names}
        self._gaps, self._padded = set[str](), set[str]()

    def add(self, part: pyarrow.Table) -> None:
        """Take a part of the table into account."""
        self.rows += part.num_rows
        for name in self._names:
            column = part[name]
            self._fitting[name] = fitting = [kind for kind in self._fitting[name] if _fits(column, kind)]
            if column.null_count:
                self._gaps.add(name)
            if fitting and name not in self._padded and _is_padded(column):
                self._padded.add(name)

    def deciding(self, separator: str) -> list[str]:
        """Return the names of the columns whose texts `decide` needs."""
        kinds = (pyarrow.string(), pyarrow.float64()) if separator in _OF_DECIMAL_COMMAS else (pyarrow.string(),)
        return [name for name in self._names if self._kind(name) in kinds]

    def decide(
        self, separator: str, commas: Collection[str], texts_of: Callable[[str], pyarrow.Array]
    ) -> tuple[dict[str, pyarrow.DataType], bool]:
        """Return the type of each column, and whether a point may separate thousands.

        Args:
            commas: names of columns with decimal commas, as the user says.
            texts_of: returns the distinct texts of a column.
        """
        kinds = {name: self._kind(name) for name in self._names}
        texts = [name for name, kind in kinds.items() if kind == pyarrow.string()]
        points = [name for name, kind in kinds.items() if kind == pyarrow.float64()]
        proven = {proven_mark(texts_of(name)) for name in texts}
        # if commas are decimal, or separate nothing, 1.234 may mean 1234
        are_open = "," in proven or (
            separator in _OF_DECIMAL_COMMAS
            and "." not in proven
            and not any(proven_mark(texts_of(name)) for name in points)
        )
        return kinds | {name: pyarrow.string() for name in points if are_open or name in commas}, are_open

    def frame(self, part: pyarrow.Table, kinds: dict[str, pyarrow.DataType]) -> pd.DataFrame:
        """Return a part of the table with these types; texts as levels."""
        return pd.DataFrame({name: self._converted(name, part[name], kinds[name]) for name in self._names})

    def _kind(self, name: str) -> pyarrow.DataType:
        fitting = self._fitting[name]
        # where columns are copied, codes such as 00123 keep their zeros
        is_code = name in self._padded and fitting and fitting[0] != pyarrow.float64()
        return pyarrow.string() if is_code or not fitting else fitting[0]

    def _converted(self, name: str, column: pyarrow.ChunkedArray, kind: pyarrow.DataType) -> pd.Series[Any]:
        if kind == pyarrow.string():
            levels: pd.Series[Any] = trimmed(column).dictionary_encode().to_pandas()
            return levels
        # whole numbers next to gaps stay whole
        numbers: pd.Series[Any] = column.cast(kind).to_pandas(types_mapper=WHOLE.get if name in self._gaps else None)
        return numbers


def trimmed(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return texts without spaces around them; null where these mark a missing value."""
    plain = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.is_in(plain, pyarrow.array(MISSING)), None, plain)


def _fits(column: pyarrow.ChunkedArray, kind: pyarrow.DataType) -> bool:
    try:
        column.cast(kind)
    except pyarrow.ArrowInvalid:
        return False
    return True


def _is_padded(column: pyarrow.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, r"^-?0\d")).as_py())
