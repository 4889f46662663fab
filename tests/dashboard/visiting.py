"""Visitors of a folder of runs, without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages.base import Shared, View
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.store.runs_folder import RunsFolder

LIMITS = Limits()


def visitor(
    folder: Path | RunsFolder, *, limits: Limits = LIMITS, slots: int = 1, lecture: bool = False,
    **system: Any,
) -> Shared:  # fmt: skip
    """Return the state that the pages of a new visitor share, with these settings of the system."""
    runs = folder if isinstance(folder, RunsFolder) else RunsFolder(folder)
    return Shared(limits, JobQueue(slots), runs, lecture, View(), SystemChoice(limits, **system))


def drawn(page: Any) -> Any:
    """Draw all pending charts."""
    while page._to_draw:
        page._next_drawing = 0.0
        page.draw_next()
    return page
