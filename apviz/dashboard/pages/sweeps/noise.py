"""The page Noise: a sweep over the noise, and so over κ."""

from __future__ import annotations

from typing import ClassVar

from panel.viewable import Viewable

from apviz import plots
from apviz.analysis.sweeps import Over, sweep_table
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.pages.base import Shared
from apviz.dashboard.pages.sweeps.sweep_page import SweepPage
from apviz.dashboard.settings.methods import MethodChoice, NoiseSweep, advanced_method_panel, method_panel
from apviz.dashboard.settings.systems import SystemSpec
from apviz.solvers import Solver


class Noise(SweepPage):
    """Page of a sweep over σ²: epochs or iterations, and work, against κ."""

    name = "noise"
    title = "Noise"
    over: ClassVar[Over] = "noise"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "Try noise levels")
        self.sweep = NoiseSweep()
        self.methods = MethodChoice(rules=["gauss-southwell"], block_sizes=[200], max_epochs=500)
        self.models = [self.sweep, self.methods, self.choice]

    def settings(self) -> list[Viewable]:
        s, wide = self.sweep.param, {"sizing_mode": "stretch_width"}
        fields = [self.fields.add(each, **wide) for each in (s.below, s.above, s.per_decade)]
        return [*fields, *method_panel(self.methods, self.fields)]

    def settings_words(self) -> str:
        return f"{len(self.sweep.factors())} noise levels"

    def advanced(self) -> list[Viewable]:
        return advanced_method_panel(self.methods, self.fields)

    def _make_cards(self) -> dict[str, ChartCard]:
        lecture = self.shared.lecture
        return {
            "sweep": ChartCard(
                "Cost of a smaller noise σ²",
                "Points farther up and to the right are harder: κ grows as σ² falls. A cross is a run that did not "
                "converge, an open circle one that still runs or was interrupted. Click a point for its diagnosis.",
                lambda traces, theme: plots.noise_sweep(traces, theme=theme), table=sweep_table, axes=520,
                empty="Nothing to draw yet. Try noise levels solves the chosen system at every noise by every ticked "
                "method. Every run becomes a point: its work and its iterations against κ.",
                lecture=lecture,
            ),
        }  # fmt: skip

    def _solvers(self, spec: SystemSpec) -> list[Solver]:
        return self.methods.solvers(spec.seed)

    def _noise_factors(self) -> list[float]:
        return self.sweep.factors()
