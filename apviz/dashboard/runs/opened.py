"""Traces that were opened, kept until they change on disk: the last used ones, up to a limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from apviz.dashboard.runs.run_entry import last_change
from apviz.tracing import Trace, open_trace

#: opened traces that are kept, by number and by size
KEPT_TRACES, KEPT_BYTES = 100, 150e6


class OpenedTraces:
    """By the names of their runs."""

    def __init__(self) -> None:
        # sessions of one server share them, and so do the threads of their jobs
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, Trace, int]] = OrderedDict()

    def open(self, name: str, path: Path) -> Trace:
        """The trace of a run at `path`.

        Raises:
            ValueError: it does not open.
        """
        with self._lock:
            stamp = last_change(path).st_mtime_ns
            if name not in self._kept or self._kept[name][0] != stamp:
                trace = _open(name, path)
                self._kept[name] = (stamp, trace, int(trace.tree.nbytes))
            self._kept.move_to_end(name)
            self._forget_oldest()
            return self._kept[name][1]

    def forget(self, name: str) -> None:
        """The run has gone."""
        with self._lock:
            self._kept.pop(name, None)

    def _forget_oldest(self) -> None:
        """Down to the limits, but never the one that was just asked for."""
        size = sum(nbytes for _, _, nbytes in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > KEPT_TRACES or size > KEPT_BYTES):
            size -= self._kept.popitem(last=False)[1][2]


def _open(name: str, path: Path) -> Trace:
    try:
        return open_trace(path)
    except ValueError as error:
        raise ValueError(str(error).replace(str(path), name)) from error
