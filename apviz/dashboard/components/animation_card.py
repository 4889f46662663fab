"""A chart that plays the updates of a run as fast as the browser draws them, and its player."""

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

#: Longest wait in seconds for the browser to report a drawing.
DRAWING_SECONDS = 1.0


class Animation(Protocol):
    """Figure with one frame per update: `ResidualMap` and `FittedFunction` of `apviz.plots`."""

    updates: list[int]

    def figure(self, update: int) -> go.Figure:
        """Return the figure after an update."""

    def frame(self, update: int) -> go.Frame:
        """Return the frame with the changes of the figure after another update."""


class AnimationCard(ChartCard):
    """Card around an `Animation` of one trace.

    A frame is sent once the browser has drawn the previous one. Frames requested in between are skipped, except the
    last.
    """

    def __init__(
        self,
        heading: str,
        text: str,
        animation: Callable[[Trace, ThemeName, Sequence[Trace]], Animation],
        *,
        takes: Callable[[Trace], bool],
        table: Callable[[Trace, int], pd.DataFrame],
        axes: int,
        lecture: bool,
    ) -> None:
        self._make, self._takes_trace = animation, takes
        self.animation: Animation | None = None
        #: Animation whose figure is in the chart.
        self._in_chart: Animation | None = None
        self._key: tuple[int, ThemeName, list[int]] | None = None
        self._others: Sequence[Trace] = ()
        self._wanted = self._shown = 0
        self._drawn, self._sent = -1, 0.0
        super().__init__(
            heading, text, self._draw_animation, takes=takes,
            table=lambda traces: table(traces[0], self._shown), axes=axes, lecture=lecture,
        )  # fmt: skip
        self.chart.linked = False

    @property
    def shown(self) -> int:
        """Return the update in the figure."""
        return self._shown

    @property
    def is_drawn(self) -> bool:
        """Return whether the chart shows the run that is open."""
        return self.animation is not None and self._in_chart is self.animation

    def open(self, trace: Trace | None, theme: ThemeName, others: Sequence[Trace] = ()) -> list[int]:
        """Open a run and return the updates that can be shown, without drawing.

        Args:
            others: Runs next to it, with which it shares a colour scale.
        """
        self._others = others
        key = None if trace is None else (id(trace), theme, [id(each) for each in others])
        if key != self._key:
            self._key, self.animation = key, None
            if trace is not None and self._takes_trace(trace):
                self.animation = self._make(trace, theme, others)
        return [] if self.animation is None else self.animation.updates

    def draw(self, trace: Trace | None, theme: ThemeName, update: int) -> None:
        """Draw the whole figure after an update."""
        self.open(trace, theme, self._others)
        self._in_chart = self.animation
        self._wanted = self._shown = self._nearest(update)
        self.show([] if trace is None else [trace], theme)
        self._drawn, self._sent = self.chart.drawn, time.perf_counter()

    def go_to(self, update: int) -> None:
        """Request another update of the same run."""
        self._wanted = self._nearest(update)
        self.advance()

    def advance(self) -> None:
        """Send the requested frame if the browser is ready for it; called repeatedly."""
        if not self.is_drawn or self._wanted == self._shown:
            return
        busy = self.chart.drawn <= self._drawn and time.perf_counter() - self._sent < DRAWING_SECONDS
        if busy:
            return
        self._shown, self._drawn, self._sent = self._wanted, self.chart.drawn, time.perf_counter()
        assert self.animation is not None
        self.chart.show_frame(self.animation.frame(self._shown))

    def describe(self, words: str) -> None:
        """Update the summary and the table; called when the animation is paused."""
        self.chart.summary = f"{self.words()} Shown: {words}."
        self._fill_details()

    def _nearest(self, update: int) -> int:
        """Return the last recorded update up to this one."""
        updates: Sequence[int] = self.animation.updates if self.animation is not None else [0]
        return max((number for number in updates if number <= update), default=updates[0])

    def _draw_animation(self, traces: Sequence[Trace], theme: ThemeName) -> go.Figure:
        assert self.animation is not None
        return self.animation.figure(self._shown)


#: Shortest interval between two updates while playing, in milliseconds.
MIN_INTERVAL_MS = 100


class PlayerBar:
    """Play, pause, step and speed over the recorded updates of a run.

    Args:
        on_update: Called with the update number whenever it changes, even while playing.
        on_pause: Called with the update number when playing stops, and at every manual step.
        on_interval: Called with the new interval in milliseconds.
        interval: Milliseconds between two updates while playing.
    """

    def __init__(
        self,
        on_update: Callable[[int], None],
        on_pause: Callable[[int], None],
        on_interval: Callable[[int], None],
        interval: int,
    ) -> None:
        self._on_update, self._on_pause, self._on_interval = on_update, on_pause, on_interval
        self._updates: Sequence[int] = [0]
        self._setting = False
        self.view = pmui.Player(
            label="Updates", start=0, end=1, value=0, interval=interval, loop_policy="once", show_loop_controls=False,
            sizing_mode="stretch_width", margin=(4, 12), visible=False,
            # The default grey is hard to see in the dark theme.
            sx={"& .MuiIconButton-root:not(.MuiIconButton-colorPrimary)": {"color": "text.primary"}},
        )  # fmt: skip
        self.view.param.watch(self._value_changed, "value")
        self.view.param.watch(self._direction_changed, "direction")
        self.view.param.watch(self._interval_changed, "interval")

    @property
    def update(self) -> int:
        """Return the number of the current update."""
        return self._updates[min(int(self.view.value), len(self._updates) - 1)]

    def show(self, updates: Sequence[int], at: int) -> None:
        """Offer the updates of a run, starting at update `at`; hide the player without a run."""
        self._updates = updates or [0]
        place = max(0, bisect_right(self._updates, at) - 1)
        self._setting = True
        self.view.param.update(
            start=0, end=max(1, len(self._updates) - 1), value=place, direction=0, visible=len(updates) > 1
        )
        self._setting = False

    def has(self, update: int) -> bool:
        """Return whether an update can be shown."""
        return update in self._updates

    def go_to(self, update: int) -> None:
        """Go to an update, if it was recorded."""
        if update in self._updates and update != self.update:
            self._setting = True
            self.view.value = self._updates.index(update)
            self._setting = False

    def _value_changed(self, event: Any) -> None:
        if self._setting:
            return
        self._on_update(self.update)
        if self.view.direction == 0:
            self._on_pause(self.update)

    def _direction_changed(self, event: Any) -> None:
        if event.new == 0 and not self._setting:
            self._on_pause(self.update)

    def _interval_changed(self, event: Any) -> None:
        if event.new < MIN_INTERVAL_MS:
            self.view.interval = MIN_INTERVAL_MS
            return
        self._on_interval(event.new)
