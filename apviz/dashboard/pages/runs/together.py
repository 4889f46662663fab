"""Some runs side by side: their curves, their numbers, and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui

from apviz import plots
from apviz.dashboard.charts.chart_card import ChartCard, steps_table
from apviz.dashboard.charts.moment import find
from apviz.dashboard.charts.plain_table import plain_table
from apviz.dashboard.pages.base import HALF
from apviz.dashboard.pages.runs.view import RunsView
from apviz.dashboard.runs.kinds import has_steps, is_solve, solves_of
from apviz.dashboard.runs.runs_table import RunsTable
from apviz.plots.parts.x_switch import without_buttons
from apviz.tracing import Trace
from apviz.tracing.differences import settings_table


class Together:
    """The part of the page about the runs that are chosen.

    Args:
        select: called with the name of a run that is clicked, in the table or at its curve.
    """

    def __init__(self, choice: RunsView, select: Callable[[str], None], *, lecture: bool) -> None:
        self._choice, self._select = choice, select
        self._traces: dict[str, Trace] = {}
        self.cards = {
            "residuals": ChartCard(
                "Residual", "Down is better. The thin line is the tolerance; a cross ends a run that did not converge, "
                "an open circle one that was interrupted or still runs.",
                lambda traces, theme: without_buttons(plots.residuals(traces, x=choice.x, theme=theme)),
                takes=is_solve, axes=380, lecture=lecture,
            ),
            "training": ChartCard(
                "Trainings", "The noise and what each step's solve took, by Adam step.",
                lambda traces, theme: plots.training(traces, theme=theme),
                takes=has_steps, table=steps_table, axes=520, lecture=lecture,
            ),
        }  # fmt: skip
        for card in self.cards.values():
            card.view.styles = HALF
        self.cards["residuals"].chart.param.watch(lambda event: self._clicked(event.new), "clicked")
        self.table = RunsTable(select)
        self.settings = pn.Column(sizing_mode="stretch_width")
        choice.param.watch(lambda event: self._show_settings(), ["differences"])
        x = pmui.RadioButtonGroup.from_param(choice.param.x, label="x axis of the curves", size="small", margin=(0, 12))
        self.view = pn.Column(
            x, pn.FlexBox(*(card.view for card in self.cards.values()), sizing_mode="stretch_width"), self.table.view,
            pmui.Paper(
                pmui.Typography("Settings", variant="h6", margin=(8, 12, 0, 12)),
                pmui.Switch.from_param(choice.param.differences, margin=(0, 12)), self.settings,
                sizing_mode="stretch_width", margin=8, elevation=1,
            ),
            sizing_mode="stretch_width", visible=False,
        )  # fmt: skip

    def show(self, traces: Mapping[str, Trace], selected: str) -> None:
        """Everything but the charts, which are drawn when it is their turn."""
        self._traces = dict(traces)
        for name, takes in {"residuals": is_solve, "training": has_steps}.items():
            self.cards[name].view.visible = any(takes(trace) for trace in traces.values())
        self.view.visible = bool(traces)
        solves = solves_of(traces)
        self.table.view.visible = bool(solves)
        self.table.show(solves, selected)
        self._show_settings()

    def mark(self, name: str) -> None:
        """Marks the run that is looked at, and no other."""
        self.table.table.selected = name

    def _clicked(self, point: dict[str, Any]) -> None:
        """A point of the curves."""
        hit = find(self.cards["residuals"].drawn, point)
        name = next((name for name, trace in self._traces.items() if hit is not None and trace is hit[0]), None)
        if name is not None:
            self._select(name)

    def _show_settings(self) -> None:
        traces = self._traces
        rows = settings_table(list(traces.values()), only_differences=self._choice.differences and len(traces) > 1)
        if not rows:
            words = "These runs do not differ in any setting." if traces else "No run is chosen."
            self.settings[:] = [pmui.Typography(words, margin=(0, 12, 8, 12))]
            return
        table = pd.DataFrame.from_dict(rows, orient="index", columns=list(traces))
        self.settings[:] = [plain_table(table, max_height=480, margin=(0, 12, 8, 12))]
