"""A claim to a path: one writer at a time, over all threads and processes."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Generic

from apviz.places import P, Remote

try:
    import fcntl
except ImportError:  # Windows: there the making of the folder, which only one can do, is all that keeps two apart
    fcntl = None  # type: ignore[assignment]

# what a claim's file begins with: a file of that name that begins otherwise is somebody's, and stays as it is
_OURS = b"apviz claim"
# locked by somebody, in the words of the systems; anything else means that there are no locks here
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
# seconds that a holder has to say who it is: it locks the file first, and on a full disk can write nothing to it
_TO_SAY_WHO = 1.0


class Claim(Generic[P]):
    """Holds a path until `release`, the end of a `with`, or the end of the process, however that ends.

    It is the system's lock on a hidden file beside the path, so what a killed process leaves blocks nobody. Where the
    folder cannot be written or has no locks there is no claim; whoever writes will find out what is the matter.

    In an object store it is an object beside the path, put where none is. Two that try at once are kept apart by a
    store that can put so, as S3 and Google's can; and what a killed process leaves blocks the path until it is removed,
    for nobody there knows who lives.

    Args:
        path: of what is to be written; its folder is made.

    Raises:
        FileExistsError: somebody else holds the path.
    """

    def __init__(self, path: P) -> None:
        if not path.name:
            raise ValueError(f"path must have a name, such as 'run.zarr', got {str(path)!r}")
        self.path: P = path
        self._release: weakref.finalize[..., Claim[P]]
        if isinstance(path, Remote):
            self._release = weakref.finalize(self, _give_back, _put(path), os.getpid())
            return
        lock = path.with_name(f".{path.name}.claim")
        found: int | str | None = None
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            found = _locked(lock)
        if isinstance(found, str):
            raise FileExistsError(f"{path} is being written by {found}; wait for its end, or choose another path")
        self._release = weakref.finalize(self, _unlock, lock, found, os.getpid())

    def release(self) -> None:
        """Gives the path back; more than once does nothing."""
        self._release()

    def __enter__(self) -> Claim[P]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def _put(path: Remote) -> Remote | None:
    """The object of a claim; None where the store takes none, which whoever writes will find out."""
    claim = path.with_name(f".{path.name}.claim")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    said = f"{_OURS.decode()} of process {os.getpid()} on {socket.gethostname()} since {now}\n"
    try:
        claim.create(said.encode())
    except FileExistsError:
        with contextlib.suppress(OSError):
            said = claim.read_bytes(200).decode(errors="replace")
        holder = said.partition(" of ")[2].strip() or "another process"
        raise FileExistsError(
            f"{path} is being written by {holder}; wait for its end, or choose another path. If it was killed, remove "
            f"{claim}"
        ) from None
    except OSError:
        return None
    return claim


def _give_back(claim: Remote | None, process: int) -> None:
    # a forked child has it too, but did not claim
    if claim is not None and os.getpid() == process:
        with contextlib.suppress(OSError):
            claim.unlink()


def _locked(lock: Path) -> int | str | None:
    """The descriptor of a locked file; who has it where somebody else does, None where there are no locks."""
    if fcntl is None:
        return None
    until = time.monotonic() + _TO_SAY_WHO
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # whoever held it may have removed the file since it was opened
            if not _is_still(descriptor, lock):
                os.close(descriptor)
                continue
            if _is_ours(descriptor):
                with contextlib.suppress(OSError):  # a full disk; the lock is there all the same
                    os.truncate(descriptor, 0)
                    os.pwrite(descriptor, _OURS + f" of process {os.getpid()}\n".encode(), 0)
            return descriptor
        except OSError as error:
            if error.errno not in _HELD:
                os.close(descriptor)
                return None
        holder = _holder(descriptor)
        os.close(descriptor)
        if holder or time.monotonic() > until:
            return holder or "another process"
        time.sleep(0.001)


def _unlock(lock: Path, descriptor: int | None, process: int) -> None:
    if descriptor is None:
        return
    with contextlib.suppress(OSError):
        # a forked child has the descriptor too, but not the claim
        if os.getpid() == process and _is_still(descriptor, lock) and _is_ours(descriptor):
            lock.unlink()
    os.close(descriptor)


def _is_still(descriptor: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False


def _is_ours(descriptor: int) -> bool:
    return os.pread(descriptor, len(_OURS), 0) in (b"", _OURS)


def _holder(descriptor: int) -> str:
    """Who has locked the file, which may have been removed since; nothing while the holder has not said so."""
    try:
        if not _is_ours(descriptor):
            return "another process"
        said = os.pread(descriptor, 100, 0).decode(errors="replace")
    except OSError:  # it is held all the same
        return "another process"
    if not said.endswith("\n"):
        return ""
    process = said.split()[-1]
    return "another solve or training of this process" if process == str(os.getpid()) else f"process {process}"
