"""Files and folders that are complete or absent, even if the process that writes them is killed."""

from __future__ import annotations

import os
import shutil
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

#: Most bytes of one entry in the directory of a zip file.
_ENTRY_BYTES: Final = 250


def path_of(path: object) -> Path:
    """Return the path of a file to write or to read; TypeError if it is none, ValueError without a file name."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a text or a pathlib.Path, got {type(path).__name__}")
    made = Path(os.fspath(path))
    if not made.name or "\0" in str(made):
        raise ValueError(f"path must be that of a file, such as 'runs/fit.npz', got {str(path)!r:.200}")
    return made


def require_short_list(file: BinaryIO, most: int) -> None:
    """Reject a zip file with too many entries before Python reads its whole directory."""
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end is not None and end[zipfile._ECD_SIZE] > most * _ENTRY_BYTES:  # type: ignore[attr-defined]
        raise ValueError(f"it lists more files than the {most:,} that are accepted")
    file.seek(0)


@contextmanager
def file_made_whole(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a temporary file in the same folder, and rename it to `path` at the end; an error leaves the old file.

    A durable file is flushed to the disk first, which takes some milliseconds. Then a power cut also leaves either the
    old file or the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = _temporary_name(path)
    try:
        with written.open("xb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        written.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the cause
            written.unlink(missing_ok=True)
        raise
    if durable and os.name == "posix":  # other systems cannot open a folder
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Flush a folder to the disk, so that a power cut does not undo a rename in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_made_whole(path: Path) -> Iterator[Path]:
    """Make a temporary folder next to `path`, and rename it to `path` at the end; an error leaves nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    making = _temporary_name(path)
    making.mkdir()
    try:
        yield making
        making.rename(path)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def move_together(main: tuple[Path, Path], attached: Sequence[tuple[Path, Path]]) -> None:
    """Move a file or folder from its first path to its second, and small files that belong to it: all or none.

    The small files are copied before the one rename of `main`, and their old copies are removed after it.
    """
    made = list[Path]()
    try:
        for old, new in attached:
            made.append(new)
            with old.open("rb") as source, file_made_whole(new) as file:
                shutil.copyfileobj(source, file)
        main[0].rename(main[1])
    except BaseException:
        for new in made:
            with suppress(OSError):
                new.unlink(missing_ok=True)
        raise
    for old, _ in attached:
        with suppress(OSError):  # a leftover belongs to no run
            old.unlink()


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
