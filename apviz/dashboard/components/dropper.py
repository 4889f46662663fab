"""File upload that counts bytes on arrival and writes them to disk, so that memory holds only one piece."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import panel as pn
import param

from apviz.dashboard.components.script_component import ScriptComponent
from apviz.dashboard.messages import Unpacked, excuse

#: Bytes of a piece; its encoding in a message adds a third.
PIECE_BYTES: Final = 2 * 10**6
#: Most unfinished uploads of a dropper, of which browsers send two at once, and of all droppers of the server.
MOST_AT_ONCE, MOST_OF_SERVER = 4, 20
#: Panel's dropper has no visible edge.
_BORDER: Final = ".bk-input-group { border: 1px dashed var(--apviz-muted); border-radius: var(--apviz-radius); }"
#: Seconds without a piece after which another upload may replace this one.
IDLE_SECONDS: Final = 60.0


@dataclass(eq=False)
class _Upload:
    """An incomplete file."""

    path: Path
    pieces: Any
    next: int = 1
    nbytes: int = 0
    last: float = field(default_factory=time.monotonic)

    def remove(self) -> None:
        _unfinished.discard(self)
        shutil.rmtree(self.path.parent, ignore_errors=True)


#: Unfinished uploads of all sessions.
_unfinished: set[_Upload] = set()


class Emptier(ScriptComponent):
    """Component without a view that empties the boxes next to it. A box replaced while it still draws raises errors."""

    times = param.Integer(0, doc="how often they were emptied")

    _esm = """
    export function render({ model, el }) {
      const boxes = (root) => [...root.querySelectorAll("*")].flatMap((each) =>
        each.matches(".filepond--root") ? [each] : each.shadowRoot ? boxes(each.shadowRoot) : []);
      const around = el.getRootNode().host.getRootNode();
      const empty = (box) => window.FilePond.find(box)?.removeFiles({ revert: false });
      model.on("times", () => boxes(around).forEach(empty));
    }
    """


class Dropper(pn.widgets.FileDropper):
    """Panel's dropper with a size limit on the server. Panel's own limit is checked only in the browser.

    Each file gets a folder of its own, which the receiver removes.

    Args:
        folder: Folder of the session, removed with it together with unfinished uploads.
        max_mb: Largest size of a file, in MB.
        arrived: Called with the name and the path of a complete file.
        refuse: Called with the reason why a file was refused.
    """

    def __init__(
        self, folder: Path, max_mb: int, arrived: Callable[[str, Path], None], refuse: Callable[[Exception], None],
        **look: Any,
    ) -> None:  # fmt: skip
        super().__init__(max_file_size=f"{max_mb}MB", chunk_size=PIECE_BYTES, stylesheets=[_BORDER], **look)
        self._folder, self._max_mb, self._finish, self._refuse = folder, max_mb, arrived, refuse
        self._uploads: dict[str, _Upload] = {}
        #: Name of the refused file whose remaining pieces are ignored.
        self._refused = ""

    def _process_event(self, event: Any) -> None:
        data = event.data if isinstance(event.data, dict) else {}
        name = data.get("name")
        if not isinstance(name, str):
            return
        if event.event_name == "delete_event":
            self._remove(name)
            return
        try:
            path = self._take(name, data.get("chunk"), data.get("total_chunks"), data.get("data"))
        except (ValueError, OSError) as error:
            self._remove(name)
            if name != self._refused:
                self._refused = name
                # Leave out the path of the file on the server.
                said = error.strerror if isinstance(error, OSError) else str(error)
                self._refuse(ValueError(f"{Path(name).name[:60]} {said}"))
            return
        if path is not None:
            self._finish(name, path)

    def _take(self, name: str, number: Any, pieces: Any, content: Any) -> Path | None:
        """Write a piece, and return the path of the file after the last piece."""
        if number == 1:
            self._begin(name, pieces)
        upload = self._uploads.get(name)
        is_next = upload is not None and (number, pieces) == (upload.next, upload.pieces) and upload.path.exists()
        if upload is None or not is_next or not isinstance(content, bytes) or not (content or pieces == number):
            raise ValueError("was interrupted; drop it again")
        self._check_size(upload.nbytes + len(content))
        with upload.path.open("ab") as file:
            file.write(content)
        if isinstance(content, Unpacked):
            excuse(pn.state.curdoc, content)
        upload.nbytes, upload.next, upload.last = upload.nbytes + len(content), upload.next + 1, time.monotonic()
        if number != pieces:
            return None
        _unfinished.discard(self._uploads.pop(name))
        return upload.path

    def _begin(self, name: str, pieces: Any) -> None:
        self._remove(name)
        self._refused = ""
        if not isinstance(pieces, int) or pieces < 1:
            raise ValueError("was not sent by a browser; drop it again")
        self._check_size((pieces - 2) * PIECE_BYTES)
        while len(self._uploads) >= MOST_AT_ONCE:
            self._remove(next(iter(self._uploads)))
        for each in list(_unfinished):
            if time.monotonic() - each.last > IDLE_SECONDS or not each.path.exists():
                each.remove()
        if len(_unfinished) >= MOST_OF_SERVER:
            raise ValueError(
                f"cannot be uploaded yet: the server accepts {MOST_OF_SERVER} files at once; drop it again in a minute"
            )
        path = Path(tempfile.mkdtemp(prefix="upload-", dir=self._folder)) / "content"
        path.touch()
        self._uploads[name] = upload = _Upload(path, pieces)
        _unfinished.add(upload)

    def _check_size(self, nbytes: int) -> None:
        if nbytes > self._max_mb * 1e6:
            raise ValueError(f"is too large; up to {self._max_mb:,} MB are accepted")

    def _remove(self, name: str) -> None:
        upload = self._uploads.pop(name, None)
        if upload is not None:
            upload.remove()
