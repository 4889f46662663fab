"""The folder of runs: traces by name. A name never leads out of the folder."""

from __future__ import annotations

from pathlib import Path

from apviz.tracing import Trace, open_trace


class RunsFolder:
    """Traces (`NAME.zarr`) of a folder.

    Opened ones are kept until they change on disk.

    Raises:
        FileNotFoundError: `open` of a name that is not there.
        ValueError: a name that is a path; a trace that does not open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._opened: dict[str, tuple[float, Trace]] = {}

    def names(self) -> list[str]:
        """Of all runs, the newest first."""
        found = [path for path in self.path.glob("*.zarr") if path.is_dir()]
        return [path.stem for path in sorted(found, key=lambda path: path.stat().st_ctime, reverse=True)]

    def path_of(self, name: str) -> Path:
        """Where the trace of a run lies, or would."""
        if not name or name != Path(name).name or name.startswith("."):
            raise ValueError(f"{name!r} is no name of a run; letters, digits, spaces and -_.=+% make one")
        return self.path / f"{name}.zarr"

    def open(self, name: str) -> Trace:
        """The trace of a run."""
        path = self.path_of(name)
        if not path.exists():
            raise FileNotFoundError(f"there is no run {name} in {self.path.name}; it may have been deleted or renamed")
        changed = max(each.stat().st_mtime for each in (path, path / "zarr.json") if each.exists())
        if name not in self._opened or self._opened[name][0] != changed:
            self._opened[name] = (changed, open_trace(path))
        return self._opened[name][1]
