"""Runs of the folder at the last check, their table, and the traces of requested runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import panel_material_ui as pmui

from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.tables import Cell, SortedTable
from apviz.dashboard.components.text import escape
from apviz.dashboard.pages.runs.columns import DEFAULT, cells, headings
from apviz.dashboard.pages.runs.thresholds import Threshold, counted, marks
from apviz.dashboard.store.run_entry import RunEntry
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.tracing import Trace

#: Number of unreadable runs that are named above the table.
NAMED_PROBLEMS = 3


class Listing:
    """List of the runs of a folder, with a note on unreadable ones.

    Attributes:
        entries: Entries of all runs, newest first.
    """

    def __init__(self, runs: RunsFolder) -> None:
        self._runs = runs
        self.entries: list[RunEntry] = []
        self._seen: list[tuple[RunEntry, str]] = []
        wide = {"sizing_mode": "stretch_width"}
        self.broken = server_owned(
            pmui.Alert(object="", severity="warning", variant="outlined", visible=False, margin=8, **wide)
        )

    def refresh(self) -> bool:
        """Check the folder, and return whether it changed."""
        entries, now = self._runs.entries(), time.time()
        # whether a run still runs becomes clear when it has not been written to for a while
        seen = [(entry, entry.ended(now)) for entry in entries]
        if seen == self._seen:
            return False
        self.entries, self._seen = entries, seen
        unreadable = [entry for entry in entries if entry.problem]
        words = [f"{escape(entry.name)}: {escape(entry.problem)}" for entry in unreadable[:NAMED_PROBLEMS]]
        if more := len(unreadable) - len(words):
            words += [f"{more:,} more; their notes in the table say why"]
        self.broken.param.update(object="  \n".join(["Cannot be read.", *words]), visible=bool(unreadable))
        return True

    @property
    def changed(self) -> dict[str, float]:
        """Return the time of the last write of each run, by name, in seconds since 1970."""
        return {entry.name: entry.changed for entry in self.entries}

    def can_be_read(self, name: str) -> bool:
        """Test whether a run can be opened; True also for a missing run, because opening reports it."""
        entry = self.entry(name)
        return entry is None or not entry.problem

    def entry(self, name: str) -> RunEntry | None:
        """Return the entry of a run; None if it is missing."""
        return next((each for each in self.entries if each.name == name), None)


#: Seconds of a tick in which traces are opened.
MOMENT = 0.08


class Loader:
    """Loader of requested traces, a few per tick, so that the page stays responsive.

    Attributes:
        traces: Open traces, by name.
        problems: Reasons why runs do not open, by name.
    """

    def __init__(self, runs: RunsFolder, listing: Listing) -> None:
        self._runs, self._listing = runs, listing
        self.traces: dict[str, Trace] = {}
        self.problems: dict[str, str] = {}
        # last write of the open traces, in seconds since 1970
        self._stamps: dict[str, float] = {}
        self._waiting: list[str] = []

    @property
    def is_done(self) -> bool:
        """Return whether no trace is waiting to be opened."""
        return not self._waiting

    @property
    def waiting(self) -> int:
        """Return the number of traces waiting to be opened."""
        return len(self._waiting)

    def request(self, names: Iterable[str]) -> None:
        """Request these traces only; open traces that have changed since are opened again."""
        # the listing reports why others cannot be read
        wanted = [name for name in dict.fromkeys(names) if self._listing.can_be_read(name)]
        self.problems = {}
        for name in [name for name in self.traces if name not in wanted]:
            self.drop(name)
        changed = self._listing.changed
        self._waiting = [name for name in wanted if name not in self.traces or self._stamps[name] != changed.get(name)]

    def request_also(self, name: str) -> None:
        """Request one more trace, in addition to open and requested ones."""
        if name not in (*self.traces, *self._waiting, *self.problems) and self._listing.can_be_read(name):
            self._waiting.append(name)

    @property
    def is_stale(self) -> bool:
        """Test whether an open run has changed or disappeared."""
        changed = self._listing.changed
        return any(stamp != changed.get(name) for name, stamp in self._stamps.items())

    def drop(self, name: str) -> None:
        """Drop the trace of a run that disappeared or is no longer needed."""
        self.traces.pop(name, None)
        self._stamps.pop(name, None)

    def open_some(self) -> None:
        """Open waiting traces for up to `MOMENT` seconds."""
        until = time.monotonic() + MOMENT
        while self._waiting and time.monotonic() < until:
            self._open_next()

    def _open_next(self) -> None:
        name = self._waiting.pop(0)
        try:
            self.traces[name] = self._runs.open(name)
            self._stamps[name] = self._listing.changed.get(name, 0.0)
        except (ValueError, OSError) as error:
            self.drop(name)
            self.problems[name] = str(error)


#: Number of rows of a page of the table.
PAGE_ROWS = 12


class FolderTable:
    """Table of all runs in the folder, one row per run; ticks choose runs, a click selects one.

    Args:
        choose: Called with the ticked names among those that the table shows.
        select: Called with the name of a clicked run.
        hide: Called with the names of the hidden runs after a press on a button that hides or shows one.
    """

    def __init__(
        self, choose: Callable[[list[str]], None], select: Callable[[str], None], hide: Callable[[list[str]], None]
    ) -> None:
        #: Names of the runs in the table, in its order.
        self.names: list[str] = []
        self._choose = choose
        self._filling = False
        self._columns: Sequence[str] = DEFAULT
        self.table = SortedTable(
            headings(DEFAULT),
            caption="Runs in the folder",
            can_tick=True,
            actions=["hidden"],
            page_rows=PAGE_ROWS,
            sizing_mode="stretch_width",
        )
        self.table.on_click(select)
        self.table.param.watch(lambda event: self._ticked(event.new), "ticked")
        self.table.param.watch(lambda event: None if self._filling else hide(event.new), "hidden")
        self._count = server_owned(pmui.Typography("", variant="body2", margin=(0, 12)))
        self.view = pmui.Paper(
            pmui.Typography("Runs in the folder", variant="h6", margin=(8, 12, 0, 12)), self._count, self.table,
            sizing_mode="stretch_width", margin=8, elevation=1,
        )  # fmt: skip

    def show_columns(self, columns: Sequence[str]) -> None:
        """Set the columns, by their names in `COLUMNS`, for the next `show`."""
        self._columns = columns
        titles = [[title, form] for title, form in headings(columns).items()]
        if titles != self.table.columns:
            # rows of other columns must not appear under these
            self.table.param.update(columns=titles, rows=[])

    def show(
        self,
        entries: Sequence[RunEntry],
        total: int,
        *,
        chosen: Sequence[str],
        hidden: Sequence[str] = (),
        thresholds: Sequence[Threshold] = (),
    ) -> None:
        """Show runs, and mark numbers beyond thresholds.

        Args:
            total: Number of all runs of the folder.
            chosen: Names of the ticked runs.
            hidden: Names of the hidden runs of the folder.
        """
        self.names = [entry.name for entry in entries]
        now = time.time()
        shown = f"{len(entries):,} of {total:,} runs" if len(entries) < total else f"{total:,} runs"
        words = [f"{shown}{f', {len(hidden):,} hidden' if hidden else ''}."]
        words += ["Tick some to see them together; click a row to look at that run in detail."]
        words += [escape(counted(thresholds, entries, now))]
        self._count.object = " ".join(words)
        rows = {entry.name: cells(entry, self._columns, now) for entry in entries}
        self._fill(chosen=chosen, rows=rows, hidden=list(hidden), marks=marks(thresholds))

    def tick(self, chosen: Sequence[str]) -> None:
        """Tick these runs only."""
        self._fill(chosen=chosen)

    def mark(self, name: str) -> None:
        """Mark only the selected run."""
        self.table.selected = name

    def _fill(self, *, chosen: Sequence[str], rows: dict[str, list[Cell]] | None = None, **state: Any) -> None:
        ticked = [name for name in self.names if name in chosen]
        filling, self._filling = self._filling, True
        try:
            if rows is None:
                self.table.ticked = ticked
            else:
                self.table.show(rows, ticked=ticked, **state)
        finally:
            self._filling = filling

    def _ticked(self, names: list[str]) -> None:
        if not self._filling:
            self._choose([name for name in names if name in self.names])
