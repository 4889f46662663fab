"""Checks of imported runs before they join the others: their names, and traces in a zip file."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from apviz.tracing import open_trace
from apviz.tracing.archive import unpack
from apviz.tracing.opening import check_complete

#: Characters that a name may have besides letters and digits.
MARKS = " -_.=+%()"
MAX_NAME_CHARACTERS, MAX_NAME_BYTES = 100, 200


def check_name(name: str) -> str:
    """Check a new name of a run, and return it without spaces around it.

    Raises:
        ValueError: an invalid name; the message says why.
    """
    name = name.strip()
    if not name:
        raise ValueError("a run needs a name")
    if len(name) > MAX_NAME_CHARACTERS or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise ValueError(f"the name has {len(name)} characters; up to {MAX_NAME_CHARACTERS} are accepted")
    if name.startswith("."):
        raise ValueError(f"{name!r} would be hidden: a name begins with a letter, a digit or one of {MARKS[1:]!r}")
    if "," in name:
        raise ValueError(f"{name!r} has a comma, which separates runs in an address; use another character")
    bad = sorted({mark for mark in name if not (mark.isalnum() or mark in MARKS)})
    if bad:
        raise ValueError(
            f"{name!r} has {' '.join(map(repr, bad))}; a run name has only letters, digits, spaces and {MARKS[1:]}"
        )
    if name.endswith((".", ".zarr")):
        raise ValueError(f"{name!r} must not end in a dot or in .zarr, which is added automatically")
    return name


def require_inside(name: str) -> None:
    """Check the name of a run that may exist.

    Raises:
        ValueError: the name leads out of the folder, or to something hidden.
    """
    bad = not name or name != Path(name).name or name.startswith(".") or "\\" in name or not name.isprintable()
    if bad or len(name.encode(errors="replace")) > 245:
        raise ValueError(f"{name[:80]!r} is not a run name; use letters, digits, spaces and {MARKS[1:]}")


def name_from(text: str) -> str:
    """Return the name of a run made of any text, such as the name of a file."""
    words = re.sub(rf"[^\w{re.escape(MARKS)}]+", "-", text).strip("-. ")
    short = words.encode()[: MAX_NAME_BYTES // 2].decode(errors="ignore")[: MAX_NAME_CHARACTERS // 2 + 30]
    return short.rstrip(". ") or "run"


_IMPORTING = ".importing-"
#: Seconds after which remains of a killed import are removed.
LEFTOVER_SECONDS = 3600


@contextmanager
def unpacked(
    folder: Path, filename: str, file: BinaryIO, *, most_bytes: int, most_files: int
) -> Iterator[dict[Path, str]]:
    """Unpack and check the traces of a zip file somewhere in `folder`; yield their paths with the wanted names.

    Traces that have not been moved from there by the end are removed.

    Raises:
        ValueError: the zip file is invalid; the message says why.
    """
    plain = name_from(Path(filename.replace("\\", "/")).name.removesuffix(".zip").removesuffix(".zarr"))
    place = Path(tempfile.mkdtemp(prefix=_IMPORTING, dir=folder))
    try:
        found = unpack(file, place, most_bytes=most_bytes, most_files=most_files)
        for path in found.values():
            check_complete(open_trace(path))
        yield {path: name_from(name) if name else plain for name, path in found.items()}
    except ValueError as error:
        # State the error without the temporary path.
        words = str(error).replace(f"{place}/", "")
        raise ValueError(f"{plain} was not imported: {words}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the remains of killed imports; a folder with any other content is not one of them."""
    for place in folder.glob(f"{_IMPORTING}*"):
        ours = place.is_dir() and all(re.fullmatch(r"\d+\.zarr", each.name) for each in place.iterdir())
        if ours and time.time() - place.stat().st_mtime > LEFTOVER_SECONDS:
            shutil.rmtree(place, ignore_errors=True)
