"""Files and folders that are there whole or not at all, whatever ends the process that writes them."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


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


@contextmanager
def file_made_whole(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file beside a path, which takes its place at the end; after an error what was there is as it was.

    Raises:
        OSError: the disk is full, gone or read-only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = _beside(path)
    try:
        with written.open("xb") as file:
            yield file
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


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


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
