"""The jobs that the open page does not show: active jobs of other pages, and jobs that ended unseen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.components.text import escape
from apviz.dashboard.jobs.job import Job

#: Seconds between two changes of the text.
_TEXT_SECONDS = 0.5


class Elsewhere:
    """Lines above the page, one for each job.

    Args:
        titles: Titles of the pages, by name.
        go: Callback that shows a job on its page.
    """

    def __init__(self, titles: Mapping[str, str], go: Callable[[Job], None]) -> None:
        self._titles, self._go = titles, go
        self._lines: dict[Job, _Line] = {}
        self._next = 0.0
        self.view = pn.Column(sizing_mode="stretch_width", margin=0)

    @property
    def jobs(self) -> list[Job]:
        """Return the jobs that have a line."""
        return list(self._lines)

    def show(self, jobs: Sequence[Job]) -> None:
        """Show the progress of jobs; called repeatedly, and updates only changed values."""
        if list(self._lines) == list(jobs) and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _TEXT_SECONDS
        if list(self._lines) != list(jobs):
            self._lines = {job: self._lines.get(job) or _Line(job, self._titles, self._go) for job in jobs}
            self.view[:] = [line.view for line in self._lines.values()]
        for line in self._lines.values():
            line.show()


class _Line:
    def __init__(self, job: Job, titles: Mapping[str, str], go: Callable[[Job], None]) -> None:
        self._job, self._shown = job, ""
        self._where = f" on page {titles[job.page]}" if job.page in titles else ""
        self._text = server_owned(pmui.Typography("", variant="body2", margin=(6, 12)))
        self._progress = server_owned(
            pmui.LinearProgress(value=0, variant="determinate", width=120, margin=(14, 4), align="center")
        )
        self._stop = button("Stop", "stop", job.stop, color="error")
        go_there = [button("Show", "visibility", lambda: go(job))] if self._where else []
        self.view = pn.Row(self._progress, self._text, *go_there, self._stop, sizing_mode="stretch_width",
                           styles={"flex-wrap": "wrap"})  # fmt: skip

    def show(self) -> None:
        job = self._job
        state = f"{job.state}: {job.status}" if job.status else job.state
        text = escape(f"{job.title}{self._where}, {state}")
        if text != self._shown:
            self._shown = self._text.object = text
        self._progress.value = round(100 * job.fraction_done)
        self._progress.visible = self._stop.visible = job.is_active
