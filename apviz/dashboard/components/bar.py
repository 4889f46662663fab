"""The bar of chips: each names a setting with its value, and opens the editor of that setting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import param

from apviz.dashboard.components.script_component import ScriptComponent


class Chip(NamedTuple):
    """A chip.

    Args:
        editor: Name of the editor that it opens.
        value: Value of the setting; empty for an action.
    """

    editor: str
    label: str
    value: str = ""


class Bar(ScriptComponent):
    """Toolbar of chips: one stop of the tab key, and the arrow keys move inside.

    Args:
        open: Called with the name of an editor when its chip is pressed.
    """

    chips = param.List([], item_type=list, doc="of each the editor, the label and the value")
    editor = param.String("", doc="the editor that is open, or empty")

    _esm = Path(__file__).with_name("bar.js")
    _stylesheets: ClassVar[list[str]] = [Path(__file__).with_name("bar.css").read_text("utf-8")]

    def __init__(self, open: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.on_msg(lambda event: open(str(event.data)))
