"""Interception of calls in another library, in the thread that entered a context."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

#: called as handler(call_next, *args, **kwargs) instead of the function; `call_next` is the intercepted function
Handler = Callable[..., Any]
#: an attribute of a class or a module
Place = tuple[Any, str]


@dataclass
class _Installed:
    original: Callable[..., Any]
    users: int = 0


_lock = threading.Lock()
_installed: dict[Place, _Installed] = {}
# by thread, or asyncio task: the others are not affected
_handlers: ContextVar[Mapping[Place, tuple[Handler, ...]]] = ContextVar("apviz_handlers")


@contextmanager
def intercepted(owner: Any, name: str, handler: Handler) -> Iterator[None]:
    """Replace calls of the function `owner.name` in this thread by calls of `handler`.

    Contexts may be nested: the innermost handler is called first. When the last context of all threads ends, also
    after an exception, the attribute is the original function again.
    """
    place = (owner, name)
    with _lock:
        if place not in _installed:
            original = vars(owner)[name]

            @functools.wraps(original)
            def led(*args: Any, **kwargs: Any) -> Any:
                call = original
                for each in reversed(_handlers.get({}).get(place, ())):
                    call = functools.partial(each, call)
                return call(*args, **kwargs)

            setattr(owner, name, led)
            _installed[place] = _Installed(original)
        installed = _installed[place]
        installed.users += 1
    before = _handlers.get({})
    token = _handlers.set({**before, place: (handler, *before.get(place, ()))})
    try:
        yield
    finally:
        _handlers.reset(token)
        with _lock:
            installed.users -= 1
            if not installed.users:
                setattr(owner, name, installed.original)
                del _installed[place]
