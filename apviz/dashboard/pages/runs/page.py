"""Runs: everything in the runs folder, some of it side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import panel as pn
from panel.viewable import Viewable

from apviz.dashboard.pages.base import Page
from apviz.dashboard.pages.runs.changes import Changes
from apviz.dashboard.pages.runs.choosing import chosen_of
from apviz.dashboard.pages.runs.chosen_bar import ChosenBar
from apviz.dashboard.pages.runs.deleted import DeletedRuns
from apviz.dashboard.pages.runs.files import Files
from apviz.dashboard.pages.runs.listing import Listing
from apviz.dashboard.pages.runs.one_run import OneRun
from apviz.dashboard.pages.runs.opening import Opening
from apviz.dashboard.pages.runs.panel import runs_panel
from apviz.dashboard.pages.runs.together import Together
from apviz.dashboard.pages.runs.view import RunsView
from apviz.dashboard.pages.shared import Shared
from apviz.dashboard.runs.folder_table import MOST_RUNS, FolderTable
from apviz.dashboard.runs.kinds import solves_of
from apviz.diagnosis import Diagnosis
from apviz.tracing import Trace

#: seconds between two looks into the folder
LOOK = 2.0


class Runs(Page):
    """The folder."""

    name = "runs"
    title = "Runs"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.choice = RunsView()
        self.models = [self.choice]
        self.listing = Listing(shared.runs)
        self.opening = Opening(shared.runs, self.listing)
        self._next_look = 0.0
        self.changes = Changes(shared.runs, self.choose_also)
        self.table = FolderTable(self.choose, self.select)
        self.files = Files(shared, lambda: self.choice.runs, self.changes.say, self.choose_also)
        self.bar = ChosenBar(self.files, self.compare, lambda: self.choose([]), self.delete)
        self.one = OneRun(self.rename, self.keep_note, self.rerun)
        self.together = Together(self.choice, self.select, lecture=shared.lecture)
        self.deleted = DeletedRuns(self.bring_back)
        self._everything: pn.Column | None = None
        watch = self.choice.param.watch
        watch(lambda event: self._fill_table(), ["filter"])
        watch(lambda event: self._choose_changed(), ["runs"])
        watch(lambda event: self._show_selected(), ["selected"])
        watch(lambda event: self._draw_all(), ["x"])

    # --- what is on it --------------------------------------------------------------------------------------------

    def sidebar(self) -> list[Viewable]:
        return runs_panel(self.choice, self.files, self.deleted, self.shared.limits.max_upload_mb)

    def main(self) -> Viewable:
        if self._everything is None:
            self._everything = pn.Column(
                self.changes.view, self.listing.broken, self.table.view, self.bar.view, self.one.view,
                self.together.view, sizing_mode="stretch_width",
            )  # fmt: skip
        return self._everything

    # --- the folder -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.look()
        self._choose_changed()
        self._show_selected()

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        self.files.tick()
        if time.monotonic() > self._next_look:
            self.look()
        if not self.opening.is_done:
            self.opening.open_next()
            if self.opening.is_done:
                self._show()
        self.draw_next()

    def look(self) -> None:
        """Looks into the folder; what changed there is shown."""
        self._next_look = time.monotonic() + LOOK
        if self.listing.look():
            self._fill_table()
            if self.opening.is_stale:
                self._choose_changed()
        self.deleted.show(self.shared.runs.deleted())

    @property
    def chosen(self) -> dict[str, Trace]:
        """The chosen runs that are open."""
        return {name: self.opening.traces[name] for name in self.choice.runs if name in self.opening.traces}

    def _fill_table(self) -> None:
        entries = self.listing.entries
        matching = [entry for entry in entries if entry.matches(self.choice.filter)]
        self.table.show(matching, self.choice.runs, len(entries))

    # --- what is looked at ----------------------------------------------------------------------------------------

    def choose(self, ticked: Sequence[str]) -> None:
        """These, of the runs that the table shows, and those that were chosen and are filtered out now."""
        chosen, problem = chosen_of(ticked, self.choice.runs, self.table.names)
        if problem:
            self._refuse(problem)
        self.choice.runs = chosen
        self.table.tick(chosen)

    def select(self, name: str) -> None:
        """Looks at one run in detail."""
        self.choice.selected = name

    def _choose_changed(self) -> None:
        self.table.tick(self.choice.runs)
        self.opening.want([*self.choice.runs, *([self.choice.selected] if self.choice.selected else [])])
        if self.opening.is_done:
            self._show()

    def _show(self) -> None:
        problems = self.opening.problems
        if problems:
            self._refuse("; ".join(problems.values()))
        if gone := [name for name in problems if self.listing.entry(name) is None]:
            self._moved(dict.fromkeys(gone, ""))
            return
        self.together.show(self.chosen, self.choice.selected)
        self.bar.show(self.choice.runs)
        self._show_selected()
        self._draw_all()

    def _show_selected(self) -> None:
        name = self.choice.selected
        self.table.mark(name)
        self.together.mark(name)
        entry = self.listing.entry(name)
        if entry is not None:
            self.opening.want_also(name)
        self.one.show(entry, self.opening.traces.get(name))

    def _draw_all(self) -> None:
        for card in self.together.cards.values():
            if card.view.visible:
                self.draw_later(card, partial(card.show, list(self.chosen.values()), self.shared.theme))

    # --- what is done with runs -----------------------------------------------------------------------------------

    def rename(self, new_name: str) -> None:
        """Gives the run that is looked at another name."""
        old = self.choice.selected
        new = self.changes.rename(old, new_name)
        if new is not None and new != old:
            self._moved({old: new})

    def keep_note(self, note: str) -> None:
        """Keeps a note on the run that is looked at."""
        self.changes.keep_note(self.choice.selected, note)
        self.look()

    def delete(self) -> None:
        """Moves the chosen runs into the trash."""
        self._moved(dict.fromkeys(self.changes.delete(self.choice.runs), ""))

    def _moved(self, names: Mapping[str, str]) -> None:
        """Runs have other names now, or, where that is empty, none: what is looked at follows."""
        for old in names:
            self.opening.forget(old)
        self.look()
        runs = [names.get(name, name) for name in self.choice.runs]
        selected = names.get(self.choice.selected, self.choice.selected)
        self.choice.param.update(runs=[name for name in runs if name], selected=selected)

    def bring_back(self, key: str) -> None:
        """Brings back one of the deleted runs."""
        self.changes.restore(key)
        self.look()

    def choose_also(self, names: Sequence[str]) -> None:
        """Runs that have come into the folder."""
        self.look()
        self.choose([*self.choice.runs, *names][:MOST_RUNS])

    def _refuse(self, message: str) -> None:
        self.changes.say(message, bad=True)

    def compare(self) -> None:
        """Shows the chosen runs on the page Compare."""
        names = list(solves_of(self.chosen))
        if not names:
            self._refuse("Compare shows solves, and all runs chosen are trainings")
        elif self.shared.go is not None:
            selected = self.choice.selected if self.choice.selected in names else names[0]
            self.shared.go("compare", lambda page: page.look_at(names, selected))

    def rerun(self, trace: Trace, diagnosis: Diagnosis) -> None:
        """Goes to the page Compare, and solves there what the diagnosis proposes, beside this run."""
        name = self.choice.selected

        def prepare(page: Any) -> None:
            page.look_at([name], name)
            page.rerun(trace, diagnosis)

        if self.shared.go is not None:
            self.shared.go("compare", prepare)
