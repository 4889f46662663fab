"""Card with advice on the method for the selected system, before any solve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from apviz.tracing import Trace

#: Columns of the table on a projector, because the sentence has the rest.
_LECTURE = ("method", "seconds", "seconds, forecast", "seconds, measured", "chance of success")
#: Heading of the column of work, which says what the unit is.
WORK = "work (1 = every kernel entry once)"


class AdviceCard:
    """Advice on the chosen system: a sentence, the cost of each method, and possible improvements.

    Args:
        methods: Methods whose tolerance and epoch limit apply.
        ready: Function that returns whether the settings are valid, and reports invalid ones.
        solve: Called with the system and the advice when its button is pressed.
        measured: Function that returns the runs on the page that were solved on this machine.
        ticked: Called when the recommended method has joined those of the next run.

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
        measured: Callable[[], Iterable[Trace]] = tuple,
        ticked: Callable[[], None] = lambda: None,
    ) -> None:
        self._shared, self._methods, self._ready, self._solve = shared, methods, ready, solve
        self._measured, self._ticked = measured, ticked
        self.job: AdviceJob | None = None
        self._said: tuple[str, dict[str, float]] = ("", {})
        #: Name of the method that the last advice has ticked; empty if it was ticked before.
        self._ticked_name = ""
        self._inside = pn.Column(sizing_mode="stretch_width", margin=0)
        # a description would replace the label as the accessible name
        self.button = button("Which method?", "tips_and_updates", self.ask, size="medium")
        self.view = pn.Column(sizing_mode="stretch_width", margin=0)

    def suggest(self, dataset: str) -> None:
        """Make the button the next step for a visitor's table that has not been solved; empty for none."""
        label = f"Find the best method for {dataset}" if dataset else "Which method?"
        self.button.param.update(label=label, variant="contained" if dataset else "outlined")

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
            self.job, self._said = job, ("", {})

    def show(self) -> None:
        """Show the progress of the job; called repeatedly, and updates only changes."""
        job = self.job
        if job is None:
            return
        state = f"{job.state}: {job.status}" if job.status else job.state
        found = {} if job.advice is None else measured_seconds(job, self._measured())
        if (state, found) == self._said:
            return
        is_new, self._said, job.seen = state != self._said[0], (state, found), not job.is_active
        self.button.disabled = job.is_active
        if job.advice is None or job.is_active:
            self._say("Which method?" if job.is_active else "No advice", state[:1].upper() + state[1:])
        else:
            if is_new:
                self._tick_best(job.advice)
            self._show(job.advice, job, found)

    def _tick_best(self, advice: Advice) -> None:
        """Add the recommended method to those of the next run, so that its estimate is checked."""
        self._ticked_name = ""
        if self._methods.tick(advice.best.solver.method):
            self._ticked_name = next(iter(advice.methods))
            self._ticked()

    def _say(self, heading: str, text: str) -> None:
        parts: list[Any] = [_text(heading, "h6"), _text(text)]
        if self.job is not None and self.job.is_active:
            parts.append(button("Stop", "stop", self.job.stop, color="error", margin=(0, 12, 8, 12)))
        self._fill(parts)

    def _show(self, advice: Advice, job: AdviceJob, found: Mapping[str, float]) -> None:
        rows = pd.DataFrame(advice.rows()).rename(columns={"work": WORK})
        if found:
            measured = [f"{found[name]:.2g}" if name in found else "–" for name in advice.methods]
            rows = rows.rename(columns={"seconds": "seconds, forecast"})
            rows.insert(2, "seconds, measured", measured)
        if self._shared.lecture:
            rows = rows[[name for name in _LECTURE if name in rows]]
        table = pn.Column(
            plain_table(rows, index=False, text_align="start"),
            margin=(0, 12),
            styles={"overflow-x": "auto"},
            sizing_mode="stretch_width",
        )
        changes = [each.sentence for each in advice.alternatives]
        notes = [
            advice.origin,
            *([f"{self._ticked_name} is now ticked among the methods."] if self._ticked_name else []),
        ]
        parts: list[Any] = [
            _text(f"Which method? {system_in_words(advice, job.spec)}, to {advice.tol:g}", "body2"),
            _text(headline(advice, found), "h6"), _text(advice.reason, "body2"), table,
            *(_text(line) for line in (changes, advice.left_out, notes) if line),
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


def system_in_words(advice: Advice, spec: SystemSpec) -> str:
    """Return the system of advice; a visitor has one target, and the other right-hand sides are random vectors."""
    sides = "the target and 1 random vector" if spec.rhs == 2 else f"the target and {spec.rhs - 1} random vectors"
    return advice.system.replace(f"{spec.rhs} right-hand sides", sides)


def measured_seconds(job: AdviceJob, traces: Iterable[Trace]) -> dict[str, float]:
    """Return the seconds of converged runs of the system of the advice, by method, the fastest first."""
    seconds: dict[str, float] = {}
    for trace in traces:
        tol, advice = trace.attrs.get("tol"), job.advice
        is_same = all(trace.attrs.get(name) == value for name, value in job.system.items())
        if advice is not None and is_same and trace.converged and tol and tol <= advice.tol:
            took = float(trace["epoch"]["seconds"][-1])
            seconds[trace.method_name] = min(took, seconds.get(trace.method_name, took))
    return dict(sorted(seconds.items(), key=lambda item: item[1]))


def headline(advice: Advice, measured: Mapping[str, float]) -> str:
    """Return the advice in a sentence; what was measured counts more than an estimate."""
    if not measured or advice.best.chance < 0.5:
        return advice.headline
    name, best = next(iter(advice.methods.items()))
    (fastest, seconds), *others = measured.items()
    if name not in measured:
        return (
            f"Measured: {fastest} took {in_words(seconds)}. Estimated: {name} needs about "
            f"{in_words(best.seconds.likely)}."
        )
    said = f"Use {fastest}: it took {in_words(seconds)}, measured."
    second = (name, measured[name]) if fastest != name else next(iter(others), None)
    return f"{said} {second[0]} took {in_words(second[1])}." if second else said


def _text(said: str | list[str], variant: str = "body1") -> pmui.Typography:
    text = "  \n".join(map(escape, [said] if isinstance(said, str) else said))
    # names of methods are longer than a phone's screen is wide
    look: dict[str, Any] = {"variant": variant, "sx": {"overflowWrap": "anywhere"}, "sizing_mode": "stretch_width"}
    return server_owned(pmui.Typography(text, margin=(4, 12), **look))
