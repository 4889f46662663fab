"""Bounds on what browsers send: bytes are counted as they come, and before they are unpacked.

Bokeh unpacks every value of a message whole, collects as many buffers as a message announces, and makes any array that
it describes; all of that is the visitor's choice.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any, Final
from weakref import WeakKeyDictionary

from bokeh.core.property.visual import Image
from bokeh.core.serialization import DeserializationError, Deserializer
from bokeh.document import Document
from bokeh.protocol.receiver import Receiver
from bokeh.server.urls import per_app_patterns
from panel.io.server import WSHandler

#: of one message, as it is sent and unpacked
MESSAGE_BYTES: Final = 4 * 2**20
#: of all messages of a session but uploads, which have limits of their own: what they change stays with the session
SESSION_BYTES: Final = 64 * 2**20
#: of an HTTP request, such as a login
REQUEST_BYTES: Final = 64 * 2**10
#: numbers that browsers send
_DTYPES: Final = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")
_GZIP: Final = 31

_sent: WeakKeyDictionary[Document, int] = WeakKeyDictionary()


def bound_messages() -> None:
    """Bound the messages of all servers of this process that are made from now on."""
    Deserializer._decode_bytes = _decode_bytes
    Deserializer._decode_ndarray = _decode_ndarray
    # a text for a picture is the name of a file, which Bokeh reads, also where a browser sent it
    Image.transform = lambda self, value: value if isinstance(value, str) else _read_picture(self, value)
    per_app_patterns[:] = [
        (route, BoundedSocket if issubclass(handler, WSHandler) else handler) for route, handler, *_ in per_app_patterns
    ]


class Unpacked(bytes):
    """Bytes of a message, and of how many characters of it they were made."""

    sent: int


def excuse(document: Document | None, content: Unpacked) -> None:
    """Leave bytes out of what a session may send, for they are counted elsewhere."""
    if document is not None:
        _sent[document] = _sent.get(document, 0) - content.sent


class BoundedSocket(WSHandler):
    """Bokeh's WebSocket, which is closed when too much comes."""

    #: bytes of a message that is not complete
    _held = 0

    async def on_message(self, fragment: str | bytes) -> None:
        if self.receiver is None:
            return
        self._held += len(fragment)
        if self._held > MESSAGE_BYTES:
            self._refuse(f"a message has more than {MESSAGE_BYTES / 1e6:.0f} MB")
        elif self.connection is not None and _sent.get(self.connection.session.document, 0) > SESSION_BYTES:
            self._refuse(f"this page has sent more than {SESSION_BYTES / 1e6:.0f} MB")
        else:
            await super().on_message(fragment)
            self._count(self.receiver)

    def _count(self, receiver: Receiver | None) -> None:
        """Count a message that is complete, and drop it."""
        if receiver is None or receiver._message is None:
            return
        if self.connection is not None and self.connection._session is not None:
            document = self.connection.session.document
            _sent[document] = _sent.get(document, 0) + self._held
        self._held, receiver._message, receiver._partial = 0, None, None

    def _refuse(self, why: str) -> None:
        self.receiver = None
        self.close(1009, why)


_read_picture = Image.transform
_unbounded_bytes, _unbounded_ndarray = Deserializer._decode_bytes, Deserializer._decode_ndarray


def _decode_bytes(self: Deserializer, value: Any) -> Any:
    """Unpack bytes as far as the message they are of may."""
    data = value["data"]
    if not isinstance(data, str):
        return _unbounded_bytes(self, value)
    # there is one deserialiser for a message
    left = MESSAGE_BYTES - getattr(self, "_unpacked", 0)
    try:
        unpacker = zlib.decompressobj(_GZIP)
        found = unpacker.decompress(base64.b64decode(data), left + 1)
    except (ValueError, zlib.error) as error:
        raise DeserializationError(f"bytes that do not unpack: {error}") from error
    if len(found) > left:
        raise DeserializationError(f"bytes that unpack to more than {MESSAGE_BYTES / 1e6:.0f} MB")
    if not unpacker.eof or unpacker.unused_data:
        raise DeserializationError("bytes that do not unpack: cut off, or with more after them")
    self._unpacked = MESSAGE_BYTES - left + len(found)
    unpacked = Unpacked(found)
    unpacked.sent = len(data)
    return unpacked


def _decode_ndarray(self: Deserializer, value: Any) -> Any:
    """Make an array of plain numbers; one text may be given any length by its type."""
    if value["dtype"] not in _DTYPES:
        raise DeserializationError(f"an array of {str(value['dtype'])[:40]!r}")
    return _unbounded_ndarray(self, value)
