"""Access rules, and a server that answers while the dashboard is imported. That takes seconds; this module does not."""

from __future__ import annotations

import ipaddress
import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

#: Most clients that wait until they are accepted.
_WAITING: Final = 128
#: Page that asks again until the dashboard answers.
_PAGE = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>apviz</title>
<link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>
html { background: light-dark(#fff, #14171c); color: light-dark(#1b1f24, #edf0f3) }
body { font: 16px system-ui, sans-serif; margin: 30vh auto; max-width: 24em; padding: 0 1em; text-align: center }
</style>
<main><h1>apviz</h1><p role="status">The dashboard is starting; this page opens it in a few seconds.</p>
<noscript><p>It needs JavaScript.</p></noscript></main>
<script>
async function look() {
  const is_there = await fetch(location.href, { method: "HEAD" }).then((answer) => answer.status !== 503, () => false);
  if (is_there) location.reload(); else setTimeout(look, 250);
}
look();
</script>
"""


class Entrance:
    """Server that answers every request with status 503 and a page that opens the dashboard once it is ready.

    Raises:
        OSError: The port is already in use.
    """

    def __init__(self, address: str, port: int) -> None:
        self._server = _Server(address, port)
        try:
            self._server.server_bind()
            self._server.server_activate()
        except OSError as error:
            self._server.server_close()
            raise OSError(f"{address}:{port} cannot be opened: {error.strerror}; choose another --port") from error
        self._is_open = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def hand_over(self) -> socket.socket:
        """Stop answering, and return the open socket: clients that connect wait until another server accepts them."""
        held = self._server.socket.dup()
        self.close()
        held.setblocking(False)
        return held

    def close(self) -> None:
        """Stop, after answering every client that was accepted."""
        if self._is_open:
            self._is_open = False
            self._server.shutdown()
            self._server.server_close()

    def __enter__(self) -> Entrance:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Answer(BaseHTTPRequestHandler):
    #: Seconds within which a client must send its request.
    timeout = 1

    def do_GET(self) -> None:
        self.send_response(503)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.send_header("Retry-After", "1")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(_PAGE)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing in the terminal."""


class _Server(socketserver.ThreadingTCPServer):
    # Non-daemon threads: closing the server waits for their answers.
    allow_reuse_address, daemon_threads, request_queue_size = True, False, _WAITING

    def __init__(self, address: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), _Answer, bind_and_activate=False)


def check_access(address: str, basic_auth: str | None, no_auth: bool) -> None:
    """Check that an address which other machines can reach has a password or explicitly needs none.

    Raises:
        ValueError: The address has neither, the password is empty or looks like a missing file, or the address is the
            IPv6 loopback.
    """
    if basic_auth is not None:
        _check_password(basic_auth)
    local = is_local(address)
    if not local and not (basic_auth or no_auth):
        raise ValueError(
            f"{address} can be reached by others: choose a password with --basic-auth PASSWORD (or a JSON file of "
            "users), or let everyone connect with --no-auth"
        )
    if local and ":" in address:
        # Bokeh's list of hosts does not support IPv6.
        raise ValueError(f"{address} is not supported for this machine alone; use 127.0.0.1")


def is_local(address: str) -> bool:
    """Return whether only this machine can reach an address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _check_password(given: str) -> None:
    """Reject an empty password, which would admit everyone, and a mistyped file name used as a password."""
    if not given.strip():
        raise ValueError("--basic-auth is empty, so anyone could log in; give a password, or choose --no-auth")
    named_like_a_file = given.lower().endswith(".json") or "/" in given or "\\" in given
    if named_like_a_file and not Path(given).is_file():
        raise ValueError(
            f"--basic-auth: there is no file {given}. Give the path of a JSON file of users and passwords. A password "
            "must not contain / or \\, nor end in .json"
        )
