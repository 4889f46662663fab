"""Reading a member of an archive, also where archives lie inside archives."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO


def members(path: Path, suffix: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield (name, open file) for every file under `path` whose name ends with `suffix`, in archive order.

    `path` may be that file itself. A handle is valid only until the next one is asked for.
    """
    if path.name.endswith(suffix):
        with path.open("rb") as handle:
            yield path.name, handle
        return
    found = False
    try:
        with path.open("rb") as archive:
            for name, member in _walk(path.name, archive, suffix):
                found = True
                yield name, member
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is not a readable archive ({error}); delete it and fetch it again") from error
    if not found:
        raise ValueError(f"{path} holds no file named …{suffix}; is it the archive of another data set?")


def _walk(name: str, archive: IO[bytes], suffix: str) -> Iterator[tuple[str, IO[bytes]]]:
    for inner_name, inner in _open_each(name, archive, suffix):
        if inner_name.endswith(suffix):
            yield inner_name, inner
        else:
            # In memory, because seeking backwards inside a compressed member would unpack it again each time.
            yield from _walk(inner_name, BytesIO(inner.read()), suffix)


def _open_each(name: str, archive: IO[bytes], suffix: str) -> Iterator[tuple[str, IO[bytes]]]:
    if _is_tar(name):
        with tarfile.open(fileobj=archive) as tar:
            for member in tar:
                if member.isfile() and _wanted(member.name, suffix):
                    handle = tar.extractfile(member)
                    if handle is not None:
                        yield member.name, handle
        return
    with zipfile.ZipFile(archive) as zipped:
        for inner in zipped.namelist():
            if _wanted(inner, suffix):
                with zipped.open(inner) as handle:
                    yield inner, handle


def _is_tar(name: str) -> bool:
    return name.lower().endswith((".tar.gz", ".tgz", ".tar"))


def _wanted(name: str, suffix: str) -> bool:
    if name.startswith("__MACOSX"):
        return False
    return name.endswith(suffix) or name.lower().endswith(".zip") or _is_tar(name)
