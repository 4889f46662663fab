"""The bar of a job: Run, Stop, and its progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.components.server_owned import appear, server_owned
from apviz.dashboard.components.text import escape
from apviz.dashboard.jobs.job import Job

#: Seconds between two changes of the text while a job runs, because each makes the browser lay out the whole page.
_TEXT_SECONDS = 0.25
_SEVERITY = {"queued": "info", "running": "info", "done": "success", "stopped": "warning", "failed": "error"}


class JobBar:
    """Buttons and state of a job.

    Args:
        run, stop: Callbacks of the buttons.
        label: Label of the button that runs it.
        is_running: Function that returns whether a job is running; a click to run is then ignored.
    """

    def __init__(
        self,
        run: Callable[[], None],
        stop: Callable[[], None],
        *,
        label: str = "Run",
        is_running: Callable[[], bool] = lambda: False,
    ) -> None:
        self._shown: tuple[str, str] | None = None
        self._state, self._stopping, self._next = "", False, 0.0
        self._run = server_owned(pmui.Button(label=label, color="primary", variant="contained", icon="play_arrow"))
        self._stop = server_owned(
            pmui.Button(label="Stop", color="error", variant="outlined", icon="stop", disabled=True, visible=False)
        )
        # the second click of a double click arrives before the button is disabled
        self._run.on_click(lambda event: None if is_running() else run())
        self._stop.on_click(lambda event: stop())
        wide = {"sizing_mode": "stretch_width"}
        self._progress = server_owned(pmui.LinearProgress(value=0, variant="determinate", visible=False, **wide))
        self._held = server_owned(
            pmui.Alert(object="", severity="error", visible=False, margin=(0, 8, 8, 8), title="Cannot run", **wide)
        )
        self._text = server_owned(
            pmui.Alert(
                object="", severity="info", variant="outlined", visible=False, margin=(4, 8),
                styles={"flex": "1 1 260px"},
                # While a job runs its text changes, and must not move the charts below. Show other texts in full.
                sx={"py": 0, "&.MuiAlert-colorInfo": {"maxHeight": "5.6em", "overflowY": "auto"}},
            )
        )  # fmt: skip
        #: Row of the buttons, to which a page may add components.
        self.row = pn.FlexBox(self._run, self._stop, self._text, align_items="center", **wide)
        self.view = pn.Column(self.row, self._held, self._progress, margin=(8, 0, 0, 0), **wide)

    def emphasise(self, is_next: bool) -> None:
        """Fill the button, if it is the next step, or outline it."""
        self._run.variant = "contained" if is_next else "outlined"

    def refuse(self, message: str) -> None:
        """Show why no job was started."""
        appear(self._text, object=_verbatim(message), severity="error")

    def withdraw(self) -> None:
        """Hide how the job ended, because other data than its own are chosen."""
        if self._state not in ("", "queued", "running") and self._shown and self._text.severity == self._shown[1]:
            self._text.visible = False

    def show_problems(self, problems: Sequence[str]) -> None:
        """Show the problems to fix before a job can run; hide the message if there are none."""
        lines = "  \n".join(f"{_verbatim(each[:1].upper() + each[1:])}." for each in problems)
        self._held.object = lines
        self._held.visible = bool(problems)

    def show(self, job: Job) -> None:
        """Show the progress of a job; called repeatedly, and updates only changed values."""
        now = time.monotonic()
        if job.state == self._state and job.stopping == self._stopping and now < self._next:
            return
        self._state, self._stopping, self._next = job.state, job.stopping, now + _TEXT_SECONDS
        active = job.is_active
        job.seen = not active
        self._run.disabled, self._stop.disabled = active, not active or job.stopping
        self._stop.visible = active
        self._progress.visible = active
        self._progress.value = round(100 * job.fraction_done)
        text = "\n".join([f"{job.state}: {job.status}" if job.status else job.state, *job.failures])
        severity = "error" if job.failures and job.state == "done" else _SEVERITY[job.state]
        # Keep a refusal on screen until the text changes.
        if (text, severity) != self._shown:
            self._shown = (text, severity)
            appear(self._text, object=_verbatim(text[:1].upper() + text[1:]), severity=severity)


def _verbatim(text: str) -> str:
    """Return text as Markdown that shows it word for word and line by line."""
    return "  \n".join(map(escape, text.splitlines()))
