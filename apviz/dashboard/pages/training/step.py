"""The solve of one step of a training: its numbers, its diagnosis, and repeated solves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.stepper import Stepper
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.jobs.step_job import StepJob
from apviz.dashboard.pages.base import HALF
from apviz.dashboard.pages.training.launcher import Launcher
from apviz.dashboard.pages.training.picker import SelectedTraining
from apviz.tracing import Trace, TrainingTrace
from apviz.tracing.trace import condition_words, sign_of


class StepSolves:
    """Available solves of steps: from a training in this window, and repeated solves."""

    def __init__(self, selected: SelectedTraining, launcher: Launcher) -> None:
        self._selected, self._launcher = selected, launcher
        # Keys: training and step.
        self._again: dict[tuple[str, int], list[Trace]] = {}

    def keep(self, job: StepJob) -> bool:
        """Keep the repeated solves of a job. Return whether the job is done."""
        if job.trace is None or job.is_active:
            return False
        solves = self._again.setdefault((job.name, job.number), [])
        if not any(each is job.trace for each in solves):
            solves.append(job.trace)
        return True

    @property
    def kept(self) -> list[Trace]:
        """Return the solves of the selected step: first from a job of this window, then the repeated ones."""
        step, job = self._selected.step, self._selected.job
        if step is None:
            return []
        taken = None if job is None else job.solve(step)
        return [*([taken] if taken is not None else []), *self._again.get((self._selected.name, step), [])]

    @property
    def live(self) -> Trace | None:
        """Return the trace of the running solve, if it is selected."""
        job, selected = self._launcher.job, self._selected
        if job is None or not job.is_active:
            return None
        if isinstance(job, StepJob):
            is_shown = (job.name, job.number) == (selected.name, selected.step)
        else:
            is_shown = job is selected.job and selected.follows
        return job.live.trace if is_shown else None


class StepDetails:
    """Details of the solve of a step, without its curve.

    Args:
        selected: Selected training and step.
        solves: Available solves of the step.
        look_at: Called with the requested step; None for the last.
        again: Called with the settings to change to solve the step again.
    """

    def __init__(
        self,
        selected: SelectedTraining,
        solves: StepSolves,
        look_at: Callable[[int | None], None],
        again: Callable[[Mapping[str, Any]], None],
    ) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._selected, self._solves = selected, solves
        self._look_at, self._step = look_at, 0
        stepper = Stepper("Step", "step", self._typed, start=1, width=100)
        self.number = stepper.field
        self._latest = server_owned(pmui.Button(label="The last step", variant="text", icon="last_page"))
        self._latest.on_click(lambda event: look_at(None))
        self.again = server_owned(
            pmui.Button(label="Solve this step again", variant="outlined", icon="replay", visible=False)
        )
        self.again.on_click(lambda event: again({}))
        self.title = server_owned(pmui.Typography("", variant="h6", margin=(8, 12, 0, 12)))
        self.text = server_owned(pmui.Typography("", variant="body2", margin=(0, 12)))
        self.head = pn.Column(
            self.title, pn.FlexBox(stepper.view, self._latest, self.again, align_items="center", **wide), self.text,
            visible=False, **wide,
        )  # fmt: skip
        self.numbers = pn.Column(margin=(0, 12), **wide)
        self.diagnosis = DiagnosisCard(
            lambda trace, diagnosis: again(diagnosis.change), can_rerun=can_change_a_solve
        )  # fmt: skip
        self.about = pn.Column(
            pmui.Paper(
                pmui.Typography("Numbers of the step", variant="h6", margin=(8, 12, 0, 12)), self.numbers,
                margin=8, elevation=1, **wide,
            ),
            self.diagnosis.view, visible=False, styles=HALF, **wide,
        )  # fmt: skip

    def show(self) -> None:
        """Show the step number and its available solves; nothing before the first step."""
        selected, step = self._selected, self._selected.step
        self.head.visible = self.about.visible = step is not None
        if step is None:
            return
        solves, last = self._solves.kept, step == selected.steps
        self._step = step
        self.number.value = step
        self._latest.disabled = selected.follows
        self.title.object = f"Solve of step {step}{' (the last so far)' if last else ''}"
        self.text.object = _describe_solves(solves, selected.is_warm)
        self.again.visible = not solves

    def show_numbers(self) -> None:
        """Show the recorded values of the step, and the diagnosis of its last solve."""
        trace, step, solves = self._selected.trace, self._selected.step, self._solves.kept
        if trace is None or step is None:
            return
        self.numbers[:] = [numbers_of_step(trace, step)]
        self.diagnosis.show(solves[-1] if solves else None, f"step {step}")

    def _typed(self, number: int | None) -> None:
        if number is not None and number != self._step:
            self._look_at(number)
            # The page may keep its step if the requested one is beyond the last.
            self.number.value = self._step


def can_change_a_solve(diagnosis: Diagnosis) -> bool:
    """Return whether a diagnosis proposes a change of one solve. σ² does not count: the training fits it."""
    return "noise" not in diagnosis.change


def _describe_solves(solves: Sequence[Trace], warm: bool) -> str:
    if not solves:
        words = "The curve of this solve was not kept: only trainings that run in this window keep theirs."
        words += " Its numbers are below. You can solve the same system again, with the same right-hand sides."
    elif len(solves) > 1:
        words = "The curves are solves of the same system; the diagnosis is of the last one."
    else:
        return ""
    cold = " This training started every solve where the last one ended; a repeated solve starts from zero."
    return words + (cold if warm else "")


#: Maximum number of displayed lengthscales.
SHOWN_LENGTHSCALES = 6


def numbers_of_step(trace: TrainingTrace, step: int) -> Viewable:
    """Return a table of the recorded names and values of one step."""
    row, h = trace["step"].sel(step=trace["step"]["step"] == step).isel(step=0), trace.hyperparameters_at(step)
    lengths = ", ".join(f"{value:.3g}" for value in h.lengthscale[:SHOWN_LENGTHSCALES])
    if len(h.lengthscale) > SHOWN_LENGTHSCALES:
        lengths += f", … ({len(h.lengthscale)} in all, {min(h.lengthscale):.3g} to {max(h.lengthscale):.3g})"
    converged = "converged" if int(row["converged"]) else "not converged"
    values = {
        "solve": f"{converged}, residual {float(row['residual']):.3g}",
        "epochs or iterations": f"{int(row['epochs']):,}",
        "work of the step": f"{float(row['work']):.4g} n² kernel entries",
        "time of the step": f"{float(row['seconds']):.3g} s",
        "σ²": f"{h.noise:.5g}",
        "mean": f"{h.mean:.4g}",
        **({"outputscale": f"{h.outputscale:.5g}", "lengthscales": lengths} if isinstance(h.kernel, str) else {}),
        **({} if isinstance(h.kernel, str) else {"kernel": repr(h.kernel)}),
        "gradient norm": f"{float(row['gradient_norm']):.3g}",
    }
    for name in ("kappa", "kappa_prime"):
        if math.isfinite(float(row[name])):
            words = condition_words(name, float(row[name]), sign_of(trace["step"], name))
            symbol, number = words.split(" ", 1)
            values[symbol] = number.removeprefix("= ")
    frame = pd.DataFrame({"": list(values), " ": list(values.values())})
    return plain_table(frame, index=False, header=False, text_align="start")
