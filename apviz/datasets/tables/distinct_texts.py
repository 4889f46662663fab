"""Distinct texts of a column with their counts, or a sample of them, which decide how the column is read."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.compute as pc
from numpy.typing import NDArray

from apviz.datasets.tables.decimals import shapes_of

#: largest number of texts that are kept
MOST: Final = 65_536


class DistinctTexts:
    """Distinct texts of a column and their number of rows, from all parts of a table.

    If there are more than `most`, those with the smallest hashes are kept. This is a random sample of the distinct
    texts, which depends neither on the order of the rows nor on the parts, and the counts are exact. The first text of
    every shape of a number, such as 0,5 or 1,234,567, is kept too: it may decide the decimal mark of a column.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most, self._rows, self._shapes = most, 0, set[int]()
        self._kept = pd.DataFrame({
            "hash": np.empty(0, np.uint64), "text": np.empty(0, object), "count": np.empty(0, np.int64),
            "first": np.empty(0, np.int64), "example": np.empty(0, bool),
        })  # fmt: skip

    def add(self, texts: pyarrow.ChunkedArray) -> None:
        """Take a part of the column into account, without spaces around its texts; null where missing."""
        coded = texts.combine_chunks().dictionary_encode()
        coded = coded if isinstance(coded, pyarrow.DictionaryArray) else coded.combine_chunks()
        levels = coded.dictionary.to_numpy(zero_copy_only=False).astype(object)
        codes = coded.indices.drop_null().to_numpy(zero_copy_only=False)
        new = pd.DataFrame({
            "hash": pd.util.hash_array(levels, categorize=False) if len(levels) else np.empty(0, np.uint64),
            "text": levels, "count": np.bincount(codes, minlength=len(levels)),
            "first": self._rows + np.arange(len(levels)), "example": self._examples(coded.dictionary),
        })  # fmt: skip
        self._rows += len(texts)
        both = pd.concat([self._kept, new], ignore_index=True)
        by_hash = both.groupby("hash", sort=True, as_index=False)
        merged = by_hash.agg({"text": "first", "count": "sum", "first": "min", "example": "max"})
        is_kept = (np.arange(len(merged)) < self._most) | merged["example"].to_numpy(bool)
        self._kept = merged[is_kept]

    def _examples(self, levels: pyarrow.Array) -> NDArray[np.bool_]:
        """Mark the first text of each shape that no text before had."""
        found, marked = np.zeros(len(levels), dtype=bool), pc.match_substring(levels, ".")
        marked = np.asarray(pc.or_(marked, pc.match_substring(levels, ",")))
        shapes, first = np.unique(shapes_of(levels.filter(pyarrow.array(marked))), return_index=True)
        is_new = [shape not in self._shapes for shape in shapes.tolist()]
        found[np.flatnonzero(marked)[first[is_new]]] = True
        self._shapes.update(shapes.tolist())
        return found

    @property
    def texts(self) -> pyarrow.Array:
        """The texts, in the order in which they occur first."""
        return pyarrow.array(self._ordered["text"], pyarrow.string())

    @property
    def levels_and_counts(self) -> tuple[pd.Series[Any], NDArray[np.int64]]:
        """The texts, in this order, and the number of rows of each."""
        ordered = self._ordered
        return pd.Series(ordered["text"].to_numpy(object), dtype=object), ordered["count"].to_numpy(np.int64)

    @property
    def _ordered(self) -> pd.DataFrame:
        return self._kept.sort_values("first", kind="stable")
