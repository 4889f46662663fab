"""Encodings: how a column becomes inputs, decided by the training rows and the same for all rows predicted later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apviz.datasets.tables.columns import MAX_LEVELS, ORDERS, Array, Column, days_since, quoted, short

KINDS: Final = ("number", "date", "text", "constant")
#: largest number of texts that are remembered as unknown
MOST_UNSEEN: Final = 65_536
_DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How one column becomes inputs. Numbers stay, dates become days, texts one input of 0 or 1 each.

    Attributes:
        column: name of the column.
        kind: number, date, text, or constant (one input of zeros).
        first: day 0 of dates, in ISO format; empty for other kinds.
        offset: number that is subtracted from whole numbers too large for float64.
        texts: texts with an input each.
        others: texts with 0 in all these inputs; None: all other texts.
        fill: number or day for missing values; None: they stay missing.
        has_missing: whether missing texts have an input of their own.
        order: order of day and month in dates such as 03/04/2020; empty if the training rows had others.
    """

    column: str
    kind: str = "number"
    first: str = ""
    offset: int = 0
    texts: tuple[str, ...] = ()
    others: tuple[str, ...] | None = ()
    fill: float | None = None
    has_missing: bool = False
    order: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, here one."""
        return (self.column,)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        if self.kind != "text":
            return (self.column,)
        missing = (f"{self.column} is missing",) if self.has_missing else ()
        return (*(f"{self.column}={text}" for text in self.texts), *missing)

    def inputs(self, column: Column) -> Array:
        """Return the inputs (n, k) of a column of any table, of the same kind. They are NaN where a value is missing.

        A text that no training row had counts as missing, unless the rarer texts are not distinguished.
        """
        if self.kind == "constant":
            return np.zeros((len(column.values), 1))
        is_missing, found = np.isnan(column.values), _kind_of(column)
        if found != self.kind and (column.kind == "unusable" or not is_missing.all()):
            raise ValueError(f"{column.name} holds {found}s ({column.about}), but {self.kind}s in the training rows")
        if self.kind == "text":
            return self._of_texts(column, is_missing)
        values = column.values + self._shift(column)
        return np.where(is_missing, np.nan if self.fill is None else self.fill, values)[:, None]

    def unseen(self, column: Column) -> list[str]:
        """Return the texts of a column that no training row had, and that therefore count as missing."""
        if self.kind != "text" or self.others is None:
            return []
        present = np.unique(column.values[~np.isnan(column.values)]).astype(int)
        known = {*self.texts, *self.others}
        return [column.levels[place] for place in present if column.levels and column.levels[place] not in known]

    def _shift(self, column: Column) -> float:
        """Return what to add to the numbers of a column, which start at its own first day or smallest number."""
        if self.kind == "date" and column.first is not None:
            return (column.first - datetime.fromisoformat(self.first)).total_seconds() / _DAY_SECONDS
        return float(column.offset - self.offset)

    def _of_texts(self, column: Column, is_missing: NDArray[np.bool_]) -> Array:
        place = {level: number for number, level in enumerate(column.levels)}
        # no value equals −1
        inputs = [column.values == place.get(text, -1) for text in self.texts]
        if self.has_missing:
            inputs.append(is_missing)
        found = np.column_stack(inputs).astype(np.float64) if inputs else np.empty((len(column.values), 0))
        unknown = np.isin(column.values, [place[text] for text in self.unseen(column)])
        found[unknown if self.has_missing else unknown | is_missing] = np.nan
        return found

    def as_plain(self) -> dict[str, Any]:
        """Return plain values by name, for files."""
        return asdict(self)

    @classmethod
    def from_plain(cls, found: Any) -> Encoding:
        """Return the encoding of plain values; a ValueError names one that is missing or invalid."""
        names = [each.name for each in fields(cls)]
        if not isinstance(found, Mapping) or sorted(found) != sorted(names):
            raise ValueError(f"a column must have {', '.join(names)}, got {found!r:.80}")
        checks = {
            "column": isinstance(found["column"], str), "kind": found["kind"] in KINDS,
            "first": found["first"] == "" if found["kind"] != "date" else _is_moment(found["first"]),
            "offset": type(found["offset"]) is int, "texts": _are_texts(found["texts"]),
            "others": found["others"] is None or _are_texts(found["others"]),
            "fill": found["fill"] is None or (isinstance(found["fill"], float) and np.isfinite(found["fill"])),
            "has_missing": isinstance(found["has_missing"], bool), "order": found["order"] in ("", *ORDERS),
        }  # fmt: skip
        wrong = [name for name, is_right in checks.items() if not is_right]
        if wrong:
            raise ValueError(f"{wrong[0]} of a column is invalid: {found[wrong[0]]!r:.80}")
        others = found["others"]
        texts = {"texts": tuple(found["texts"]), "others": None if others is None else tuple(others)}
        return cls(**{**found, **texts})


def encode(column: Column, rows: NDArray[np.bool_], fill: bool) -> tuple[Encoding, str]:
    """Decide how a column becomes inputs by its training rows, a mask (n,), and describe it.

    Texts become one input of 0 or 1 for each of the `MAX_LEVELS` most common, or a single input if there are two. With
    `fill`, missing values become the median of these rows, and missing texts a level of their own; else there are none.
    """
    name, values = column.name, column.values[rows]
    if column.kind == "constant":
        return Encoding(column=name, kind="constant"), ""
    missing = np.isnan(values)
    if column.kind != "text":
        median = float(np.median(values[~missing])) if fill else None
        if column.first is None:
            return Encoding(column=name, offset=column.offset, fill=median), ""
        first = column.first.isoformat()
        found = Encoding(column=name, kind="date", first=first, fill=median, order=column.order)
        return found, f"{name}: {days_since(column.first)}"
    present, counts = np.unique(values[~missing], return_counts=True)
    order = [column.levels[int(present[place])] for place in np.argsort(-counts, kind="stable")]
    has_missing = fill and bool(missing.any())
    chosen = order[:MAX_LEVELS] if len(order) > 2 or has_missing else order[1:]
    others = None if len(order) > MAX_LEVELS else tuple(text for text in order if text not in chosen)
    found = Encoding(column=name, kind="text", texts=tuple(chosen), others=others, has_missing=has_missing)
    how = f"{name}: {len(found.names)} inputs of 0 or 1 for {len(order):,} texts"
    if len(order) > MAX_LEVELS:
        rest = int(counts.sum() - np.sort(counts)[-MAX_LEVELS:].sum())
        how += f", the {MAX_LEVELS} most common; the others, in {rest:,} rows, are not distinguished"
    elif len(found.names) == 1:
        how = f"{name}: 1 where it is {short(chosen[0])}, 0 where it is {short(order[0])}"
    return found, how


def unseen_note(unseen: Mapping[str, list[str]]) -> str:
    """Say which texts count as missing, by column: all of them, or the first `MOST_UNSEEN`."""
    parts = []
    for name, texts in unseen.items():
        shown = quoted([short(text) for text in texts[:3]]) + ", …" if len(texts) >= MOST_UNSEEN else (
            quoted([short(text) for text in texts], 3)
        )  # fmt: skip
        parts.append(f"{name} ({shown})")
    return f"texts that no training row had count as missing: {quoted(parts)}"


def _kind_of(column: Column) -> str:
    """Return number, date or text, also for a constant column; the description of an unusable one."""
    if column.kind == "unusable":
        return "unusable value"
    return "date" if column.first is not None else "text" if column.levels else "number"


def _are_texts(found: Any) -> bool:
    return isinstance(found, list | tuple) and all(isinstance(each, str) for each in found)


def _is_moment(found: Any) -> bool:
    try:
        return datetime.fromisoformat(found).tzinfo is not None
    except (TypeError, ValueError):
        return False
