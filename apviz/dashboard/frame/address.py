"""The address of a view: every setting of a page in the query of its URL, and back, with a message for bad values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import param


def to_query(models: Iterable[param.Parameterized]) -> str:
    """`?n=2000&dataset=china&...`: all settings, defaults too, so that the link means the same later."""
    pairs = [(name, _write(getattr(model, name))) for model in models for name in settings(model)]
    return "?" + urlencode(pairs, quote_via=quote, safe=",:")


def apply(query: str, models: Iterable[param.Parameterized]) -> list[str]:
    """Sets what a query says; returns a sentence for everything that it could not set, and leaves that as it is."""
    problems = []
    owners = {name: model for model in models for name in settings(model)}
    for name, text in parse_qsl(query.removeprefix("?"), keep_blank_values=True):
        if name not in owners:
            problems.append(f"{name} in the address is no setting; there are {', '.join(owners)}")
            continue
        model = owners[name]
        try:
            setattr(model, name, _read(text, model.param[name]))
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
        return float(text)
    if isinstance(parameter, param.List | param.ListSelector):
        words = [word for word in text.split(",") if word]
        return [int(word) for word in words] if getattr(parameter, "item_type", None) is int else words
    return text


def _reason(error: ValueError, parameter: param.Parameter) -> str:
    if isinstance(parameter, param.ListSelector | param.Selector):
        return f"one of {', '.join(map(str, parameter.objects))} is accepted"
    if isinstance(parameter, param.Integer | param.Number) and parameter.bounds:
        low, high = parameter.bounds
        ends = [f"{word} {end}" for word, end in (("from", low), ("to", high)) if end is not None]
        return f"a number {' '.join(ends)} is accepted"
    return str(error)
