"""Deleted runs, which are kept for some days and come back whole.

What people wrote on runs: one text file a run, beside the traces.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from apviz.files import file_made_whole

#: days after which what was deleted is gone
TRASH_DAYS = 7
# of `time.time_ns` until the year 2286
_DIGITS = 19


@dataclass(frozen=True)
class Deleted:
    """A run in the trash.

    Args:
        key: names it to `Trash.take_back`.
        name: that it had.
        when: seconds since 1970.
    """

    key: str
    name: str
    when: float


class Trash:
    """One folder a deleted run, named by the time it was deleted; its files in it have their names."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, files: Sequence[Path]) -> Deleted:
        """Moves in those files of a run that are there."""
        deleted = Deleted(f"{time.time_ns()}", name, time.time())
        place = self.path / deleted.key
        place.mkdir(parents=True)
        for each in files:
            if each.exists():
                each.rename(place / each.name)
        return deleted

    def all(self) -> list[Deleted]:
        """What is in it, the last first."""
        found = []
        for place in self.path.glob("*"):
            traces = list(place.glob("*.zarr"))
            # nanoseconds since 1970: any other folder is not one of ours
            if traces and place.name.isdigit() and len(place.name) == _DIGITS:
                found.append(Deleted(place.name, traces[0].name.removesuffix(".zarr"), int(place.name) / 1e9))
        return sorted(found, key=lambda each: each.when, reverse=True)

    def take_back(self, key: str, files_of: Callable[[str], Sequence[Path]], free_name: Callable[[str], str]) -> str:
        """Moves a run out again; returns its name, which is another if a new run has taken it.

        Args:
            files_of: the places of all files of a run of some name, the trace last: with it the run is there.
            free_name: a name like the one wanted, that is free.

        Raises:
            FileNotFoundError: it is not in the trash any more.
        """
        found = next((each for each in self.all() if each.key == key), None)
        if found is None:
            raise FileNotFoundError(f"that run is not in the trash any more; it is emptied after {TRASH_DAYS} days")
        name, place = free_name(found.name), self.path / key
        for each, target in zip(files_of(found.name), files_of(name), strict=True):
            if (place / each.name).exists():
                target.parent.mkdir(exist_ok=True)
                (place / each.name).rename(target)
        # empty by now, if nobody has put something else there
        with suppress(OSError):
            place.rmdir()
        return name

    def empty(self) -> None:
        """What was deleted long ago is gone."""
        for deleted in self.all():
            if time.time() - deleted.when > TRASH_DAYS * 86_400:
                shutil.rmtree(self.path / deleted.key, ignore_errors=True)


#: characters of a note
MOST_NOTE = 2_000


class Notes:
    """The notes in a folder, by the names of the runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, tuple[int, str]] = {}

    def path_of(self, name: str) -> Path:
        """Where the note on a run lies, or would."""
        return self.path / f"{name}.txt"

    def all(self) -> dict[str, str]:
        """Every note; read again only when it has changed."""
        found: dict[str, tuple[int, str]] = {}
        for each in os.scandir(self.path) if self.path.is_dir() else ():
            name, changed = each.name.removesuffix(".txt"), each.stat().st_mtime_ns
            if not each.name.endswith(".txt") or each.name.startswith("."):
                continue
            known = self._read.get(name)
            if known is None or known[0] != changed:
                known = (changed, Path(each.path).read_text("utf-8", errors="replace")[:MOST_NOTE])
            found[name] = known
        self._read = found
        return {name: note for name, (_, note) in found.items()}

    def write(self, name: str, note: str) -> str:
        """Keeps a note, in place of the one before, and returns it; an empty one is none.

        Raises:
            ValueError: it is too long.
        """
        note = note.strip()
        if len(note) > MOST_NOTE:
            raise ValueError(f"the note has {len(note):,} characters; up to {MOST_NOTE:,} are accepted")
        path = self.path_of(name)
        if not note:
            path.unlink(missing_ok=True)
            return note
        with file_made_whole(path) as file:  # a kill leaves the old note or the new one
            file.write(note.encode())
        return note
