"""Data cards: size, source, licence and recipe of each data set, read from one TOML file per set.

The files are in `data/` of a checkout, whose README explains every field, and in the installed package.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from apviz.hyperparameters import Hyperparameters

_PACKAGE = Path(__file__).parents[1]


class CardError(ValueError):
    """An invalid card; the message names the file, the field and the accepted values."""


@dataclass(frozen=True)
class Card:
    """The facts about a data set.

    Attributes:
        n: rows after cleaning, training and test together.
        d: inputs without constant ones: the number of columns that `load` returns.
        d_raw: inputs of the recipe.
        documented: statements of the source or the paper about the recipe.
        reading: our interpretation of it.
        files: file names to look for in the data folders; `fetch` writes the first.
        sha256: of the file at the first of `urls`; None if no official checksum is known. Such a file is checked by n
            and d after loading.
        how_to_get: advice for a data set that cannot be fetched.
        target_column: of a table that is read unchanged (see `load_table`); None if a recipe in code reads it.
        in_paper: whether Wu et al. (2024) use it.
    """

    name: str
    title: str
    n: int
    d: int
    d_raw: int
    target: str
    licence: str
    citation: str
    page: str
    documented: str
    reading: str
    doi: str | None = None
    urls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sha256: str | None = None
    how_to_get: str = ""
    hyperparameters: Hyperparameters | None = None
    target_column: str | int | None = None
    in_paper: bool = False


def folder() -> Path:
    """Return the folder of the cards: in the installed package, or `data/` of a checkout; CardError without either."""
    places = (_PACKAGE / "data", _PACKAGE.parent / "data")
    for place in places:
        if any(place.glob("*.toml")):
            return place
    raise CardError(f"no data cards, neither in {places[0]} nor in {places[1]}: install apviz again")


@cache
def read_cards() -> dict[str, Card]:
    """Read all cards: first the paper's by size, as in its table; then by name those with a file, then the others."""
    found = [read_card(path) for path in folder().glob("*.toml")]
    found.sort(key=lambda card: (not card.in_paper, not card.files, card.n if card.in_paper else 0, card.name))
    return {card.name: card for card in found}


def read_card(path: Path) -> Card:
    """Read the card of a file; its name without `.toml` is that of the data set.

    Raises:
        CardError: invalid TOML; a missing or unknown field, or one of another type; or contradicting values.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CardError(f"{path}: not TOML: {error}") from error
    _check_fields(path, values, _FIELDS, _REQUIRED)
    values.setdefault("d_raw", values["d"])
    hyperparameters = values.pop("hyperparameters", None)
    if hyperparameters is not None:
        hyperparameters = _hyperparameters(path, hyperparameters, values["d"])
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    card = Card(name=path.stem, hyperparameters=hyperparameters, **fields)
    if card.d_raw < card.d:
        raise CardError(f"{path}: d_raw = {card.d_raw}: expected at least d = {card.d}")
    if not card.urls and not card.how_to_get:
        raise CardError(f"{path}: how_to_get is missing; without urls, expected a sentence on how to get the data set")
    if not card.files and (card.urls or card.target_column is not None):
        raise CardError(f"{path}: files is missing; expected the names of the file that is fetched or read")
    return card


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


# each kind of value: description of the accepted values, and test for them
_TEXT = ("text that is not empty", _is_text)
_LIST = ("a list of texts", _is_list)
_COUNT = ("a positive whole number", lambda value: _is_whole(value) and value > 0)
_NUMBER = ("a finite number", _is_number)
_POSITIVE = ("a finite positive number", lambda value: _is_number(value) and value > 0)

_REQUIRED = {
    "title": _TEXT, "n": _COUNT, "d": _COUNT, "target": _TEXT, "licence": _TEXT, "citation": _TEXT, "page": _TEXT,
    "documented": _TEXT, "reading": _TEXT,
}  # fmt: skip
_FIELDS = _REQUIRED | {
    "d_raw": _COUNT,
    "doi": _TEXT,
    "urls": _LIST,
    "files": _LIST,
    "sha256": (
        "64 hexadecimal digits",
        lambda value: isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef"),
    ),
    "how_to_get": _TEXT,
    "target_column": (
        "a column's name, or its position (-1 is the last)",
        lambda value: _is_text(value) or _is_whole(value),
    ),
    "in_paper": ("true or false", lambda value: isinstance(value, bool)),
    "hyperparameters": ("a table: [hyperparameters]", lambda value: isinstance(value, dict)),
}
_HYPERPARAMETERS = {
    "kernel": _TEXT,
    "lengthscale": (
        "a list of finite positive numbers",
        lambda value: isinstance(value, list) and all(_is_number(each) and each > 0 for each in value),
    ),
    "outputscale": _POSITIVE,
    "noise": _POSITIVE,
    "mean": _NUMBER,
    "provenance": _TEXT,
}


def _check_fields(path: Path, values: dict[str, Any], known: dict[str, Any], required: Iterable[str]) -> None:
    for field in values:
        if field not in known:
            close = get_close_matches(field, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise CardError(f"{path}: {field} is not a field.{hint} Accepted are {', '.join(known)}")
    for field in required:
        if field not in values:
            raise CardError(f"{path}: {field} is missing; expected {known[field][0]}")
    for field, value in values.items():
        accepted, is_accepted = known[field]
        if not is_accepted(value):
            raise CardError(f"{path}: {field} = {value!r}: expected {accepted}")


def _hyperparameters(path: Path, values: dict[str, Any], d: int) -> Hyperparameters:
    _check_fields(path, values, _HYPERPARAMETERS, _HYPERPARAMETERS)
    lengthscale = tuple(map(float, values["lengthscale"]))
    if len(lengthscale) != d:
        raise CardError(f"{path}: lengthscale has {len(lengthscale)} values: expected one for each of d = {d} inputs")
    outputscale, noise, mean = (float(values[field]) for field in ("outputscale", "noise", "mean"))
    found = Hyperparameters(values["kernel"], lengthscale, outputscale, noise, mean, values["provenance"])
    try:
        found.build_kernel()
    except ValueError as error:
        raise CardError(f"{path}: kernel = {found.kernel!r}: {error}") from error
    return found
