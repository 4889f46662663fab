"""Components that say what the server says."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import panel_material_ui as pmui
from panel.reactive import Reactive

Component = TypeVar("Component", bound=Reactive)


def one_way(component: Component, heard: Collection[str] = ()) -> Component:
    """A component of which the browser may change only what is `heard`; anything else is sent to it again.

    Panel's React components send back what they were sent. Of two changes within one rendering, as at the end of a
    short solve, the older one comes back, and would stay, in the browser and here. Presses of a button are events, not
    values: they are always heard.
    """
    hear = component._process_events

    def answer(events: dict[str, Any]) -> None:
        hear({name: value for name, value in events.items() if name in heard})
        if again := [name for name in events if name not in heard]:
            component.param.trigger(*again)

    setattr(component, "_process_events", answer)  # noqa: B010 (a method, to a type checker)
    return component


def button(label: str, icon: str, press: Callable[[], None], **look: Any) -> pmui.Button:
    """A button that calls `press`."""
    made = one_way(pmui.Button(label=label, icon=icon, **{"variant": "outlined", "size": "small", **look}))
    made.on_click(lambda event: press())
    return made
