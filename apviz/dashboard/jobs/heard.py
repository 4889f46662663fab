"""Warnings of one thread as sentences, while other threads of the server warn too."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_of_thread = threading.local()


class _Listeners:
    """The threads that listen, and what `warnings` did before the first of them."""

    def __init__(self) -> None:
        self._lock, self._count = threading.Lock(), 0
        self._before: warnings.catch_warnings[Any] | None = None
        self._show: Callable[..., Any] = warnings.showwarning

    def enter(self) -> None:
        with self._lock:
            if self._before is None:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                self._show, warnings.showwarning = warnings.showwarning, self._hear
                warnings.simplefilter("always")
            self._count += 1

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if self._before is not None and not self._count:
                self._before.__exit__(None, None, None)
                self._before = None

    def _hear(self, message: Warning | str, *how: Any, **more: Any) -> None:
        heard = getattr(_of_thread, "heard", None)
        if heard is None:
            self._show(message, *how, **more)
        else:
            # slices warn again, with other numbers
            heard.setdefault(re.sub(r"\d[\d.,e+−-]*", "", str(message)), str(message))


_listeners = _Listeners()


@contextmanager
def heard_warnings() -> Iterator[Callable[[], list[str]]]:
    """Yield a function that returns the warnings of this thread; those of other threads go where they went.

    A warning that repeats with other numbers counts once. `warnings.catch_warnings` alone would take the warnings
    of all threads, and two of them at once would not undo each other.
    """
    heard: dict[str, str] = {}
    _listeners.enter()
    _of_thread.heard = heard
    try:
        yield lambda: list(heard.values())
    finally:
        del _of_thread.heard
        _listeners.leave()
