"""The address of a view: every setting of a page in the query of its URL, and back, with a message for bad values."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, urlencode

import param

from apviz.dashboard.settings.fields import accepted, read, write


def to_query(models: Iterable[param.Parameterized]) -> str:
    """`?n=2000&dataset=china&...`: all settings, defaults too, so that the link means the same later."""
    pairs = [(name, write(getattr(model, name))) for model in models for name in settings(model)]
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
            value = read(text, model.param[name])
            if hasattr(model, "check_setting"):
                model.check_setting(name, value)
            setattr(model, name, value)
        except ValueError as error:
            problems.append(f"{name}={text} in the address is left out: {accepted(error, model.param[name])}")
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
