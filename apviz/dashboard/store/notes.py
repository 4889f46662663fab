"""Notes and tags on runs: one text file per run, next to the runs, so that they survive a restart."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from apviz.files import file_made_whole

#: Limits: characters of a note, characters of a tag, and tags of a run.
MAX_NOTE_CHARACTERS = 2_000
MAX_TAG_CHARACTERS, MAX_TAGS = 40, 20


class Texts:
    """Texts on runs: one file per run, with its name and a suffix."""

    def __init__(self, path: Path, suffix: str) -> None:
        self.path, self.suffix = path, suffix
        self._read: dict[str, tuple[int, str]] = {}

    def path_of(self, name: str) -> Path:
        """Return the path of the text on a run, which need not exist."""
        return self.path / f"{name}{self.suffix}"

    def all(self) -> dict[str, str]:
        """Return the texts by the names of their runs; a text is read again only after a change."""
        found: dict[str, tuple[int, str]] = {}
        for each in os.scandir(self.path) if self.path.is_dir() else ():
            if not each.name.endswith(self.suffix) or each.name.startswith("."):
                continue
            name, changed = each.name.removesuffix(self.suffix), each.stat().st_mtime_ns
            known = self._read.get(name)
            if known is None or known[0] != changed:
                known = (changed, Path(each.path).read_text("utf-8", errors="replace")[:MAX_NOTE_CHARACTERS])
            found[name] = known
        self._read = found
        return {name: text for name, (_, text) in found.items()}

    def write(self, name: str, text: str) -> str:
        """Keep a text instead of the previous one, and return it; an empty text removes it.

        Raises:
            ValueError: the text is too long.
        """
        text = text.strip()
        if len(text) > MAX_NOTE_CHARACTERS:
            raise ValueError(f"the note has {len(text):,} characters; up to {MAX_NOTE_CHARACTERS:,} are accepted")
        path = self.path_of(name)
        if not text:
            path.unlink(missing_ok=True)
            return text
        with file_made_whole(path) as file:  # a kill leaves the old text or the new one
            file.write(text.encode())
        return text


def tags_of(text: str) -> tuple[str, ...]:
    """Return the tags in a text that separates them by commas, without duplicates, in their order."""
    return tuple(dict.fromkeys(tag for part in text.split(",") if (tag := " ".join(part.split()))))


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags in the form in which they are kept.

    Raises:
        ValueError: too many tags, or a tag that is too long or cannot be shown.
    """
    kept = tags_of(",".join(tags))
    if len(kept) > MAX_TAGS:
        raise ValueError(f"{len(kept)} tags are too many for one run; up to {MAX_TAGS} are accepted")
    for tag in kept:
        if len(tag) > MAX_TAG_CHARACTERS or not tag.isprintable():
            raise ValueError(
                f"the tag {tag[:MAX_TAG_CHARACTERS]!r} has {len(tag)} characters; up to {MAX_TAG_CHARACTERS} "
                "printable ones are accepted"
            )
    return kept
