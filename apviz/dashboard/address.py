"""Settings as text, and back with a message for bad values: in the address of a view, and in a field."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import param

#: characters of a value that a sentence shows
_MOST_SHOWN = 80


def to_query(models: Iterable[param.Parameterized]) -> str:
    """Query `?n=2000&dataset=china&...` of all settings, defaults too, so that the link means the same later."""
    pairs = [(name, write(getattr(model, name))) for model in models for name in settings(model)]
    return "?" + urlencode(pairs, quote_via=quote, safe=",:")


def apply(query: str, models: Iterable[param.Parameterized]) -> list[str]:
    """Sets what a query says, and returns a sentence for everything that it could not set, which stays as it is.

    What a model takes from a field, to refuse it when it is used, its `check_setting(name, value)` refuses here.
    """
    problems = []
    owners = {name: model for model in models for name in settings(model)}
    order = {name: place for place, name in enumerate(owners)}
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
    # in the order of the settings: those that come first, such as the data set, may change those after them
    for name, text in sorted(pairs, key=lambda pair: order.get(pair[0], -1)):
        if name not in owners:
            problems.append(f"{shown(name)} in the address is no setting; there are {', '.join(owners)}")
            continue
        model = owners[name]
        try:
            value = read(text, model.param[name])
            if hasattr(model, "check_setting"):
                model.check_setting(name, value)
            setattr(model, name, value)
        except ValueError as error:
            problems.append(f"{name}={shown(text)} in the address is left out: {accepted(error, model.param[name])}")
    return problems


def shown(text: str) -> str:
    """Text from an address or a field as a sentence shows it: in one line, and of a long one the beginning."""
    text = "".join(sign if sign.isprintable() else "�" for sign in text)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def names(query: str) -> list[str]:
    """Names of the settings in a query."""
    return [name for name, _ in parse_qsl(query.removeprefix("?"), keep_blank_values=True)]


def only(query: str, wanted: Iterable[str]) -> str:
    """Part of a query about some settings."""
    wanted = set(wanted)
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
    return urlencode([(name, text) for name, text in pairs if name in wanted])


def settings(model: param.Parameterized) -> list[str]:
    """Names of the parameters of a model that belong into an address: the public ones."""
    return [name for name in model.param if name != "name" and model.param[name].precedence != -1]


def write(value: Any) -> str:
    """Text of a value, such that `read` gives it back."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read(text: str, parameter: param.Parameter) -> Any:
    """Value of a setting from its text; whether it is in range is found when it is set.

    Raises:
        ValueError: text that is no value of such a setting; `accepted` says what is.
    """
    if isinstance(parameter, param.Boolean):
        if text not in ("true", "false"):
            raise ValueError("true or false is accepted")
        return text == "true"
    if text == "" and parameter.allow_None:
        return None
    if isinstance(parameter, param.Integer):
        return _whole(text)
    if isinstance(parameter, param.Number):
        return _finite(text)
    if isinstance(parameter, param.List | param.ListSelector):
        words = text.replace(",", " ").split() if _has_counts(parameter) else [w for w in text.split(",") if w]
        return [_count(word) for word in words] if _has_counts(parameter) else words
    return text


def accepted(error: ValueError, parameter: param.Parameter) -> str:
    """Sentence on what a setting accepts that refused a value with an error."""
    if isinstance(parameter, param.ListSelector | param.Selector):
        return f"one of {', '.join(map(str, parameter.objects))} is accepted"
    if _has_counts(parameter):
        return "whole numbers above 0, separated by commas, are accepted"
    if isinstance(parameter, param.Integer | param.Number) and parameter.bounds:
        (low, high), (with_low, with_high) = parameter.bounds, parameter.inclusive_bounds
        upper = "below" if not with_high else "to" if with_low else "and at most"
        words = ("from" if with_low else "above", low), (upper, high)
        ends = [f"{word} {end:,}" for word, end in words if end is not None]
        is_whole = isinstance(parameter, param.Integer)
        kind = "whole " if is_whole else "" if high is not None else "finite "
        return f"a {kind}number {' '.join(ends)} is accepted"
    return str(error)


def _whole(text: str) -> int:
    """Whole number, with or without commas between thousands; 1_000 is a number to Python alone."""
    if not re.fullmatch(r"[+-]?(\d+|\d{1,3}(,\d{3})+)", text.strip(), re.ASCII):
        raise ValueError("a whole number is accepted")
    return int(text.replace(",", ""))


def _finite(text: str) -> float:
    number = float(text) if "_" not in text else math.nan
    if not math.isfinite(number):
        raise ValueError("a finite number is accepted")
    return number


def _has_counts(parameter: param.Parameter) -> bool:
    """Whether it is a list of whole numbers: all of them are sizes or ranks."""
    return getattr(parameter, "item_type", None) is int


def _count(word: str) -> int:
    number = _whole(word)
    if number < 1:
        raise ValueError("it must be at least 1")
    return number
