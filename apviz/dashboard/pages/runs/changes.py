"""What is done with runs: another name, a note, into the trash and back; and the message that says what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.one_way import one_way
from apviz.dashboard.pages.runs.button import button
from apviz.dashboard.plain_text import plain
from apviz.dashboard.runs.runs_folder import RunsFolder
from apviz.dashboard.runs.trash import Deleted


class Changes:
    """Changes of the folder, each with a message.

    Args:
        undone: called with the names of runs that Undo has brought back.
    """

    def __init__(self, runs: RunsFolder, undone: Callable[[list[str]], None]) -> None:
        self._runs, self._undone = runs, undone
        self._undoable: list[Deleted] = []
        self.message = one_way(
            pmui.Alert(object="", severity="info", visible=False, margin=(0, 8), sizing_mode="stretch_width")
        )
        self.undo_button = button("Undo", "undo", self.undo, visible=False)
        self.view = pn.Row(self.message, self.undo_button, sizing_mode="stretch_width")

    def say(self, message: str, *, bad: bool = False, undoable: Sequence[Deleted] = ()) -> None:
        """A message, and a button that undoes what it speaks of."""
        self._undoable = list(undoable)
        self.undo_button.visible = bool(undoable)
        self.message.param.update(object=plain(message), severity="error" if bad else "info", visible=bool(message))

    def rename(self, old: str, new: str) -> str | None:
        """The name that the run has now; None where it could not have it."""
        name: str | None = self._try(lambda: self._runs.rename(old, new))
        if name not in (None, old):
            self.say(f"{old} is called {name} now")
        return name

    def keep_note(self, name: str, note: str) -> None:
        """Keeps a note on a run."""
        if self._try(lambda: self._runs.write_note(name, note)) is not None:
            self.say(f"The note on {name} is kept")

    def delete(self, names: Sequence[str]) -> list[str]:
        """Moves runs into the trash; `undo` brings them back. Returns those that could be."""
        gone: list[Deleted] = []
        self.say("")
        for name in names:
            deleted = self._try(partial(self._runs.delete, name))
            if deleted is not None:
                gone.append(deleted)
        found = [each.name for each in gone]
        if gone:
            refused = f"; {self.message.object}" if self.message.visible else ""
            self.say(f"Deleted: {', '.join(found)}{refused}", bad=bool(refused), undoable=gone)
        return found

    def undo(self) -> None:
        """Brings back what was deleted last."""
        keys = [each.key for each in self._undoable]
        self.say("")
        self._undone([name for key in keys if (name := self._try(partial(self._runs.restore, key)))])

    def restore(self, key: str) -> None:
        """Brings back a run that was deleted some time ago."""
        name = self._try(lambda: self._runs.restore(key))
        if name:
            self.say(f"{name} is back")

    def _try(self, do: Callable[[], Any]) -> Any:
        """What it gives, or None with a message of what went wrong."""
        try:
            return do()
        except (ValueError, OSError) as error:
            self.say(str(error), bad=True)
            return None
