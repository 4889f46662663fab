"""The server that answers before the dashboard is ready."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from apviz.dashboard.entrance import Entrance
from tests.ports import free_port


def test_it_answers_until_it_closes_and_frees_the_port():
    port = free_port()
    with Entrance("127.0.0.1", port) as entrance:
        with pytest.raises(urllib.error.HTTPError) as answer:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/?page=compare")
        assert answer.value.code == 503 and "The dashboard is starting" in answer.value.read().decode()
        entrance.close()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
    with socket.socket() as again:
        assert again.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_in_use_is_rejected_with_a_remedy():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port} cannot be opened: .* choose another --port"):
            Entrance("127.0.0.1", port)


def test_no_slow_module_is_imported_before_it_listens():
    code = (
        "import sys, apviz.cli, apviz.dashboard.entrance\n"
        "print(*(name for name in ('torch', 'panel', 'bokeh', 'pandas', 'numpy', 'plotly') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_client_that_connects_after_it_has_handed_over_is_answered_by_the_next_server():
    port = free_port()
    with Entrance("127.0.0.1", port) as entrance:
        held = entrance.hand_over()
    with held, socket.create_connection(("127.0.0.1", port), timeout=10) as waiting:
        waiting.sendall(b"hello")
        held.setblocking(True)
        accepted, _ = held.accept()
        with accepted:
            assert accepted.recv(5) == b"hello"
            accepted.sendall(b"welcome")
        assert waiting.recv(100) == b"welcome"
