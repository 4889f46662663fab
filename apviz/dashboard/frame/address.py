"""The address of a view: every setting of a page in the query of its URL, and back, with a message for bad values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import param


def to_query(models: Iterable[param.Parameterized]) -> str:
    """`?n=2000&dataset=china&...`: all settings, defaults too, so that the link means the same later."""
    pairs = [(name, _write(getattr(model, name))) for model in models for name in settings(model)]
    return "?" + urlencode(pairs, quote_via=quote, safe=",:")


def apply(query: str, models: Iterable[param.Parameterized]) -> list[str]:
    """Sets what a query says; returns a sentence for everything that it could not set, and leaves that as it is.

    What a model takes from a field, to refuse it when it is used, its `check_setting(name, value)` refuses here.
    """
    problems = []
    owners = {name: model for model in models for name in settings(model)}
    for name, text in parse_qsl(query.removeprefix("?"), keep_blank_values=True):
        if name not in owners:
            problems.append(f"{name} in the address is no setting; there are {', '.join(owners)}")
            continue
        model = owners[name]
        try:
            value = _read(text, model.param[name])
            if hasattr(model, "check_setting"):
                model.check_setting(name, value)
            setattr(model, name, value)
        except ValueError as error:
            problems.append(f"{name}={text} in the address is left out: {_reason(error, model.param[name])}")
    return problems


def names(query: str) -> list[str]:
    """The settings that a query speaks of."""
    return [name for name, _ in parse_qsl(query.removeprefix("?"), keep_blank_values=True)]


def only(query: str, wanted: Iterable[str]) -> str:
    """The part of a query about some settings."""
    wanted = set(wanted)
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
    return urlencode([(name, text) for name, text in pairs if name in wanted])


def settings(model: param.Parameterized) -> list[str]:
    """The parameters that belong into an address: public ones with a documentation."""
    return [name for name in model.param if name != "name" and model.param[name].precedence != -1]


def _write(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _read(text: str, parameter: param.Parameter) -> Any:
    if isinstance(parameter, param.Boolean):
        if text not in ("true", "false"):
            raise ValueError("true or false is accepted")
        return text == "true"
    if text == "" and parameter.allow_None:
        return None
    if isinstance(parameter, param.Integer):
        return int(text)
    if isinstance(parameter, param.Number):
        return _finite(float(text))
    if isinstance(parameter, param.List | param.ListSelector):
        words = [word for word in text.split(",") if word]
        return [_count(word) for word in words] if _has_counts(parameter) else words
    return text


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("a finite number is accepted")
    return number


def _has_counts(parameter: param.Parameter) -> bool:
    """Whether it is a list of whole numbers: all of them are sizes or ranks."""
    return getattr(parameter, "item_type", None) is int


def _count(word: str) -> int:
    if int(word) < 1:
        raise ValueError("it must be at least 1")
    return int(word)


def _reason(error: ValueError, parameter: param.Parameter) -> str:
    if isinstance(parameter, param.ListSelector | param.Selector):
        return f"one of {', '.join(map(str, parameter.objects))} is accepted"
    if _has_counts(parameter):
        return "whole numbers above 0, separated by commas, are accepted"
    if isinstance(parameter, param.Integer | param.Number) and parameter.bounds:
        (low, high), (with_low, with_high) = parameter.bounds, parameter.inclusive_bounds
        words = ("from" if with_low else "above", low), ("to" if with_high else "below", high)
        ends = [f"{word} {end}" for word, end in words if end is not None]
        finite = "" if high is not None or isinstance(parameter, param.Integer) else "finite "
        return f"a {finite}number {' '.join(ends)} is accepted"
    return str(error)
