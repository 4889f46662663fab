"""Columns of a table: whether they hold numbers, texts, dates or a constant, and their conversion to inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import pyarrow
from numpy.typing import NDArray

from apviz.datasets.tables.decimals import Question, parse_numbers
from apviz.datasets.tables.oddities import written

Kind = Literal["number", "text", "date", "constant", "unusable"]
Array = NDArray[np.float64]

#: number of a column's most common texts that get an input each; the remaining texts have 0 in all of them
MAX_LEVELS: Final = 20
#: a text column with more distinct texts than `MAX_LEVELS`, and more than this share of its rows, identifies the rows
NAMING_SHARE: Final = 0.5
#: smallest share of a column's values that must be numbers, or dates, for it to count as such
MOST: Final = 0.9
#: number of distinct values on which date formats are tried first
_TRIED: Final = 100
# above this, float64 cannot represent every whole number
_WHOLE = 2**53
_DAY_SECONDS = 86_400.0
_DAY_FIRST = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%d/%m/%y", "%d-%m-%Y")
_MONTH_FIRST = ("%m/%d/%Y", "%m/%d/%y", "%m-%d-%Y")
#: orders of day and month, with the formats of each
ORDERS: Final = {"day-first": _DAY_FIRST, "month-first": _MONTH_FIRST}
_NAMED = ("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%b %Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S")
#: number of texts quoted that count as missing, and largest number of characters of a text in a message
_EXAMPLES, _SHORT = 3, 24


@dataclass(frozen=True)
class Unread:
    """Values that a table has, and that count as missing.

    Attributes:
        count, what, examples: number of rows with texts that are not numbers, or not dates; the first of these texts.
        infinite: number of rows with an infinite number.
    """

    count: int = 0
    what: str = ""
    examples: tuple[str, ...] = ()
    infinite: int = 0

    def __add__(self, other: Unread) -> Unread:
        """Return those of both parts of a column."""
        examples = tuple(dict.fromkeys((*self.examples, *other.examples)))[:_EXAMPLES]
        return Unread(self.count + other.count, self.what or other.what, examples, self.infinite + other.infinite)

    def note(self, name: str) -> str:
        """Say how many values of a column count as missing; empty if none does."""
        parts = []
        if self.count:
            shown = ", ".join(f"“{short(each)}”" for each in self.examples)
            parts.append(f"{self.count:,} values of {name} are not {self.what} ({shown}) and count as missing")
        if self.infinite:
            parts.append(f"{self.infinite:,} infinite values of {name} count as missing")
        return "; ".join(parts)


@dataclass(frozen=True)
class Reading:
    """How the texts of a column are read, decided from all of them and then the same for each part of the column.

    Attributes:
        kind: numbers, dates, texts, or false and true.
        mark: decimal mark of numbers; empty if no text has one, or if it is unknown.
        form: format of dates, as in pandas.
        question: set if the numbers or dates can be read in two ways.
    """

    kind: Literal["number", "date", "text", "truth"]
    mark: str = ""
    form: str = ""
    question: Question | None = None


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table, with its contents.

    Attributes:
        kind: number, text, date, constant (one value, or none at all), or unusable (lists and the like).
        values: (n,) numbers; dates as days since the first; texts as positions in `levels`. NaN where missing.
        levels: the distinct texts, most common first.
        distinct: number of distinct values.
        missing: number of rows without a value, with an infinite value, or with text among numbers.
        about: description of the contents.
        unread: values that count as missing though the table has them.
        first: day 0 of dates, with its time of day.
        offset: number that was subtracted from whole numbers too large for float64.
        mark: decimal mark of numbers read from texts; empty if none has one.
        question: set if the numbers or dates can be read in two ways; the column cannot be used until it is answered.
        order: order of day and month in dates: day-first or month-first; empty if their format has no choice.
    """

    name: str
    kind: Kind
    values: Array
    distinct: int
    missing: int
    about: str
    levels: tuple[str, ...] = ()
    unread: Unread = Unread()
    first: datetime | None = None
    offset: int = 0
    mark: str = ""
    question: Question | None = None
    order: str = ""

    @property
    def note(self) -> str:
        """What was decided in reading it, as a sentence; empty if nothing was."""
        return self.unread.note(self.name)

    @property
    def names_rows(self) -> bool:
        """Whether it is text that differs in nearly every row, like names and addresses."""
        return self.kind == "text" and self.distinct > max(MAX_LEVELS, NAMING_SHARE * len(self.values))

    @property
    def is_usable(self) -> bool:
        """Whether it is an input by default: it varies, and does not identify the rows."""
        return self.kind in ("number", "date", "text") and not self.names_rows

    @property
    def can_be_target(self) -> bool:
        """Whether it can be the target."""
        return self.kind in ("number", "date")


def column_of(
    name: str,
    values: pd.Series[Any],
    *,
    decimal: str | None = None,
    points_are_open: bool = False,
    order: str | None = None,
    reading: Reading | None = None,
) -> Column:
    """Interpret a column that was read from a file.

    Args:
        reading: how its texts are read, if it is a part of a column; None: its texts decide.
        decimal: the user's decision on the decimal mark of ambiguous numbers.
        points_are_open: whether a point may separate thousands, judging by the rest of the file.
        order: the user's decision on ambiguous dates such as 03/04/2020, day-first or month-first.
    """
    decisions: dict[str, Any] = {"decimal": decimal, "points_are_open": points_are_open, "order": order}
    if isinstance(values.dtype, pd.CategoricalDtype):
        if pd.api.types.is_string_dtype(values.dtype.categories):
            # stays dictionary-encoded: a long text may be repeated in every row
            codes, levels = values.cat.codes.to_numpy(), values.dtype.categories
            return _from_levels(name, codes, levels, reading or partial(reading_of, **decisions))
        values = values.astype(values.dtype.categories.dtype)
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if pd.api.types.is_bool_dtype(values.dtype) or kind == "boolean":
        return _number(name, _floats(values), words="false or true, as 0 or 1")
    if kind.startswith("complex"):
        return _unusable(name, values, "complex numbers")
    if pd.api.types.is_numeric_dtype(values.dtype):
        offset = offset_of(values)
        words = f"from {values.min()} to {values.max()}" if offset else ""
        return replace(_number(name, numbers(values, offset), words=words), offset=offset)
    if pd.api.types.is_timedelta64_dtype(values.dtype):
        return _number(name, values.dt.total_seconds().to_numpy(np.float64) / _DAY_SECONDS, words="in days")
    if kind in ("datetime64", "datetime", "date"):
        try:
            return _date(name, pd.to_datetime(values, utc=True))
        except (OverflowError, ValueError, NotImplementedError):  # depends on where pandas detects it
            return _unusable(name, values, "dates beyond the years 1 to 9999")
    if kind in ("decimal", "integer", "floating", "mixed-integer-float"):
        return _number(name, _floats(values))
    if kind == "empty":
        return _constant(name, np.full(len(values), np.nan), "every value is missing")
    if kind != "string":
        return _unusable(name, values, f"{kind} values")
    return _from_levels(name, *pd.factorize(values.str.strip()), reading or partial(reading_of, **decisions))


def offset_of(column: pd.Series[Any]) -> int:
    """Return the minimum of whole numbers that float64 cannot tell apart; 0 for all other numbers."""
    if pd.api.types.is_integer_dtype(column.dtype) and len(column) and not column.isna().any():
        low, high = int(column.min()), int(column.max())
        if max(-low, high) > _WHOLE:
            return low
    return 0


def numbers(column: pd.Series[Any], offset: int) -> Array:
    """Convert to float64; very large whole numbers minus their minimum, which scaling does not notice."""
    if offset:
        whole = column.to_numpy(dtype=np.uint64 if int(column.max()) >= 2**63 else np.int64).astype(np.uint64)
        return np.asarray((whole - np.uint64(offset % 2**64)).astype(np.float64))
    return _floats(column)


def _floats(column: pd.Series[Any]) -> Array:
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _number(name: str, values: Array, *, words: str = "", unread: Unread = Unread()) -> Column:
    infinite = int(np.isinf(values).sum())
    if infinite:
        values = np.where(np.isinf(values), np.nan, values)
        unread += Unread(infinite=infinite)
    there = values[~np.isnan(values)]
    distinct = len(np.unique(there))
    if distinct < 2:
        return _constant(name, values, f"always {there[0]:g}" if distinct else "every value is missing", unread)
    return Column(
        name, "number", values, distinct, len(values) - len(there),
        words or f"from {written(there.min())} to {written(there.max())}", unread=unread,
    )  # fmt: skip


def _date(name: str, when: pd.Series[Any], unread: Unread = Unread()) -> Column:
    since = (when - when.min()).dt.total_seconds().to_numpy(np.float64) / _DAY_SECONDS
    there = since[~np.isnan(since)]
    first = when.min().to_pydatetime(warn=False) if len(there) else None
    if len(np.unique(there)) < 2:
        about = f"always {when.min():%Y-%m-%d}" if len(there) else "every value is missing"
        return replace(_constant(name, since, about, unread), first=first)
    return Column(
        name, "date", since, len(np.unique(there)), len(since) - len(there),
        f"from {when.min():%Y-%m-%d} to {when.max():%Y-%m-%d}", unread=unread, first=first,
    )  # fmt: skip


def _constant(name: str, values: Array, about: str, unread: Unread = Unread()) -> Column:
    missing = int(np.isnan(values).sum())
    return Column(name, "constant", values, int(missing < len(values)), missing, about, unread=unread)


def _unusable(name: str, values: pd.Series[Any], about: str) -> Column:
    return Column(name, "unusable", np.full(len(values), np.nan), 0, int(values.isna().sum()), about)


# --- texts ------------------------------------------------------------------------------------------------------------


def reading_of(
    levels: pd.Series[Any],
    counts: NDArray[Any],
    *,
    decimal: str | None = None,
    points_are_open: bool = False,
    order: str | None = None,
) -> Reading:
    """Decide how texts are read: as false and true, numbers, dates, or texts, whichever fits nine values of ten.

    `levels`: (m,) the distinct texts, at least one, in `counts` rows each; the other arguments are as in `column_of`.
    """
    if set(levels.str.lower()) <= {"true", "false"}:
        return Reading("truth")
    parsed = parse_numbers(pyarrow.array(levels, pyarrow.string()), counts, decimal, points_are_open)
    if counts[~np.isnan(parsed.values)].sum() >= MOST * counts.sum():
        return Reading("number", parsed.mark, question=parsed.question)
    form, other = _find_form(levels, counts, order)
    if form:
        is_open = bool(other) and not order and _parse_dates(levels, form).nunique() > 1
        return Reading("date", form=form, question=_date_question(levels, counts, form, other) if is_open else None)
    return Reading("text")


def _from_levels(
    name: str, codes: NDArray[Any], found: pd.Index[Any], reading: Reading | Callable[..., Reading]
) -> Column:
    """Interpret texts by a reading, or by what decides it; codes: (n,) place in `found`, −1 if missing."""
    levels = pd.Series(found, dtype=object)
    # number of rows of each distinct text
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    if levels.empty or not counts.sum():
        return _constant(name, np.full(len(codes), np.nan), "every value is missing")
    by = reading if isinstance(reading, Reading) else reading(levels, counts)
    if by.kind == "truth":
        truth = np.where(levels.str.lower().isin(("true", "false")), levels.str.lower().eq("true"), np.nan)
        return _number(name, _spread(truth.astype(np.float64), codes), words="false or true, as 0 or 1")
    if by.kind == "number":
        texts = pyarrow.array(levels, pyarrow.string())
        number = parse_numbers(texts, counts, by.mark or None).values
        column = _number(name, _spread(number, codes), unread=_unread(levels, counts, np.isnan(number), "numbers"))
        return replace(column, mark=by.mark, question=by.question)
    if by.kind == "date":
        when = _parse_dates(levels, by.form)
        spread = when.reindex(codes).reset_index(drop=True)
        column = _date(name, spread, _unread(levels, counts, when.isna().to_numpy(), "dates"))
        return replace(column, order=_order_of(by.form), question=by.question)
    return _texts(name, codes, levels, counts)


def _texts(name: str, codes: NDArray[Any], levels: pd.Series[Any], counts: NDArray[Any]) -> Column:
    by_count = np.argsort(-counts, kind="stable")
    place = np.empty(len(levels))
    place[by_count] = np.arange(len(levels))
    texts = tuple(str(levels[each]) for each in by_count)
    if len(texts) == 1:
        return replace(_constant(name, _spread(np.zeros(1), codes), f"always “{short(texts[0])}”"), levels=texts)
    shown = ", ".join(map(short, texts[:3])) + (", …" if len(texts) > 3 else "")
    return Column(
        name, "text", _spread(place, codes), len(texts), int((codes < 0).sum()),
        f"{len(texts):,} different: {shown}", texts,
    )  # fmt: skip


def _spread(of_levels: Array, codes: NDArray[Any]) -> Array:
    """Return the rows' values, given those of the levels; NaN where missing."""
    return np.asarray(np.append(of_levels, np.nan)[codes])


def _parse_dates(levels: pd.Series[Any], form: str) -> pd.Series[Any]:
    return pd.to_datetime(levels, format=form, errors="coerce", utc=True)


def _find_form(levels: pd.Series[Any], counts: NDArray[Any], order: str | None) -> tuple[str, str]:
    """Return the date format of the texts, and one that fits equally and gives other dates; both empty if none fits."""
    forms = (*ORDERS[order], *_DAY_FIRST, *_MONTH_FIRST) if order else (*_DAY_FIRST, *_MONTH_FIRST)
    all_forms = ["ISO8601", *(form + clock for form in (*forms, *_NAMED) for clock in _CLOCKS)]
    # try a few texts, the most common ones, before all of them
    tried = levels.iloc[np.argsort(-counts, kind="stable")[:_TRIED]]
    likely = [form for form in all_forms if _parse_dates(tried, form).notna().mean() >= MOST / 2]
    shares = {form: counts[_parse_dates(levels, form).notna()].sum() / counts.sum() for form in likely}
    best = max(shares, key=lambda form: shares[form], default="")
    if not best or shares[best] < MOST:
        return "", ""
    when = _parse_dates(levels, best)
    equal = [form for form in shares if form != best and shares[form] == shares[best]]
    return best, next((form for form in equal if not _parse_dates(levels, form).equals(when)), "")


def _order_of(form: str) -> str:
    """Return the order of day and month in a format of numbers; empty for others."""
    plain = form.removesuffix(":%S").removesuffix(" %H:%M")
    # a format with points always has the day first
    return next((name for name, forms in ORDERS.items() if plain in forms and "." not in plain), "")


def _date_question(levels: pd.Series[Any], counts: NDArray[Any], *forms: str) -> Question | None:
    """Return the question about dates that two formats read differently; None if they have the same order."""
    first, second = (_parse_dates(levels, form) for form in forms)
    place = int(np.where((first != second) & first.notna() & second.notna(), counts, -1).argmax())
    readings = {
        order: f"{when[place]:%Y-%m-%d} ({order.replace('-', ' ')})"
        for order, when in ((_order_of(form), when) for form, when in zip(forms, (first, second), strict=True))
    }
    return Question(str(levels[place]), readings, "dates") if len(readings) == len(forms) else None


def _unread(levels: pd.Series[Any], counts: NDArray[Any], left: NDArray[np.bool_], what: str) -> Unread:
    if not left.any():
        return Unread()
    return Unread(int(counts[left].sum()), what, tuple(str(each) for each in levels[left].iloc[:_EXAMPLES]))


def days_since(first: datetime) -> str:
    """Say when day 0 of dates is: a date, with its time of day unless that is midnight."""
    return f"days since {first.replace(tzinfo=None)}".removesuffix(" 00:00:00")


def short(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def quoted(names: Sequence[str], most: int = 8) -> str:
    """Join the first `most` names, and count the remaining ones."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
