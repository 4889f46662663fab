"""Card with advice on the method for the selected system, before any solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui

from apviz.advice import Advice
from apviz.advice.forecast import in_words
from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.components.text import escape
from apviz.dashboard.jobs.advice_job import AdviceJob
from apviz.dashboard.jobs.job import Job
from apviz.dashboard.pages.base import Shared
from apviz.dashboard.settings.methods import MethodChoice
from apviz.dashboard.settings.systems import SystemSpec

#: Columns of the table on a projector, because the sentence has the rest.
_LECTURE = ("method", "seconds", "chance")


class AdviceCard:
    """Advice on the chosen system: a sentence, the cost of each method, and possible improvements.

    Args:
        methods: Methods whose tolerance and epoch limit apply.
        ready: Function that returns whether the settings are valid, and reports invalid ones.
        solve: Called with the system and the advice when its button is pressed.

    Attributes:
        button: Button that requests advice.
        view: View of the advice, empty before the first.
        job: Job that was started last.
    """

    def __init__(
        self,
        shared: Shared,
        methods: MethodChoice,
        ready: Callable[[], bool],
        solve: Callable[[SystemSpec, Advice], None],
    ) -> None:
        self._shared, self._methods, self._ready, self._solve = shared, methods, ready, solve
        self.job: AdviceJob | None = None
        self._said = ""
        self._inside = pn.Column(sizing_mode="stretch_width", margin=0)
        self.button = button("Which method?", "tips_and_updates", self.ask, size="medium")
        self.view = pn.Column(sizing_mode="stretch_width", margin=0)

    def ask(self) -> None:
        """Start advice on the system that is selected now."""
        if not self._ready() or (self.job is not None and self.job.is_active):
            return
        shared = self._shared
        try:
            spec = shared.system.spec(first_seed=True)
        except ValueError as error:
            self._say("No advice", str(error))
            return
        self.adopt(AdviceJob(shared.queue, shared.limits, spec, self._methods.tol, self._methods.max_epochs))
        assert self.job is not None  # set by `adopt`
        shared.start(self.job)
        self.show()

    def adopt(self, job: Job) -> None:
        """Show advice, including that of another tab, or from before a reload of the page."""
        if isinstance(job, AdviceJob):
            self.job, self._said = job, ""

    def show(self) -> None:
        """Show the progress of the job; called repeatedly, and updates only changes."""
        job = self.job
        if job is None:
            return
        state = f"{job.state}: {job.status}" if job.status else job.state
        if state == self._said:
            return
        self._said, job.seen = state, not job.is_active
        self.button.disabled = job.is_active
        if job.advice is None or job.is_active:
            self._say("Which method?" if job.is_active else "No advice", state[:1].upper() + state[1:])
        else:
            self._show(job.advice, job)

    def _say(self, heading: str, text: str) -> None:
        parts: list[Any] = [_text(heading, "h6"), _text(text)]
        if self.job is not None and self.job.is_active:
            parts.append(button("Stop", "stop", self.job.stop, color="error", margin=(0, 12, 8, 12)))
        self._fill(parts)

    def _show(self, advice: Advice, job: AdviceJob) -> None:
        rows = pd.DataFrame(advice.rows())
        if self._shared.lecture:
            rows = rows[[name for name in _LECTURE if name in rows]]
        table = pn.Column(
            plain_table(rows, index=False, text_align="start"),
            margin=(0, 12),
            styles={"overflow-x": "auto"},
            sizing_mode="stretch_width",
        )
        changes = [each.sentence for each in advice.alternatives]
        left_out = [f"{name} was left out: {why}." for name, why in advice.unfit.items()]
        made = f"All numbers are estimates from small solves, made in {in_words(advice.seconds)}."
        parts: list[Any] = [
            _text(f"Which method? {advice.system}, to {advice.tol:g}", "body2"), _text(advice.headline, "h6"),
            _text(advice.reason, "body2"), table, *(_text(line) for line in (changes, left_out, [made]) if line),
        ]  # fmt: skip
        if advice.best.chance >= 0.5:
            name = next(iter(advice.methods))
            look: dict[str, Any] = {"color": "primary", "variant": "contained", "margin": (4, 12, 12, 12)}
            parts.append(button(f"Solve by {name}", "play_arrow", lambda: self._solve(job.spec, advice), **look))
        self._fill(parts)

    def _fill(self, parts: list[Any]) -> None:
        if not len(self.view):
            self.view.append(pmui.Paper(self._inside, sizing_mode="stretch_width", margin=8, elevation=1))
        self._inside[:] = parts


def _text(said: str | list[str], variant: str = "body1") -> pmui.Typography:
    text = "  \n".join(map(escape, [said] if isinstance(said, str) else said))
    # names of methods are longer than a phone's screen is wide
    look: dict[str, Any] = {"variant": variant, "sx": {"overflowWrap": "anywhere"}, "sizing_mode": "stretch_width"}
    return server_owned(pmui.Typography(text, margin=(4, 12), **look))
