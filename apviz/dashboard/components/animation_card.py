"""A chart that shows one update of a run after another, as fast as the browser draws them.

Play, pause, step and speed over the recorded updates of a run.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pandas as pd
import panel_material_ui as pmui
import plotly.graph_objects as go

from apviz.dashboard.components.chart_card import ChartCard
from apviz.plots._style import ThemeName
from apviz.tracing import Trace

#: seconds after which a drawing that the browser has not reported is not waited for any more
PATIENCE = 1.0


class Film(Protocol):
    """A figure that moves: `ResidualMap` and `FittedFunction` of `apviz.plots`."""

    updates: list[int]

    def figure(self, update: int) -> go.Figure:
        """The figure after an update."""

    def frame(self, update: int) -> go.Frame:
        """What is different in it after another update."""


class FilmCard(ChartCard):
    """A card around a `Film` of one trace.

    A frame is sent when the browser has drawn the one before; those that come in between are left out, never the last.
    """

    def __init__(
        self,
        heading: str,
        text: str,
        film: Callable[[Trace, ThemeName], Film],
        *,
        takes: Callable[[Trace], bool],
        table: Callable[[Trace, int], pd.DataFrame],
        axes: int,
        lecture: bool,
    ) -> None:
        self._make, self._takes_trace = film, takes
        self.film: Film | None = None
        self._key: tuple[int, ThemeName] | None = None
        self._wanted = self._shown = 0
        self._drawn, self._sent = -1, 0.0
        super().__init__(
            heading, text, self._draw_film, takes=takes,
            table=lambda traces: table(traces[0], self._shown), axes=axes, lecture=lecture,
        )  # fmt: skip
        self.chart.linked = False

    def open(self, trace: Trace | None, theme: ThemeName) -> list[int]:
        """Takes a run in hand, and says which updates there are; draws nothing yet."""
        key = None if trace is None else (id(trace), theme)
        if key != self._key:
            self._key, self.film = key, None
            if trace is not None and self._takes_trace(trace):
                self.film = self._make(trace, theme)
        return [] if self.film is None else self.film.updates

    def draw(self, trace: Trace | None, theme: ThemeName, update: int) -> None:
        """The whole figure."""
        self.open(trace, theme)
        self._wanted = self._shown = self._nearest(update)
        self.show([] if trace is None else [trace], theme)
        self._drawn, self._sent = self.chart.drawn, time.perf_counter()

    def look(self, update: int) -> None:
        """Asks for another update of the figure."""
        self._wanted = self._nearest(update)
        self.advance()

    def advance(self) -> None:
        """Sends what is asked for, if the browser is ready for it; called again and again."""
        if self.film is None or self._wanted == self._shown:
            return
        busy = self.chart.drawn <= self._drawn and time.perf_counter() - self._sent < PATIENCE
        if busy:
            return
        self._shown, self._drawn, self._sent = self._wanted, self.chart.drawn, time.perf_counter()
        self.chart.show_frame(self.film.frame(self._shown))

    def rest(self, words: str) -> None:
        """The film stands still: what it shows, in words and as a table."""
        self.chart.summary = f"{self.words()} Shown: {words}."
        self._fill_details()

    def _nearest(self, update: int) -> int:
        """The last recorded update up to this one."""
        updates: Sequence[int] = self.film.updates if self.film is not None else [0]
        return max((number for number in updates if number <= update), default=updates[0])

    def _draw_film(self, traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        assert self.film is not None
        return self.film.figure(self._shown)


#: milliseconds between two updates while playing, at the fastest
FASTEST = 100


class PlayerBar:
    """A player over update numbers.

    Args:
        look: called with the number whenever it changes, also while playing.
        rest: called with the number where playing has stopped, or at every step by hand.
        interval: milliseconds between two updates while playing.
        paced: called with the new interval.
    """

    def __init__(
        self, look: Callable[[int], None], rest: Callable[[int], None], paced: Callable[[int], None], interval: int
    ) -> None:
        self._look, self._rest, self._paced = look, rest, paced
        self._updates: Sequence[int] = [0]
        self._setting = False
        self.view = pmui.Player(
            label="Updates", start=0, end=1, value=0, interval=interval, loop_policy="once", show_loop_controls=False,
            sizing_mode="stretch_width", margin=(4, 12), visible=False,
            # its own grey is hard to see in the dark
            sx={"& .MuiIconButton-root:not(.MuiIconButton-colorPrimary)": {"color": "text.primary"}},
        )  # fmt: skip
        self.view.param.watch(self._moved, "value")
        self.view.param.watch(self._turned, "direction")
        self.view.param.watch(self._sped, "interval")

    @property
    def update(self) -> int:
        """Where it is."""
        return self._updates[min(int(self.view.value), len(self._updates) - 1)]

    def show(self, updates: Sequence[int], at: int) -> None:
        """The numbers of a run, and where to begin; none for no run."""
        self._updates = updates or [0]
        place = max(0, bisect_right(self._updates, at) - 1)
        self._setting = True
        self.view.param.update(
            start=0, end=max(1, len(self._updates) - 1), value=place, direction=0, visible=len(updates) > 1
        )
        self._setting = False

    def has(self, update: int) -> bool:
        """Whether it can be shown."""
        return update in self._updates

    def go(self, update: int) -> None:
        """To a number, if there is such."""
        if update in self._updates and update != self.update:
            self._setting = True
            self.view.value = self._updates.index(update)
            self._setting = False

    def _moved(self, event: Any) -> None:
        if self._setting:
            return
        self._look(self.update)
        if self.view.direction == 0:
            self._rest(self.update)

    def _turned(self, event: Any) -> None:
        if event.new == 0 and not self._setting:
            self._rest(self.update)

    def _sped(self, event: Any) -> None:
        if event.new < FASTEST:
            self.view.interval = FASTEST
            return
        self._paced(event.new)
