"""The small buttons of the page Runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui

from apviz.dashboard.one_way import one_way


def button(label: str, icon: str, press: Callable[[], None], **look: Any) -> pmui.Button:
    """A button that calls `press`."""
    made = one_way(pmui.Button(label=label, icon=icon, **{"variant": "outlined", "size": "small", **look}))
    made.on_click(lambda event: press())
    return made
