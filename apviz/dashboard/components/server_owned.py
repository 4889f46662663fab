"""Components that show what the server says: of what they hold, the browser changes nothing, or what is named."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import panel_material_ui as pmui
from panel.reactive import Reactive

Component = TypeVar("Component", bound=Reactive)


def server_owned(component: Component, editable: Collection[str] = ()) -> Component:
    """Component of which the browser may change only the `editable` parameters; any other is sent to it again.

    Panel's React components send back what they were sent. Of two changes within one rendering, as at the end of a
    short solve, the older one comes back, and would stay, in the browser and here. Presses of a button are events, not
    values: they always reach the server. Whether the page is dark is the browser's: sent back as it was, one component
    would make the whole page light again.
    """
    process, of_the_browser = component._process_events, {*editable, "dark_theme"}

    def accept(events: dict[str, Any]) -> None:
        process({name: value for name, value in events.items() if name in of_the_browser})
        if again := [name for name in events if name not in of_the_browser]:
            component.param.trigger(*again)

    setattr(component, "_process_events", accept)  # noqa: B010 (a method, to a type checker)
    return component


def button(label: str, icon: str, press: Callable[[], None], **look: Any) -> pmui.Button:
    """Button that calls `press`."""
    made = server_owned(pmui.Button(label=label, icon=icon, **{"variant": "outlined", "size": "small", **look}))
    made.on_click(lambda event: press())
    return made
