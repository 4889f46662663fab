"""What people wrote on runs: one text file a run, beside the traces."""

from __future__ import annotations

import os
from pathlib import Path

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
        path.parent.mkdir(exist_ok=True)
        # in one move: a kill leaves the old note or the new one
        written = path.with_name(f".{path.name}.new")
        written.write_text(note, "utf-8")
        written.replace(path)
        return note
