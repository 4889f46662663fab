"""Messages of browsers are limited before they are unpacked."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import tracemalloc
import zlib

import pytest

pytest.importorskip("panel")

from bokeh.core.serialization import DeserializationError, Deserializer
from bokeh.document import Document

from apviz.dashboard import messages, server
from apviz.dashboard.messages import MESSAGE_BYTES, Unpacked, bound_messages, excuse


@pytest.fixture(autouse=True)
def _bounded():
    bound_messages()


def sent(content: bytes) -> dict[str, str]:
    return {"type": "bytes", "data": base64.b64encode(gzip.compress(content, 1)).decode()}


def test_bytes_are_decoded_unchanged():
    for content in (b"", b"a,b\n1,2\n", bytes(range(256)) * 1000):
        assert Deserializer().deserialize(sent(content)) == content
    assert Deserializer().deserialize(sent(bytes(MESSAGE_BYTES))) == bytes(MESSAGE_BYTES)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: [sent(bytes(MESSAGE_BYTES + 1))], "unpack to more than 4 MB"),
        (lambda: [sent(bytes(100_000_000))], "unpack to more than 4 MB"),
        (lambda: [sent(bytes(MESSAGE_BYTES // 2)) for _ in range(3)], "unpack to more than 4 MB"),
        (lambda: [sent(b"x")] * 2 + [sent(bytes(MESSAGE_BYTES))], "unpack to more than 4 MB"),
        (lambda: [{"type": "bytes", "data": base64.b64encode(gzip.compress(b"x") * 2).decode()}], "followed by others"),
        (lambda: [{"type": "bytes", "data": base64.b64encode(gzip.compress(b"xyz")[:-4]).decode()}], "truncated"),
        (lambda: [{"type": "bytes", "data": base64.b64encode(zlib.compress(b"xyz")).decode()}], "do not unpack"),
        (lambda: [{"type": "bytes", "data": "no base64"}], "do not unpack"),
    ],
)
def test_a_message_that_unpacks_to_too_much_is_rejected_within_the_memory_limit(make, said):
    message = make()
    tracemalloc.start()
    try:
        with pytest.raises(DeserializationError, match=said):
            Deserializer().deserialize(message)
        assert tracemalloc.get_traced_memory()[1] < 4 * MESSAGE_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "dtype", ["S2000000000", "U1000000000", "V4000000000", "object", "O", "complex128", ["f8"], None]
)
def test_arrays_must_be_plain_numbers_because_other_types_can_expand(dtype):
    array = {"type": "ndarray", "array": ["a"], "dtype": dtype, "order": "little", "shape": [1]}
    with pytest.raises(DeserializationError, match="an array of"):
        Deserializer().deserialize(array)


def test_arrays_of_numbers_are_decoded_unchanged():
    array = {"type": "ndarray", "array": sent(b"\1\0\2\0"), "dtype": "uint16", "order": "little", "shape": [2]}
    assert Deserializer().deserialize(array).tolist() == [1, 2]


def test_file_names_sent_as_images_are_not_read(tmp_path):
    (tmp_path / "secret.svg").write_text("secret")
    for path in (tmp_path / "secret.svg", "/etc/hostname"):
        attributes = {"icon": str(path)}
        made = Deserializer().deserialize(
            {"type": "object", "name": "CustomAction", "id": "x", "attributes": attributes}
        )
        assert made.icon == str(path)


class Socket(messages.BoundedSocket):
    """A simulated websocket of a visitor."""

    def __init__(self, document: Document) -> None:
        from bokeh.protocol import Protocol
        from bokeh.protocol.receiver import Receiver

        self.receiver, self.closed, self.handled = Receiver(Protocol()), "", 0
        self.connection = type(
            "Connection", (), {"_session": (session := type("Session", (), {"document": document}))}
        )()
        self.connection.session = session

    async def _handle(self, message: object) -> None:
        self.handled += 1

    def close(self, code: int | None = None, reason: str | None = None) -> None:
        self.closed = str(reason)


async def _says(socket: Socket, *fragments: str | bytes) -> None:
    for each in fragments:
        await socket.on_message(each)


def says(socket: Socket, *fragments: str | bytes) -> None:
    asyncio.run(_says(socket, *fragments))


def header(**more: object) -> str:
    return json.dumps({"msgid": "1", "msgtype": "PATCH-DOC", **more})


def test_buffers_beyond_the_limit_of_a_message_end_its_collection():
    socket = Socket(Document())
    says(socket, header(num_buffers=10**9), "{}", '{"events": []}')
    for number in range(20):
        says(socket, json.dumps({"id": str(number)}), bytes(MESSAGE_BYTES // 10))
    assert "a message has more than 4 MB" in socket.closed
    assert socket.receiver is None and socket.handled == 0


def test_a_session_that_sent_too_much_stays_closed_after_reconnecting(monkeypatch):
    monkeypatch.setattr(messages, "SESSION_BYTES", 10_000_000)
    document = Document()
    content = json.dumps({"events": [], "more": "x" * 3_000_000})
    socket = Socket(document)
    for _ in range(4):
        says(socket, header(), "{}", content)
    assert socket.handled == 4 and not socket.closed
    says(socket, header())
    assert "this page has sent more than" in socket.closed
    again = Socket(document)
    says(again, header())
    assert again.closed and not Socket(Document()).closed


def test_uploaded_bytes_are_counted_only_as_uploads(monkeypatch):
    monkeypatch.setattr(messages, "SESSION_BYTES", 10_000)
    document = Document()
    content = Unpacked(b"")
    content.sent = 900
    socket = Socket(document)
    for _ in range(100):
        excuse(document, content)
        says(socket, header(), "{}", json.dumps({"events": [], "more": "x" * 900}))
    assert socket.handled == 100 and not socket.closed
    assert 0 < messages._sent[document] < 10_000


def test_a_rejected_message_is_one_short_line_of_the_log(caplog):
    """Formatting a traceback for every message of an attack would hold up all visitors."""
    log = logging.getLogger("made")
    log.addFilter(server._shortened)
    for error in (DeserializationError("bytes that unpack to more than 4 MB"), KeyError("x")):
        try:
            raise error
        except (DeserializationError, KeyError) as raised:
            log.error("error handling message\n message: %r \n error: %r", "A" * 10**6, raised, exc_info=True)
    rejected, failed = caplog.records
    assert rejected.getMessage() == "message rejected: bytes that unpack to more than 4 MB"
    assert rejected.exc_info is None
    assert len(failed.getMessage()) < 3_000 and failed.exc_info
