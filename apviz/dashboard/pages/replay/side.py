"""One of the solves on the page Replay: pictures that play, and charts that mark the update shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from apviz.analysis import geometry
from apviz.dashboard.components.animation_card import AnimationCard
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.components.cursor import Cursor, clicked_cursor, cursor_at
from apviz.dashboard.components.solve_cards import norms_card, timeline_card
from apviz.plots._style import ThemeName
from apviz.plots.blocks._snapshots import step
from apviz.plots.blocks.fitted_function import FittedFunction
from apviz.plots.blocks.residual_map import ResidualMap
from apviz.tracing import Trace

#: What two solves have in common at the same moment.
Measure = Literal["work", "seconds", "update"]


class Side:
    """Charts of one solve at one of its updates.

    Args:
        go: Called with the number of an update that was clicked.

    Attributes:
        trace: The solve; None for none.
        update: The update that was asked for.
        pictures: Cards that play.
        marked: Cards with a line at the update, by their names.
    """

    def __init__(self, go: Callable[[int], None], *, lecture: bool) -> None:
        self._go = go
        self.trace: Trace | None = None
        self.update = 0
        self.map, self.function = map_card(lecture=lecture), function_card(lecture=lecture)
        self.pictures = [self.map, self.function]
        self.marked: dict[str, ChartCard] = {
            "timeline": timeline_card("One mark per update; its colour is the energy removed. Click one to show it.",
                                      lecture),
            "blocks": norms_card("Residual norm of every block after every epoch. Click an epoch to show it.", lecture),
        }  # fmt: skip
        for name, card in self.marked.items():
            card.chart.param.watch(lambda event, name=name: self._clicked(name, event.new), "clicked")

    @property
    def cards(self) -> list[ChartCard]:
        """Return all cards, in their order on the page."""
        return [*self.pictures, *self.marked.values()]

    @property
    def cursor(self) -> Cursor | None:
        """Return the cursor at the update."""
        return cursor_at(self.trace, self.update)

    def open(self, trace: Trace | None, theme: ThemeName, others: Sequence[Trace] = ()) -> list[int]:
        """Open a solve, or none, without drawing; return the updates that have pictures.

        Args:
            others: Solves next to it, whose maps have the same colour scale.

        Raises:
            ValueError: No recorded residual is finite.
        """
        self.trace = None
        self._show_cards()
        updates = self.map.open(trace, theme, others)
        self.trace = trace
        self._show_cards()
        return updates

    def _show_cards(self) -> None:
        for card in self.cards:
            card.view.visible = self.trace is not None and card.takes(self.trace)

    def drawings(self, theme: ThemeName) -> Iterator[tuple[ChartCard, Callable[[], None]]]:
        """Yield the visible cards, each with the function that draws it."""
        for picture in self.pictures:
            if picture.view.visible:
                yield picture, lambda card=picture: self._draw(card, theme)  # type: ignore[misc]
        for card in self.marked.values():
            if card.view.visible and self.trace is not None:
                yield card, lambda card=card, trace=self.trace: card.show([trace], theme)  # type: ignore[misc]

    def _draw(self, card: AnimationCard, theme: ThemeName) -> None:
        card.draw(self.trace, theme, self.update)
        self.describe()

    def go_to(self, update: int) -> None:
        """Show another update, or the last one before it that has a picture."""
        self.update = update
        for card in self.pictures:
            if card.view.visible:
                card.go_to(update)

    def advance(self) -> None:
        """Send requested frames, and move the lines; called several times a second."""
        for card in self.pictures:
            card.advance()
        cursor = self.cursor
        for each in self.marked.values():
            at = [] if cursor is None else [cursor.x(each.x_unit())]
            if each.chart.cursor != at:
                each.chart.cursor = at

    def describe(self) -> None:
        """Put the update that is shown into the summaries and tables of the pictures; called when paused."""
        for card in self.pictures:
            if self.trace is not None and card.view.visible and card.is_drawn:
                card.describe(step(self.trace, card.shown)[1])

    def why_earlier(self) -> str:
        """Return a sentence if the picture is of an earlier update than was asked for; empty otherwise."""
        if self.trace is None or self.map.animation is None or self.update <= (last := self.map.animation.updates[-1]):
            return ""
        return (
            f"The pictures of {self.trace.method_name} end with update {last:,}. It has made {self.update:,} updates "
            "by now, which its other charts mark."
        )

    def _clicked(self, name: str, point: dict[str, Any]) -> None:
        if self.trace is None:
            return
        found = clicked_cursor(name, point, self.marked[name].drawn, {"": self.trace})
        if found is not None:
            self._go(found[1].update)


def matching_update(trace: Trace, other: Trace, update: int, measure: Measure) -> int:
    """Return the last update of a solve that has at most the work, seconds or number of an update of another solve."""
    cursor, updates = cursor_at(other, update), trace["update"]
    # equal sums of work may differ in their last digit
    most = 0.0 if cursor is None else cursor.x(measure) * (1 + 1e-9)
    count = int(np.searchsorted(updates[measure].values, most, side="right"))
    return int(updates["update"][count - 1]) if count else 0


def map_card(*, lecture: bool) -> AnimationCard:
    """Return the card of the residual over the rows."""
    return AnimationCard(
        "Where the residual is",
        "Red and blue: the residual of the target, white: none. Marked: the rows of this update's block, as one region "
        "or scattered dots. Overlapping blocks also solve on a hatched margin.",
        lambda trace, theme, others: ResidualMap(trace, compared_with=others, theme=theme),
        takes=lambda trace: "rows" in trace and "snapshot" in trace, table=rows_table, axes=460, lecture=lecture,
    )  # fmt: skip


def function_card(*, lecture: bool) -> AnimationCard:
    """Return the card of the function, which is drawn over one input."""
    return AnimationCard(
        "The function so far",
        "Every update adds a combination of kernels at the rows of its block. Thin: the function before it.",
        lambda trace, theme, others: FittedFunction(trace, theme=theme), takes=has_function, table=function_table,
        axes=400, lecture=lecture,
    )  # fmt: skip


def has_function(trace: Trace) -> bool:
    """Return whether the function of a run can be drawn."""
    return trace.attrs["d"] == 1 and "snapshot" in trace and "weights" in trace["snapshot"]


def rows_table(trace: Trace, update: int) -> pd.DataFrame:
    """Return a table of every row with its block and its residual after an update."""
    rows, snapshot = trace["rows"], trace["snapshot"]
    columns = {f"input {k}": values for k, values in enumerate(rows["coordinates"].values.T, start=1)}
    if "owner" in rows:
        columns["block"] = rows["owner"].values
    place = int(np.flatnonzero(snapshot["update"].values == update)[0])
    columns |= {"target": rows["target"].values} if "target" in rows else {}
    columns[f"residual after update {update}"] = snapshot["residual"].values[place]
    return pd.DataFrame(columns).rename_axis("row").reset_index()


def function_table(trace: Trace, update: int) -> pd.DataFrame:
    """Return a table of the function after an update, on its grid."""
    found = geometry.functions(trace)
    place = int(np.flatnonzero(found["update"].values == update)[0])
    return pd.DataFrame({"x": found["x"].values, f"s after update {update}": found["value"].values[place]})
