"""What was deleted, and the way back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import panel_material_ui as pmui

from apviz.dashboard.pages.runs.button import button
from apviz.dashboard.runs.trash import Deleted


class DeletedRuns:
    """A list of deleted runs with a button.

    Args:
        restore: called with the key of the run that is wanted back.
    """

    def __init__(self, restore: Callable[[str], None]) -> None:
        self.list = pmui.Select(
            label="Deleted run", options=[], size="small", visible=False, sizing_mode="stretch_width"
        )
        self.button = button(
            "Bring back", "restore_from_trash", lambda: restore(self.list.value) if self.list.value else None,
            visible=False,
        )  # fmt: skip

    def show(self, deleted: Sequence[Deleted]) -> None:
        """The last one first."""
        options = {f"{each.name} ({_ago(each.when)})": each.key for each in deleted}
        if options != self.list.options:
            value = self.list.value if self.list.value in options.values() else next(iter(options.values()), None)
            self.list.param.update(options=options, value=value)
        self.list.visible = self.button.visible = bool(options)


def _ago(when: float) -> str:
    hours = (time.time() - when) / 3600
    return "just now" if hours < 1 else f"{hours:.0f} h ago" if hours < 48 else f"{hours / 24:.0f} days ago"
