"""A proxy in front of the dashboard that serves it below a prefix, like nginx or jupyter-server-proxy."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tornado.web
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.websocket import WebSocketHandler, websocket_connect

#: Prefix that the proxy strips.
PREFIX = "/user/ada/proxy/5006/"
#: Headers of one connection, which a proxy does not pass on.
_OF_CONNECTION = ("Connection", "Upgrade", "Transfer-Encoding", "Content-Length")


class Proxy(WebSocketHandler):
    """Requests and WebSockets for the dashboard at `port`, under the host that visitors see or its own."""

    def initialize(self, port: int, keeps_host: bool) -> None:
        self.port, self.keeps_host = port, keeps_host

    def _passed(self, scheme: str, **more: Any) -> HTTPRequest:
        headers = {
            name: value for name, value in self.request.headers.get_all()
            if name not in _OF_CONNECTION and not name.startswith("Sec-Websocket")
        }  # fmt: skip
        if not self.keeps_host:
            headers["Host"] = f"127.0.0.1:{self.port}"
        # still quoted, unlike the groups of the rule
        path = (self.request.uri or "").removeprefix(PREFIX)
        return HTTPRequest(f"{scheme}://127.0.0.1:{self.port}/{path}", headers=headers, **more)

    async def get(self) -> None:
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            asked = self.request.headers.get("Sec-WebSocket-Protocol", "")
            protocols = [each.strip() for each in asked.split(",") if each.strip()]
            request = self._passed("ws")
            self.line = await websocket_connect(request, subprotocols=protocols, max_message_size=10**9)
            await super().get()
        else:
            await self.post()

    async def post(self) -> None:
        method = self.request.method or "GET"
        request = self._passed(
            "http", method=method, body=self.request.body if method == "POST" else None, follow_redirects=False,
            allow_nonstandard_methods=True,
        )  # fmt: skip
        answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        self.clear_header("Content-Type")
        self.set_status(answer.code)
        for name in ("Location", "Set-Cookie", "Content-Type", "Content-Disposition"):
            for value in answer.headers.get_list(name):
                self.add_header(name, value)
        self.finish(answer.body or None)

    head = options = post

    def check_origin(self, origin: str) -> bool:
        return True

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return self.line.selected_subprotocol

    async def on_message(self, message: str | bytes) -> None:
        await self.line.write_message(message, binary=isinstance(message, bytes))

    def open(self) -> None:
        self.answers = asyncio.create_task(self._pass_answers())

    async def _pass_answers(self) -> None:
        while (message := await self.line.read_message()) is not None:
            await self.write_message(message, binary=isinstance(message, bytes))
        self.close()

    def on_close(self) -> None:
        self.line.close()


def listening(port: int, own: int = 0, *, keeps_host: bool) -> tuple[HTTPServer, str]:
    """Start a proxy at port `own` of the dashboard at `port`, in the running event loop; return it and its address."""
    rule = (f"{PREFIX}.*", Proxy, {"port": port, "keeps_host": keeps_host})
    front = HTTPServer(tornado.web.Application([rule], websocket_max_message_size=10**9))
    front.listen(own, "127.0.0.1")
    (own,) = {each.getsockname()[1] for each in front._sockets.values()}
    return front, f"http://127.0.0.1:{own}{PREFIX}"


@contextmanager
def proxied(port: int, own: int) -> Iterator[str]:
    """Run a proxy at port `own` of the dashboard at `port`, in a thread of its own; yield its address."""
    addresses, loop = queue.Queue[str](), asyncio.new_event_loop()

    async def start() -> None:
        addresses.put(listening(port, own, keeps_host=False)[1])

    def run() -> None:
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield addresses.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
