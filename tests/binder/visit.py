"""One visitor of Binder: Jupyter in the image, with an address and a token as given by Binder."""

from __future__ import annotations

import json
import os
import secrets
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import requests
import websocket

from tests.binder.image import Image
from tests.ports import free_port, wait_until

BASE = "/user/someone/"
#: timeout of any step, in seconds
PATIENCE = 180
#: seconds between two measurements of the memory
LOOK = 0.5


class Visit:
    """A running session.

    Attributes:
        url: without the token.
        peak: bytes of all its processes together, at most; what they share counts once.
    """

    def __init__(self, image: Image, command: Sequence[str] = ("jupyter", "lab")) -> None:
        port = free_port()
        self.image, self.token, self.peak = image, secrets.token_hex(), 0
        self.host = f"127.0.0.1:{port}"
        self.url = f"http://{self.host}{BASE}"
        self.log = image.home.parent / f"{port}.log"
        # the arguments of BinderHub's spawner, but listening on this machine only, not on the container's interface
        settings = [f"--port={port}", "--ip=127.0.0.1", "--no-browser", f"--ServerApp.base_url={BASE}",
                    f"--ServerApp.token={self.token}", "--ServerApp.trust_xheaders=True"]  # fmt: skip
        root = ["--allow-root"] if os.geteuid() == 0 else []
        self.process = image.start([*command, *settings, *root], self.log)
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        wait_until(self._answers, self.process, self.said, PATIENCE)

    def said(self) -> str:
        """Return the output of its processes."""
        return self.log.read_text("utf-8", errors="replace")

    def end(self) -> None:
        """End all processes at once, like a container."""
        self._over.set()
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait()

    def processes(self) -> list[psutil.Process]:
        """Return Jupyter and all its descendants."""
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self.process.pid)
            return [first, *first.children(recursive=True)]
        return []

    def dashboard(self) -> psutil.Process:
        """Return the process behind the proxy."""
        (found,) = [each for each in self.processes() if "dashboard" in each.cmdline()]
        return found

    def memory(self) -> int:
        """Return the memory of all processes, in bytes."""
        total = 0
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                total += each.memory_full_info().pss
        return total

    def address(self, path: str) -> str:
        """Return a link like those of Binder."""
        return f"{self.url}{path}{'&' if '?' in path else '?'}token={self.token}"

    def get(self, path: str, *, method: str = "GET", token: bool = True, **options: Any) -> requests.Response:
        """Request an address without following redirects."""
        headers = {"Authorization": f"token {self.token}"} if token else {}
        return requests.request(
            method, self.url + path, headers=headers, timeout=PATIENCE, allow_redirects=False, **options
        )

    def wait_for_dashboard(self) -> requests.Response:
        """Wait for the page of the dashboard; until then, another page says that it is starting."""
        deadline = time.monotonic() + PATIENCE
        while (answer := self.get("apviz/")).status_code == 503:
            assert "The dashboard is starting" in answer.text and time.monotonic() < deadline, self.said()
            time.sleep(0.2)
        assert answer.status_code == 200, self.said()
        return answer

    def connect(self, path: str, *, origin: str | None = None, token: bool = True, **options: Any) -> Any:
        """Open a websocket like a page at `origin`."""
        return websocket.create_connection(
            f"ws://{self.host}{BASE}{path}", timeout=PATIENCE, origin=origin or f"http://{self.host}",
            header=[f"Authorization: token {self.token}"] if token else [], **options,
        )  # fmt: skip

    def document(self, session_token: str, padding: int = 0) -> dict[str, Any]:
        """Request the document of the dashboard like Bokeh's client, with messages padded by spaces."""
        line = self.connect("apviz/ws", subprotocols=["bokeh", session_token])
        try:
            assert _read(line)[0]["msgtype"] == "ACK"
            for part in ({"msgid": uuid.uuid4().hex, "msgtype": "PULL-DOC-REQ"}, {}, {}):
                line.send(json.dumps(part) + padding * " ")
            header, content = _read(line)
            assert header["msgtype"] == "PULL-DOC-REPLY", header
            return dict(content["doc"])
        finally:
            line.close()

    @contextmanager
    def kernel(self) -> Iterator[Kernel]:
        """Start the kernel of a notebook like JupyterLab."""
        started = self.get("api/kernels", method="POST", json={"name": "python3", "path": "notebooks"})
        assert started.status_code == 201, started.text
        path = f"api/kernels/{started.json()['id']}"
        line = self.connect(f"{path}/channels")
        try:
            yield Kernel(line)
        finally:
            line.close()
            self.get(path, method="DELETE")

    def _answers(self) -> bool:
        try:
            return self.get("api/status").ok
        except requests.ConnectionError:
            return False

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            self.peak = max(self.peak, self.memory())


class Kernel:
    """The kernel of a notebook."""

    def __init__(self, line: Any) -> None:
        self._line = line

    def run(self, code: str) -> str:
        """Run a cell, and return its output.

        Raises:
            RuntimeError: the cell fails.
        """
        number, printed, found = uuid.uuid4().hex, "", None
        header = {"msg_id": number, "msg_type": "execute_request", "session": number, "username": "", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self._line.send(json.dumps(message))
        idle = False
        while not (idle and found):
            answer = _unpack(self._line.recv())
            if answer["parent_header"].get("msg_id") != number:
                continue
            kind, said = answer["header"]["msg_type"], answer["content"]
            idle = idle or (kind == "status" and said["execution_state"] == "idle")
            printed += said["text"] if kind == "stream" else ""
            found = said if kind == "execute_reply" else found
        if found["status"] != "ok":
            raise RuntimeError("\n".join(found.get("traceback", [found["status"]])))
        return printed


def _unpack(received: str | bytes) -> dict[str, Any]:
    """Unpack a message of a kernel; if it has buffers, it starts with their number and offsets."""
    if isinstance(received, bytes):
        begin, end = struct.unpack_from("!2I", received, 4)
        received = received[begin:end]
    return dict(json.loads(received))


def _read(line: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and content of the next message of Bokeh's protocol, without its buffers."""
    header, _, content = (json.loads(line.recv()) for _ in range(3))
    for _ in range(2 * header.get("num_buffers", 0)):
        line.recv()
    return header, content
