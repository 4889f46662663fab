"""The page Block size: one sweep over b."""

from __future__ import annotations

from typing import ClassVar

from panel.viewable import Viewable

from apviz import plots
from apviz.analysis.sweeps import Over, sweep_table
from apviz.comparison import choose_block_sizes
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.pages.base import Shared
from apviz.dashboard.pages.sweeps.sweep_page import SweepPage
from apviz.dashboard.settings.methods import BlockSizeSweep
from apviz.dashboard.settings.systems import SystemSpec
from apviz.solvers import Solver
from apviz.tracing import Trace


class BlockSize(SweepPage):
    """Page of a sweep over b: epochs, seconds, κ′ and memory, and the curves behind them."""

    name = "block-size"
    title = "Block size"
    over: ClassVar[Over] = "block_size"
    growing: ClassVar[tuple[str, ...]] = ("sweep", "residuals")

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, "Try block sizes")
        self.sweep = BlockSizeSweep()
        self.models = [self.sweep, self.choice]

    def settings(self) -> list[Viewable]:
        s, wide = self.sweep.param, {"sizing_mode": "stretch_width"}
        return [self.fields.add(each, **wide) for each in (s.sizes, s.tol, s.max_epochs)]

    def settings_words(self) -> str:
        sizes = sorted(set(self.sweep.sizes)) or choose_block_sizes(self.shared.system.n)
        return f"{len(sizes)} block sizes, {sizes[-1]:,} … {sizes[0]:,}" if len(sizes) > 1 else f"b = {sizes[0]:,}"

    def advanced(self) -> list[Viewable]:
        return self.sweep.block_panel(self.fields)

    def _aside(self) -> list[Viewable]:
        residuals = self._cards["residuals"].view
        residuals.styles = {"flex": "1 0 auto"}  # as high as the sweep next to it allows
        return [residuals]

    def _make_cards(self) -> dict[str, ChartCard]:
        limit, lecture = self.shared.limits.max_block_gb * 1e9, self.shared.lecture
        return {
            "sweep": ChartCard(
                "Cost of each block size",
                "The ring marks the fastest b that converged, set-up included. A cross is a run that did not "
                "converge, an open circle one that still runs or was interrupted. Click a point for its diagnosis.",
                lambda traces, theme: plots.batch_size_sweep(traces, memory_limit=limit, theme=theme),
                takes=_has_block_size, table=sweep_table,
                empty="Nothing to draw yet. Try block sizes solves the chosen system once for every block size b. "
                "Every run becomes a point: its epochs, seconds, κ′ and memory against b.",
                lecture=lecture,
            ),
            "residuals": ChartCard(
                "Residual by block size", "Small blocks need many updates, which may take longer.",
                lambda traces, theme: plots.batch_sizes(traces, theme=theme), takes=_has_block_size, lecture=lecture,
            ),
        }  # fmt: skip

    def _solvers(self, spec: SystemSpec) -> list[Solver]:
        return self.sweep.solvers(spec.n)


def _has_block_size(trace: Trace) -> bool:
    return trace.block_size is not None
