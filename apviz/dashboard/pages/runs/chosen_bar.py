"""What can be done with the runs that are chosen: a file of them, the page Compare, the trash."""

from __future__ import annotations

from collections.abc import Callable, Collection

import panel as pn

from apviz.dashboard.pages.runs.button import button
from apviz.dashboard.pages.runs.files import Files


class ChosenBar:
    """A row of buttons.

    Args:
        compare, clear, delete: what they do, beside making a file.
    """

    def __init__(
        self, files: Files, compare: Callable[[], None], clear: Callable[[], None], delete: Callable[[], None]
    ) -> None:
        self._delete = button("Delete", "delete", delete, color="error")
        others = [
            button("Open on page Compare", "open_in_new", compare),
            button("Choose none", "clear", clear),
            self._delete,
        ]
        self._buttons = [files.button, *others]
        self.view = pn.FlexBox(
            files.format, files.button, files.download, *others, align_items="center", sizing_mode="stretch_width"
        )

    def show(self, chosen: Collection[str]) -> None:
        """Nothing can be done with no run."""
        for each in self._buttons:
            each.disabled = not chosen
        self._delete.label = f"Delete {len(chosen)} chosen" if chosen else "Delete"
