"""Errors in the log of a Jupyter server."""

from __future__ import annotations

from tests.notebooks.lab import troubles_in

QUIET = "[I 2026-01-01 10:00:00.000 ServerApp] Kernel started: a\n"
ENDED = """Task exception was never retrieved
future: <Task finished coro=<wrapper()>>
Traceback (most recent call last):
  File "websocket.py", line 1, in wrapper
tornado.iostream.StreamClosedError: Stream is closed

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "websocket.py", line 2, in wrapper
tornado.websocket.WebSocketClosedError
"""
OURS = """[IPKernelApp] ERROR | Exception in message handler:
Traceback (most recent call last):
  File "apviz/widgets/lesson.py", line 1, in draw
ValueError: no
"""


def test_a_departed_browser_is_not_an_error_and_a_following_error_is_reported_completely():
    assert troubles_in(QUIET + ENDED + QUIET) == []
    assert troubles_in(QUIET + ENDED + OURS + QUIET) == [OURS]
    assert troubles_in(QUIET + OURS + ENDED) == [OURS]


def test_an_error_line_of_the_server_is_reported():
    line = "[E 2026-01-01 10:00:00.000 ServerApp] no such extension\n"
    assert troubles_in(QUIET + line + QUIET) == [line]
