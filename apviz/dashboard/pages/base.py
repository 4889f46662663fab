"""What a page is."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import param
from panel.viewable import Viewable

from apviz.dashboard.session import Shared

#: while a solve runs, drawing takes at most one part in so many of the server's time
DRAWING_SHARE = 4


class Page(ABC):
    """A page of one session; everything it shows belongs to that session alone."""

    #: in the address
    name: ClassVar[str]
    #: on the tab
    title: ClassVar[str]

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        #: settings that belong into the address, beside those of the session
        self.models: Sequence[param.Parameterized] = ()
        self._to_draw: dict[int, Callable[[], None]] = {}
        self._next_drawing = 0.0

    @abstractmethod
    def sidebar(self) -> list[Viewable]:
        """The settings."""

    @abstractmethod
    def main(self) -> Viewable:
        """Everything else."""

    @abstractmethod
    def redraw(self) -> None:
        """Draws all charts anew: the theme has changed."""

    def open(self) -> None:
        """The visitor came to this page."""

    def tick(self) -> None:
        """Some times a second, while the page is shown."""
        self.draw_next()

    def draw_later(self, key: object, draw: Callable[[], None]) -> None:
        """Draws when it is this drawing's turn; one that waits under the same key is not needed any more."""
        self._to_draw[id(key)] = draw

    def draw_next(self) -> None:
        """One drawing a tick; with pauses between them while something is solved, so that it keeps its processor."""
        if not self._to_draw or time.perf_counter() < self._next_drawing:
            return
        draw = self._to_draw.pop(next(iter(self._to_draw)))
        started = time.perf_counter()
        draw()
        now = time.perf_counter()
        pause = (DRAWING_SHARE - 1) * (now - started) if self.shared.gate.is_used else 0.0
        self._next_drawing = now + pause
