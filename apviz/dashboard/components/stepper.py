"""A field for a whole number, with buttons for the previous and the next number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.components.server_owned import button, server_owned


class Stepper:
    """Field and buttons in one line. The field's own buttons have no names for a screen reader, so they are hidden.

    Args:
        label: Label of the field.
        what: What the number counts, for the names of the buttons.
        go: Called with the number that was typed or reached by a button; None for an emptied field.
        start: Smallest number.
        look: Other arguments of the field.
    """

    def __init__(self, label: str, what: str, go: Callable[[int | None], None], *, start: int, **look: Any) -> None:
        self._start = start
        bare = {"& .MuiInputAdornment-root": {"display": "none"}, "& .MuiInputBase-root": {"padding": "0 8px"}}
        field = pmui.IntInput(label=label, value=None, start=start, sx=bare, margin=(4, 0, 4, 12), **look)
        self.field = server_owned(field, editable=["value"])
        self.field.param.watch(lambda event: go(event.new), "value")
        steps = {f"Previous {what}": ("chevron_left", -1), f"Next {what}": ("chevron_right", 1)}
        buttons = [
            button(name, icon, lambda by=by: self._step(by), variant="text", margin=(8, 0))  # type: ignore[misc]
            for name, (icon, by) in steps.items()
        ]
        self.view = pn.FlexBox(self.field, *buttons, align_items="center")

    def _step(self, by: int) -> None:
        value = self.field.value
        self.field.value = self._start if value is None else max(self._start, value + by)
