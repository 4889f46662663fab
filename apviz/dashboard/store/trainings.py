"""The trainings in the folder of runs and in the folders under it, by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

from apviz.tracing import TrainingTrace, open_trace
from apviz.tracing.schema import TRAINING

#: Depth of the search below the folder of runs: `apviz experiment` writes two levels down.
DEPTH = 3


class Trainings:
    """Traces of trainings, named by their path under the folder, without suffix.

    Only names found in the folder can be opened, so that a name never leads out of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Creation time of each trace by path and inode, so that its root is read once; empty for all other runs.
        self._begun: dict[tuple[Path, int], str] = {}

    def names(self) -> list[str]:
        """Return the names of the trainings, the newest first."""
        found = [(begun, name) for name, path in self._paths().items() if (begun := self._when_begun(path))]
        return [name for _, name in sorted(found, reverse=True)]

    def path_of(self, name: str) -> Path:
        """Return the path of a training.

        Raises:
            FileNotFoundError: no training has this name.
        """
        path = self._paths().get(name)
        if path is None:
            raise FileNotFoundError(f"there is no training {name!r} in {self.folder.name}; it may have been deleted")
        return path

    def changed(self, name: str) -> float:
        """Return the time when a training was last written, in seconds since 1970.

        Raises:
            FileNotFoundError: the training is missing, or its folder is being replaced.
        """
        return (self.path_of(name) / "zarr.json").stat().st_mtime

    def open(self, name: str) -> TrainingTrace:
        """Return the trace of a training in its current state on disk.

        Raises:
            FileNotFoundError: the training is missing.
            ValueError: the trace does not open, is of one solve, or has no step yet.
        """
        trace = open_trace(self.path_of(name))
        if not isinstance(trace, TrainingTrace):
            raise ValueError(f"{name} is a single solve, not a training; open it on the page Compare")
        if "step" not in trace:
            raise ValueError(f"{name} has no finished step yet")
        return trace

    def _paths(self) -> dict[str, Path]:
        found = {}
        for place, folders, _ in os.walk(self.folder):
            level = len(Path(place).relative_to(self.folder).parts)
            traces = [name for name in folders if name.endswith(".zarr") and not name.startswith(".")]
            # Never search inside a trace, which has hundreds of files.
            folders[:] = [] if level >= DEPTH else [
                name for name in folders if not name.endswith(".zarr") and not name.startswith(".")
            ]  # fmt: skip
            for name in traces:
                path = Path(place) / name
                found[path.relative_to(self.folder).with_suffix("").as_posix()] = path
        return found

    def _when_begun(self, path: Path) -> str:
        try:
            key = (path, path.stat().st_ino)
            if key not in self._begun:
                attributes = json.loads((path / "zarr.json").read_text("utf-8")).get("attributes", {})
                is_training = attributes.get("kind") == TRAINING
                self._begun[key] = str(attributes.get("created", "-")) if is_training else ""
        except Exception:  # just being made, or no trace, of whatever kind
            return ""
        return self._begun[key]
