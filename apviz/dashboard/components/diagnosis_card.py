"""The card on what limited a run, with a button that tries the one setting to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui

from apviz.analysis.diagnosis import Diagnosis, diagnose
from apviz.analysis.diagnosis.training import diagnose_training
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.components.text import escape
from apviz.tracing import Trace, TrainingTrace


class DiagnosisCard:
    """Diagnosis of one trace, by the rules of `apviz.analysis`: of a solve, or of a training.

    Args:
        rerun: called with the trace and its diagnosis when the button is pressed.
        can_rerun: whether there is such a button for a diagnosis that proposes a change.
    """

    def __init__(
        self,
        rerun: Callable[[Trace, Diagnosis], None],
        can_rerun: Callable[[Diagnosis], bool] = lambda diagnosis: True,
    ) -> None:
        self._rerun, self._can_rerun = rerun, can_rerun
        self._trace: Trace | None = None
        self._diagnosis: Diagnosis | None = None
        self._of = server_owned(pmui.Typography("", variant="overline", margin=(4, 12, 0, 12)))
        self._limit = server_owned(pmui.Typography("", variant="h6", margin=(0, 12)))
        # names of settings are longer than a phone is wide
        text: dict[str, Any] = {"variant": "body1", "sx": {"overflowWrap": "anywhere"}, "sizing_mode": "stretch_width"}
        self._evidence = server_owned(pmui.Typography("", margin=(0, 12, 6, 12), **text))
        self._advice = server_owned(pmui.Typography("", margin=(0, 12, 8, 12), **text))
        self._figures = pn.Column(margin=(0, 12, 8, 12), sizing_mode="stretch_width", styles={"overflow-x": "auto"})
        self._button = server_owned(pmui.Button(label="", color="primary", variant="contained", margin=(4, 12, 12, 12)))
        self._button.on_click(lambda event: self._press())
        self.view = pmui.Paper(
            self._of, self._limit, self._evidence, self._advice, self._figures, self._button,
            sizing_mode="stretch_width", margin=8, elevation=1, visible=False,
        )  # fmt: skip

    def show(self, trace: Trace | None, which: str = "", among: Iterable[Trace] = ()) -> None:
        """Diagnoses a run; nothing for none.

        Args:
            which: of several it is, such as "the slowest run".
            among: runs beside it, with which it is compared where they solved the same system.
        """
        self._trace = trace
        self._diagnosis = found = None if trace is None else _diagnose(trace, among)
        self.view.visible = found is not None
        if trace is None or found is None:
            return
        self._of.object = f"Diagnosis of {escape(trace.method_name)}{f', {which}' if which else ''}"
        self._limit.object = _capitalised(found.limit.value)
        self._evidence.object, self._advice.object = escape(found.evidence), escape(found.advice)
        # two columns of figures fit a phone, four do not
        table = pd.DataFrame([{**row} for row in found.figures])
        table = table.set_index("").T.reset_index(names="") if "" in table else table
        self._figures[:] = [plain_table(table, index=False, text_align="end")] if len(table) else []
        # a solve of GPyTorch's is run again by the program that it comes from
        is_here = trace.attrs.get("operator") != "gpytorch"
        self._button.visible = bool(found.change) and is_here and self._can_rerun(found)
        self._button.label = f"Run again with {', '.join(map(_setting, found.change.items()))}"

    def _press(self) -> None:
        if self._trace is not None and self._diagnosis is not None:
            self._rerun(self._trace, self._diagnosis)


def _diagnose(trace: Trace, among: Iterable[Trace]) -> Diagnosis | None:
    return diagnose_training(trace) if isinstance(trace, TrainingTrace) else diagnose(trace, among)


def _setting(pair: tuple[str, Any]) -> str:
    name, value = pair
    return f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
