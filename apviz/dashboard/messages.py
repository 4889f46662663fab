"""Bounds on the messages of browsers. Bytes are counted on arrival and before decompression.

Bokeh decompresses every value of a message in full. It collects every buffer that a message announces and builds every
array that it describes. The visitor controls all three sizes.
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

#: Most bytes of one message, both as sent and decompressed.
MESSAGE_BYTES: Final = 4 * 2**20
#: Most bytes of all messages of a session, because a session keeps their content. Uploads have their own limits.
SESSION_BYTES: Final = 64 * 2**20
#: Most bytes of an HTTP request, such as a login.
REQUEST_BYTES: Final = 64 * 2**10
#: Number types that browsers send.
_DTYPES: Final = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")
_GZIP: Final = 31

_sent: WeakKeyDictionary[Document, int] = WeakKeyDictionary()


def bound_messages() -> None:
    """Bound the messages of all servers that this process creates from now on."""
    Deserializer._decode_bytes = _decode_bytes
    Deserializer._decode_ndarray = _decode_ndarray
    # Bokeh takes a string instead of an image for a file name and reads that file, even if a browser sent it.
    Image.transform = lambda self, value: value if isinstance(value, str) else _read_picture(self, value)
    per_app_patterns[:] = [
        (route, BoundedSocket if issubclass(handler, WSHandler) else handler) for route, handler, *_ in per_app_patterns
    ]


class Unpacked(bytes):
    """Decompressed bytes of a message.

    Attributes:
        sent: Number of characters of the message that encoded them.
    """

    sent: int


def excuse(document: Document | None, content: Unpacked) -> None:
    """Exclude bytes from the total of a session, because another limit counts them."""
    if document is not None:
        _sent[document] = _sent.get(document, 0) - content.sent


class BoundedSocket(WSHandler):
    """Bokeh's WebSocket, closed when a message or a session exceeds its limit."""

    #: Bytes received of an incomplete message.
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
        """Count a complete message and drop it."""
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
    """Decompress bytes up to the limit of their message."""
    data = value["data"]
    if not isinstance(data, str):
        return _unbounded_bytes(self, value)
    # Bokeh creates one deserialiser per message, so the count on it is per message.
    left = MESSAGE_BYTES - getattr(self, "_unpacked", 0)
    try:
        unpacker = zlib.decompressobj(_GZIP)
        found = unpacker.decompress(base64.b64decode(data), left + 1)
    except (ValueError, zlib.error) as error:
        raise DeserializationError(f"bytes that do not unpack: {error}") from error
    if len(found) > left:
        raise DeserializationError(f"bytes that unpack to more than {MESSAGE_BYTES / 1e6:.0f} MB")
    if not unpacker.eof or unpacker.unused_data:
        raise DeserializationError("bytes that do not unpack: truncated, or followed by others")
    self._unpacked = MESSAGE_BYTES - left + len(found)
    unpacked = Unpacked(found)
    unpacked.sent = len(data)
    return unpacked


def _decode_ndarray(self: Deserializer, value: Any) -> Any:
    """Build an array of plain numbers, because a text dtype could give one string any length."""
    if value["dtype"] not in _DTYPES:
        raise DeserializationError(f"an array of {str(value['dtype'])[:40]!r}")
    return _unbounded_ndarray(self, value)
