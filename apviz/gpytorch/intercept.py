"""Calls of another library, led through apviz while a context asks for it, in the thread that entered it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

#: called as handler(call_next, *args, **kwargs) in place of the function; `call_next` is what it stands before
Handler = Callable[..., Any]
#: an attribute of a class or a module
Place = tuple[Any, str]


@dataclass
class _Installed:
    original: Callable[..., Any]
    users: int = 0


_lock = threading.Lock()
_installed: dict[Place, _Installed] = {}
# by thread, or asyncio task: the others go on as if nothing were here
_handlers: ContextVar[Mapping[Place, tuple[Handler, ...]]] = ContextVar("apviz_handlers")


@contextmanager
def intercepted(owner: Any, name: str, handler: Handler) -> Iterator[None]:
    """Leads the calls of the function `owner.name` that this thread makes through `handler`.

    Contexts may be nested: the innermost handler is called first. When the last context in any thread is left, also
    by an exception, the attribute is again the function that was there.
    """
    place = (owner, name)
    _install(place)
    before = _handlers.get({})
    token = _handlers.set({**before, place: (handler, *before.get(place, ()))})
    try:
        yield
    finally:
        _handlers.reset(token)
        _restore(place)


def _install(place: Place) -> None:
    owner, name = place
    with _lock:
        if place not in _installed:
            original = vars(owner)[name]

            @functools.wraps(original)
            def led(*args: Any, **kwargs: Any) -> Any:
                call = original
                for handler in reversed(_handlers.get({}).get(place, ())):
                    call = functools.partial(handler, call)
                return call(*args, **kwargs)

            setattr(owner, name, led)
            _installed[place] = _Installed(original)
        _installed[place].users += 1


def _restore(place: Place) -> None:
    owner, name = place
    with _lock:
        found = _installed[place]
        found.users -= 1
        if not found.users:
            setattr(owner, name, found.original)
            del _installed[place]
