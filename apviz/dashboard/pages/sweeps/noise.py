"""The page Noise: a sweep over the noise, and so over κ, next to the decrease of σ² in a training."""

from __future__ import annotations

from typing import ClassVar

import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz import plots
from apviz.analysis.sweeps import Over, sweep_table
from apviz.dashboard.components.chart_card import ChartCard, steps_table
from apviz.dashboard.pages.base import Shared
from apviz.dashboard.pages.sweeps.sweep_page import SweepPage
from apviz.dashboard.settings.methods import MethodChoice, NoiseSweep, advanced_method_panel, method_panel
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.store.trainings import Trainings
from apviz.experiments.published import SEEDS, published_traces
from apviz.solvers import Solver
from apviz.tracing import Trace


class Noise(SweepPage):
    """Page of a sweep over σ²: epochs or iterations, and work, against κ; the paper's Figure 4."""

    name = "noise"
    title = "Noise"
    over: ClassVar[Over] = "noise"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "Sweep σ²")
        self.sweep, self.trainings = NoiseSweep(), TrainingChoice()
        self.methods = MethodChoice(rules=["gauss-southwell"], block_sizes=[200], max_epochs=500)
        self._here = Trainings(shared.runs.path)
        self.trainings.offer(self._here)
        self.models = [self.sweep, self.methods, self.trainings, self.choice]
        self.trainings.param.watch(lambda event: self._draw_training(), ["trainings"])

    def settings(self) -> list[Viewable]:
        s, wide = self.sweep.param, {"sizing_mode": "stretch_width"}
        fields = [self.fields.add(each, **wide) for each in (s.below, s.above, s.per_decade)]
        return [*fields, *method_panel(self.methods, self.fields)]

    def settings_words(self) -> str:
        return f"{len(self.sweep.factors())} noises"

    def advanced(self) -> list[Viewable]:
        return advanced_method_panel(self.methods, self.fields)

    def _aside(self) -> list[Viewable]:
        choose = pmui.MultiChoice.from_param(
            self.trainings.param.trainings, label="Trainings to show", sizing_mode="stretch_width", margin=(8, 12)
        )
        return [self._cards["training"].view, choose]

    def open(self) -> None:
        self.trainings.offer(self._here)
        self.trainings.choose_first()
        self._draw_training()
        super().open()

    def redraw(self) -> None:
        super().redraw()
        self._draw_training()

    def _make_cards(self) -> dict[str, ChartCard]:
        lecture = self.shared.lecture
        return {
            "sweep": ChartCard(
                "Cost of a smaller noise σ²",
                "Points farther up and to the right are harder: κ grows as σ² falls. A cross is a run that did not "
                "converge, an open circle one that still runs or was interrupted. Click a point for its diagnosis.",
                lambda traces, theme: plots.noise_sweep(traces, theme=theme), table=sweep_table, axes=520,
                empty="Nothing to draw yet: Sweep σ² solves the chosen system at every noise by every method that is "
                "ticked, and every run becomes a point, its work and its iterations against κ.",
                lecture=lecture,
            ),
            "training": ChartCard(
                "The noise in a training",
                "Figure 4 of the paper: as σ² falls in a training, CG needs more iterations and alternating "
                "projection does not. A cross is a step whose solve did not converge.",
                lambda traces, theme: plots.training(traces, theme=theme), takes=lambda trace: "step" in trace,
                table=steps_table, axes=520,
                empty="No training is chosen. If there is none yet, start one on the page Training, or put the "
                "authors' published runs (paper_runs.jsonl.gz) into the folder that APVIZ_DATA names.",
                lecture=lecture,
            ),
        }  # fmt: skip

    def _solvers(self, spec: SystemSpec) -> list[Solver]:
        return self.methods.solvers(spec.seed)

    def _noise_factors(self) -> list[float]:
        return self.sweep.factors()

    def _draw_training(self) -> None:
        self.draw_later(card := self._cards["training"], lambda: self._show_training(card))

    def _show_training(self, card: ChartCard) -> None:
        try:
            card.show(self.trainings.open(self._here), self.shared.theme)
        except (ValueError, OSError) as error:
            self._bar.refuse(str(error))


#: Most trainings in one chart.
MAX_TRAININGS = 6
PUBLISHED = "published:"
#: Data sets with published trainings, that of the paper's figure first.
_ORDER = sorted(SEEDS, key=lambda name: name != "airquality")


class TrainingChoice(param.Parameterized):
    """Settings of a chart of trainings: names in the folder, or `published:airquality` for the authors' training."""

    trainings = param.ListSelector(default=[], objects=[], check_on_set=True, label="Trainings")

    def offer(self, here: Trainings) -> None:
        """Offer the trainings in the folder, and remove deleted ones from the choice."""
        published = [f"{PUBLISHED}{name}" for name in _ORDER if published_traces(name)]
        self.param.trainings.objects = [*here.names(), *published]
        self.trainings = [name for name in self.trainings if name in self.param.trainings.objects]

    def choose_first(self) -> None:
        """Choose the newest training, or else the first published one, unless something is chosen."""
        if not self.trainings and self.param.trainings.objects:
            self.trainings = self.param.trainings.objects[:1]

    def open(self, here: Trainings) -> list[Trace]:
        """Return the traces of the chosen trainings.

        Raises:
            FileNotFoundError: A run is missing.
            ValueError: A run does not open.
        """
        found: list[Trace] = []
        for name in self.trainings[:MAX_TRAININGS]:
            found += published_traces(name.removeprefix(PUBLISHED)) if name.startswith(PUBLISHED) else [here.open(name)]
        return found
