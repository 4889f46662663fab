"""Conversion of settings to text and back, with messages for bad values, for the address of a view and for fields."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import param

#: Most characters of a value that a message shows.
_MOST_SHOWN = 80
#: A comma inside a text of a list, such as the name of a run, and the comma between two texts.
_COMMA, _SEPARATOR = r"\,", re.compile(r"(?<!\\),")


class Seeds(param.List):
    """Parameter of one or several seeds: whole numbers from 0 on. `doc` is shown below its field."""

    def __init__(self, default: list[int], *, most: int, label: str, doc: str) -> None:
        super().__init__(default, item_type=int, bounds=(1, most), label=label, doc=doc)


def to_query(models: Iterable[param.Parameterized]) -> str:
    """Return the query `?n=2000&dataset=china&...` of all settings, with defaults, so that links keep their meaning."""
    pairs = [(name, write(getattr(model, name))) for model in models for name in settings(model)]
    return "?" + urlencode(pairs, quote_via=quote, safe=",:")


def apply(query: str, models: Iterable[param.Parameterized]) -> list[str]:
    """Apply the settings of a query and return one sentence for each invalid setting, which stays unchanged.

    Some models accept a value from a field and reject it only when it is used. Here their `check_setting(name, value)`
    rejects it at once.
    """
    problems = []
    owners = {name: model for model in models for name in settings(model)}
    order = {name: place for place, name in enumerate(owners)}
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
    # Apply in the order of the settings, because earlier ones, such as the data set, may change later ones.
    for name, text in sorted(pairs, key=lambda pair: order.get(pair[0], -1)):
        if name not in owners:
            problems.append(f"{shown(name)} in the address is not a setting; the settings are {', '.join(owners)}")
            continue
        model = owners[name]
        try:
            value = read(text, model.param[name])
            if hasattr(model, "check_setting"):
                model.check_setting(name, value)
            setattr(model, name, value)
        except ValueError as error:
            problems.append(f"{name}={shown(text)} in the address is ignored: {accepted(error, model.param[name])}")
    return problems


def shown(text: str) -> str:
    """Return text from an address or a field for display in a message: on one line, truncated if long."""
    text = "".join(sign if sign.isprintable() else "�" for sign in text)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def names(query: str) -> list[str]:
    """Return the names of the settings in a query."""
    return [name for name, _ in parse_qsl(query.removeprefix("?"), keep_blank_values=True)]


def only(query: str, wanted: Iterable[str]) -> str:
    """Return the part of a query that concerns the wanted settings."""
    wanted = set(wanted)
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
    return urlencode([(name, text) for name, text in pairs if name in wanted])


def settings(model: param.Parameterized) -> list[str]:
    """Return the names of a model's parameters that belong in an address: the public ones."""
    return [name for name in model.param if name != "name" and model.param[name].precedence != -1]


def write(value: Any) -> str:
    """Return a value as text that `read` converts back."""
    if isinstance(value, list):
        return ",".join(str(each).replace(",", _COMMA) for each in value)
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read(text: str, parameter: param.Parameter) -> Any:
    """Return the value of a setting from its text. Setting the parameter checks the range.

    Raises:
        ValueError: The text is not a value of this setting; `accepted` describes valid values.
    """
    if isinstance(parameter, param.Boolean):
        if text not in ("true", "false"):
            raise ValueError("use true or false")
        return text == "true"
    if text == "" and parameter.allow_None:
        return None
    if isinstance(parameter, param.Integer):
        return _whole(text)
    if isinstance(parameter, param.Number):
        return _finite(text)
    if isinstance(parameter, param.List | param.ListSelector):
        if _has_counts(parameter):
            words = text.replace(",", " ").split()
            if isinstance(parameter, Seeds):
                words = [each for word in words for each in _in_range(word, parameter.bounds[1])]
            return [_count(word, _least(parameter)) for word in words]
        words = [word.replace(_COMMA, ",").strip() for word in _SEPARATOR.split(text)]
        return [word for word in words if word]
    return text


def accepted(error: ValueError, parameter: param.Parameter) -> str:
    """Return a clause on the values that a setting accepts, after the setting refused a value with an error."""
    if isinstance(parameter, param.ListSelector | param.Selector):
        options = list(map(str, parameter.objects))
        return f"use {'one of ' if len(options) > 1 else ''}{', '.join(options)}"
    if _has_counts(parameter):
        if isinstance(parameter, Seeds):
            return f"use up to {parameter.bounds[1]} whole numbers from 0, separated by commas, or a range such as 0-4"
        return "use whole numbers above 0, separated by commas"
    if isinstance(parameter, param.Integer | param.Number) and parameter.bounds:
        (low, high), (with_low, with_high) = parameter.bounds, parameter.inclusive_bounds
        upper = "below" if not with_high else "to" if with_low else "and at most"
        words = ("from" if with_low else "above", low), (upper, high)
        ends = [f"{word} {end:,}" for word, end in words if end is not None]
        is_whole = isinstance(parameter, param.Integer)
        kind = "whole " if is_whole else "" if high is not None else "finite "
        return f"use a {kind}number {' '.join(ends)}"
    return str(error)


def _whole(text: str) -> int:
    """Return a whole number from text with or without thousands commas; reject 1_000, which only Python accepts."""
    if not re.fullmatch(r"[+-]?(\d+|\d{1,3}(,\d{3})+)", text.strip(), re.ASCII):
        raise ValueError("use a whole number")
    return int(text.replace(",", ""))


def _in_range(word: str, most: int) -> list[str]:
    """Return the numbers of a range such as 0-4 as words, or the word itself."""
    ends = re.fullmatch(r"(\d{1,18})[-–](\d{1,18})", word, re.ASCII)
    if ends is None:
        return [word]
    first, last = map(int, ends.groups())
    # one number too many is enough for a refusal
    return [str(number) for number in range(first, min(last, first + most) + 1)]


def _finite(text: str) -> float:
    number = float(text) if "_" not in text else math.nan
    if not math.isfinite(number):
        raise ValueError("use a finite number")
    return number


def _has_counts(parameter: param.Parameter) -> bool:
    """Return whether a parameter is a list of whole numbers."""
    return getattr(parameter, "item_type", None) is int


def _least(parameter: param.Parameter) -> int:
    """Return the smallest number of a list: all lists but those of seeds hold sizes or ranks."""
    return 0 if isinstance(parameter, Seeds) else 1


def _count(word: str, least: int) -> int:
    number = _whole(word)
    if number < least:
        raise ValueError(f"it must be at least {least}")
    return number
