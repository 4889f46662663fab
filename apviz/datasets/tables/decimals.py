"""Parsing of numbers in text: the decimal mark is decided per column, and asked for if it is ambiguous.

A mark, comma or point, may be decimal or separate thousands. Most texts allow one reading only: 0,5 and 70,56 have a
decimal comma, 1,234,567 and 1,234.5 have commas between thousands. 70,567 allows both. Such texts are read like the
others of their column. If those do not decide, nothing else does, because other columns of a file may follow another
convention. Only the point is decimal without proof, with two exceptions. One is another column that proves decimal
commas. The other is a file separated by semicolons, tabs or bars, as files with decimal commas are, in which no column
proves a decimal point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow
import pyarrow.compute as pc
from numpy.typing import NDArray

Array = NDArray[np.float64]

MARKS: Final = (".", ",")
_NAMES: Final = {".": "point", ",": "comma"}
_OTHER: Final = {".": ",", ",": "."}
#: share of a column's unambiguous texts that must agree before they decide the reading of the others
_AGREE: Final = 0.9
#: texts that are unambiguous by their number of digits alone (70,56) may be typing errors: they decide from this share
_LEAST_PROOF: Final = 0.01
_SIGN, _EXPONENT = r"^[+\-−]?", r"([eE][+\-−]?\d+)?$"
_PLAIN = rf"{_SIGN}(\d+{_EXPONENT[:-1]}$|(?i:inf|infinity)$)"
#: French, SI and Swiss thousands separators, which are never ambiguous
_SPACES = "[ \u00a0\u202f'’]"
_SPACED = rf"{_SIGN}\d{{1,3}}({_SPACES}\d{{3}})+([.,]\d*)?$"


@dataclass(frozen=True)
class Question:
    """An ambiguous number or date, with its two readings.

    Attributes:
        example: a text of the column that allows both.
        readings: its value for each decimal mark, or order of day and month, with a description.
        setting: the setting that decides: `decimal` or `dates`.
    """

    example: str
    readings: dict[str, str]
    setting: str = "decimal"

    def of(self, name: str) -> str:
        """Return the question about a column as a sentence."""
        return f"{name} can be read in two ways: “{self.example}” is {' or '.join(self.readings.values())}"

    def settings_of(self, name: str) -> str:
        """Return the two values of the setting that decide about a column, as in Python."""
        return f"{self.setting} = " + " or ".join(f"{{{name!r}: {answer!r}}}" for answer in self.readings)

    def options_of(self, name: str) -> str:
        """Return the two options of the command line that decide about a column."""
        return " or ".join(f'--{self.setting} "{name}={answer}"' for answer in self.readings)


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers in the distinct texts of a column.

    Attributes:
        values: (m,), NaN where a text is not a number.
        mark: decimal mark of the column; empty if no text has one, or if it is unknown.
        proven: whether a text of the column proves the mark.
        question: set if texts allow two readings and nothing decides.
    """

    values: Array
    mark: str = ""
    proven: bool = False
    question: Question | None = None


def parse_numbers(
    texts: pyarrow.Array, counts: NDArray[Any], chosen_mark: str | None = None, points_are_open: bool = False
) -> Numbers:
    """Parse the distinct texts of a column, in `counts` rows each.

    Args:
        chosen_mark: the user's decimal mark for ambiguous texts; None: the column itself must decide.
        points_are_open: whether a point may separate thousands, judging by the rest of the file.
    """
    spaced = _matches(texts, _SPACED)
    if spaced.any():
        plain = pc.replace_substring_regex(texts, _SPACES, "")
        texts = pc.if_else(pyarrow.array(spaced), plain, texts)
    decimal, grouped, either = ({mark: _matches(texts, pattern(mark)) for mark in MARKS} for pattern in _PATTERNS)
    for mark in MARKS:
        decimal[mark] &= ~either[mark]
        grouped[mark] &= ~either[mark]
    is_read_with = {mark: decimal[mark] | grouped[_OTHER[mark]] for mark in MARKS}
    proofs = {mark: int(counts[is_read_with[mark]].sum()) for mark in MARKS}
    open_ones = either["."] | either[","]
    undecided = int(counts[open_ones].sum())
    mark = max(MARKS, key=lambda each: proofs[each])
    weak = int(counts[decimal[mark] & ~_matches(texts, _STRONG[mark])].sum())
    solid = proofs[mark] - weak + (weak if weak >= _LEAST_PROOF * undecided else 0)
    proven = solid > 0 and proofs[mark] >= _AGREE * sum(proofs.values())
    if not proven:
        mark = ""
        # the usual mark needs no proof if nothing contradicts it
        if either["."].any() and not either[","].any() and not proofs[","] and not points_are_open:
            mark = "."
    chosen = chosen_mark or mark
    is_comma = is_read_with[","] | (open_ones if chosen == "," else False)
    is_number = is_read_with["."] | is_read_with[","] | _matches(texts, _PLAIN) | open_ones
    values = _floats(texts, is_number, is_comma)
    if chosen or not undecided:
        return Numbers(values, chosen or (MARKS[proofs[","] > 0] if any(proofs.values()) else ""), proven)
    place = int(np.flatnonzero(open_ones)[np.argmax(counts[open_ones])])
    one, readings = pc.take(texts, [place]), dict[str, str]()
    between = "," if either[","][place] else "."
    for each in MARKS:
        value = float(_floats(one, np.array([True]), np.array([each == ","]))[0])
        role = f"decimal {_NAMES[each]}" if each == between else f"{_NAMES[between]}s between thousands"
        readings[each] = f"{value:.10g} ({role})"
    return Numbers(values, question=Question(str(one[0]), readings))


def proven_mark(texts: pyarrow.Array) -> str:
    """Return the decimal mark that the distinct texts of a column prove; empty if they prove none."""
    if not len(texts):
        return ""
    found = parse_numbers(texts, np.ones(len(texts), dtype=np.int64))
    return found.mark if found.proven and np.isnan(found.values).mean() <= 1 - _AGREE else ""


def shapes_of(texts: pyarrow.Array) -> NDArray[np.int64]:
    """Return a number for the shape of each text, (m,): texts of one shape prove the same about decimal marks."""
    spaced = _matches(texts, _SPACED)
    plain = pc.if_else(pyarrow.array(spaced), pc.replace_substring_regex(texts, _SPACES, ""), texts)
    tests = [spaced] + [_matches(plain, pattern(mark)) for mark in MARKS for pattern in _PATTERNS]
    tests += [_matches(plain, _STRONG[mark]) for mark in MARKS]
    return np.asarray(np.column_stack(tests) @ (1 << np.arange(len(tests))))


def are_numbers(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Test whether each text is a number under either decimal mark."""
    stripped = pyarrow.array([text.strip() for text in texts], pyarrow.string())
    return ~np.isnan(parse_numbers(stripped, np.ones(len(texts), dtype=np.int64)).values)


def _matches(texts: pyarrow.Array, pattern: str) -> NDArray[np.bool_]:
    return np.asarray(pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False), dtype=bool)


def _floats(texts: pyarrow.Array, is_number: NDArray[np.bool_], is_comma: NDArray[np.bool_] | bool) -> Array:
    texts = pc.replace_substring(pc.replace_substring(texts, "−", "-"), "+", "")
    with_point = pc.replace_substring(texts, ",", "")
    with_comma = pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")
    plain = pc.if_else(pyarrow.array(np.broadcast_to(is_comma, len(texts))), with_comma, with_point)
    values = np.full(len(texts), np.nan)
    values[is_number] = pc.filter(plain, pyarrow.array(is_number)).to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def _decimal(mark: str) -> str:
    return rf"{_SIGN}(\d*|\d{{1,3}}([{_OTHER[mark]}]\d{{3}})+)[{mark}]\d+{_EXPONENT}|{_SIGN}\d+[{mark}]{_EXPONENT}"


def _grouped(mark: str) -> str:
    return rf"{_SIGN}[1-9]\d{{0,2}}([{mark}]\d{{3}})+$"


def _either(mark: str) -> str:
    return rf"{_SIGN}[1-9]\d{{0,2}}[{mark}]\d{{3}}$"


_PATTERNS: Final = (_decimal, _grouped, _either)
#: decimals that are proven by more than the number of digits after the mark
_STRONG: Final = {mark: rf"{_SIGN}(0|\d{{4,}}|\d{{1,3}}([{_OTHER[mark]}]\d{{3}})+|)[{mark}]|[eE]" for mark in MARKS}
