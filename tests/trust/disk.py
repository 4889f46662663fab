"""Simulate a failing disk: system calls below a folder are counted, and chosen ones raise.

Python's own calls are replaced (`open`, `os.mkdir`, `os.replace`, …) and the raw files beneath its buffers, so a write
fails when it reaches the system: when a buffer is flushed, or a file closed.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: errors of a disk: full, no permission, broken, over its quota
ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO, errno.EDQUOT)
#: functions of `os`, with the number of leading arguments that are paths or descriptors
CALLS = {
    "open": 1, "mkdir": 1, "rename": 2, "replace": 2, "unlink": 1, "remove": 1, "rmdir": 1, "link": 2, "symlink": 2,
    "fsync": 1, "fdatasync": 1, "truncate": 1, "ftruncate": 1, "write": 1, "pwrite": 1, "sendfile": 2,
}  # fmt: skip


class FailingDisk:
    """A counter of the calls that change something below a folder, from 1, inside a `with`; some of the calls fail.

    Args:
        fails: which.
        number: of the error, or None: the folder `goes` is removed before the first such call, which is then made.
        goes: a folder below `root`.

    Attributes:
        calls: number of calls.
        failed: the first failed call, in words.
    """

    def __init__(
        self, root: Path, fails: Callable[[int], bool] = lambda call: False, number: int | None = errno.EIO,
        goes: Path | None = None,
    ) -> None:  # fmt: skip
        self.root, self.fails, self.number, self.goes = os.path.realpath(root), fails, number, goes
        self.calls, self.failed = 0, ""
        self._lock = threading.RLock()
        self._real: dict[str, Any] = {}

    def __enter__(self) -> FailingDisk:
        self._real = {name: getattr(os, name) for name in CALLS if hasattr(os, name)}
        self._open = io.open
        for name, real in self._real.items():
            setattr(os, name, self._watched(name, real))
        io.open = builtins.open = self._opened
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)
        io.open = builtins.open = self._open

    def call(self, what: str, path: object) -> None:
        """Count a call.

        Raises:
            OSError: it is one that fails.
        """
        with self._lock:
            self.calls += 1
            if not self.fails(self.calls):
                return
            first, self.failed = not self.failed, self.failed or f"{what} {path}"
            if self.number is not None:
                raise OSError(self.number, os.strerror(self.number), str(path))
            if first and self.goes is not None:
                self._without(lambda: shutil.rmtree(self.goes, ignore_errors=True))

    def _without(self, do: Callable[[], None]) -> None:
        self.__exit__()
        try:
            do()
        finally:
            self.__enter__()

    def _is_inside(self, place: Any) -> bool:
        if isinstance(place, int):
            try:
                place = os.readlink(f"/proc/self/fd/{place}")
            except OSError:
                return False
        return os.path.realpath(os.path.dirname(os.fsdecode(place)) or ".").startswith(self.root)

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            reads = name == "open" and not (arguments[1:] and arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            # only `shutil.rmtree` uses descriptors of folders
            inside = named.get("dir_fd") is not None or any(map(self._is_inside, arguments[: CALLS[name]]))
            if inside and not reads:
                self.call(name, arguments[0])
            return real(*arguments, **named)

        return call

    def _opened(
        self, file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
        newline: Any = None, closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        rest = (buffering, encoding, errors, newline, closefd, opener)
        if isinstance(file, int) or not set(mode) & set("wxa+") or not self._is_inside(file):
            return self._open(file, mode, *rest)
        self.call("open", file)
        raw = _File(self, file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class _File(io.FileIO):
    """A file on that disk; on a full disk, a part still fits."""

    def __init__(self, disk: FailingDisk, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        self._disk = disk
        super().__init__(file, mode, closefd, opener)

    def write(self, content: Any) -> int | None:
        try:
            self._disk.call("write", self.name)
        except OSError:
            super().write(memoryview(content)[: len(content) // 2])
            raise
        return super().write(content)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._disk.call("close", self.name)
