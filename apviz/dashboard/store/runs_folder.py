"""The folder of runs: its contents by name, and operations on them. A name never leads out of the folder."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from apviz.dashboard.store import importing
from apviz.dashboard.store.importing import check_name, require_inside
from apviz.dashboard.store.notes import Texts, check_tags, tags_of
from apviz.dashboard.store.run_entry import DAMAGED, FRESH_SECONDS, RunEntry, last_change, read_entry
from apviz.dashboard.store.trash import Deleted, Trash
from apviz.files import move_together
from apviz.gp.training.checkpoint import checkpoint_of
from apviz.tracing import Trace, open_trace
from apviz.tracing.archive import MOST_BYTES, MOST_FILES, pack

#: Limits of the cache of opened traces, by number and by size in bytes.
CACHED_TRACES, CACHED_BYTES = 100, 150e6


class RunsFolder:
    """Folder of traces (`NAME.zarr`), with notes and tags in `.notes`, and for some days deleted runs in `.trash`.

    Raises:
        FileNotFoundError: a missing name.
        ValueError: an invalid name; a trace that does not open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        # Sessions of one server share the folder, and so do the threads of their jobs.
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[tuple[int, int], RunEntry]] = {}
        self._notes, self._tags = Texts(path / ".notes", ".txt"), Texts(path / ".notes", ".tags")
        self._trash, self._opened = Trash(path / ".trash", ".zarr"), TraceCache()
        importing.remove_leftovers(path)
        self._trash.remove_expired()

    # --- contents -------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all runs that can be read, the newest first."""
        return [entry.name for entry in self.entries() if not entry.problem]

    def newest_of_one_data_set(
        self,
        most: int,
        *,
        prefix: str = "",
        data: tuple[str, int | None] | None = None,
        has: Callable[[str], bool] = lambda dataset: True,
    ) -> list[str]:
        """Return the last solves with the same data set and n, oldest first, for a comparison.

        Args:
            prefix: Start of the names of the runs.
            data: Data set and n; None for those of the newest solve.
            has: Function that returns whether a data set can be chosen; other solves count if there are none of such.
        """
        solves = [each for each in self.entries() if each.kind == "solve" and each.name.startswith(prefix)]
        if solves and data is None:
            newest = next((each for each in solves if has(each.dataset)), solves[0])
            data = newest.dataset, newest.n
        return [each.name for each in solves if (each.dataset, each.n) == data][:most][::-1]

    def first_of(self, names: Sequence[str], has: Callable[[str], bool]) -> str:
        """Return the first of these runs whose data set can be chosen; without such, the first; empty for none."""
        here = {each.name for each in self.entries() if has(each.dataset)}
        return next((name for name in names if name in here), next(iter(names), ""))

    def data_of(self, names: Iterable[str]) -> dict[str, tuple[str, int | None]]:
        """Return data set and n of those of these runs that are in the folder and can be read."""
        known = {each.name: (each.dataset, each.n) for each in self.entries() if not each.problem}
        return {name: known[name] for name in names if name in known}

    def with_pictures(self) -> list[str]:
        """Return the names of the runs that have pictures, the newest first, without opening them."""
        groups = ("rows", "snapshot")
        return [
            name for name in self.names() if all((self.path_of(name) / each / "zarr.json").exists() for each in groups)
        ]

    def entries(self) -> list[RunEntry]:
        """Return the entries of all runs, the newest first, and at the end the unreadable runs with their problems."""
        with self._lock:
            found: dict[str, tuple[tuple[int, int], RunEntry]] = {}
            for each in os.scandir(self.path):
                if not each.name.endswith(".zarr") or each.name.startswith(".") or not each.is_dir():
                    continue
                name, changed = each.name.removesuffix(".zarr"), last_change(Path(each.path))
                stamp = changed.st_mtime_ns, changed.st_size
                known = self._entries.get(name)
                if known is None or known[0] != stamp:
                    known = stamp, read_entry(name, Path(each.path), changed.st_mtime)
                found[name] = known
            self._entries, notes, tags = found, self._notes.all(), self._tags.all()
        entries = [
            dataclasses.replace(entry, note=notes.get(name, ""), tags=tags_of(tags.get(name, "")))
            for name, (_, entry) in found.items()
        ]
        return sorted(entries, key=lambda entry: (not entry.problem, entry.created, entry.changed), reverse=True)

    def path_of(self, name: str) -> Path:
        """Return the path of the trace of a run, which need not exist."""
        require_inside(name)
        return self.path / f"{name}.zarr"

    def open(self, name: str) -> Trace:
        """Return the trace of a run; an opened trace is kept until it changes on disk."""
        path = self._existing(name)
        try:
            return self._opened.open(name, path)
        except ValueError as error:
            self._list_as_damaged(name, str(error).removeprefix(f"{name} "))
            raise

    def _list_as_damaged(self, name: str, problem: str) -> None:
        """List a run as damaged until it changes, because lost numbers may become known only when they are read."""
        with self._lock:
            stamp, entry = self._entries.get(name, (None, None))
            if stamp is not None and entry is not None and not entry.problem:
                damaged = RunEntry(name, entry.changed, ending=DAMAGED, problem=f"it {problem}")
                self._entries[name] = stamp, damaged

    # --- operations on a run --------------------------------------------------------------------------------------

    def rename(self, name: str, new: str) -> str:
        """Rename a run with its note, tags and a training's checkpoint. Return the new name.

        Raises:
            FileExistsError: a run already has that name.
            ValueError: also if the run is being written.
        """
        self._existing(name)
        new = check_name(new)
        if new == name:
            return name
        target, moves = self.path_of(new), list(zip(self._files_of(name), self._files_of(new), strict=True))
        if os.path.lexists(target):
            raise FileExistsError(f"there is a run {new} already; choose another name")
        taken = [other.name for _, other in moves if os.path.lexists(other)]
        if taken:
            raise FileExistsError(
                f"there is a file {taken[0]} already, which would then belong to {new}; choose another name"
            )
        self._require_not_written(name, "renamed")
        own = self._own_files(name)
        move_together(moves[-1], [(old, other) for old, other in moves[:-1] if old in own])
        return new

    def write_note(self, name: str, note: str) -> str:
        """Keep a note on a run instead of the previous one, and return it; an empty note removes it.

        Raises:
            ValueError: also if the note is too long.
        """
        self._existing(name)
        return self._notes.write(name, note)

    def write_tags(self, name: str, tags: Sequence[str]) -> tuple[str, ...]:
        """Keep tags of a run instead of the previous ones, and return them without duplicates; no tags remove them.

        Raises:
            ValueError: also for too many tags, or a tag that is too long.
        """
        self._existing(name)
        kept = check_tags(tags)
        self._tags.write(name, ", ".join(kept))
        return kept

    def delete(self, name: str) -> Deleted:
        """Move a run into the trash, from where `restore` brings it back.

        Raises:
            ValueError: also if the run is being written.
        """
        self._existing(name)
        self._require_not_written(name, "deleted")
        deleted = self._trash.put(name, self._own_files(name))
        self._opened.forget(name)
        return deleted

    def deleted(self) -> list[Deleted]:
        """Return the runs in the trash, the last deleted first."""
        return self._trash.all()

    def restore(self, key: str) -> str:
        """Restore a deleted run, and return its name, which differs if a new run has the old one."""
        return self._trash.restore(key, self._files_of, self._free_name)

    # --- export and import ----------------------------------------------------------------------------------------

    def export(self, names: Sequence[str], file: BinaryIO) -> None:
        """Write runs as `.zarr.zip`: one at the root of the zip, several in a folder each."""
        pack({name: self._existing(name) for name in names}, file)

    def import_zip(
        self, filename: str, file: BinaryIO, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES
    ) -> list[str]:
        """Import the traces of an untrusted zip file under free names, and return these names.

        Either all traces are imported or none; a rejected file leaves nothing behind.

        Raises:
            ValueError: the zip file is invalid; the message says why.
        """
        with importing.unpacked(
            self.path, filename, file, most_bytes=most_bytes, most_files=most_files
        ) as traces:  # fmt: skip
            return self._place(traces)

    def _place(self, traces: Mapping[Path, str]) -> list[str]:
        """Move traces to free names like the wanted ones; all of them or none."""
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

    # --- helpers --------------------------------------------------------------------------------------------------

    def _existing(self, name: str) -> Path:
        path = self.path_of(name)
        if not path.is_dir():
            raise FileNotFoundError(f"there is no run {name} in {self.path.name}; it may have been deleted or renamed")
        return path

    def _files_of(self, name: str) -> tuple[Path, ...]:
        """Return the paths of all possible files of a run, its trace last, because the trace makes it visible."""
        path = self.path_of(name)
        notes = self._notes.path_of(name), self._tags.path_of(name)
        return *notes, checkpoint_of(path), path

    def _own_files(self, name: str) -> list[Path]:
        """Return the paths of the existing files of a run."""
        return [each for each in self._files_of(name) if os.path.lexists(each)]

    def _free_name(self, wanted: str) -> str:
        names = (wanted, *(f"{wanted}-{number}" for number in range(2, 10_000)))
        return next(name for name in names if not any(map(os.path.lexists, self._files_of(name))))

    def _require_not_written(self, name: str, what: str) -> None:
        """Reject a run that may be being written: its writer would lose it, and start it again."""
        path = self.path_of(name)
        age = time.time() - last_change(path).st_mtime
        entry = read_entry(name, path, 0.0)
        if not entry.problem and not entry.finished and entry.ending == "interrupted" and age < FRESH_SECONDS:
            raise ValueError(
                f"{name} was written to {age:.0f} s ago and may still run, so it is not {what}: stop it, or wait until "
                f"{FRESH_SECONDS:.0f} s have passed"
            )


class TraceCache:
    """Cache of opened traces, kept until they change on disk: the most recently used ones, up to a limit."""

    def __init__(self) -> None:
        # Sessions of one server share the cache, and so do the threads of their jobs.
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[int, Trace, int]] = OrderedDict()

    def open(self, name: str, path: Path) -> Trace:
        """Return the trace of a run at `path`.

        Raises:
            FileNotFoundError: the run was deleted or renamed.
            ValueError: the trace does not open.
        """
        with self._lock:
            stamp = last_change(path).st_mtime_ns
            if name not in self._kept or self._kept[name][0] != stamp:
                trace = _open(name, path)
                self._kept[name] = (stamp, trace, int(trace.tree.nbytes))
            self._kept.move_to_end(name)
            self._forget_oldest()
            return self._kept[name][1]

    def forget(self, name: str) -> None:
        """Drop the trace of a deleted or renamed run."""
        with self._lock:
            self._kept.pop(name, None)

    def _forget_oldest(self) -> None:
        """Drop traces down to the limits, but never the most recently requested one."""
        size = sum(nbytes for _, _, nbytes in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > CACHED_TRACES or size > CACHED_BYTES):
            size -= self._kept.popitem(last=False)[1][2]


def _open(name: str, path: Path) -> Trace:
    try:
        return open_trace(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"the run {name} was deleted or renamed while it was read") from error
    except ValueError as error:
        raise ValueError(str(error).replace(str(path), name)) from error
