"""Files and folders that are there whole or not at all, whatever ends the process that writes them."""

from __future__ import annotations

import os
import shutil
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

#: of a file in the list of a zip file
_LISTED_BYTES: Final = 250


def path_of(path: object) -> Path:
    """Returns the path of a file that is to be written or read.

    Raises:
        TypeError, ValueError: what is none.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a text or a pathlib.Path, got {type(path).__name__}")
    made = Path(os.fspath(path))
    if not made.name or "\0" in str(made):
        raise ValueError(f"path must be that of a file, such as 'runs/fit.npz', got {str(path)!r:.200}")
    return made


def require_short_list(file: BinaryIO, most: int) -> None:
    """Refuse a zip file that lists more files than are accepted, before Python reads the whole list.

    Raises:
        ValueError: with the limit.
    """
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end is not None and end[zipfile._ECD_SIZE] > most * _LISTED_BYTES:  # type: ignore[attr-defined]
        raise ValueError(f"it lists more files than the {most:,} that are accepted")
    file.seek(0)


@contextmanager
def file_made_whole(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Opens a new file beside a path, which takes its place at the end; after an error what was there is as it was.

    Args:
        durable: it is on the disk before it takes its place, so that also a power cut leaves the one or the other; that
            takes some milliseconds.

    Raises:
        OSError: the disk is full, gone or read-only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = _beside(path)
    try:
        with written.open("xb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        written.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error says what is the matter
            written.unlink(missing_ok=True)
        raise
    if durable and os.name == "posix":  # elsewhere a folder does not open
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """So that a power cut does not undo a rename in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_made_whole(path: Path) -> Iterator[Path]:
    """Makes a new folder beside a path, which takes its place at the end; after an error nothing is left of it.

    Raises:
        OSError: also where something has come to the path meanwhile.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    making = _beside(path)
    making.mkdir()
    try:
        yield making
        making.rename(path)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def move_together(main: tuple[Path, Path], beside: Sequence[tuple[Path, Path]]) -> None:
    """Moves a file or folder, and small files that belong to it, from a first path to a second: all of them or none.

    These are copied first, and removed last: with the one rename between, everything is at its new place.

    Raises:
        OSError: something could not be written; everything is where it was.
    """
    made = list[Path]()
    try:
        for old, new in beside:
            made.append(new)
            with old.open("rb") as source, file_made_whole(new) as file:
                shutil.copyfileobj(source, file)
        main[0].rename(main[1])
    except BaseException:
        for new in made:
            with suppress(OSError):
                new.unlink(missing_ok=True)
        raise
    for old, _ in beside:
        with suppress(OSError):  # what is left of it belongs to nothing
            old.unlink()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
