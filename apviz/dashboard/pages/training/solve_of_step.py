"""The solve of one step of a training: its numbers, what limited it, and the solve again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.diagnosis.diagnosis_card import DiagnosisCard
from apviz.dashboard.one_way import one_way
from apviz.dashboard.pages.base import HALF
from apviz.dashboard.pages.training.numbers_of_step import numbers_of_step
from apviz.dashboard.pages.training.solves import Solves
from apviz.dashboard.pages.training.watched import Watched
from apviz.diagnosis import Diagnosis
from apviz.tracing import Trace


class SolveOfStep:
    """Everything about it but its curve.

    Args:
        watched, solves: the training and its step that is looked at, and what there is of its solve.
        look_at: called with the step that is asked for, None for the last.
        again: called with the settings to change when the step is to be solved again.
    """

    def __init__(
        self,
        watched: Watched,
        solves: Solves,
        look_at: Callable[[int | None], None],
        again: Callable[[Mapping[str, Any]], None],
    ) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._watched, self._solves = watched, solves
        self._look_at, self._step = look_at, 0
        self.number = pmui.IntInput(label="Step", value=None, start=1, width=160, margin=(4, 12))
        self.number.param.watch(lambda event: self._typed(event.new), "value")
        self._latest = one_way(pmui.Button(label="The last step", variant="text", icon="last_page"))
        self._latest.on_click(lambda event: look_at(None))
        self.again = one_way(
            pmui.Button(label="Solve this step again", variant="outlined", icon="replay", visible=False)
        )
        self.again.on_click(lambda event: again({}))
        self.title = one_way(pmui.Typography("", variant="h6", margin=(8, 12, 0, 12)))
        self.text = one_way(pmui.Typography("", variant="body2", margin=(0, 12)))
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
            self.diagnosis.view, visible=False, styles=HALF, **wide,
        )  # fmt: skip

    def show(self) -> None:
        """Which step it is, and what there is of its solve; nothing before the first step."""
        watched, step = self._watched, self._watched.step
        self.head.visible = self.about.visible = step is not None
        if step is None:
            return
        solves, last = self._solves.kept, step == watched.steps
        self._step = step
        self.number.value = step
        self._latest.disabled = watched.follows
        self.title.object = f"Step {step}{', the last so far' if last else ''}: its solve"
        self.text.object = _solve_words(solves, watched.is_warm)
        self.again.visible = not solves

    def show_numbers(self) -> None:
        """What was recorded about the step, and the diagnosis of its last solve."""
        trace, step, solves = self._watched.trace, self._watched.step, self._solves.kept
        if trace is None or step is None:
            return
        self.numbers[:] = [numbers_of_step(trace, step)]
        self.diagnosis.show(solves[-1] if solves else None, f"step {step}")

    def _typed(self, number: int | None) -> None:
        if number is not None and number != self._step:
            self._look_at(number)
            # asked for a step beyond the last, the page may stay where it is
            self.number.value = self._step


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
