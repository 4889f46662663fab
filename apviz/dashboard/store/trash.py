"""Deleted runs, which are kept for some days and come back whole."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from apviz.files import move_together

#: days after which what was deleted is gone
TRASH_DAYS = 7
# of `time.time_ns` until the year 2286
_DIGITS = 19


@dataclass(frozen=True)
class DeletedRun:
    """Run in the trash.

    Args:
        key: what names it to `Trash.restore`.
        name: the name that it had.
        when: time of its deletion, in seconds since 1970.
    """

    key: str
    name: str
    when: float


class Trash:
    """Folder with a folder for every deleted run, named by the time of its deletion; files in it keep their names."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, files: Sequence[Path]) -> DeletedRun:
        """Moves those files of a run that are there, last its trace, into the trash: all of them or none."""
        deleted = DeletedRun(f"{time.time_ns()}", name, time.time())
        place = self.path / deleted.key
        place.mkdir(parents=True)
        moves = [(each, place / each.name) for each in files if each.exists()]
        try:
            move_together(moves[-1], moves[:-1])
        except BaseException:
            with suppress(OSError):
                place.rmdir()
            raise
        return deleted

    def all(self) -> list[DeletedRun]:
        """Runs in the trash, the last first."""
        found = []
        for place in self.path.glob("*"):
            traces = list(place.glob("*.zarr"))
            # nanoseconds since 1970: any other folder is not one of ours
            if traces and place.name.isdigit() and len(place.name) == _DIGITS:
                found.append(DeletedRun(place.name, traces[0].name.removesuffix(".zarr"), int(place.name) / 1e9))
        return sorted(found, key=lambda each: each.when, reverse=True)

    def restore(self, key: str, files_of: Callable[[str], Sequence[Path]], free_name: Callable[[str], str]) -> str:
        """Moves a run out again, and returns its name, which is another if a new run has taken it.

        Args:
            files_of: gives the places of all files of a run of some name, the trace last: with it the run is there.
            free_name: gives a name like the one wanted, that is free.

        Raises:
            FileNotFoundError: it is not in the trash any more.
        """
        found = next((each for each in self.all() if each.key == key), None)
        if found is None:
            raise FileNotFoundError(f"that run is no longer in the trash; the trash is emptied after {TRASH_DAYS} days")
        name, place = free_name(found.name), self.path / key
        pairs = zip(files_of(found.name), files_of(name), strict=True)
        moves = [(place / each.name, target) for each, target in pairs if (place / each.name).exists()]
        move_together(moves[-1], moves[:-1])
        # empty by now, if nobody has put something else there
        with suppress(OSError):
            place.rmdir()
        return name

    def remove_expired(self) -> None:
        """Removes what was deleted more than `TRASH_DAYS` ago."""
        for deleted in self.all():
            if time.time() - deleted.when > TRASH_DAYS * 86_400:
                shutil.rmtree(self.path / deleted.key, ignore_errors=True)
