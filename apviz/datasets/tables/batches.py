"""Tables of any number of rows, read in batches as often as needed: text, Parquet and arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet

from apviz.datasets.tables.arrays import SizeLimits, check_parquet, read_arrays, read_parquet, readable, without_index
from apviz.datasets.tables.distinct_texts import DistinctTexts
from apviz.datasets.tables.reading import READERS, TextFormat, columns_with_commas, layout_of, require_table, text_parts
from apviz.datasets.tables.text_types import TextTypes, trimmed
from apviz.memory import give_back

#: rows of a batch
BATCH: Final = 65_536
#: kinds of values of an array that a table of predictions can hold
_SIMPLE: Final = (
    "string", "integer", "floating", "mixed-integer-float", "boolean", "categorical", "datetime64", "date",
)  # fmt: skip
#: the same for the columns of a Parquet file
_PLAIN: Final = (
    pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_integer, pyarrow.types.is_floating,
    pyarrow.types.is_boolean, pyarrow.types.is_timestamp, pyarrow.types.is_date, pyarrow.types.is_null,
)  # fmt: skip
#: types with which whole numbers next to gaps stay whole
_WHOLE: Final = {
    pyarrow.int8(): pd.Int8Dtype(), pyarrow.int16(): pd.Int16Dtype(), pyarrow.int32(): pd.Int32Dtype(),
    pyarrow.int64(): pd.Int64Dtype(), pyarrow.uint8(): pd.UInt8Dtype(), pyarrow.uint16(): pd.UInt16Dtype(),
    pyarrow.uint32(): pd.UInt32Dtype(), pyarrow.uint64(): pd.UInt64Dtype(),
}  # fmt: skip


class Batches(ABC):
    """A table that is read in batches, each time the same, with the types of the whole table.

    Attributes:
        schema: the columns that a table of predictions can hold, and their types.
        left_out: names of the other columns.
        points_are_open: whether a point may separate thousands in its numbers.
    """

    schema: pyarrow.Schema
    left_out: tuple[str, ...] = ()
    points_are_open = False

    def __init__(self, path: Path) -> None:
        self.path, self._texts = path, dict[str, DistinctTexts]()

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of all columns."""

    @abstractmethod
    def frames(self) -> Iterator[pd.DataFrame]:
        """Yield the batches, all columns."""

    def texts(self, names: Collection[str]) -> Mapping[str, DistinctTexts]:
        """Return the distinct texts of those of these columns that hold texts, in one more reading of the table."""
        wanted = {name: DistinctTexts() for name in names if name not in self._texts and self._holds_texts(name)}
        if wanted:
            for part in self._columns(list(wanted)):
                for name, texts in wanted.items():
                    texts.add(part[name])
            self._texts |= wanted
        return {name: self._texts[name] for name in names if name in self._texts}

    @abstractmethod
    def _holds_texts(self, name: str) -> bool: ...

    @abstractmethod
    def _columns(self, names: list[str]) -> Iterator[Mapping[str, pyarrow.ChunkedArray]]:
        """Yield columns of texts batch by batch, as they are interpreted."""


class _Parts:
    """The parts of a table, of equal size, read again each time; a single part is kept."""

    def __init__(self, path: Path, read: Callable[[], Iterable[pyarrow.Table]], size: int) -> None:
        self._path, self._read, self._size = path, read, size
        self._only: pyarrow.Table | None = None
        self._rows: int | None = None

    def __iter__(self) -> Iterator[pyarrow.Table]:
        if self._only is not None:
            yield self._only
            return
        rows, first = 0, None
        for part in self._of_size():
            first = part if not rows else None
            rows += part.num_rows
            yield part
            # both allocators keep what is freed, so that memory would creep up over many batches
            pyarrow.default_memory_pool().release_unused()
            give_back()
        if self._rows is not None and rows != self._rows:
            raise ValueError(f"{self._path} had {self._rows:,} rows and now has {rows:,}: it changed while it was read")
        self._only, self._rows = first, rows

    def _of_size(self) -> Iterator[pyarrow.Table]:
        left: pyarrow.Table | None = None
        for part in self._read():
            whole = part if left is None else pyarrow.concat_tables([left, part])
            full = whole.num_rows - whole.num_rows % self._size
            yield from (whole.slice(start, self._size) for start in range(0, full, self._size))
            left = whole.slice(full)
        if left is not None and left.num_rows:
            yield left


class _TextBatches(Batches):
    def __init__(self, path: Path, name: str, decimal: Any, limits: SizeLimits, size: int) -> None:
        super().__init__(path)
        found, self._names = layout_of(path, None, name, limits)
        self.text: TextFormat = found
        self._parts = _Parts(path, lambda: text_parts(path, found, self._names), size)
        self._types = TextTypes(self._names)
        for part in self._parts:
            self._types.add(part)
        self._kinds = dict.fromkeys(self._names, pyarrow.string())  # all columns can be read as texts
        texts = self.texts(self._types.deciding(found.separator))
        self._kinds, self.points_are_open = self._types.decide(
            found.separator, columns_with_commas(decimal, self._names), lambda each: texts[each].texts
        )
        self.schema = pyarrow.schema(list(self._kinds.items()))

    @property
    def names(self) -> list[str]:
        return self._names

    def frames(self) -> Iterator[pd.DataFrame]:
        return (self._types.frame(part, self._kinds) for part in self._parts)

    def _holds_texts(self, name: str) -> bool:
        return bool(self._kinds[name] == pyarrow.string())

    def _columns(self, names: list[str]) -> Iterator[Mapping[str, pyarrow.ChunkedArray]]:
        return ({name: trimmed(part[name]) for name in names} for part in self._parts)


class _ParquetBatches(Batches):
    def __init__(self, path: Path, limits: SizeLimits, size: int) -> None:
        super().__init__(path)
        found = check_parquet(path, limits)
        self._levels = [field.name for field in found if _is_text(field.type)]
        self._parts = _Parts(path, lambda: self._read(size), size)
        # pandas may have written an index, whose columns come first
        kinds, self._names = (
            dict(zip(found.names, found.types, strict=True)),
            list(map(str, self._frame(found.empty_table()))),
        )
        plain = {name: _value_type(kinds[name]) for name in self._names if _is_plain(kinds[name])}
        self.schema = pyarrow.schema(list(plain.items()))
        self.left_out = tuple(name for name in self._names if name not in plain)
        self._kinds = kinds

    @property
    def names(self) -> list[str]:
        return self._names

    def frames(self) -> Iterator[pd.DataFrame]:
        return (self._frame(part) for part in self._parts)

    def _read(self, size: int) -> Iterator[pyarrow.Table]:
        with readable(self.path), pyarrow.parquet.ParquetFile(self.path, read_dictionary=self._levels) as file:
            for batch in file.iter_batches(size):
                yield pyarrow.Table.from_batches([batch])

    def _frame(self, part: pyarrow.Table) -> pd.DataFrame:
        with readable(self.path):
            columns = [_compact(each) for each in part.columns]
            part = pyarrow.Table.from_arrays(columns, names=part.column_names).replace_schema_metadata(
                part.schema.metadata
            )
            return without_index(part.to_pandas(types_mapper=_WHOLE.get))

    def _holds_texts(self, name: str) -> bool:
        return _is_text(_value_type(self._kinds[name]))

    def _columns(self, names: list[str]) -> Iterator[Mapping[str, pyarrow.ChunkedArray]]:
        return ({name: _compact(part[name]).cast(pyarrow.string()) for name in names} for part in self._parts)


class _ArrayBatches(Batches):
    def __init__(self, path: Path, limits: SizeLimits, size: int) -> None:
        super().__init__(path)
        self._frame, self._size = read_arrays(path, limits), size
        self._kinds = {name: pd.api.types.infer_dtype(self._frame[name], skipna=True) for name in self.names}
        self.left_out = tuple(
            name for name, kind in self._kinds.items() if kind not in _SIMPLE and not self._frame[name].isna().all()
        )
        plain = self._frame.drop(columns=list(self.left_out))
        self.schema = pyarrow.Schema.from_pandas(plain, preserve_index=False).remove_metadata()

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self._frame.columns]

    def frames(self) -> Iterator[pd.DataFrame]:
        starts = range(0, len(self._frame), self._size)
        return (self._frame.iloc[start : start + self._size].reset_index(drop=True) for start in starts)

    def _holds_texts(self, name: str) -> bool:
        return self._kinds[name] == "string"

    def _columns(self, names: list[str]) -> Iterator[Mapping[str, pyarrow.ChunkedArray]]:
        for frame in self.frames():
            stripped = {name: pyarrow.array(frame[name].str.strip(), pyarrow.string()) for name in names}
            yield {name: pyarrow.chunked_array([each]) for name, each in stripped.items()}


#: the batches of each of `READERS`
_BATCHES_OF: Final[Mapping[Any, Callable[[Path, SizeLimits, int], Batches]]] = {
    read_parquet: _ParquetBatches, read_arrays: _ArrayBatches,
}  # fmt: skip


def open_batches(path: Path, *, name: str, decimal: Any, limits: SizeLimits) -> Batches:
    """Open a table to read it in batches. Text and Parquet are never in memory as a whole, arrays are."""
    require_table(path)
    for endings, reader in READERS.items():
        if path.name.lower().endswith(endings):
            return _BATCHES_OF[reader](path, limits, BATCH)
    return _TextBatches(path, name, decimal, limits, BATCH)


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))


def _compact(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return a part of a column without the texts of others: a reader keeps those of thousands of rows together."""
    if not pyarrow.types.is_dictionary(column.type) or not len(column):
        return column
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole if isinstance(whole, pyarrow.DictionaryArray) else whole.chunk(0)
    used = pc.unique(whole.indices).drop_null()
    found = pyarrow.DictionaryArray.from_arrays(pc.index_in(whole.indices, used), whole.dictionary.take(used))
    return pyarrow.chunked_array([found])


def _is_plain(kind: pyarrow.DataType) -> bool:
    return pyarrow.types.is_dictionary(kind) or any(is_kind(kind) for is_kind in _PLAIN)


def _value_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type of the values, without the dictionary that stores them."""
    return kind.value_type if pyarrow.types.is_dictionary(kind) else kind
