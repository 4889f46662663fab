"""Runs: everything in the runs folder, some of it side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.charts.chart_card import ChartCard
from apviz.dashboard.charts.moment import find
from apviz.dashboard.diagnosis.diagnosis_card import DiagnosisCard
from apviz.dashboard.pages.base import Page
from apviz.dashboard.pages.runs.button import button
from apviz.dashboard.pages.runs.changes import Changes
from apviz.dashboard.pages.runs.deleted import DeletedRuns
from apviz.dashboard.pages.runs.files import Files
from apviz.dashboard.pages.runs.listing import Listing
from apviz.dashboard.pages.runs.one_run import OneRun
from apviz.dashboard.pages.runs.opening import Opening
from apviz.dashboard.pages.runs.together import Together
from apviz.dashboard.pages.runs.view import RunsView
from apviz.dashboard.pages.shared import Shared
from apviz.dashboard.runs.folder_table import MOST_RUNS, FolderTable
from apviz.dashboard.runs.kinds import is_solve, solves_of
from apviz.dashboard.runs.trash import TRASH_DAYS
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
        self.listing, self.opening = Listing(shared.runs), Opening(shared.runs)
        self._next_look = 0.0
        self._make_widgets()
        self.together.cards["residuals"].chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self._everything: pn.Column | None = None
        watch = self.choice.param.watch
        watch(lambda event: self._fill_table(), ["filter"])
        watch(lambda event: self._choose_changed(), ["runs"])
        watch(lambda event: self._show_selected(), ["selected"])
        watch(lambda event: self._draw_all(), ["x"])

    # --- what is on it --------------------------------------------------------------------------------------------

    def _make_widgets(self) -> None:
        self.table = FolderTable(self.choose, self.select)
        self.changes = Changes(self.shared.runs, self.choose_also)
        self._delete = button("Delete", "delete", self.delete, color="error")
        self._compare = button("Open on page Compare", "open_in_new", self.compare)
        self._clear = button("Choose none", "clear", lambda: self.choose([]))
        self.files = Files(
            self.shared,
            lambda: list(self.choice.runs),
            lambda message: self.changes.say(message, bad=True),
            self._taken_in,
        )
        self.one = OneRun(self.rename, self.keep_note)
        self.diagnosis = DiagnosisCard(self.rerun)
        self.together = Together(self.choice, self.select, lecture=self.shared.lecture)
        self.deleted = DeletedRuns(self.bring_back)

    def sidebar(self) -> list[Viewable]:
        c, limits = self.choice.param, self.shared.limits
        return [
            pmui.Typography("Find", variant="h6"),
            pmui.TextInput.from_param(c.filter, label="Filter", sizing_mode="stretch_width"),
            pmui.Typography("Words of name, method, data set, how it ended, or note.", variant="body2"),
            pmui.Typography("Import", variant="h6"),
            pmui.Typography(
                f"Traces as .zarr.zip, up to {limits.max_upload_mb} MB; read as data only, and never over another run.",
                variant="body2",
            ),
            self.files.drop,
            pmui.Typography("Deleted", variant="h6"),
            pmui.Typography(f"Deleted runs are kept for {TRASH_DAYS} days.", variant="body2"),
            self.deleted.list,
            self.deleted.button,
        ]

    def main(self) -> Viewable:
        if self._everything is None:
            self._everything = pn.Column(
                self.changes.view, self.listing.broken, self.table.view,
                pn.FlexBox(
                    self.files.format, self.files.button, self.files.download, self._compare, self._clear,
                    self._delete, align_items="center", sizing_mode="stretch_width",
                ),
                self.one.view, self.diagnosis.view, self.together.view, sizing_mode="stretch_width",
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
            self.opening.open_next(self.listing.changed)
            if self.opening.is_done:
                self._show()
        self.draw_next()

    def look(self) -> None:
        """Looks into the folder; what changed there is shown."""
        self._next_look = time.monotonic() + LOOK
        if self.listing.look():
            self._fill_table()
            if self.opening.is_stale(self.listing.changed):
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
        kept = [name for name in self.choice.runs if name in ticked or name not in self.table.names]
        chosen = [*kept, *(name for name in ticked if name not in kept)]
        with_comma = [name for name in chosen if "," in name]
        if with_comma:
            problem = "has a comma in its name, which separates runs in the address: click its row and give it another"
            self.changes.say(f"{with_comma[0]} {problem} name first", bad=True)
            chosen = [name for name in chosen if name not in with_comma]
        if len(chosen) > MOST_RUNS:
            self.changes.say(
                f"{len(chosen)} runs are too many for one chart; up to {MOST_RUNS} can be chosen", bad=True
            )
            chosen = chosen[:MOST_RUNS]
        self.choice.runs = chosen
        self.table.tick(chosen)

    def select(self, name: str) -> None:
        """Looks at one run in detail."""
        self.choice.selected = name

    def _clicked(self, point: dict[str, Any]) -> None:
        """A point of the curves, whose second number is its work."""
        values, solves = point.get("values", []), solves_of(self.chosen)
        hit = find(list(solves.values()), values[1]) if len(values) > 2 else None
        if hit is not None:
            self.select(next(name for name, trace in solves.items() if trace is hit[0]))

    def _choose_changed(self) -> None:
        self.table.tick(self.choice.runs)
        wanted = [*self.choice.runs, *([self.choice.selected] if self.choice.selected else [])]
        # those that cannot be read are named above the table, and can be deleted
        self.opening.want([name for name in wanted if self.listing.can_be_read(name)], self.listing.changed)
        if self.opening.is_done:
            self._show()

    def _show(self) -> None:
        if self.opening.problems:
            self.changes.say("; ".join(self.opening.problems.values()), bad=True)
        self.together.show(self.chosen, self.choice.selected)
        for each in (self._compare, self._clear, self._delete, self.files.button):
            each.disabled = not self.choice.runs
        self._delete.label = f"Delete {len(self.choice.runs)} chosen" if self.choice.runs else "Delete"
        self._show_selected()
        self._draw_all()

    def _show_selected(self) -> None:
        name = self.choice.selected
        self.table.mark(name)
        entry = self.listing.entry(name)
        self.one.show(entry)
        if entry is None:
            self.diagnosis.show(None)
            return
        if not entry.problem:
            self.opening.want_also(name)
        trace = self.opening.traces.get(name)
        solve = trace is not None and is_solve(trace) and "tol" in trace.attrs
        self.diagnosis.show(trace if solve else None)

    def _draw_all(self) -> None:
        for card in self.together.cards.values():
            if card.view.visible:
                self.draw_later(card, lambda card=card: self._draw(card))  # type: ignore[misc]

    def _draw(self, card: ChartCard) -> None:
        card.show(list(self.chosen.values()), self.shared.theme)

    # --- what is done with runs -----------------------------------------------------------------------------------

    def rename(self) -> None:
        """Gives the run that is looked at the name in the field."""
        old = self.choice.selected
        new = self.changes.rename(old, self.one.name.value)
        if new is None or new == old:
            return
        self.opening.forget(old)
        self.look()
        self.choice.param.update(runs=[new if name == old else name for name in self.choice.runs], selected=new)

    def keep_note(self) -> None:
        """Keeps the note in the field."""
        self.changes.keep_note(self.choice.selected, self.one.note.value)
        self.look()

    def delete(self) -> None:
        """Moves the chosen runs into the trash."""
        gone = self.changes.delete(self.choice.runs)
        for name in gone:
            self.opening.forget(name)
        self.look()
        selected = "" if self.choice.selected in gone else self.choice.selected
        self.choice.param.update(runs=[name for name in self.choice.runs if name not in gone], selected=selected)

    def bring_back(self, key: str) -> None:
        """Brings back one of the deleted runs."""
        self.changes.restore(key)
        self.look()

    def choose_also(self, names: Sequence[str]) -> None:
        """Runs that have come into the folder."""
        self.look()
        self.choose([*self.choice.runs, *names][:MOST_RUNS])

    def _taken_in(self, names: list[str]) -> None:
        self.changes.say(f"Imported: {', '.join(names)}")
        self.choose_also(names)

    def compare(self) -> None:
        """Shows the chosen runs on the page Compare."""
        names = list(solves_of(self.chosen))
        if not names:
            self.changes.say("Compare shows solves, and all runs chosen are trainings", bad=True)
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
