"""List of what was deleted and can be restored."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import panel_material_ui as pmui

from apviz.dashboard.components.server_owned import button
from apviz.dashboard.store.trash import Deleted


class DeletedList:
    """List of deleted runs or models, with a button that restores one.

    Args:
        label: Label of the list.
        restore: Called with the key of the requested one.
    """

    def __init__(self, label: str, restore: Callable[[str], None]) -> None:
        self.list = pmui.Select(label=label, options=[], size="small", visible=False, sizing_mode="stretch_width")
        self.button = button(
            "Bring back", "restore_from_trash", lambda: restore(self.list.value) if self.list.value else None,
            visible=False,
        )  # fmt: skip

    def show(self, deleted: Sequence[Deleted]) -> None:
        """Offer what was deleted, the latest first."""
        options = {f"{each.name} ({_ago(each.when)})": each.key for each in deleted}
        if options != self.list.options:
            value = self.list.value if self.list.value in options.values() else next(iter(options.values()), None)
            self.list.param.update(options=options, value=value)
        self.list.visible = self.button.visible = bool(options)


def _ago(when: float) -> str:
    hours = (time.time() - when) / 3600
    return "just now" if hours < 1 else f"{hours:.0f} h ago" if hours < 48 else f"{hours / 24:.0f} days ago"
