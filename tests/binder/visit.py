"""One visitor of Binder: Jupyter in the image, behind an address and a token as Binder gives them."""

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
#: seconds that anything may take
PATIENCE = 180
#: seconds between two looks at the memory
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
        """What its processes wrote."""
        return self.log.read_text("utf-8", errors="replace")

    def end(self) -> None:
        """As a container is ended: all its processes at once."""
        self._over.set()
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait()

    def processes(self) -> list[psutil.Process]:
        """Jupyter, and everything it started."""
        with suppress(psutil.NoSuchProcess):
            first = psutil.Process(self.process.pid)
            return [first, *first.children(recursive=True)]
        return []

    def dashboard(self) -> psutil.Process:
        """The process behind the proxy."""
        (found,) = [each for each in self.processes() if "dashboard" in each.cmdline()]
        return found

    def memory(self) -> int:
        """Bytes of all processes now."""
        total = 0
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                total += each.memory_full_info().pss
        return total

    def address(self, path: str) -> str:
        """A link as Binder gives it."""
        return f"{self.url}{path}{'&' if '?' in path else '?'}token={self.token}"

    def get(self, path: str, *, method: str = "GET", token: bool = True, **options: Any) -> requests.Response:
        """The answer itself, wherever it leads."""
        headers = {"Authorization": f"token {self.token}"} if token else {}
        return requests.request(
            method, self.url + path, headers=headers, timeout=PATIENCE, allow_redirects=False, **options
        )

    def wait_for_dashboard(self) -> requests.Response:
        """Its page, once it is there; until then another says that it is starting."""
        deadline = time.monotonic() + PATIENCE
        while (answer := self.get("apviz/")).status_code == 503:
            assert "The dashboard is starting" in answer.text and time.monotonic() < deadline, self.said()
            time.sleep(0.2)
        assert answer.status_code == 200, self.said()
        return answer

    def connect(self, path: str, *, origin: str | None = None, token: bool = True, **options: Any) -> Any:
        """A websocket, opened as the page at `origin` would."""
        return websocket.create_connection(
            f"ws://{self.host}{BASE}{path}", timeout=PATIENCE, origin=origin or f"http://{self.host}",
            header=[f"Authorization: token {self.token}"] if token else [], **options,
        )  # fmt: skip

    def document(self, session_token: str, padding: int = 0) -> dict[str, Any]:
        """What the dashboard's page draws, asked for as Bokeh's client in the browser does, in so long a message."""
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
        """A notebook's kernel, as JupyterLab starts it."""
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
    """The Python behind a notebook."""

    def __init__(self, line: Any) -> None:
        self._line = line

    def run(self, code: str) -> str:
        """What a cell prints.

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
    """A message of a kernel; one with buffers has a table of places first: how many, and where each begins."""
    if isinstance(received, bytes):
        begin, end = struct.unpack_from("!2I", received, 4)
        received = received[begin:end]
    return dict(json.loads(received))


def _read(line: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and content of the next message of Bokeh's protocol; its buffers are left out."""
    header, _, content = (json.loads(line.recv()) for _ in range(3))
    for _ in range(2 * header.get("num_buffers", 0)):
        line.recv()
    return header, content
