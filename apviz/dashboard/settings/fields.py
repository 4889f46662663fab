"""Text fields of settings: an invalid field blocks every run until it is corrected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import panel_material_ui as pmui
import param

from apviz.dashboard.address import accepted, read, shown, write


class Fields:
    """Fields of one page, or fields that several pages share.

    A browser's number field silently discards invalid input, and the setting keeps its value. These fields keep the
    input, show the accepted values, and block the run.

    Args:
        on_problems: Called with a sentence for every invalid field, whenever they change.
        shared: Fields of other pages that also belong to this page.
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
        """Test whether the page's fields of these settings, or all fields, are valid; required before every run.

        It also reads input in a field that still has the focus.
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
    """Field of one setting; `problem` describes invalid contents."""

    def __init__(self, parameter: param.Parameter, changed: Callable[[], None], look: dict[str, Any]) -> None:
        self.model, self.name, self._changed = parameter.owner, parameter.name, changed
        self.problem = ""
        #: Explanation below a valid field, if there is one.
        self._about = (parameter.doc or "").strip()
        self.widget = pmui.TextInput(
            label=parameter.label, value=self._text(), **{"helper_text": self._about} if self._about else {}, **look
        )
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
        """Set the setting to the contents of the field, if they are valid."""
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
        self.widget.param.update(error_state=bool(problem), helper_text=hint or self._about)
        self._changed()

    def _follow(self) -> None:
        """Show a setting that was changed elsewhere, unless the field has the same value in another notation."""
        try:
            same = self._value(self.widget.value_input or "") == getattr(self.model, self.name)
        except ValueError:
            same = False
        if not same:
            self.widget.value = self._text()
