"""Fields that hold a setting as text: what they say is what runs, or nothing does.

Settings as text, in an address or in a field, and back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import panel_material_ui as pmui
import param


def write(value: Any) -> str:
    """A value such that `read` gives it back."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def read(text: str, parameter: param.Parameter) -> Any:
    """The value of a setting; whether it is in range is found when it is set.

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
    """What is, of a setting that refused a value with an error."""
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
    """With or without commas between thousands; 1_000 is a number to Python alone."""
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


class Fields:
    """The fields of one page.

    A number field of the browser's takes back what it cannot read without a word, and the setting stays what it was.
    These keep what was typed, say what would be accepted, and hold up what is to run.

    Args:
        tell: called with a sentence for every field that cannot be read, whenever they change.
    """

    def __init__(self, tell: Callable[[Sequence[str]], None]) -> None:
        self._tell = tell
        self._all: list[_Field] = []
        self._told: list[str] = []

    def add(self, parameter: param.Parameter, **look: Any) -> pmui.TextInput:
        """A field for a setting of a model, as in `add(system.param.noise)`."""
        field = _Field(parameter, self._show, look)
        self._all.append(field)
        return field.widget

    def ready(self, *names: str) -> bool:
        """Whether the fields on the page can be read, of these settings or of all; to be asked before anything runs.

        Takes what was typed into a field that was not left yet.
        """
        asked = [each for each in self._all if each.widget.visible and (not names or each.name in names)]
        for field in asked:
            field.take(field.widget.value_input or "")
        return not any(field.problem for field in asked)

    def _show(self) -> None:
        problems = [each.problem for each in self._all if each.problem and each.widget.visible]
        if problems != self._told:
            self._told = problems
            self._tell(problems)


class _Field:
    """One of them; `problem` says what is wrong with what it holds."""

    def __init__(self, parameter: param.Parameter, changed: Callable[[], None], look: dict[str, Any]) -> None:
        self.model, self.name, self._changed = parameter.owner, parameter.name, changed
        self.problem = ""
        self.widget = pmui.TextInput(label=parameter.label, value=self._text(), **look)
        self.widget.param.watch(lambda event: self.take(event.new), "value")
        self.widget.param.watch(lambda event: changed(), "visible")
        self.model.param.watch(lambda event: self._follow(), self.name)

    @property
    def _parameter(self) -> param.Parameter:
        # bounds and labels may change
        return self.model.param[self.name]

    def _text(self) -> str:
        value = getattr(self.model, self.name)
        if isinstance(value, list):
            return ", ".join(map(str, value))
        return f"{value:,}" if isinstance(value, int) else write(value)

    def _value(self, text: str) -> Any:
        value = read(text.strip(), self._parameter)
        if hasattr(self.model, "check_setting"):
            self.model.check_setting(self.name, value)
        return value

    def take(self, text: str) -> None:
        """Makes what the field holds the setting, if it can be."""
        try:
            setattr(self.model, self.name, self._value(text))
        except ValueError as error:
            holds = f"holds “{text}”" if text.strip() else "is empty"
            why = accepted(error, self._parameter)
            self._say(f"the field “{self._parameter.label}” {holds}; {why}", why)
        else:
            self._say("", "")

    def _say(self, problem: str, hint: str) -> None:
        self.problem = problem
        self.widget.param.update(error_state=bool(problem), helper_text=hint)
        self._changed()

    def _follow(self) -> None:
        """The setting was changed elsewhere: the field says so, unless it says that in other words."""
        try:
            same = self._value(self.widget.value_input or "") == getattr(self.model, self.name)
        except ValueError:
            same = False
        if not same:
            self.widget.value = self._text()
