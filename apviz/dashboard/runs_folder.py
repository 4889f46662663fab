"""The folder of runs: traces by name, their notes, and what was deleted. A name never leads out of the folder."""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from apviz.dashboard.run_entry import FRESH_SECONDS, RunEntry, read_entry
from apviz.dashboard.run_names import check_name, name_from, require_inside
from apviz.gp.checkpoint import checkpoint_of
from apviz.tracing import Trace, open_trace
from apviz.tracing.archive import MOST_BYTES, MOST_FILES, pack, unpack
from apviz.tracing.complete import check_complete

#: opened traces that are kept, by number and by size
KEPT_TRACES, KEPT_BYTES = 100, 150e6
#: characters of a note
MOST_NOTE = 2_000
#: days after which what was deleted is gone
TRASH_DAYS = 7

_NOTES, _TRASH, _IMPORTING = ".notes", ".trash", ".importing-"


@dataclass(frozen=True)
class Deleted:
    """A run in the trash.

    Args:
        key: names it to `RunsFolder.restore`.
        name: that it had.
        when: seconds since 1970.
    """

    key: str
    name: str
    when: float


class RunsFolder:
    """Traces (`NAME.zarr`) of a folder; notes lie beside them in `.notes`, deleted runs in `.trash` for some days.

    Opened traces are kept until they change on disk, the last used ones up to a limit.

    Raises:
        FileNotFoundError: a name that is not there.
        ValueError: a name that cannot be one; a trace that does not open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        # sessions of one server share the folder, and so do the threads of their jobs
        self._lock = threading.RLock()
        self._opened: OrderedDict[str, tuple[int, Trace, int]] = OrderedDict()
        self._entries: dict[str, tuple[tuple[int, int], RunEntry]] = {}
        self._notes: dict[str, tuple[int, str]] = {}
        self._tidy()

    # --- what is there --------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Of all runs that can be read, the newest first."""
        return [entry.name for entry in self.entries() if not entry.problem]

    def newest_of_one_data_set(self, most: int) -> list[str]:
        """The last solves with the data set and n of the very last, oldest first: what one would compare."""
        solves = [entry for entry in self.entries() if entry.kind == "solve"]
        alike = [each.name for each in solves if (each.dataset, each.n) == (solves[0].dataset, solves[0].n)]
        return alike[:most][::-1]

    def entries(self) -> list[RunEntry]:
        """All runs, the newest first; those that cannot be read come last, and say why."""
        with self._lock:
            found: dict[str, tuple[tuple[int, int], RunEntry]] = {}
            for each in os.scandir(self.path):
                if not each.name.endswith(".zarr") or each.name.startswith(".") or not each.is_dir():
                    continue
                name, changed = each.name.removesuffix(".zarr"), _changed(Path(each.path))
                stamp = changed.st_mtime_ns, changed.st_size
                known = self._entries.get(name)
                if known is None or known[0] != stamp:
                    known = stamp, read_entry(name, Path(each.path), changed.st_mtime)
                found[name] = known
            self._entries, notes = found, self._read_notes()
        entries = [dataclasses.replace(entry, note=notes.get(name, "")) for name, (_, entry) in found.items()]
        return sorted(entries, key=lambda entry: (not entry.problem, entry.created, entry.changed), reverse=True)

    def path_of(self, name: str) -> Path:
        """Where the trace of a run lies, or would."""
        require_inside(name)
        return self.path / f"{name}.zarr"

    def open(self, name: str) -> Trace:
        """The trace of a run."""
        path = self._existing(name)
        with self._lock:
            stamp = _changed(path).st_mtime_ns
            if name not in self._opened or self._opened[name][0] != stamp:
                trace = _open(name, path)
                self._opened[name] = (stamp, trace, int(trace.tree.nbytes))
            self._opened.move_to_end(name)
            self._forget_oldest()
            return self._opened[name][1]

    # --- names and notes ------------------------------------------------------------------------------------------

    def rename(self, name: str, new: str) -> str:
        """Gives a run another name, which is returned; its note and a training's checkpoint go with it.

        Raises:
            FileExistsError: there is a run of that name.
            ValueError: also one that is being written.
        """
        path, new = self._existing(name), check_name(new)
        if new == name:
            return name
        target = self.path_of(new)
        if target.exists():
            raise FileExistsError(f"there is a run {new} already; choose another name")
        self._require_still(name, "renamed")
        path.rename(target)
        for old, other in zip(self._beside(name), self._beside(new), strict=True):
            if old.exists():
                old.replace(other)
        return new

    def write_note(self, name: str, note: str) -> str:
        """Keeps a note on a run, in place of the one before, and returns it; an empty one is none.

        Raises:
            ValueError: also a note that is too long.
        """
        self._existing(name)
        note = note.strip()
        if len(note) > MOST_NOTE:
            raise ValueError(f"the note has {len(note):,} characters; up to {MOST_NOTE:,} are accepted")
        path, _ = self._beside(name)
        if not note:
            path.unlink(missing_ok=True)
            return note
        path.parent.mkdir(exist_ok=True)
        written = path.with_name(f".{path.name}.new")
        written.write_text(note, "utf-8")
        written.replace(path)
        return note

    # --- the trash ------------------------------------------------------------------------------------------------

    def delete(self, name: str) -> Deleted:
        """Moves a run into the trash, from where `restore` brings it back.

        Raises:
            ValueError: also a run that is being written.
        """
        path = self._existing(name)
        self._require_still(name, "deleted")
        deleted = Deleted(f"{time.time_ns()}", name, time.time())
        place = self.path / _TRASH / deleted.key
        place.mkdir(parents=True)
        for each in (*self._beside(name), path):
            if each.exists():
                each.rename(place / each.name)
        self._opened.pop(name, None)
        return deleted

    def deleted(self) -> list[Deleted]:
        """What is in the trash, the last first."""
        found = []
        for place in (self.path / _TRASH).glob("*"):
            traces = list(place.glob("*.zarr"))
            if traces and place.name.isdigit():
                found.append(Deleted(place.name, traces[0].name.removesuffix(".zarr"), int(place.name) / 1e9))
        return sorted(found, key=lambda each: each.when, reverse=True)

    def restore(self, key: str) -> str:
        """Brings a deleted run back; returns its name, which is another if a new run has taken it."""
        found = next((each for each in self.deleted() if each.key == key), None)
        if found is None:
            raise FileNotFoundError(f"that run is not in the trash any more; it is emptied after {TRASH_DAYS} days")
        name, place = self._free_name(found.name), self.path / _TRASH / key
        # the trace last: with it the run is there
        kept = (*self._beside(found.name), self.path_of(found.name))
        for each, target in zip(kept, (*self._beside(name), self.path_of(name)), strict=True):
            if (place / each.name).exists():
                target.parent.mkdir(exist_ok=True)
                (place / each.name).rename(target)
        shutil.rmtree(place, ignore_errors=True)
        return name

    # --- out and in -----------------------------------------------------------------------------------------------

    def export(self, names: Sequence[str], file: BinaryIO) -> None:
        """Writes runs as `.zarr.zip`: one at the root of the zip, several in a folder each."""
        pack({name: self._existing(name) for name in names}, file)

    def take_in(
        self, filename: str, content: bytes, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES
    ) -> list[str]:
        """Imports the traces of a zip file from anywhere; returns their names, which are free ones.

        All of them or none; when it is refused nothing is left behind.

        Raises:
            ValueError: what is wrong with it.
        """
        plain = name_from(Path(filename.replace("\\", "/")).name.removesuffix(".zip").removesuffix(".zarr"))
        place = Path(tempfile.mkdtemp(prefix=_IMPORTING, dir=self.path))
        try:
            found = unpack(io.BytesIO(content), place, most_bytes=most_bytes, most_files=most_files)
            for path in found.values():
                check_complete(open_trace(path))
            return self._place({path: name_from(name) if name else plain for name, path in found.items()})
        except ValueError as error:
            # what is wrong, without where it was tried
            words = str(error).replace(f"{place}/", "")
            raise ValueError(f"{plain} was not imported: {words}") from error
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _place(self, traces: Mapping[Path, str]) -> list[str]:
        """Moves traces to free names like those wanted; all of them or none."""
        names: list[str] = []
        try:
            for path, wanted in traces.items():
                name = self._free_name(wanted)
                path.rename(self.path_of(name))
                names.append(name)
        except OSError:
            for name in names:
                shutil.rmtree(self.path_of(name), ignore_errors=True)
            raise
        return names

    # --- inside ---------------------------------------------------------------------------------------------------

    def _existing(self, name: str) -> Path:
        path = self.path_of(name)
        if not path.is_dir():
            raise FileNotFoundError(f"there is no run {name} in {self.path.name}; it may have been deleted or renamed")
        return path

    def _beside(self, name: str) -> tuple[Path, Path]:
        """What belongs to a run beside its trace: its note, and the checkpoint of a training."""
        return self.path / _NOTES / f"{name}.txt", checkpoint_of(self.path / f"{name}.zarr")

    def _free_name(self, wanted: str) -> str:
        names = (wanted, *(f"{wanted}-{number}" for number in range(2, 10_000)))
        return next(name for name in names if not self.path_of(name).exists())

    def _require_still(self, name: str, what: str) -> None:
        """Whoever writes a trace would find it gone, and begin it anew."""
        path = self.path_of(name)
        age = time.time() - _changed(path).st_mtime
        entry = read_entry(name, path, 0.0)
        if not entry.problem and not entry.finished and entry.ending == "interrupted" and age < FRESH_SECONDS:
            raise ValueError(
                f"{name} was written to {age:.0f} s ago and may still run, so it is not {what}: stop it, or wait until "
                f"{FRESH_SECONDS:.0f} s have passed"
            )

    def _read_notes(self) -> dict[str, str]:
        found: dict[str, tuple[int, str]] = {}
        folder = self.path / _NOTES
        for each in os.scandir(folder) if folder.is_dir() else ():
            name, changed = each.name.removesuffix(".txt"), each.stat().st_mtime_ns
            if not each.name.endswith(".txt") or each.name.startswith("."):
                continue
            known = self._notes.get(name)
            if known is None or known[0] != changed:
                known = (changed, Path(each.path).read_text("utf-8", errors="replace")[:MOST_NOTE])
            found[name] = known
        self._notes = found
        return {name: note for name, (_, note) in found.items()}

    def _forget_oldest(self) -> None:
        """Down to the limits, but never the one that was just asked for."""
        size = sum(nbytes for _, _, nbytes in self._opened.values())
        while len(self._opened) > 1 and (len(self._opened) > KEPT_TRACES or size > KEPT_BYTES):
            size -= self._opened.popitem(last=False)[1][2]

    def _tidy(self) -> None:
        """What a kill left of an import, and what was deleted long ago."""
        for place in self.path.glob(f"{_IMPORTING}*"):
            if time.time() - place.stat().st_mtime > 3600:
                shutil.rmtree(place, ignore_errors=True)
        for deleted in self.deleted():
            if time.time() - deleted.when > TRASH_DAYS * 86_400:
                shutil.rmtree(self.path / _TRASH / deleted.key, ignore_errors=True)


def _changed(path: Path) -> os.stat_result:
    """Of the file that every flush replaces; of the folder where there is none."""
    try:
        return (path / "zarr.json").stat()
    except OSError:
        return path.stat()


def _open(name: str, path: Path) -> Trace:
    try:
        return open_trace(path)
    except ValueError as error:
        raise ValueError(str(error).replace(str(path), name)) from error
