"""The card on the bottleneck of a run, with a button that tries the proposed change of one setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pandas as pd
import panel as pn
import panel_material_ui as pmui

from apviz.analysis.diagnosis import Diagnosis, diagnose
from apviz.analysis.diagnosis.causes import OVERLAP
from apviz.analysis.diagnosis.training import diagnose_training
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.components.text import escape
from apviz.methods import PARTITION_WORDS, RULE_WORDS
from apviz.tracing import Trace, TrainingTrace

#: Words on the button for settings and values whose names are codes.
_SETTINGS: Final = {"tol": "tolerance", "max_epochs": "epoch limit", "noise": "noise σ²"}
_VALUES: Final = {"auto": "Automatic", "overlap": "overlapping projections", **RULE_WORDS, **PARTITION_WORDS}


class DiagnosisCard:
    """Diagnosis of the trace of one solve or training, by the rules of `apviz.analysis`.

    Args:
        rerun: Called with the trace and its diagnosis when the button is pressed.
        can_rerun: Whether to show the button for a diagnosis that proposes a change.
    """

    def __init__(
        self,
        rerun: Callable[[Trace, Diagnosis], None],
        can_rerun: Callable[[Diagnosis], bool] = lambda diagnosis: True,
    ) -> None:
        self._rerun, self._can_rerun = rerun, can_rerun
        self._trace: Trace | None = None
        self._diagnosis: Diagnosis | None = None
        self._of = server_owned(pmui.Typography("", variant="body2", margin=(8, 12, 0, 12)))
        self._limit = server_owned(pmui.Typography("", variant="h6", margin=(0, 12)))
        # Names of settings can be wider than a phone.
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
        """Diagnose a run and show the result; hide the card for None.

        Args:
            which: Description of the run among several, such as "the slowest run".
            among: Other runs; those of the same system are compared with it.
        """
        self._trace = trace
        self._diagnosis = found = None if trace is None else _diagnose(trace, among)
        self.view.visible = found is not None
        if trace is None or found is None:
            return
        self._of.object = f"Diagnosis of {escape(trace.method_name)}{f', {which}' if which else ''}"
        self._limit.object = _capitalised(found.limit.value)
        self._evidence.object, self._advice.object = escape(found.evidence), escape(found.advice)
        # Transpose the table: two columns of numbers fit a phone, four do not.
        table = pd.DataFrame([{**row} for row in found.figures])
        table = table.set_index("").T.reset_index(names="") if "" in table else table
        self._figures[:] = [plain_table(table, index=False, text_align="end")] if len(table) else []
        # Only the user's own program can repeat a solve by GPyTorch.
        is_here = trace.attrs.get("operator") != "gpytorch"
        self._button.visible = bool(found.change) and is_here and self._can_rerun(found)
        self._button.label = rerun_label(found)

    def _press(self) -> None:
        if self._trace is not None and self._diagnosis is not None:
            self._rerun(self._trace, self._diagnosis)


def _diagnose(trace: Trace, among: Iterable[Trace]) -> Diagnosis | None:
    return diagnose_training(trace) if isinstance(trace, TrainingTrace) else diagnose(trace, among)


def rerun_label(found: Diagnosis) -> str:
    """Return the label of the button that tries the change of a diagnosis."""
    if found.change == OVERLAP:
        return "Run again with overlapping blocks of neighbours"
    return f"Run again with {', '.join(map(_setting, found.change.items()))}"


def _setting(pair: tuple[str, Any]) -> str:
    name, value = pair
    said = f"{value:g}" if isinstance(value, float) else _VALUES.get(value, value)
    return f"{_SETTINGS.get(name, name.replace('_', ' '))} {said}"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
