"""Places of runs: folders of this machine, and object stores by a URL (`s3://`, `gs://`, `memory://`), through fsspec.

An object in a store is complete or absent. A trace writes its `zarr.json` last, so readers see its last complete flush.
A store cannot rename, so the objects of a first flush appear one by one; without `zarr.json` they are not a trace.
A store has no locks that end with a process, so a lock is an object: see `apviz.tracing.lock`. The settings of a store
(keys, endpoint) are those of fsspec: its configuration files, or variables such as `FSSPEC_S3_ENDPOINT_URL`.
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

# objects are put together in batches of about this size
_BATCH_BYTES: Final = 2**25


@dataclass(frozen=True)
class Remote:
    """Place in an object store, by its URL, with the methods of `pathlib.Path` that traces need.

    Every method raises OSError if the store fails, whatever error the store's library raises, because a solve continues
    without its trace after an OSError. (`universal-pathlib` passes all errors on, and cannot create without replacing.)
    """

    url: str

    @cached_property
    def _store(self) -> tuple[Any, str]:
        import fsspec  # takes 0.1 s, which local runs save

        # cached listings would miss what other processes write
        store, path = fsspec.url_to_fs(self.url, use_listings_cache=False)
        return store, path

    @property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(self.url.partition("://")[2])

    @property
    def name(self) -> str:
        """Return the last part of the URL."""
        return self._path.name

    @property
    def stem(self) -> str:
        """Return the name without its suffix."""
        return self._path.stem

    @property
    def suffix(self) -> str:
        """Return the suffix of the name, with its dot."""
        return self._path.suffix

    @property
    def parent(self) -> Remote:
        """Return the place that contains this one."""
        return Remote(self.url.rpartition("/")[0])

    def with_name(self, name: str) -> Remote:
        """Return the place with another name and the same parent."""
        return self.parent / name

    def __truediv__(self, name: str) -> Remote:
        return Remote(f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    def exists(self) -> bool:
        """Test whether there is an object here or below."""
        store, path = self._store
        with _os_errors(self):
            return bool(store.exists(path))

    def is_dir(self) -> bool:
        """Test whether there are objects below."""
        store, path = self._store
        with _os_errors(self):
            return bool(store.isdir(path))

    def glob(self, pattern: str) -> Iterator[Remote]:
        """Yield the places directly below whose names match a pattern."""
        store, path = self._store
        with _os_errors(self):
            found = store.glob(f"{path}/{pattern}")
        yield from (self / PurePosixPath(each).name for each in sorted(found))

    def files(self) -> set[str]:
        """Return the objects below, as paths relative to this place."""
        store, path = self._store
        with _os_errors(self):
            return {PurePosixPath(each).relative_to(path).as_posix() for each in store.find(path)}

    def read_bytes(self, most: int | None = None) -> bytes:
        """Read an object, or its first bytes."""
        store, path = self._store
        with _os_errors(self):
            return bytes(store.cat_file(path, start=0 if most else None, end=most))

    def write_bytes(self, content: bytes) -> None:
        """Put an object, completely or not at all."""
        store, path = self._store
        with _os_errors(self):
            store.pipe_file(path, content)

    def create(self, content: bytes) -> None:
        """Put an object, unless there is one; one of several simultaneous calls succeeds, if the store can do that."""
        store, path = self._store
        with _os_errors(self):
            store.pipe_file(path, content, mode="create")

    def put(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Put many objects below, in batches."""
        store, path = self._store
        batch, size = dict[str, bytes](), 0
        with _os_errors(self):
            for name, content in files:
                batch[f"{path}/{name}"] = content
                size += len(content)
                if size > _BATCH_BYTES:
                    store.pipe(batch)
                    batch, size = {}, 0
            if batch:
                store.pipe(batch)

    def unlink(self) -> None:
        """Remove an object."""
        store, path = self._store
        with _os_errors(self):
            store.rm_file(path)


Place = Path | Remote
#: Place of either kind; the result is of the same kind.
P = TypeVar("P", Path, Remote, Path | Remote)


def place_of(path: str | Place) -> Place:
    """Return the place of a path or a URL.

    Raises:
        ValueError: fsspec does not know the kind of URL, or a package that it needs is not installed.
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
    """Test whether there is anything at a place, including a broken link."""
    return os.path.lexists(place) if isinstance(place, Path) else place.exists()


def beginning(place: Place, most: int) -> bytes:
    """Read the first bytes of a file or an object."""
    if isinstance(place, Remote):
        return place.read_bytes(most)
    with place.open("rb") as file:
        return file.read(most)


def write_whole(place: Place, content: bytes) -> None:
    """Write a file or an object, completely or not at all.

    Raises:
        OSError: the disk or the store is full, unavailable or read-only; the old content is unchanged.
    """
    if isinstance(place, Remote):
        place.write_bytes(content)
    else:
        with file_made_whole(place) as file:
            file.write(content)


def write_files(place: Place, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files into a folder, or objects below a place, each completely or not at all.

    Raises:
        OSError: the disk or the store is full, unavailable or read-only; some may have been written.
    """
    if isinstance(place, Remote):
        place.put(files)
    else:
        for name, content in files:
            write_whole(place / name, content)


@contextmanager
def made_whole(place: Place) -> Iterator[Place]:
    """Make a new folder, as `apviz.files.folder_made_whole`. In a store, write the file that readers open last.

    Raises:
        OSError: Also if another process has created the path in the meantime.
    """
    if isinstance(place, Remote):
        yield place
    else:
        with folder_made_whole(place) as making:
            yield making


@contextmanager
def _os_errors(place: Remote) -> Iterator[None]:
    """Raise errors of HTTP, credentials and timeouts, which have other classes in each store's library, as OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{place}: {type(error).__name__}: {error}") from error
