"""A browser tab as seen by the server: the page by HTTP, then a WebSocket with the actions of a person.

Twenty of these cost less than one Chromium, and the server sees no difference: it renders pages, keeps sessions and
runs jobs.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import socket
from typing import Any
from urllib.parse import urlencode

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

_TOKEN = re.compile(r'"token":\s*"([^"]+)"')
#: largest message of the server, in bytes
MESSAGE_BYTES = 256 * 2**20
#: timeout of an answer of the server, in seconds
PATIENCE = 120.0
#: an answer of a browser that is idle, to any number of questions
ALWAYS = 1_000_000


class Tab:
    """One tab.

    Args:
        url: of the server.
        visitor: the identifier of the browser, 32 hexadecimal digits.
        refusal: part of the server's errors that are expected; any other error fails the test.

    Attributes:
        refused: number of expected errors.
        models: of the page, by their identity; as the server has last said, and the tab itself.
        received: bytes.
    """

    def __init__(self, url: str, visitor: str, refusal: str | None = None) -> None:
        self.url, self.visitor, self._refusal, self.refused = url, visitor, refusal, 0
        self.models: dict[str, dict[str, Any]] = {}
        self.received = self._sent = 0
        self._connection: WebSocketClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._welcomed = asyncio.Event()

    async def get(self, settings: dict[str, Any]) -> str:
        """Request only the page, like a visitor who leaves at once; return the token of its session."""
        address = self.url + ("?" + urlencode(settings) if settings else "")
        page = await AsyncHTTPClient().fetch(address, request_timeout=PATIENCE)
        found = _TOKEN.search(page.body.decode())
        assert found is not None, "a page without a session"
        return found[1]

    async def open(self, settings: dict[str, Any]) -> None:
        """Open a view, identify the visitor, and wait for the settings."""
        token = await self.get(settings)
        url = self.url.replace("http", "ws") + "ws"
        request = HTTPRequest(url, headers={"Origin": self.url.rstrip("/")}, connect_timeout=PATIENCE)
        self._connection = await websocket_connect(
            request, subprotocols=["bokeh", token], max_message_size=MESSAGE_BYTES, compression_options={}
        )
        self._reader = asyncio.create_task(self._read())
        # earlier messages are not for the server
        await asyncio.wait_for(self._welcomed.wait(), PATIENCE)
        self._send("PULL-DOC-REQ", {})
        browser = await self.of_class("Browser")
        self.change(browser, visitor=self.visitor)
        self.change(browser, pixels=1280)
        self.change(browser, idle=ALWAYS)
        self._say("document_ready", [])
        await self.with_label("Data set")

    # --- what a person does ---------------------------------------------------------------------------------------

    def change(self, model: dict[str, Any], **values: Any) -> None:
        """Change attributes of a model, one message each."""
        for name, value in values.items():
            model["attributes"][name] = value
            self._patch({"kind": "ModelChanged", "model": {"id": model["id"]}, "attr": name, "new": value})

    async def press(self, label: str) -> None:
        """Press a button."""
        button = await self.with_label(label)
        view = next(each for each in self.models.values() if _is_of(each, button))
        target = {"type": "map", "entries": [["target", None], ["currentTarget", None], ["relatedTarget", None]]}
        self._say("dom_event", [["model", {"id": view["id"]}], ["node", "click"], ["data", target]])

    async def go_to(self, page: int) -> None:
        """Show the page at an index."""
        self.change(await self.of_class("Tabs"), active=page)

    async def drop(self, name: str, content: bytes, chunk: int = 1, chunks: int = 1) -> None:
        """Drop a file, or one piece of it, onto the upload area."""
        where = await self.found(lambda each: each["name"].endswith("FileDropper"))
        entries = [
            ["name", name], ["type", "text/csv"], ["chunk", chunk], ["total_chunks", chunks],
            # in a thread, because a tab that compresses megabytes answers no ping
            ["data", {"type": "bytes", "data": await asyncio.to_thread(_base64, content)}],
        ]  # fmt: skip
        self._say("upload_event", [["model", {"id": where["id"]}], ["data", {"type": "map", "entries": entries}]])

    # --- what it sees ---------------------------------------------------------------------------------------------

    async def found(self, is_it: Any) -> dict[str, Any]:
        """Wait for the model that satisfies a condition, and return it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for each in self.models.values():
                    if is_it(each):
                        return each
                if self._reader is not None and self._reader.done():
                    self._reader.result()
                    raise AssertionError(f"the server has closed the connection: {self._connection.close_reason}")
                await asyncio.sleep(0.05)

    async def of_class(self, name: str) -> dict[str, Any]:
        """Return the values of a component by its class, to which Panel adds a number."""
        return await self.found(lambda each: re.fullmatch(rf"{name}\d+", each["name"]))

    async def with_label(self, label: str) -> dict[str, Any]:
        """Return the field or button with a label."""
        return await self.found(lambda each: each["attributes"].get("label") == label)

    async def says(self, words: str) -> None:
        """Wait until the page contains a text."""
        pattern = re.compile(words)
        try:
            await self.found(lambda each: pattern.search(str(each["attributes"].get("object", ""))))
        except TimeoutError:
            said = {str(each["attributes"].get("object", ""))[:100] for each in self.models.values()}
            raise AssertionError(f"the page says nothing of {words!r}, but {sorted(said)}") from None

    # --- how it leaves --------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the tab."""
        if self._connection is not None:
            self._connection.close()
            await self._forget()

    async def lose(self) -> None:
        """Lose the connection, as reported by a router."""
        if self._connection is not None:
            stream = self._connection.protocol.stream
            if not stream.closed():  # by the server, because the page was unused for too long
                # a reset instead of a closing handshake
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                stream.close()
            await self._forget()

    async def freeze(self) -> None:
        """Stop like a sleeping machine: the connection stays, without reads or answers."""
        assert self._connection is not None
        stream = self._connection.protocol.stream
        stream.io_loop.remove_handler(stream.socket)
        # otherwise a started message would watch the socket again with a removed handler
        stream._add_io_state = lambda state: None
        if self._reader is not None:
            self._reader.cancel()

    async def _forget(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self.models.clear()

    # --- the protocol ---------------------------------------------------------------------------------------------

    def _say(self, event: str, entries: list[Any]) -> None:
        values = {"type": "map", "entries": entries} if entries else {"type": "map"}
        self._patch({"kind": "MessageSent", "msg_type": "bokeh_event",
                     "msg_data": {"type": "event", "name": event, "values": values}})  # fmt: skip

    def _patch(self, event: dict[str, Any]) -> None:
        self._send("PATCH-DOC", {"events": [event]})

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        assert self._connection is not None
        self._sent += 1
        for part in ({"msgid": f"{self._sent:032X}", "msgtype": kind}, {}, content):
            self._connection.write_message(json.dumps(part))

    async def _read(self) -> None:
        assert self._connection is not None
        parts: list[Any] = []
        wanted = 3
        while (part := await self._connection.read_message()) is not None:
            self.received += len(part)
            parts.append(part)
            if len(parts) == 1:
                header = json.loads(part)
                wanted = 3 + 2 * header.get("num_buffers", 0)
            if len(parts) < wanted:
                continue
            if header["msgtype"] in ("PULL-DOC-REPLY", "PATCH-DOC"):
                self._take(json.loads(parts[2]))
            elif header["msgtype"] == "ACK":
                self._welcomed.set()
            elif header["msgtype"] == "ERROR":
                if self._refusal is None or self._refusal not in json.loads(parts[2])["text"]:
                    raise AssertionError(f"the server says {parts[2][:2000]!r}")
                self.refused += 1
            parts = []

    def _take(self, found: Any) -> None:
        """Update the models from messages of the server."""
        if isinstance(found, list):
            for each in found:
                self._take(each)
        elif isinstance(found, dict):
            if found.get("type") == "object" and "id" in found:
                self.models[found["id"]] = found
                found.setdefault("attributes", {})
            for each in found.values():
                self._take(each)
            if found.get("kind") == "ModelChanged" and (of := self.models.get(found["model"]["id"])):
                of["attributes"][found["attr"]] = found["new"]


def _is_of(view: dict[str, Any], model: dict[str, Any]) -> bool:
    data = view["attributes"].get("data")
    return isinstance(data, dict) and data.get("id") == model["id"]


def _base64(content: bytes) -> str:
    """Encode bytes like the script of Bokeh."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()
