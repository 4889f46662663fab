"""The solve of one step of a training: its numbers, what limited it, and the solve again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.charts.plain_table import plain_table
from apviz.dashboard.diagnosis.diagnosis_card import DiagnosisCard
from apviz.diagnosis import Diagnosis
from apviz.tracing import Trace, TrainingTrace

#: lengthscales that are written out
SHOWN_LENGTHSCALES = 6


class SolveOfStep:
    """Everything about it but its curve.

    Args:
        look_at: called with the step that is asked for, None for the last.
        again: called with the settings to change when the step is to be solved again.
    """

    def __init__(self, look_at: Callable[[int | None], None], again: Callable[[Mapping[str, Any]], None]) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._look_at, self._step = look_at, 0
        self.number = pmui.IntInput(label="Step", value=None, start=1, width=160, margin=(4, 12))
        self.number.param.watch(lambda event: self._typed(event.new), "value")
        self._latest = pmui.Button(label="The last step", variant="text", icon="last_page")
        self._latest.on_click(lambda event: look_at(None))
        self.again = pmui.Button(label="Solve this step again", variant="outlined", icon="replay", visible=False)
        self.again.on_click(lambda event: again({}))
        self.title = pmui.Typography("", variant="h6", margin=(8, 12, 0, 12))
        self.text = pmui.Typography("", variant="body2", margin=(0, 12))
        self.head = pn.Column(
            self.title, pn.FlexBox(self.number, self._latest, self.again, align_items="center", **wide), self.text,
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
            self.diagnosis.view, visible=False, **wide,
        )  # fmt: skip

    def hide(self) -> None:
        """There is no training."""
        self.head.visible = self.about.visible = False

    def show(self, step: int, solves: Sequence[Trace], *, last: bool, follows: bool, warm: bool) -> None:
        """Which step it is, and what there is of its solve.

        Args:
            solves: as it was taken, then those that were done again.
            last: it is the last step so far.
            follows: the page shows the last step, whichever that is.
            warm: every solve of the training began where the one before had ended.
        """
        self.head.visible = self.about.visible = True
        self._step = step
        self.number.value = step
        self._latest.disabled = follows
        self.title.object = f"Step {step}{', the last so far' if last else ''}: its solve"
        self.text.object = _solve_words(solves, warm)
        self.again.visible = not solves

    def show_numbers(self, trace: TrainingTrace, step: int, solves: Sequence[Trace]) -> None:
        """What was recorded about the step, and the diagnosis of its last solve."""
        self.numbers[:] = [_numbers_of(trace, step)]
        self.diagnosis.show(solves[-1] if solves else None, f"step {step}")

    def _typed(self, number: int | None) -> None:
        if number is not None and number != self._step:
            self._look_at(number)


def can_change_a_solve(diagnosis: Diagnosis) -> bool:
    """σ² is what the training looks for: more of it is a matter of its noise floor, not of one solve."""
    return "noise" not in diagnosis.change


def _solve_words(solves: Sequence[Trace], warm: bool) -> str:
    if not solves:
        words = "The curve of this solve was not kept: only those of trainings that run in this window are."
        words += " Its numbers are below; the same system can be solved again, with the same right-hand sides."
    elif len(solves) > 1:
        words = "The curves are solves of the same system; the diagnosis is of the last one."
    else:
        return ""
    cold = " This training started every solve where the last one ended; again it starts from zero."
    return words + (cold if warm else "")


def _numbers_of(trace: TrainingTrace, step: int) -> Viewable:
    """What was recorded about a step, as a table of two columns."""
    row, h = trace["step"].sel(step=trace["step"]["step"] == step).isel(step=0), trace.hyperparameters_at(step)
    lengths = ", ".join(f"{value:.3g}" for value in h.lengthscale[:SHOWN_LENGTHSCALES])
    if len(h.lengthscale) > SHOWN_LENGTHSCALES:
        lengths += f", … ({len(h.lengthscale)} in all, {min(h.lengthscale):.3g} to {max(h.lengthscale):.3g})"
    converged = "converged" if int(row["converged"]) else "NOT CONVERGED"
    values = {
        "the solve": f"{converged}, residual {float(row['residual']):.3g}",
        "epochs, or iterations": f"{int(row['epochs']):,}",
        "work of the step": f"{float(row['work']):.4g} n² kernel entries",
        "time of the step": f"{float(row['seconds']):.3g} s",
        "σ²": f"{h.noise:.5g}",
        "outputscale": f"{h.outputscale:.5g}",
        "mean": f"{h.mean:.4g}",
        "lengthscales": lengths,
        "gradient norm": f"{float(row['gradient_norm']):.3g}",
    }
    for name, symbol in (("kappa", "κ (estimate for large n)"), ("kappa_prime", "κ′ (estimate)")):
        if math.isfinite(float(row[name])):
            values[symbol] = f"{float(row[name]):.3g}"
    frame = pd.DataFrame({"": list(values), " ": list(values.values())})
    return plain_table(frame, index=False, header=False, text_align="start")
