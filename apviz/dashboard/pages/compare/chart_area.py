"""Places of the charts of page Compare: the first on top, the others below, where they may be hidden."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import panel as pn

from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.components.server_owned import button
from apviz.dashboard.pages.base import HALF
from apviz.dashboard.pages.compare.charts import OF_ONE_RUN
from apviz.plots._style import ThemeName
from apviz.tracing import Trace

#: Name of the chart on top.
FIRST = "residuals"


class ChartArea:
    """Cards of the charts, filled as they are drawn, so that the browser gets the first one soon.

    Args:
        cards: by the names of their charts.
        toggle: a function that shows or hides the charts below the first, called by the button `more`.
    """

    def __init__(self, cards: Mapping[str, ChartCard], toggle: Callable[[], None]) -> None:
        self._first = cards[FIRST]
        self._of_selected = [cards[name] for name in OF_ONE_RUN]
        for card in cards.values():
            card.view.styles = {} if card is self._first else HALF
        wide = {"sizing_mode": "stretch_width"}
        self.top, self.details = pn.Column(**wide), pn.Column(**wide)
        self.of_all, self.of_one_run = (pn.Row(styles={"flex-wrap": "wrap"}, **wide) for _ in range(2))
        self.below = pn.Column(self.details, self.of_all, self.of_one_run, visible=False, **wide)
        self.more = button("", "expand_more", toggle, size="medium", variant="text", margin=(4, 12))

    def show_more(self, more: bool) -> None:
        """Show or hide the charts below the first."""
        self.below.visible = more
        label, icon = ("Less", "expand_less") if more else ("Diagnosis and more charts", "expand_more")
        self.more.param.update(label=label, icon=icon)

    def draw(
        self, card: ChartCard, ended: Sequence[Trace], selected: Trace | None, live: Sequence[Trace], theme: ThemeName
    ) -> None:
        """Draw a chart, and put it into its place.

        Args:
            ended: runs that have ended.
            selected: the run of the charts of one run.
            live: runs that are solving.
        """
        of_one_run = card in self._of_selected
        if of_one_run:
            card.show([selected] if selected is not None else [], theme)
            card.view.visible = bool(card.drawn)
        elif live and card.traces == ended and card.theme == theme:
            card.show_live(live, theme)
        else:
            card.show(ended, theme, live)
        is_first = card is self._first
        place = self.top if is_first else self.of_one_run if of_one_run else self.of_all
        if card.view not in place.objects:
            place.insert(0 if is_first else len(place), card.view)
