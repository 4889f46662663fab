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


def opens(url: str) -> bool:
    """Test whether a server answers."""
    try:
        urllib.request.urlopen(url).close()
    except urllib.error.URLError:
        return False
    return True


def wait_until(
    answers: Callable[[], bool], process: subprocess.Popen[bytes], said: Callable[[], str], patience: float
) -> None:
    """Wait up to `patience` seconds for a process; fail with what it `said` if it ends or never answers."""
    until = monotonic() + patience
    while not answers():
        assert process.poll() is None and monotonic() < until, said()
        sleep(0.1)
