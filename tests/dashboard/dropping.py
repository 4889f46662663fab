"""Messages of a browser to a file dropper."""

from __future__ import annotations

from typing import Any

from panel.models.file_dropper import DeleteEvent, UploadEvent

from apviz.dashboard.components.dropper import Dropper


def send(dropper: Dropper, name: Any, chunk: Any, total_chunks: Any, data: Any) -> None:
    """Send one piece of a file."""
    piece = {"name": name, "chunk": chunk, "total_chunks": total_chunks, "type": "text/csv", "data": data}
    dropper._process_event(UploadEvent(None, piece))


def drop(dropper: Dropper, name: str, content: bytes, pieces: int = 1) -> None:
    """Send a whole file in `pieces` pieces."""
    size = -(-len(content) // pieces)
    for number in range(pieces):
        send(dropper, name, number + 1, pieces, content[number * size : (number + 1) * size])


def take_away(dropper: Dropper, name: str) -> None:
    """Remove a file from the list in the browser."""
    dropper._process_event(DeleteEvent(None, {"name": name}))
