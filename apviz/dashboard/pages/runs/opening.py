"""Runs that a page looks at, opened one after another, so that the page answers in between."""

from __future__ import annotations

from collections.abc import Iterable

from apviz.dashboard.pages.runs.listing import Listing
from apviz.dashboard.runs.runs_folder import RunsFolder
from apviz.tracing import Trace


class Opening:
    """The traces of the runs that are wanted.

    Attributes:
        traces: opened, by name.
        problems: why a run does not open.
    """

    def __init__(self, runs: RunsFolder, listing: Listing) -> None:
        self._runs, self._listing = runs, listing
        self.traces: dict[str, Trace] = {}
        self.problems: dict[str, str] = {}
        # when those that are open had last been written to, in seconds since 1970
        self._stamps: dict[str, float] = {}
        self._waiting: list[str] = []

    @property
    def is_done(self) -> bool:
        return not self._waiting

    def want(self, names: Iterable[str]) -> None:
        """These and no others; those that have changed since they were opened are opened anew."""
        # the listing has said why the others cannot be read
        wanted = [name for name in dict.fromkeys(names) if self._listing.can_be_read(name)]
        self.problems = {}
        for name in [name for name in self.traces if name not in wanted]:
            self.forget(name)
        changed = self._listing.changed
        self._waiting = [name for name in wanted if name not in self.traces or self._stamps[name] != changed.get(name)]

    def want_also(self, name: str) -> None:
        """One more."""
        if name not in (*self.traces, *self._waiting, *self.problems) and self._listing.can_be_read(name):
            self._waiting.append(name)

    @property
    def is_stale(self) -> bool:
        """Whether one that is open has changed, or gone."""
        changed = self._listing.changed
        return any(stamp != changed.get(name) for name, stamp in self._stamps.items())

    def forget(self, name: str) -> None:
        """It has gone."""
        self.traces.pop(name, None)
        self._stamps.pop(name, None)

    def open_next(self) -> None:
        """Opens one of those that wait."""
        name = self._waiting.pop(0)
        try:
            self.traces[name] = self._runs.open(name)
            self._stamps[name] = self._listing.changed.get(name, 0.0)
        except (ValueError, OSError) as error:
            self.forget(name)
            self.problems[name] = str(error)
