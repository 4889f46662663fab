"""When the charts of the page Training are drawn, and the line in them at the step that is looked at."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from apviz.dashboard.charts.chart_card import ChartCard
from apviz.dashboard.pages.base import HALF
from apviz.dashboard.pages.shared import Shared
from apviz.dashboard.pages.training.figures import OF_ALL_STEPS, training_cards
from apviz.dashboard.pages.training.solves import Solves
from apviz.dashboard.pages.training.watched import Watched


class TrainingCharts:
    """The charts of all steps, and the one of the solve of a step.

    Args:
        look_at: called with the step that is clicked.
        draw_later: the page's.
    """

    def __init__(
        self,
        shared: Shared,
        watched: Watched,
        solves: Solves,
        look_at: Callable[[int], None],
        draw_later: Callable[[object, Callable[[], None]], None],
    ) -> None:
        self._shared, self._watched, self._solves = shared, watched, solves
        self._look_at, self._draw_later = look_at, draw_later
        self.cards = training_cards(lecture=shared.lecture)
        for card in self.cards.values():
            card.view.styles = HALF
        self._of_all_steps = [self.cards[name] for name in OF_ALL_STEPS]
        for card in self._of_all_steps:
            card.chart.param.watch(lambda event: self._clicked(event.new), "clicked")

    def draw_steps(self) -> None:
        """There are more of them, or others."""
        for card in self._of_all_steps:
            self._draw_later(card, partial(self._draw_steps, card))

    def show_step(self) -> None:
        """Another step is looked at, or there is no training."""
        for card in self.cards.values():
            card.view.visible = self._watched.trace is not None
        for card in self._of_all_steps:
            self._mark(card)
        self.draw_solve()

    def draw_solve(self) -> None:
        """There is more of the solve, or another."""
        self._draw_later(self.cards["solve"], self._draw_solve)

    def _draw_steps(self, card: ChartCard) -> None:
        trace = self._watched.trace
        card.show([] if trace is None else [trace], self._shared.theme)
        self._mark(card)

    def _mark(self, card: ChartCard) -> None:
        step = None if self._watched.follows else self._watched.step
        card.chart.moment = [] if step is None else [float(step)]

    def _draw_solve(self) -> None:
        card, live = self.cards["solve"], self._solves.live
        solves = [] if live is not None and self._watched.follows else self._solves.kept
        card.show(solves, self._shared.theme, live)
        card.view.visible = bool(solves) or live is not None

    def _clicked(self, point: dict[str, Any]) -> None:
        if self._watched.trace is not None and point.get("x") is not None:
            self._look_at(round(point["x"]))
