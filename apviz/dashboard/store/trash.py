"""Deleted runs and models, which are kept for some days and can be restored whole."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from apviz.files import move_together

#: Days after which deleted runs and models are removed.
TRASH_DAYS = 7
# Number of digits of `time.time_ns` until the year 2286.
_DIGITS = 19


@dataclass(frozen=True)
class Deleted:
    """Run or model in the trash.

    Args:
        key: its key for `Trash.restore`.
        name: the previous name.
        when: time of its deletion, in seconds since 1970.
    """

    key: str
    name: str
    when: float


class Trash:
    """Folder with a folder for every deletion, named by its time; files in it keep their names.

    Args:
        suffix: End of the names of what can be deleted, such as `.zarr`.
    """

    def __init__(self, path: Path, suffix: str = "") -> None:
        self.path, self._suffix = path, suffix

    def put(self, name: str, files: Sequence[Path]) -> Deleted:
        """Move the existing files of a run or model, the main one last, into the trash: all of them or none."""
        deleted = Deleted(f"{time.time_ns()}", name, time.time())
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

    def all(self) -> list[Deleted]:
        """Return the contents of the trash, the last deleted first."""
        found = []
        for place in self.path.glob("*"):
            # The name is in nanoseconds since 1970; any other folder is not ours.
            if not place.name.isdigit() or len(place.name) != _DIGITS:
                continue
            if kept := [each for each in place.glob(f"*{self._suffix}") if each.is_dir()]:
                found.append(Deleted(place.name, kept[0].name.removesuffix(self._suffix), int(place.name) / 1e9))
        return sorted(found, key=lambda each: each.when, reverse=True)

    def restore(self, key: str, files_of: Callable[[str], Sequence[Path]], free_name: Callable[[str], str]) -> str:
        """Move a run or model out again, and return its name, which differs if a new one has the old name.

        Args:
            files_of: returns the paths of all files by name, the main one last, which makes them visible.
            free_name: returns a free name like the wanted one.

        Raises:
            FileNotFoundError: it is no longer in the trash.
        """
        found = next((each for each in self.all() if each.key == key), None)
        if found is None:
            raise FileNotFoundError(f"it is no longer in the trash, which is emptied after {TRASH_DAYS} days")
        name, place = free_name(found.name), self.path / key
        pairs = zip(files_of(found.name), files_of(name), strict=True)
        moves = [(place / each.name, target) for each, target in pairs if (place / each.name).exists()]
        move_together(moves[-1], moves[:-1])
        # The folder is empty by now, unless it holds foreign files.
        with suppress(OSError):
            place.rmdir()
        return name

    def remove_expired(self) -> None:
        """Remove everything that was deleted more than `TRASH_DAYS` ago."""
        for deleted in self.all():
            if time.time() - deleted.when > TRASH_DAYS * 86_400:
                shutil.rmtree(self.path / deleted.key, ignore_errors=True)
