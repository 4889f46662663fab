"""The page Runs: all runs of the folder, and the chosen ones side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.components.deleted_list import DeletedList
from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.pages.base import Page, Shared
from apviz.dashboard.pages.runs.columns import COLUMNS
from apviz.dashboard.pages.runs.comparing import RunComparison
from apviz.dashboard.pages.runs.editing import FileTransfer, RunEditor
from apviz.dashboard.pages.runs.listing import FolderTable, Listing, Loader
from apviz.dashboard.pages.runs.thresholds import threshold
from apviz.dashboard.pages.runs.viewing import RunDetails, RunsView
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.store.notes import tags_of
from apviz.dashboard.store.run_entry import solves_of
from apviz.dashboard.store.trash import TRASH_DAYS
from apviz.tracing import Trace

#: Seconds between two checks of the folder.
LOOK_SECONDS = 2.0


class Runs(Page):
    """Page of the folder of runs."""

    name = "runs"
    title = "Runs"
    settings_title = "Table settings"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.choice = RunsView()
        self.models = [self.choice]
        self.listing = Listing(shared.runs)
        self.loader = Loader(shared.runs, self.listing)
        self._next_look = 0.0
        self.fields = Fields()
        self.editor = RunEditor(shared.runs, self.choose_also)
        self.table = FolderTable(self.choose, self.select, self.hide)
        self.transfer = FileTransfer(shared, lambda: self.choice.runs, self.editor.say, self.choose_also)
        self.bar = ChosenBar(
            self.transfer, self.compare, lambda: self.choose([]), self.delete, self.tag, self.hide_chosen
        )
        self.details = RunDetails(self.rename, self.keep_note, self.open_training, self.rerun)
        switch = pmui.Switch.from_param(self.choice.param.show_hidden, margin=(0, 12), visible=False)
        self._show_hidden = server_owned(switch, editable=["value"])
        self.comparison = RunComparison(self.choice, self.select, lecture=shared.lecture)
        self.deleted = DeletedList("Deleted run", self.bring_back)
        watch = self.choice.param.watch
        watch(lambda *events: self._fill_table(), ["filter", "columns", "thresholds", "show_hidden"])
        watch(lambda event: self._hidden_changed(), ["hidden"])
        watch(lambda event: self._choose_changed(), ["runs"])
        watch(lambda event: self._show_selected(), ["selected"])
        watch(lambda *events: self._draw_all(), ["x", "group"])

    # --- contents -------------------------------------------------------------------------------------------------

    def settings(self) -> list[Viewable]:
        marks = self.fields.add(self.choice.param.thresholds, sizing_mode="stretch_width")
        return runs_panel(self.choice, marks, self.transfer, self.deleted, self.shared.limits.max_upload_mb)

    def make_main(self) -> Viewable:
        return pn.Column(
            pmui.TextInput.from_param(
                self.choice.param.filter, label="Filter", sizing_mode="stretch_width", margin=(16, 12, 4, 12),
                placeholder="Search name, method, data set, result, tags and note",
            ),
            self.editor.view, self.listing.broken, self._show_hidden, self.table.view,
            self.bar.view, self.comparison.view, self.details.view, sizing_mode="stretch_width",
        )  # fmt: skip

    # --- the folder -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.refresh()
        self._choose_changed()
        self._show_selected()

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.transfer.tick()
        if time.monotonic() > self._next_look:
            self.refresh()
        if not self.loader.is_done:
            self.loader.open_some()
            self._say_progress()
            if self.loader.is_done:
                self._show()
        self.draw_next()

    def refresh(self) -> None:
        """Check the folder, and show changes."""
        self._next_look = time.monotonic() + LOOK_SECONDS
        if self.listing.refresh():
            self._fill_table()
            if self.loader.is_stale:
                self._choose_changed()
        self.deleted.show(self.shared.runs.deleted())

    @property
    def chosen(self) -> dict[str, Trace]:
        """Return the open traces of the chosen runs, by name."""
        return {name: self.loader.traces[name] for name in self.choice.runs if name in self.loader.traces}

    def _fill_table(self) -> None:
        entries = self.listing.entries
        known = {entry.name for entry in entries}
        hidden = [name for name in self.choice.hidden if name in known]
        left_out = set() if self.choice.show_hidden else set(hidden)
        matching = [each for each in entries if each.name not in left_out and each.matches(self.choice.filter)]
        self._show_hidden.visible = bool(hidden)
        self.table.show_columns(self.choice.columns)
        self.table.show(
            matching, len(entries), chosen=self.choice.runs, hidden=hidden,
            thresholds=[threshold(text) for text in self.choice.thresholds],
        )  # fmt: skip

    # --- selection ------------------------------------------------------------------------------------------------

    def choose(self, ticked: Sequence[str]) -> None:
        """Choose the ticked runs of the table, in addition to chosen runs that it does not show."""
        kept = [name for name in self.choice.runs if name in ticked or name not in self.table.names]
        chosen = [*kept, *(name for name in ticked if name not in kept)]
        self.choice.runs = chosen
        self.table.tick(chosen)

    def hide(self, names: Sequence[str]) -> None:
        """Hide these runs only: their rows and their own curves, not what they add to groups."""
        self.choice.hidden = list(names)

    def hide_chosen(self, hide: bool) -> None:
        """Hide the chosen runs, or show them again."""
        others = [name for name in self.choice.hidden if name not in self.choice.runs]
        self.hide([*others, *(self.choice.runs if hide else [])])

    def _hidden_changed(self) -> None:
        self._fill_table()
        if self.loader.is_done:
            self.comparison.show(self.chosen)
            self._draw_all()

    def select(self, name: str) -> None:
        """Show one run in detail."""
        self.choice.selected = name

    def _choose_changed(self) -> None:
        self.table.tick(self.choice.runs)
        self.loader.request([*self.choice.runs, *([self.choice.selected] if self.choice.selected else [])])
        self._say_progress()
        if self.loader.is_done:
            self._show()

    def _say_progress(self) -> None:
        waiting = self.loader.waiting
        self.comparison.say_progress(len(self.loader.traces), len(self.loader.traces) + waiting)

    def _show(self) -> None:
        problems = self.loader.problems
        if problems:
            self._refuse("; ".join(problems.values()))
        if gone := [name for name in problems if self.listing.entry(name) is None]:
            self._moved(dict.fromkeys(gone, ""))
            return
        self.comparison.show(self.chosen)
        self.bar.show(self.choice.runs)
        self._show_selected()
        self._draw_all()

    def _show_selected(self) -> None:
        name = self.choice.selected
        self.table.mark(name)
        entry = self.listing.entry(name)
        if entry is not None:
            self.loader.request_also(name)
        self.details.show(entry, self.loader.traces.get(name))

    def _draw_all(self) -> None:
        for card in self.comparison.cards.values():
            if card.view.visible:
                self.draw_later(card, partial(card.show, list(self.chosen.values()), self.shared.theme))

    # --- actions on runs ------------------------------------------------------------------------------------------

    def rename(self, new_name: str) -> None:
        """Rename the selected run."""
        old = self.choice.selected
        new = self.editor.rename(old, new_name)
        if new is not None and new != old:
            self._moved({old: new})

    def keep_note(self, note: str) -> None:
        """Store a note on the selected run."""
        self.editor.keep_note(self.choice.selected, note)
        self.refresh()

    def tag(self, tags: Sequence[str], remove: bool) -> None:
        """Add tags to the chosen runs, or remove them."""
        found = [entry for name in self.choice.runs if (entry := self.listing.entry(name)) is not None]
        self.editor.tag(found, tags, remove=remove)
        self.refresh()

    def delete(self) -> None:
        """Move the chosen runs to the trash."""
        self._moved(dict.fromkeys(self.editor.delete(self.choice.runs), ""))

    def _moved(self, names: Mapping[str, str]) -> None:
        """Follow renamed runs; an empty new name means that the run was deleted."""
        for old in names:
            self.loader.drop(old)
        self.refresh()
        runs = [names.get(name, name) for name in self.choice.runs]
        hidden = [names.get(name, name) for name in self.choice.hidden]
        self.choice.param.update(
            runs=[name for name in runs if name], hidden=[name for name in hidden if name],
            selected=names.get(self.choice.selected, self.choice.selected),
        )  # fmt: skip

    def bring_back(self, key: str) -> None:
        """Restore one of the deleted runs."""
        self.editor.restore(key)
        self.refresh()

    def choose_also(self, names: Sequence[str]) -> None:
        """Choose runs that are new in the folder, in addition to the chosen ones."""
        self.refresh()
        self.choose([*self.choice.runs, *names])

    def _refuse(self, message: str) -> None:
        self.editor.say(message, bad=True)

    def compare(self) -> None:
        """Show the chosen runs on the page Compare."""
        names = list(solves_of(self.chosen))
        if not names:
            self._refuse("Compare shows solves, and all runs chosen are trainings")
        elif self.shared.go is not None:
            selected = self.choice.selected if self.choice.selected in names else names[0]
            self.shared.go("compare", lambda page: page.look_at(names, selected))

    def open_training(self) -> None:
        """Show the selected run on the page Training."""
        name = self.choice.selected
        if self.shared.go is not None:
            self.shared.go("training", lambda page: page.select(name))

    def rerun(self, trace: Trace, diagnosis: Diagnosis) -> None:
        """Open the page Compare, and solve the diagnosis's proposal there, next to this run."""
        name = self.choice.selected

        def prepare(page: Any) -> None:
            page.look_at([name], name)
            page.rerun(trace, diagnosis)

        if self.shared.go is not None:
            self.shared.go("compare", prepare)


def runs_panel(
    choice: RunsView, marks: Viewable, transfer: FileTransfer, deleted: DeletedList, max_upload_mb: int
) -> list[Viewable]:
    """Return the widgets that choose columns, mark numbers, and import and restore runs."""
    return [
        pmui.MultiChoice.from_param(
            choice.param.columns,
            label="Columns",
            sizing_mode="stretch_width",
            options={column.title: name for name, column in COLUMNS.items()},
        ),
        marks,
        pmui.Typography("Import", variant="subtitle2"),
        pmui.Typography(
            f"Traces as .zarr.zip, up to {max_upload_mb} MB. They are read as data only and never replace another run.",
            variant="body2",
        ),
        transfer.drop,
        pmui.Typography("Deleted", variant="subtitle2"),
        pmui.Typography(f"Deleted runs are kept for {TRASH_DAYS} days.", variant="body2"),
        deleted.list,
        deleted.button,
    ]


class ChosenBar:
    """Buttons for actions on the chosen runs: export, compare, tag, hide, delete.

    Args:
        compare: Called to show the runs on the page Compare.
        clear: Called to clear the choice.
        delete: Called to delete the runs.
        tag: Called with tags, and whether to remove them.
        hide: Called with whether to hide the runs or to show them again.
    """

    def __init__(
        self, transfer: FileTransfer, compare: Callable[[], None], clear: Callable[[], None],
        delete: Callable[[], None], tag: Callable[[Sequence[str], bool], None], hide: Callable[[bool], None],
    ) -> None:  # fmt: skip
        self.tags = pmui.TextInput(label="Tag", width=130, size="small")
        self._delete = button("Delete", "delete", delete, color="error")
        tagging = [
            button("Tag", "label", lambda: tag(tags_of(self.tags.value), False)),
            button("Untag", "label_off", lambda: tag(tags_of(self.tags.value), True)),
        ]
        others = [
            button("Open in Compare", "open_in_new", compare),
            button("Hide", "visibility_off", lambda: hide(True)),
            button("Unhide", "visibility", lambda: hide(False)),
            button("Clear selection", "clear", clear),
            self._delete,
        ]
        self._buttons = [transfer.button, *tagging, *others]
        self.view = pn.FlexBox(
            transfer.format,
            transfer.button,
            transfer.download,
            self.tags,
            *tagging,
            *others,
            align_items="center",
            sizing_mode="stretch_width",
        )

    def show(self, chosen: Collection[str]) -> None:
        """Enable the buttons if any run is chosen."""
        for each in self._buttons:
            each.disabled = not chosen
        self._delete.label = f"Delete {len(chosen)} chosen" if chosen else "Delete"
