"""Places of runs: folders of this machine, and object stores by a URL (`s3://`, `gs://`, `memory://`), through fsspec.

What holds in a store: an object is there whole or not at all, so a trace whose `zarr.json` is put last is seen as of
its last complete flush. What does not: nothing is moved, so a first flush is not there at one moment, but is no trace
before its `zarr.json` is; and nothing is locked by a process that lives, so a claim is an object, see
`apviz.tracing.claim`. A store's own settings (keys, endpoint) are fsspec's: its configuration files, or variables such
as `FSSPEC_S3_ENDPOINT_URL`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from apviz.files import file_made_whole, folder_made_whole

# objects that are put at once, of so many bytes together
_BATCH: Final = 2**25


@dataclass(frozen=True)
class Remote:
    """A place in an object store, by its URL, with what traces use of `pathlib.Path`.

    Every method raises OSError where the store does not do what is asked, whatever it raises itself.
    """

    url: str

    @cached_property
    def _store(self) -> tuple[Any, str]:
        import fsspec  # a tenth of a second that a local run need not take

        # listings that a store remembers would miss what others write
        store, path = fsspec.url_to_fs(self.url, use_listings_cache=False)
        return store, path

    @property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(self.url.partition("://")[2])

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self._path.name

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self._path.stem

    @property
    def suffix(self) -> str:
        """The ending of the name, with its dot."""
        return self._path.suffix

    @property
    def parent(self) -> Remote:
        """The place that this one is in."""
        return Remote(self.url.rpartition("/")[0])

    def with_name(self, name: str) -> Remote:
        """The place of that name beside this one."""
        return self.parent / name

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    def exists(self) -> bool:
        """Tests whether there is an object, or one below."""
        store, path = self._store
        with _os_errors(self):
            return bool(store.exists(path))

    def is_dir(self) -> bool:
        """Tests whether there are objects below."""
        store, path = self._store
        with _os_errors(self):
            return bool(store.isdir(path))

    def glob(self, pattern: str) -> Iterator[Remote]:
        """Finds the places in this one whose names fit a pattern."""
        store, path = self._store
        with _os_errors(self):
            found = store.glob(f"{path}/{pattern}")
        yield from (self / PurePosixPath(each).name for each in sorted(found))

    def files(self) -> set[str]:
        """Lists the objects below by their places in this one."""
        store, path = self._store
        with _os_errors(self):
            return {PurePosixPath(each).relative_to(path).as_posix() for each in store.find(path)}

    def read_bytes(self, most: int | None = None) -> bytes:
        """Reads an object, or the first bytes of it."""
        store, path = self._store
        with _os_errors(self):
            return bytes(store.cat_file(path, start=0 if most else None, end=most))

    def write_bytes(self, content: bytes) -> None:
        """Puts an object, whole or not at all."""
        store, path = self._store
        with _os_errors(self):
            store.pipe_file(path, content)

    def create(self, content: bytes) -> None:
        """Puts an object where none is: of several who try at once one does, where the store can tell.

        Raises:
            FileExistsError: there is one.
        """
        store, path = self._store
        with _os_errors(self):
            store.pipe_file(path, content, mode="create")

    def put(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Puts many objects below, several at once."""
        store, path = self._store
        batch, size = dict[str, bytes](), 0
        with _os_errors(self):
            for name, content in files:
                batch[f"{path}/{name}"] = content
                size += len(content)
                if size > _BATCH:
                    store.pipe(batch)
                    batch, size = {}, 0
            if batch:
                store.pipe(batch)

    def unlink(self) -> None:
        """Removes an object."""
        store, path = self._store
        with _os_errors(self):
            store.rm_file(path)


Place = Path | Remote
#: a place of either kind, of which another of the same kind is made
P = TypeVar("P", Path, Remote, Path | Remote)


def place_of(path: str | Place) -> Place:
    """Makes a place of a path or a URL.

    Raises:
        ValueError: a URL of no store that fsspec knows, or of one that needs a package which is not installed.
    """
    if not isinstance(path, str) or "://" not in path:
        return path if isinstance(path, Remote) else Path(path)
    protocol, _, rest = path.partition("://")
    if protocol in ("file", "local"):
        return Path(rest)
    place = Remote(path.rstrip("/"))
    try:
        assert place._store
    except ImportError as error:
        raise ValueError(f"{protocol}:// needs a package that is not installed: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path} is in no store that fsspec knows ({error}); take s3://, gs:// or a path") from error
    return place


def is_there(place: Place) -> bool:
    """Tests whether anything is at a place, a broken link too."""
    return os.path.lexists(place) if isinstance(place, Path) else place.exists()


def beginning(place: Place, most: int) -> bytes:
    """Reads the first bytes of a file or an object."""
    if isinstance(place, Remote):
        return place.read_bytes(most)
    with place.open("rb") as file:
        return file.read(most)


def write_whole(place: Place, content: bytes) -> None:
    """Writes a file or an object, whole or not at all.

    Raises:
        OSError: the disk or the store is full, gone or read-only; what was there is as it was.
    """
    if isinstance(place, Remote):
        place.write_bytes(content)
    else:
        with file_made_whole(place) as file:
            file.write(content)


def write_files(place: Place, files: Iterable[tuple[str, bytes]]) -> None:
    """Writes files into a folder, each whole, or objects below a place.

    Raises:
        OSError: the disk or the store is full, gone or read-only; some may have been written.
    """
    if isinstance(place, Remote):
        place.put(files)
    else:
        for name, content in files:
            write_whole(place / name, content)


@contextmanager
def made_whole(place: Place) -> Iterator[Place]:
    """Makes a new folder, as `apviz.files.folder_made_whole`; in a store what tells readers of it is to be put last.

    Raises:
        OSError: also where something has come to the path meanwhile.
    """
    if isinstance(place, Remote):
        yield place
    else:
        with folder_made_whole(place) as making:
            yield making


@contextmanager
def _os_errors(place: Remote) -> Iterator[None]:
    """Makes OSErrors of what the libraries of stores raise: of HTTP, of credentials, of time limits."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{place}: {type(error).__name__}: {error}") from error
