"""Fields that hold a setting as text: what they say is what runs, or nothing does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import panel_material_ui as pmui
import param

from apviz.dashboard.address import accepted, read, shown, write


class Fields:
    """Fields of one page, or those that several pages share.

    A number field of the browser's takes back what it cannot read without a word, and the setting stays what it was.
    These keep what was typed, say what would be accepted, and hold up what is to run.

    Args:
        on_problems: called with a sentence for every field that cannot be read, whenever they change.
        shared: fields of other pages too, which count as these.
    """

    def __init__(
        self, on_problems: Callable[[Sequence[str]], None] = lambda problems: None, shared: Fields | None = None
    ) -> None:
        self._on_problems = on_problems
        self._own: list[_Field] = []
        self._told: list[str] = []
        self._shared, self._shared_by = shared, list[Fields]()
        if shared is not None:
            shared._shared_by.append(self)

    def add(self, parameter: param.Parameter, **look: Any) -> pmui.TextInput:
        """Return the field for a setting of a model, as in `add(system.param.noise)`."""
        field = _Field(parameter, self._show, look)
        self._own.append(field)
        return field.widget

    def ready(self, *names: str) -> bool:
        """Whether the fields on the page can be read, of these settings or of all; to be asked before anything runs.

        Takes what was typed into a field that was not left yet.
        """
        asked = [each for each in self._all() if each.widget.visible and (not names or each.name in names)]
        for field in asked:
            field.take(field.widget.value_input or "")
        return not any(field.problem for field in asked)

    def _all(self) -> list[_Field]:
        return self._own if self._shared is None else [*self._shared._all(), *self._own]

    def _show(self) -> None:
        problems = [each.problem for each in self._all() if each.problem and each.widget.visible]
        if problems != self._told:
            self._told = problems
            self._on_problems(problems)
        for each in self._shared_by:
            each._show()


class _Field:
    """Field of one setting; `problem` says what is wrong with what it holds."""

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
        """Make what the field holds the setting, if it can be."""
        try:
            setattr(self.model, self.name, self._value(text))
        except ValueError as error:
            holds = f"holds “{shown(text)}”" if text.strip() else "is empty"
            why = accepted(error, self._parameter)
            self._say(f"the field “{self._parameter.label}” {holds}; {why}", why)
        else:
            self._say("", "")

    def _say(self, problem: str, hint: str) -> None:
        self.problem = problem
        self.widget.param.update(error_state=bool(problem), helper_text=hint)
        self._changed()

    def _follow(self) -> None:
        """Show a setting that was changed elsewhere, unless the field says that in other words."""
        try:
            same = self._value(self.widget.value_input or "") == getattr(self.model, self.name)
        except ValueError:
            same = False
        if not same:
            self.widget.value = self._text()
