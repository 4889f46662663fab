"""The moment that is marked, in words and as a number that the keyboard can change."""

from __future__ import annotations

from collections.abc import Callable

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.charts.moment import Moment
from apviz.dashboard.one_way import one_way
from apviz.dashboard.pages.compare.moments import words
from apviz.dashboard.plain_text import plain
from apviz.tracing import Trace


class MomentBar:
    """A field for an update of the run that is looked at, and what is marked.

    Args:
        go: called with the update that is asked for; None: no moment.
    """

    def __init__(self, go: Callable[[int | None], None]) -> None:
        look = {"size": "small", "width": 320, "margin": (14, 12, 8, 12), "visible": False}
        self.field = one_way(pmui.IntInput(label="Update", value=None, start=0, **look), heard=["value"])
        self.field.param.watch(lambda event: go(event.new), "value")
        self.words = one_way(pmui.Typography("", variant="body2", margin=(4, 12), visible=False))
        self.view = pn.FlexBox(self.field, self.words, align_items="center", sizing_mode="stretch_width")

    def show(self, trace: Trace | None, moment: Moment | None) -> None:
        """The run that is looked at, and the moment of it that is marked."""
        self.field.visible = trace is not None
        if trace is not None:
            self.field.label = f"Update of {trace.label}"
        self.field.value = None if moment is None else moment.update
        self.words.visible = moment is not None
        if trace is not None and moment is not None:
            self.words.object = plain(words(trace, moment))
