"""A lock on a path: one writer at a time, over all threads and processes."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import weakref
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Generic

from apviz.places import P, Remote

try:
    import fcntl
except ImportError:  # Windows has no flock; there two writers are kept apart only by one of them making the folder
    fcntl = None  # type: ignore[assignment]

# how a lock file begins; a file of that name with other content belongs to somebody else and is left unchanged
_OURS = b"apviz lock"
# raised by flock if another process holds the lock; any other error means that the file system has no locks
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


class Lock(Generic[P]):
    """Lock a path until `release`, the end of a `with` block, or the end of the process, even by SIGKILL.

    On a file system it is the system's lock (`flock`) on a hidden file next to the path, which `release` removes; one
    that a killed process leaves does not lock anything. On NFS it holds between machines if the server supports locks.
    If the folder cannot be written, or its file system has no locks, there is no lock and no error: writing will show
    what is wrong. The `filelock` package is not used: it leaves its files in the folder, and does not name the holder.

    In an object store it is an object next to the path, which is put only if there is none. Stores that support this,
    such as S3 and Google's, let one of two simultaneous writers through. The object of a killed process locks the path
    until it is removed, because the store cannot tell that the process has ended.

    Args:
        path: of the file or folder to write; its parent folder is created.

    Raises:
        FileExistsError: the path is locked.
    """

    def __init__(self, path: P) -> None:
        if not path.name:
            raise ValueError(f"path must have a name, such as 'run.zarr', got {str(path)!r}")
        self.path: P = path
        self._release: weakref.finalize[..., Lock[P]]
        if isinstance(path, Remote):
            self._release = weakref.finalize(self, _remove, _put(path), os.getpid())
            return
        file = path.with_name(f".{path.name}.lock")
        descriptor: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = _lock(file)
        except BlockingIOError as error:
            raise FileExistsError(
                f"{path} is being written by {error}; wait for its end, or choose another path"
            ) from None
        except OSError:
            pass
        self._release = weakref.finalize(self, _unlock, file, descriptor, os.getpid())

    def release(self) -> None:
        """Unlock the path; a second call does nothing."""
        self._release()

    def __enter__(self) -> Lock[P]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def _put(path: Remote) -> Remote | None:
    """Put the object of a lock; return None if the store refuses, which writing will show."""
    lock = path.with_name(f".{path.name}.lock")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    holder = f"process {os.getpid()} on {socket.gethostname()} since {now}"
    try:
        lock.create(f"{_OURS.decode()} of {holder}\n".encode())
    except FileExistsError:
        content = ""
        with contextlib.suppress(OSError):
            content = lock.read_bytes(200).decode(errors="replace")
        holder = content.partition(" of ")[2].strip() or "another process"
        raise FileExistsError(
            f"{path} is being written by {holder}; wait for its end, or choose another path. If it was killed, remove "
            f"{lock}"
        ) from None
    except OSError:
        return None
    return lock


def _remove(lock: Remote | None, process: int) -> None:
    # a forked child has a copy of the lock, but does not hold it
    if lock is not None and os.getpid() == process:
        with contextlib.suppress(OSError):
            lock.unlink()


def _lock(file: Path) -> int | None:
    """Lock a file and return its descriptor; None if the file system has no locks.

    Raises:
        BlockingIOError: another process, or another descriptor of this one, has locked it; the message names it.
    """
    if fcntl is None:
        return None
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            if error.errno in _HELD:
                raise BlockingIOError(holder) from None
            return None
        if _is_at(file, descriptor):
            break
        os.close(descriptor)  # the holder removed it after it was opened here
    if _is_ours(descriptor):
        with contextlib.suppress(OSError):  # a full disk; the lock holds without the text
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, _OURS + f" of process {os.getpid()}\n".encode(), 0)
    return descriptor


def _unlock(file: Path, descriptor: int | None, process: int) -> None:
    if descriptor is None:
        return
    with contextlib.suppress(OSError):
        # a forked child has the descriptor too, but does not hold the lock
        if os.getpid() == process and _is_at(file, descriptor) and _is_ours(descriptor):
            file.unlink()
    os.close(descriptor)


def _is_at(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _is_ours(descriptor: int) -> bool:
    return os.pread(descriptor, len(_OURS), 0) in (b"", _OURS)


def _holder(descriptor: int) -> str:
    """Name the process that has locked a file, if it has written so by now."""
    try:
        content = os.pread(descriptor, 100, 0)
    except OSError:
        content = b""
    process = content.removeprefix(_OURS + b" of process ").removesuffix(b"\n")
    if not (process.isdigit() and content.endswith(b"\n")):
        return "another process"
    return "another solve or training of this process" if int(process) == os.getpid() else f"process {int(process)}"
