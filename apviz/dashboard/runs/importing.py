"""Traces out of a zip file from anywhere, checked before they are among the runs."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apviz.dashboard.runs.run_names import name_from
from apviz.tracing import open_trace
from apviz.tracing.archive import unpack
from apviz.tracing.complete import check_complete

_IMPORTING = ".importing-"
#: seconds after which what a kill left of an import goes
LEFT_SECONDS = 3600


@contextmanager
def unpacked(
    folder: Path, filename: str, content: bytes, *, most_bytes: int, most_files: int
) -> Iterator[dict[Path, str]]:
    """The traces of a zip file, unpacked and checked somewhere in `folder`, and the names that they would like.

    What has not been moved from there by the end is gone.

    Raises:
        ValueError: what is wrong with it.
    """
    plain = name_from(Path(filename.replace("\\", "/")).name.removesuffix(".zip").removesuffix(".zarr"))
    place = Path(tempfile.mkdtemp(prefix=_IMPORTING, dir=folder))
    try:
        found = unpack(io.BytesIO(content), place, most_bytes=most_bytes, most_files=most_files)
        for path in found.values():
            check_complete(open_trace(path))
        yield {path: name_from(name) if name else plain for name, path in found.items()}
    except ValueError as error:
        # what is wrong, without where it was tried
        words = str(error).replace(f"{place}/", "")
        raise ValueError(f"{plain} was not imported: {words}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def tidy(folder: Path) -> None:
    """What a kill left of imports; a folder that has anything else in it is not one of them."""
    for place in folder.glob(f"{_IMPORTING}*"):
        ours = place.is_dir() and all(re.fullmatch(r"\d+\.zarr", each.name) for each in place.iterdir())
        if ours and time.time() - place.stat().st_mtime > LEFT_SECONDS:
            shutil.rmtree(place, ignore_errors=True)
