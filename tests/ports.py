"""Servers that tests start: a port for each, and waiting until it answers."""

from __future__ import annotations

import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from time import monotonic, sleep


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def status_of(url: str) -> int:
    """Return the HTTP status with which a server answers, or 0 if nobody listens."""
    try:
        with urllib.request.urlopen(url) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError:
        return 0


def opens(url: str) -> bool:
    """Test whether a server answers with what was asked for."""
    return status_of(url) == 200


def wait_until(
    answers: Callable[[], bool], process: subprocess.Popen[bytes], said: Callable[[], str], patience: float
) -> None:
    """Wait up to `patience` seconds for a process; fail with what it `said` if it ends or never answers."""
    until = monotonic() + patience
    while not answers():
        assert process.poll() is None and monotonic() < until, said()
        sleep(0.1)
