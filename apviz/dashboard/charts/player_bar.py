"""Play, pause, step and speed over the recorded updates of a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import panel_material_ui as pmui

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
