"""Components whose values the server owns: the browser may change only the named parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import panel_material_ui as pmui
from panel.reactive import Reactive

Component = TypeVar("Component", bound=Reactive)


def server_owned(component: Component, editable: Collection[str] = ()) -> Component:
    """Let the browser change only the `editable` parameters of a component; send it the others again.

    Panel's React components send back the values that they receive. After two changes within one rendering, as at the
    end of a short solve, the older value would return and stay, in the browser and here. Button presses are events, not
    values, and always reach the server. The browser owns `dark_theme`: a single component with the old value would make
    the whole page light again.
    """
    process, of_the_browser = component._process_events, {*editable, "dark_theme"}

    def accept(events: dict[str, Any]) -> None:
        process({name: value for name, value in events.items() if name in of_the_browser})
        if again := [name for name in events if name not in of_the_browser]:
            component.param.trigger(*again)

    setattr(component, "_process_events", accept)  # noqa: B010 (a method, to a type checker)
    return component


def appear(component: Component, **values: Any) -> None:
    """Set values of a component, then show it.

    Panel would show it first, and a component that the browser is building misses a change of its text.
    """
    component.param.update(**values)
    component.visible = True


def join_once_shown(parent: Any, component: Component, before: Reactive) -> None:
    """Put a component into its parent once it is shown, because browsers draw hidden ones too."""

    def join(*events: object) -> None:
        if component.visible and component not in parent.objects:
            parent.insert(parent.index(before), component)

    component.param.watch(join, "visible")
    join()


def button(label: str, icon: str, press: Callable[[], None], **look: Any) -> pmui.Button:
    """Return a button that calls `press`."""
    made = server_owned(pmui.Button(label=label, icon=icon, **{"variant": "outlined", "size": "small", **look}))
    made.on_click(lambda event: press())
    return made
