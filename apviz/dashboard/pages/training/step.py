"""The solve of one step of a training: its numbers, its diagnosis, and repeated solves."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.components.diagnosis_card import DiagnosisCard
from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.pages.base import HALF
from apviz.dashboard.pages.training.picker import SelectedTraining
from apviz.gp.training.settings import settings_of
from apviz.solvers import Solver
from apviz.tracing import TrainingTrace
from apviz.tracing.trace import condition_words, sign_of


class StepDetails:
    """Details of the solve of a step, without its curve.

    Args:
        selected: Selected training and step.
        look_at: Called with the requested step; None for the last.
    """

    def __init__(self, selected: SelectedTraining, look_at: Callable[[int | None], None]) -> None:
        wide = {"sizing_mode": "stretch_width"}
        self._selected, self._look_at, self._step = selected, look_at, 0
        # the field's own buttons have no names for a screen reader; the arrow keys do the same
        bare = {"& .MuiInputAdornment-root": {"display": "none"}, "& .MuiInputBase-root": {"padding": "0 8px"}}
        field = pmui.IntInput(label="Step", value=None, start=1, sx=bare, width=100, margin=(4, 0, 4, 12))
        self.number = server_owned(field, editable=["value"])
        self.number.param.watch(lambda event: self._typed(event.new), "value")
        self._latest = button("The last step", "last_page", lambda: look_at(None), variant="text", size="medium")
        self.title = server_owned(pmui.Typography("", variant="h6", margin=(8, 12, 0, 12)))
        self.text = server_owned(pmui.Typography(_NOT_KEPT, variant="body2", margin=(0, 12)))
        self.head = pn.Column(
            self.title, pn.FlexBox(self.number, self._latest, align_items="center", **wide), self.text,
            visible=False, **wide,
        )  # fmt: skip
        self.numbers = pn.Column(margin=(0, 12), **wide)
        # a training, not one of its solves, can run again
        self.diagnosis = DiagnosisCard(lambda trace, diagnosis: None, can_rerun=lambda diagnosis: False)
        self.about = pn.Column(
            pmui.Paper(
                pmui.Typography("Numbers of the step", variant="h6", margin=(8, 12, 0, 12)), self.numbers,
                margin=8, elevation=1, **wide,
            ),
            self.diagnosis.view, visible=False, styles=HALF, **wide,
        )  # fmt: skip

    def show(self) -> None:
        """Show the step number, and whether its solve was kept; nothing before the first step."""
        selected, step = self._selected, self._selected.step
        self.head.visible = self.about.visible = step is not None
        if step is None:
            return
        self._step = step
        self.number.value = step
        self._latest.disabled = selected.follows
        is_last_so_far = step == selected.steps and not (selected.trace is not None and selected.trace.finished)
        self.title.object = f"Solve of step {step}{' (the last so far)' if is_last_so_far else ''}"
        self.text.visible = selected.solve is None

    def show_numbers(self) -> None:
        """Show the recorded values of the step, and the diagnosis of its solve."""
        trace, step = self._selected.trace, self._selected.step
        if trace is None or step is None:
            return
        self.numbers[:] = [numbers_of_step(trace, step)]
        self.diagnosis.show(self._selected.solve, f"step {step}")

    def _typed(self, number: int | None) -> None:
        if number is not None and number != self._step:
            self._look_at(number)
            # The page may keep its step if the requested one is beyond the last.
            self.number.value = self._step


def _how_it_ended(residual: float, solver: Solver, *, converged: bool) -> str:
    """Return how the solve of a step ended; a training step needs a looser residual than a solution."""
    tol = getattr(solver, "tol", None)
    limit = "" if tol is None else f" (limit {tol:g})"
    return f"{'Enough for a training step' if converged else 'Not converged'}: residual {residual:.3g}{limit}"


_NOT_KEPT = "The curve of this solve was not kept: only trainings that run in this window keep theirs."
#: Maximum number of displayed lengthscales.
SHOWN_LENGTHSCALES = 6


def numbers_of_step(trace: TrainingTrace, step: int) -> Viewable:
    """Return a table of the recorded names and values of one step."""
    row, h = trace["step"].sel(step=trace["step"]["step"] == step).isel(step=0), trace.hyperparameters_at(step)
    lengths = ", ".join(f"{value:.3g}" for value in h.lengthscale[:SHOWN_LENGTHSCALES])
    if len(h.lengthscale) > SHOWN_LENGTHSCALES:
        lengths += f", … ({len(h.lengthscale)} in all, {min(h.lengthscale):.3g} to {max(h.lengthscale):.3g})"
    values = {
        "solve": _how_it_ended(float(row["residual"]), settings_of(trace).solver, converged=bool(row["converged"])),
        "epochs or iterations": f"{int(row['epochs']):,}",
        "work of the step": f"{float(row['work']):,.4g} (full kernel matrices)",
        "time of the step": f"{float(row['seconds']):.3g} s",
        "σ² before the step": f"{h.noise:.5g}",
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
