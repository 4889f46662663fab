"""Runs: everything in the runs folder, some of it side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz import plots
from apviz.dashboard.chart_card import ChartCard, steps_table
from apviz.dashboard.diagnosis_card import DiagnosisCard
from apviz.dashboard.file_job import FORMATS, FileJob, write_file
from apviz.dashboard.folder_table import MOST_RUNS, FolderTable
from apviz.dashboard.moment import find
from apviz.dashboard.pages.base import HALF, Page
from apviz.dashboard.plain_text import plain
from apviz.dashboard.run_entry import RunEntry
from apviz.dashboard.runs_folder import MOST_NOTE, TRASH_DAYS, Deleted
from apviz.dashboard.runs_table import RunsTable
from apviz.dashboard.session import Shared
from apviz.diagnosis import Diagnosis
from apviz.plots.parts.x_switch import without_buttons
from apviz.tracing import Trace
from apviz.tracing.differences import settings_table

#: seconds between two looks into the folder
LOOK = 2.0


class RunsView(param.Parameterized):
    """What is looked at."""

    filter = param.String("", label="Filter: words of name, method, data set, ending, note")
    x = param.Selector(default="work", objects=["work", "epochs", "seconds"], label="x axis")
    runs = param.List([], item_type=str, label="runs that are shown together")
    selected = param.String("", label="the run that is looked at in detail")
    differences = param.Boolean(True, label="Show only differences")


class Runs(Page):
    """The folder."""

    name = "runs"
    title = "Runs"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.choice = RunsView()
        self.models = [self.choice]
        self.entries: list[RunEntry] = []
        #: opened, by name
        self.traces: dict[str, Trace] = {}
        self.job: FileJob | None = None
        self._stamps: dict[str, float] = {}
        self._to_open: list[str] = []
        self._problems: dict[str, str] = {}
        self._undoable: list[Deleted] = []
        self._next_look, self._in_fields = 0.0, ""
        self._seen: list[tuple[RunEntry, str]] = []
        self._make_widgets()
        self._cards = self._make_cards()
        self._cards["residuals"].chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self._everything: pn.Column | None = None
        watch = self.choice.param.watch
        watch(lambda event: self._fill_table(), ["filter"])
        watch(lambda event: self._choose_changed(), ["runs"])
        watch(lambda event: self._show_selected(), ["selected"])
        watch(lambda event: self._show_settings(), ["differences"])
        watch(lambda event: self._draw_all(), ["x"])

    # --- what is on it --------------------------------------------------------------------------------------------

    def _make_widgets(self) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._table = FolderTable(self.choose, self.select)
        self._message = pmui.Alert(object="", severity="info", visible=False, closeable=False, margin=(0, 8), **wide)
        self._broken = pmui.Alert(object="", severity="warning", variant="outlined", visible=False, margin=8, **wide)
        self._undo = _button("Undo", "undo", self.undo, visible=False)
        self._delete = _button("Delete", "delete", self.delete, color="error")
        self._compare = _button("Open on page Compare", "open_in_new", self.compare)
        self._clear = _button("Choose none", "clear", lambda: self.choose([]))
        self._format = pmui.Select(label="As", options=FORMATS, value=".zarr.zip", width=240, size="small")
        self._export = _button("Download", "download", self.export)
        self._download = pmui.FileDownload(filename="apviz", visible=False, variant="text", size="small")
        self._name = pmui.TextInput(label="Name", **wide)
        self._note = pmui.TextAreaInput(label="Note", rows=2, max_length=MOST_NOTE, **wide)
        self._detail = pmui.Typography("", variant="body2", margin=(0, 12))
        self._chosen = RunsTable(self.select)
        self._settings = pn.Column(**wide)
        self._diagnosis = DiagnosisCard(self.rerun)
        self._drop = pn.widgets.FileDropper(
            max_file_size=f"{self.shared.limits.max_upload_mb}MB", multiple=True, height=90, **wide
        )
        self._drop.param.watch(lambda event: self._dropped(event.new), "value")
        self._trash = pmui.Select(label="Deleted run", options=[], size="small", visible=False, **wide)
        self._restore = _button("Bring back", "restore_from_trash", self._bring_back, visible=False)

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
            self._drop,
            pmui.Typography("Deleted", variant="h6"),
            pmui.Typography(f"Deleted runs are kept for {TRASH_DAYS} days.", variant="body2"),
            self._trash,
            self._restore,
        ]

    def main(self) -> Viewable:
        if self._everything is None:
            for card in self._cards.values():
                card.view.styles = HALF
            x = pmui.RadioButtonGroup.from_param(
                self.choice.param.x, label="x axis of the curves", size="small", margin=(0, 12)
            )
            only = pmui.Switch.from_param(self.choice.param.differences, margin=(0, 12))
            self._together = pn.Column(
                x, pn.FlexBox(*(card.view for card in self._cards.values()), sizing_mode="stretch_width"),
                self._chosen.view,
                pmui.Paper(
                    pmui.Typography("Settings", variant="h6", margin=(8, 12, 0, 12)), only, self._settings,
                    sizing_mode="stretch_width", margin=8, elevation=1,
                ),
                sizing_mode="stretch_width", visible=False,
            )  # fmt: skip
            self._one = pmui.Paper(
                pmui.Typography("The run looked at", variant="h6", margin=(8, 12, 0, 12)), self._detail,
                pn.Row(self._name, _button("Rename", "edit", self.rename), sizing_mode="stretch_width"),
                pn.Row(self._note, _button("Keep note", "save", self.keep_note), sizing_mode="stretch_width"),
                sizing_mode="stretch_width", margin=8, elevation=1, visible=False,
            )  # fmt: skip
            self._everything = pn.Column(
                pn.Row(self._message, self._undo, sizing_mode="stretch_width"), self._broken, self._table.view,
                pn.FlexBox(
                    self._format, self._export, self._download, self._compare, self._clear, self._delete,
                    align_items="center", sizing_mode="stretch_width",
                ),
                self._one, self._diagnosis.view, self._together, sizing_mode="stretch_width",
            )  # fmt: skip
        return self._everything

    def _make_cards(self) -> dict[str, ChartCard]:
        lecture = self.shared.lecture
        return {
            "residuals": ChartCard(
                "Residual", "Down is better. The thin line is the tolerance; a cross ends a run that did not converge, "
                "an open circle one that was interrupted or still runs.",
                lambda traces, theme: without_buttons(plots.residuals(traces, x=self.choice.x, theme=theme)),
                takes=_is_solve, axes=380, lecture=lecture,
            ),
            "training": ChartCard(
                "Trainings", "The noise and what each step's solve took, by Adam step.",
                lambda traces, theme: plots.training(traces, theme=theme),
                takes=_has_steps, table=steps_table, axes=520, lecture=lecture,
            ),
        }  # fmt: skip

    # --- the folder -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.look()
        self._choose_changed()
        self._show_selected()

    def redraw(self) -> None:
        self._draw_all()

    def tick(self) -> None:
        job = self.job
        if job is not None and not job.is_active:
            self.job = None
            job.deliver()
            if job.state == "failed":
                self.say(job.message, bad=True)
            self._export.loading = False
        if time.monotonic() > self._next_look:
            self.look()
        if self._to_open:
            self._open_next()
        self.draw_next()

    def look(self) -> None:
        """Looks into the folder; what changed there is shown."""
        self._next_look = time.monotonic() + LOOK
        entries, now = self.shared.runs.entries(), time.time()
        # how a run ended is known better when it was not written to for a while
        seen = [(entry, entry.ended(now)) for entry in entries]
        if seen != self._seen:
            self.entries, self._seen = entries, seen
            self._fill_table()
            unreadable = [entry for entry in entries if entry.problem]
            words = "  \n".join(f"{plain(entry.name)}: {plain(entry.problem)}" for entry in unreadable)
            self._broken.param.update(object=f"Cannot be read.  \n{words}", visible=bool(unreadable))
            changed = {entry.name: entry.changed for entry in entries}
            if any(self._stamps[name] != changed.get(name) for name in self._stamps):
                self._choose_changed()
        self._fill_trash()

    def _fill_table(self) -> None:
        entries = [entry for entry in self.entries if entry.matches(self.choice.filter)]
        self._table.show(entries, self.choice.runs, len(self.entries))

    def _fill_trash(self) -> None:
        options = {f"{each.name} ({_ago(each.when)})": each.key for each in self.shared.runs.deleted()}
        if options != self._trash.options:
            value = self._trash.value if self._trash.value in options.values() else next(iter(options.values()), None)
            self._trash.param.update(options=options, value=value)
        self._trash.visible = self._restore.visible = bool(options)

    def say(self, message: str, *, bad: bool = False, undoable: Sequence[Deleted] = ()) -> None:
        """A message at the top, and a button that undoes what it speaks of."""
        self._undoable = list(undoable)
        self._undo.visible = bool(undoable)
        self._message.param.update(object=plain(message), severity="error" if bad else "info", visible=bool(message))

    # --- what is looked at ----------------------------------------------------------------------------------------

    def choose(self, ticked: Sequence[str]) -> None:
        """These, of the runs that the table shows, and those that were chosen and are filtered out now."""
        kept = [name for name in self.choice.runs if name in ticked or name not in self._table.names]
        chosen = [*kept, *(name for name in ticked if name not in kept)]
        with_comma = [name for name in chosen if "," in name]
        if with_comma:
            self.say(f"{with_comma[0]} has a comma in its name, which separates runs in the address: click its row and "
                     "give it another name first", bad=True)  # fmt: skip
            chosen = [name for name in chosen if name not in with_comma]
        if len(chosen) > MOST_RUNS:
            self.say(f"{len(chosen)} runs are too many for one chart; up to {MOST_RUNS} can be chosen", bad=True)
            chosen = chosen[:MOST_RUNS]
        self.choice.runs = chosen
        self._table.tick(chosen)

    def select(self, name: str) -> None:
        """Looks at one run in detail."""
        self.choice.selected = name

    def _clicked(self, point: dict[str, Any]) -> None:
        """A point of the curves, whose second number is its work."""
        values, solves = point.get("values", []), {n: t for n, t in self.together.items() if _is_solve(t)}
        hit = find(list(solves.values()), values[1]) if len(values) > 2 else None
        if hit is not None:
            self.select(next(name for name, trace in solves.items() if trace is hit[0]))

    def _choose_changed(self) -> None:
        """Runs are opened one after another, so that the page answers in between."""
        self._table.tick(self.choice.runs)
        known = {entry.name: entry.changed for entry in self.entries}
        # those that cannot be read are named above the table, and can be deleted
        unreadable = {entry.name for entry in self.entries if entry.problem}
        wanted = [*self.choice.runs, *([self.choice.selected] if self.choice.selected else [])]
        wanted = [name for name in wanted if name not in unreadable]
        self._problems = {}
        for name in [name for name in self.traces if name not in wanted]:
            del self.traces[name], self._stamps[name]
        self._to_open = [
            name for name in dict.fromkeys(wanted) if name not in self.traces or self._stamps[name] != known.get(name)
        ]
        if not self._to_open:
            self._show()

    def _open_next(self) -> None:
        name = self._to_open.pop(0)
        try:
            self.traces[name] = self.shared.runs.open(name)
            self._stamps[name] = next((entry.changed for entry in self.entries if entry.name == name), 0.0)
        except (ValueError, OSError) as error:
            self.traces.pop(name, None)
            self._stamps.pop(name, None)
            self._problems[name] = str(error)
        if not self._to_open:
            self._show()

    @property
    def together(self) -> dict[str, Trace]:
        """The chosen runs that could be opened."""
        return {name: self.traces[name] for name in self.choice.runs if name in self.traces}

    def _show(self) -> None:
        if self._problems:
            self.say("; ".join(self._problems.values()), bad=True)
        together = self.together
        for name, takes in {"residuals": _is_solve, "training": _has_steps}.items():
            self._cards[name].view.visible = any(takes(trace) for trace in together.values())
        if self._everything is not None:
            self._together.visible = bool(together)
        solves = {name: trace for name, trace in together.items() if _is_solve(trace)}
        self._chosen.view.visible = bool(solves)
        self._chosen.show(solves, self.choice.selected)
        for button in (self._compare, self._clear, self._delete, self._export):
            button.disabled = not self.choice.runs
        self._delete.label = f"Delete {len(self.choice.runs)} chosen" if self.choice.runs else "Delete"
        self._show_settings()
        self._show_selected()
        self._draw_all()

    def _show_settings(self) -> None:
        together = self.together
        rows = settings_table(list(together.values()), only_differences=self.choice.differences and len(together) > 1)
        if not rows:
            words = "These runs do not differ in any setting." if together else "No run is chosen."
            self._settings[:] = [pmui.Typography(words, margin=(0, 12, 8, 12))]
            return
        table = pd.DataFrame.from_dict(rows, orient="index", columns=list(together))
        self._settings[:] = [
            pn.pane.DataFrame(table, max_height=480, sizing_mode="stretch_width", escape=True, margin=(0, 12, 8, 12))
        ]

    def _show_selected(self) -> None:
        name = self.choice.selected
        entry = next((each for each in self.entries if each.name == name), None)
        if self._everything is not None:
            self._one.visible = entry is not None
        if entry is None:
            self._diagnosis.show(None)
            return
        if name not in self.traces and name not in self._to_open and name not in self._problems and not entry.problem:
            self._to_open.append(name)
        # a text that is being typed stays
        if self._in_fields != name:
            self._in_fields = name
            self._name.value, self._note.value = name, entry.note
        trace = self.traces.get(name)
        self._detail.object = plain(f"{name}: {entry.problem or entry.ended(time.time())}")
        solve = trace is not None and _is_solve(trace) and "tol" in trace.attrs
        self._diagnosis.show(trace if solve else None)

    def _draw_all(self) -> None:
        for card in self._cards.values():
            if card.view.visible:
                self.draw_later(card, lambda card=card: self._draw(card))  # type: ignore[misc]

    def _draw(self, card: ChartCard) -> None:
        card.show(list(self.together.values()), self.shared.theme)

    # --- what is done with runs -----------------------------------------------------------------------------------

    def rename(self) -> None:
        """Gives the run that is looked at the name in the field."""
        old = self.choice.selected
        new = self._try(lambda: self.shared.runs.rename(old, self._name.value))
        if new is None or new == old:
            return
        self.say(f"{old} is called {new} now")
        self._forget(old)
        self.look()
        self.choice.param.update(runs=[new if name == old else name for name in self.choice.runs], selected=new)

    def keep_note(self) -> None:
        """Keeps the note in the field."""
        name = self.choice.selected
        if self._try(lambda: self.shared.runs.write_note(name, self._note.value)) is not None:
            self.say(f"The note on {name} is kept")
            self.look()

    def delete(self) -> None:
        """Moves the chosen runs into the trash; `undo` brings them back."""
        gone = []
        self.say("")
        for name in self.choice.runs:
            deleted = self._try(lambda name=name: self.shared.runs.delete(name))  # type: ignore[misc]
            if deleted is not None:
                gone.append(deleted)
                self._forget(name)
        names = [each.name for each in gone]
        self.look()
        selected = "" if self.choice.selected in names else self.choice.selected
        self.choice.param.update(runs=[name for name in self.choice.runs if name not in names], selected=selected)
        if gone:
            refused = f"; {self._message.object}" if self._message.visible else ""
            self.say(f"Deleted: {', '.join(names)}{refused}", bad=bool(refused), undoable=gone)

    def undo(self) -> None:
        """Brings back what was deleted last."""
        keys = [each.key for each in self._undoable]
        self.say("")
        back = [name for key in keys if (name := self._try(lambda key=key: self.shared.runs.restore(key)))]  # type: ignore[misc]
        self.look()
        self.choose([*self.choice.runs, *back][:MOST_RUNS])

    def _bring_back(self) -> None:
        key = self._trash.value
        name = self._try(lambda: self.shared.runs.restore(key)) if key else None
        if name:
            self.say(f"{name} is back")
        self.look()

    def export(self) -> None:
        """Makes the file that is asked for, and sends it."""
        names, suffix, runs, folder = list(self.choice.runs), self._format.value, self.shared.runs, self.shared.folder
        self._start(lambda: [str(write_file(runs, names, suffix, folder))], self._send)

    def _send(self, paths: list[str]) -> None:
        path = paths[0]
        name = path.rpartition("/")[2]
        self._download.param.update(file=path, filename=name, label=f"{name} again", visible=True)
        self._download.transfer(download=True)

    def _dropped(self, files: dict[str, Any] | None) -> None:
        if not files:
            return
        runs, most = self.shared.runs, self.shared.limits.max_upload_mb

        def take_in() -> list[str]:
            found = []
            for name, content in files.items():
                data = content.encode() if isinstance(content, str) else content
                if len(data) > most * 1e6:
                    raise ValueError(f"{name} has {len(data) / 1e6:.0f} MB; up to {most} MB are accepted")
                found += runs.take_in(name, data)
            return found

        self._start(take_in, self._taken_in)
        self._drop.value = {}

    def _taken_in(self, names: list[str]) -> None:
        self.say(f"Imported: {', '.join(names)}")
        self.look()
        self.choose([*self.choice.runs, *names][:MOST_RUNS])

    def _start(self, do: Callable[[], list[str]], then: Callable[[list[str]], None]) -> None:
        if self.job is not None:
            self.say("a file is being made or read; wait for it", bad=True)
            return
        self.job = FileJob(do, then)
        self._export.loading = True
        self.shared.start(self.job)

    def compare(self) -> None:
        """Shows the chosen runs on the page Compare."""
        names = [name for name, trace in self.together.items() if _is_solve(trace)]
        if not names:
            self.say("Compare shows solves, and all runs chosen are trainings", bad=True)
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

    def _forget(self, name: str) -> None:
        self.traces.pop(name, None)
        self._stamps.pop(name, None)

    def _try(self, do: Callable[[], Any]) -> Any:
        """What it gives, or None with a message of what went wrong."""
        try:
            return do()
        except (ValueError, OSError) as error:
            self.say(str(error), bad=True)
            return None


def _is_solve(trace: Trace) -> bool:
    return "epoch" in trace and trace["epoch"].sizes["epoch"] > 0


def _has_steps(trace: Trace) -> bool:
    return "step" in trace and trace["step"].sizes["step"] > 0


def _button(label: str, icon: str, press: Callable[[], None], **look: Any) -> pmui.Button:
    button = pmui.Button(label=label, icon=icon, **{"variant": "outlined", "size": "small", **look})
    button.on_click(lambda event: press())
    return button


def _ago(when: float) -> str:
    hours = (time.time() - when) / 3600
    return "just now" if hours < 1 else f"{hours:.0f} h ago" if hours < 48 else f"{hours / 24:.0f} days ago"
