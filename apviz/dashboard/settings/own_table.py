"""The user's own table in one step: drop a file, check its columns, use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.components.dropper import Dropper, Emptier
from apviz.dashboard.components.server_owned import appear, button, server_owned
from apviz.dashboard.components.tables import SortedTable
from apviz.dashboard.components.text import escape
from apviz.dashboard.limits import Limits
from apviz.dashboard.store.own_data import OwnData, OwnTable, check, discard, look_into, prepare, receive
from apviz.datasets.preprocessing import RawTable
from apviz.datasets.tables.columns import ORDERS, Column
from apviz.datasets.tables.decimals import MARKS, Question
from apviz.datasets.tables.reading import FORMATS
from apviz.datasets.tables.table import Table, TableChoices

#: Threads that read the files of all sessions, so that other visitors do not wait seconds for a large table.
_READERS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="apviz-file")
_KINDS = {"number": "number", "text": "text", "date": "date", "constant": "constant", "unusable": "not usable"}
_WIDE: dict[str, Any] = {"sizing_mode": "stretch_width"}
#: Style of the dialog's paper, with small margins on a phone's screen.
_PAPER = {"& .MuiDialog-paper": {"margin": "12px", "width": "calc(100% - 24px)", "maxHeight": "calc(100% - 24px)"}}
#: Number of notes in the dialog and next to the data set; the report has the others.
_SHOWN_NOTES = 8
_SHOWN_COLUMNS = 12
Result = TypeVar("Result")


class Chooser(Protocol):
    """Interface of a system's settings to the tables of visitors."""

    limits: Limits
    own: OwnData
    dataset: str

    def use_own(self, table: OwnTable) -> None:
        """Store a table, and select it."""

    def remove_own(self) -> None:
        """Remove the selected table."""


def in_background(work: Callable[[], Result], done: Callable[[Callable[[], Result]], None]) -> None:
    """Run `work` in a thread, then call `done` on the page with a function that returns its result or raises its error.

    It avoids coroutines, because Panel sometimes delays changes made after an await until the next event on the page.
    Without a page, as in a test, it runs at once.
    """
    page = pn.state.curdoc
    if page is None:
        done(work)
        return
    _READERS.submit(work).add_done_callback(
        lambda finished: page.add_next_tick_callback(partial(done, finished.result))
    )


class OwnTablePanel:
    """Widgets to drop a file, check its contents, choose columns, and use it.

    Args:
        folder: Folder of this session, which has the file until it is used.
    """

    def __init__(self, system: Chooser, folder: Path) -> None:
        self._system = system
        self._table: Table | None = None
        #: Received file, which is obsolete once another arrives.
        self._received: Path | None = None
        #: Number of previews so far; only the last is shown.
        self._asked = 0
        self._filling = False
        #: Columns of the shown file that can be read in two ways, and the chosen decimal marks and orders of dates.
        self._questions, self._marks = dict[str, Question](), dict[str, str]()
        most = system.limits.max_upload_mb
        self.drop = Dropper(folder, most, self._arrived, self._refuse, multiple=False, height=90, **_WIDE)
        self.emptier = Emptier(margin=0)
        self.note = server_owned(pmui.Alert(object="", severity="error", visible=False, **_WIDE))
        self._change = button("Columns …", "table_chart", self._look_again)
        self._remove = button("Remove this table", "delete", self._remove_it, color="error")
        self._of_chosen = pn.Row(self._change, self._remove, visible=False, **_WIDE)
        self.dialog = self._make_dialog()
        about = f"{FORMATS}, up to {most} MB. Everyone with access to this dashboard can see your file."
        self.view: pn.Column = pn.Column(
            pmui.Typography(about, variant="body2"), self.drop, self.emptier, self.note, self._of_chosen, self.dialog,
            **_WIDE,
        )  # fmt: skip
        self.show_chosen()

    def show_chosen(self) -> None:
        """Show the actions on the selected table."""
        self._of_chosen.visible = self._system.own.find(self._system.dataset) is not None

    # --- the dialog -----------------------------------------------------------------------------------------------

    def _make_dialog(self) -> pmui.Dialog:
        self.how = server_owned(pmui.Typography("", variant="body2"))
        self.columns = SortedTable(
            {"column": "text", "type": "text", "missing": "integer", "what is in it": "text", "first rows": "text"},
            caption="Columns of the file; ticked ones are inputs", can_tick=True, page_rows=_SHOWN_COLUMNS, **_WIDE,
        )  # fmt: skip
        self.target = pmui.Select(
            label="Column to predict", options=[], styles={"flex": "1 1 220px"}, margin=(14, 10, 5, 10)
        )
        self.header = pmui.Checkbox(label="The first line holds the names of the columns")
        self.marks = server_owned(pn.Column(visible=False, **_WIDE))
        ways = {"drop the row": "drop", "fill it: numbers with the median, texts with a value of their own": "fill"}
        self.missing = pmui.RadioBoxGroup(label="Where a value is missing", inline=True, value="drop", options=ways)
        ways = {"keep them": "keep", "drop them": "drop"}
        self.duplicates = pmui.RadioBoxGroup(label="Duplicate rows", inline=True, value="keep", options=ways)
        self.summary = server_owned(pmui.Alert(object="", severity="info", variant="outlined", **_WIDE))
        self.ids = server_owned(pmui.Alert(object="", severity="warning", visible=False, **_WIDE))
        self.notes = server_owned(pmui.Typography("", variant="body2"))
        self.use = button("Use this table", "check", self._use_it, variant="contained", color="primary", size="medium")
        close = button("Close", "close", self._close, size="medium")
        for widget, name in (
            (self.columns, "ticked"), (self.target, "value"), (self.missing, "value"), (self.duplicates, "value"),
        ):  # fmt: skip
            widget.param.watch(lambda event: self._preview(), name)
        self.header.param.watch(lambda event: self._read_again(), "value")
        return pmui.Dialog(
            self.how, self.ids, pn.FlexBox(self.target, self.use, close, align_items="center", **_WIDE), self.marks,
            self.summary,
            pmui.Typography("Inputs: the ticked columns", variant="subtitle2"), self.columns, self.header,
            _labelled(self.missing), _labelled(self.duplicates),
            pmui.Typography("Notes on your table", variant="subtitle2"), self.notes,
            title="Your own data", title_variant="h6", width_option="md", sx=_PAPER,
        )  # fmt: skip

    def _close(self) -> None:
        """Close the dialog, and forget a file that is not used."""
        self._forget()
        self._empty_box()

    def _empty_box(self) -> None:
        """Empty the browser's box, which would keep showing a used, refused or unused file as uploaded."""
        self.emptier.times += 1

    # --- a file arrives -------------------------------------------------------------------------------------------

    def _arrived(self, name: str, path: Path) -> None:
        self._forget()
        try:
            self._received = receive(path, name)
        except (ValueError, OSError) as error:
            discard(path)
            self._empty_box()
            self._refuse(error)
            return
        self._open(self._received)

    def _forget(self) -> None:
        """Remove the previous file, which is either already used or no longer needed."""
        if self._received is not None:
            discard(self._received)
        self._received = self._table = None
        self._questions, self._marks = {}, {}
        self.dialog.open = False

    def _refuse(self, error: Exception) -> None:
        appear(self.note, object=escape(str(error)), severity="error")

    def _open(self, path: Path, choices: TableChoices | None = None, header: bool | None = None) -> None:
        """Read a file, and show its columns with the given or default choices."""
        appear(self.note, object="Reading the file …", severity="info")
        max_mb, answers = self._system.limits.max_upload_mb, self._answers()
        in_background(
            lambda: look_into(path, max_mb, choices.header if choices else header, **answers),
            lambda result: self._show(path, result, choices),
        )

    def _show(self, path: Path, result: Callable[[], Table], choices: TableChoices | None) -> None:
        try:
            table = result()
        except (ValueError, OSError, ImportError) as error:
            self._cannot_read(path, error)
            return
        self.note.visible = False
        self._table, self._filling = table, True
        able = [each.name for each in table.columns if each.can_be_target]
        target = str(choices.target) if choices else table.default_target()
        ids = table.counting_columns()
        ticked = [each.name for each in table.columns if each.is_usable and each.name not in (target, *ids)]
        # a table with nothing else keeps its inputs
        ticked = ticked or [name for name in ids if name != target]
        if choices and choices.inputs is not None:
            ticked = list(choices.inputs)
        written = f"{escape(str(table.text))}. " if table.text else ""
        self.how.object = f"**{escape(path.name)}**: {table.rows:,} rows, {len(table.columns)} columns. {written}"
        self.header.param.update(visible=table.text is not None, value=table.text is not None and table.text.header)
        self.target.param.update(options=able, value=target if target in able else None)
        self.missing.value = choices.missing if choices else "drop"
        self.duplicates.value = choices.duplicates if choices else "keep"
        rows = {each.name: _row(each, table.cells(each), counts=each.name in ids) for each in table.columns}
        self.columns.show(rows, ticked=ticked)
        left = [name for name in ids if name not in (*ticked, target)]
        self.ids.param.update(object=escape(_ids_in_words(left)), visible=bool(left))
        self._ask(table)
        self._filling = False
        self._preview()
        self.dialog.open = True

    def _ask(self, table: Table) -> None:
        """Show a choice for each column that can be read in two ways, with the raw text and both values."""
        self._questions |= {each.name: each.question for each in table.columns if each.question}
        choices: list[pmui.Select] = []
        for name, question in self._questions.items():
            options = {"choose …": ""} | {said: mark for mark, said in question.readings.items()}
            label = f"{name}: “{question.example}” is"
            choices.append(pmui.Select(label=label, options=options, value=self._marks.get(name, ""), **_WIDE))
            choices[-1].param.watch(lambda event, name=name: self._decide(name, event.new), "value")
        self.marks.param.update(objects=choices, visible=bool(choices))

    def _answers(self) -> dict[str, dict[str, str] | None]:
        """Return the chosen answers by setting: decimal marks, and orders of dates, by name of the column."""
        known = {"decimal": MARKS, "dates": tuple(ORDERS)}
        given = {setting: {name: each for name, each in self._marks.items() if each in answers}
                 for setting, answers in known.items()}  # fmt: skip
        return {setting: found or None for setting, found in given.items()}

    def _decide(self, name: str, mark: str) -> None:
        """Read the file again with the decimal mark, or the order of dates, chosen for a column."""
        assert self._table is not None
        self._marks = {key: value for key, value in (self._marks | {name: mark}).items() if value}
        try:
            choices = self._choices()
        except ValueError:
            choices = None
        self._open(self._table.path, choices, bool(self.header.value))

    def _cannot_read(self, path: Path, error: Exception) -> None:
        if self._table is not None and self._table.path == path and self.dialog.open:
            # it could be read the other way
            self.note.visible = False
            self._filling = True
            self.header.value = not self.header.value
            self._filling = False
            self._say(error)
            return
        if path == self._received:
            self._close()
        self._refuse(error)

    def _read_again(self) -> None:
        """Read the file again, with or without names in its first line."""
        if not self._filling and self._table is not None:
            self._open(self._table.path, header=bool(self.header.value))

    # --- the choices of the dialog --------------------------------------------------------------------------------

    def _choices(self) -> TableChoices:
        """Return the choices of the dialog.

        Raises:
            ValueError: No input is ticked, or no column can be predicted.
        """
        if self.target.value is None:
            raise ValueError("no column of this file can be predicted: one of numbers or dates that varies is needed")
        target = str(self.target.value)
        inputs = tuple(name for name in self.columns.ticked if name != target)
        if not inputs:
            raise ValueError("no input is ticked: tick at least one column besides the one to predict")
        assert self._table is not None
        header = None if self._table.text is None else self._table.text.header
        answers = self._answers()
        return TableChoices(
            target=target, inputs=inputs, missing=self.missing.value, duplicates=self.duplicates.value, header=header,
            decimal=answers["decimal"], dates=answers["dates"],
        )  # fmt: skip

    def _preview(self) -> None:
        """Show a preview of the data set."""
        if self._filling or self._table is None:
            return
        self._asked += 1
        asked, table = self._asked, self._table
        try:
            choices = self._choices()
            for each in table.columns:
                if each.question and each.name in (*(choices.inputs or ()), choices.target):
                    raise ValueError(f"{each.question.of(each.name)}: choose one of them, or leave the column out")
        except ValueError as error:
            self._say(error)
            return
        in_background(lambda: prepare(table, choices), lambda result: self._show_preview(asked, result))

    def _show_preview(self, asked: int, result: Callable[[], RawTable]) -> None:
        if asked != self._asked:
            return
        try:
            self._say(result())
        except ValueError as error:
            self._say(error)

    def _say(self, found: RawTable | Exception) -> None:
        if isinstance(found, Exception):
            words, name = escape(str(found)), escape(self._table.path.name) if self._table else ""
            words = words if name and words.startswith(name) else words[:1].upper() + words[1:]
            self.summary.param.update(object=words, severity="error")
            self.notes.object = "–"
            self.use.disabled = True
            return
        rows, limit = len(found.target), self._system.limits.max_n
        said = f"**{rows:,} rows: {found.train_rows:,} to train on, {rows - found.train_rows:,} to test; "
        ticked = len([name for name in self.columns.ticked if name != self.target.value])
        said += f"{found.d:,} inputs{f' from {ticked:,} columns' * (found.d != ticked)}.**"
        if found.train_rows > limit:
            said += f" This server solves up to {limit:,} of them."
        self.summary.param.update(object=said, severity="info")
        names = [each.name for each in self._table.columns] if self._table else []
        self.notes.object = notes_in_words(found.notes, names) or "Nothing is left out or changed."
        self.use.disabled = False

    def _use_it(self) -> None:
        table = self._table
        if table is None:
            return
        try:
            choices = self._choices()
        except ValueError as error:
            self._say(error)
            return
        self.use.disabled = True
        in_background(lambda: check(table, choices), self._finish)

    def _finish(self, result: Callable[[], OwnTable]) -> None:
        try:
            table = result()
        except (ValueError, OSError) as error:
            self._say(error)
            self.use.disabled = False
            return
        # send this alone, because the browser is busy for seconds with all else that changes
        self.dialog.open = False
        in_background(lambda: table, self._take)

    def _take(self, result: Callable[[], OwnTable]) -> None:
        try:
            self._system.use_own(result())
        except OSError as error:
            self._refuse(error)
        self._close()
        self.use.disabled = False

    # --- the selected table ---------------------------------------------------------------------------------------

    def _look_again(self) -> None:
        own = self._system.own.find(self._system.dataset)
        if own is not None:
            decided = (own.choices.decimal, own.choices.dates)
            self._questions, self._marks = {}, {}
            for each in decided:
                self._marks |= each if isinstance(each, Mapping) else {}
            self._open(own.path, own.choices)

    def _remove_it(self) -> None:
        try:
            self._system.remove_own()
        except (ValueError, OSError) as error:
            self._refuse(error)


def _labelled(group: pmui.RadioBoxGroup) -> Viewable:
    label = pmui.Typography(group.label, variant="subtitle2", margin=(8, 10, 0, 10))
    group.label = ""
    return pn.Column(label, group, **_WIDE)


def _row(column: Column, cells: Sequence[str], *, counts: bool) -> list[str | float]:
    shown = ", ".join(cell or "–" for cell in cells[:3])
    about = f"{column.about}; only counts the rows" if counts else column.about
    return [column.name, _KINDS[column.kind], float(column.missing), about, shown]


def _ids_in_words(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} only counts the rows, so it is not ticked. Tick it if it is a time or a place."
    return f"{', '.join(names)} only count the rows, so they are not ticked. Tick those that are times or places."


def notes_in_words(notes: Sequence[str], names: Sequence[str] = ()) -> str:
    """Format the first notes as a list in Markdown; the names of columns keep their spelling."""
    said = [note if note.startswith(tuple(names)) else note[:1].upper() + note[1:] for note in notes]
    lines = [f"- {escape(note)}." for note in said[:_SHOWN_NOTES]]
    if len(notes) > _SHOWN_NOTES:
        lines.append(f"- {len(notes) - _SHOWN_NOTES} more notes are in the report.")
    return "\n\n" + "\n".join(lines) if lines else ""
