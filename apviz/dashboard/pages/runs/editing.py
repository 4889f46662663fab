"""Actions on runs: rename, note, tag, delete and restore; export to and import from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd
import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.components.dropper import MOST_AT_ONCE, Dropper
from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.components.text import escape, without_formulas
from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.pages.base import Shared
from apviz.dashboard.store.own_data import MAX_UNPACKING, discard
from apviz.dashboard.store.run_entry import RunEntry
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.dashboard.store.trash import Deleted
from apviz.report import write_report
from apviz.tracing import TrainingTrace


class RunEditor:
    """Editor of the folder of runs, with a message on the result of each change.

    Args:
        undone: Called with the names of runs that Undo has restored.
    """

    def __init__(self, runs: RunsFolder, undone: Callable[[list[str]], None]) -> None:
        self._runs, self._undone = runs, undone
        self._undoable: list[Deleted] = []
        self.message = server_owned(
            pmui.Alert(object="", severity="info", visible=False, margin=(0, 8), sizing_mode="stretch_width")
        )
        self.undo_button = button("Undo", "undo", self.undo, visible=False)
        self.view = pn.Row(self.message, self.undo_button, sizing_mode="stretch_width")

    def say(self, message: str, *, bad: bool = False, undoable: Sequence[Deleted] = ()) -> None:
        """Show a message, and a button that undoes its changes if there are any."""
        self._undoable = list(undoable)
        self.undo_button.visible = bool(undoable)
        self.message.param.update(object=escape(message), severity="error" if bad else "info", visible=bool(message))

    def rename(self, old: str, new: str) -> str | None:
        """Rename a run; return its name, or None if the new name was rejected."""
        name: str | None = self._try(lambda: self._runs.rename(old, new))
        if name not in (None, old):
            self.say(f"{old} is called {name} now")
        return name

    def keep_note(self, name: str, note: str) -> None:
        """Store a note on a run."""
        if self._try(lambda: self._runs.write_note(name, note)) is not None:
            self.say(f"The note on {name} is kept")

    def tag(self, entries: Sequence[RunEntry], tags: Sequence[str], *, remove: bool = False) -> None:
        """Add tags to runs, or remove them."""
        if not tags:
            self.say("type a tag first, or several with commas between them", bad=True)
            return
        self.say("")
        for entry in entries:
            kept = [tag for tag in entry.tags if tag not in tags]
            self._try(partial(self._runs.write_tags, entry.name, kept if remove else [*entry.tags, *tags]))
        if not self.message.visible:
            what = "taken off" if remove else "put on"
            self.say(f"{', '.join(tags)}: {what} {len(entries)} run{'s' * (len(entries) != 1)}")

    def delete(self, names: Sequence[str]) -> list[str]:
        """Move runs to the trash, from which `undo` restores them; return the names of those that were moved."""
        gone: list[Deleted] = []
        self.say("")
        for name in names:
            deleted = self._try(partial(self._runs.delete, name))
            if deleted is not None:
                gone.append(deleted)
        found = [each.name for each in gone]
        if gone:
            refused = f"; {self.message.object}" if self.message.visible else ""
            self.say(f"Deleted: {', '.join(found)}{refused}", bad=bool(refused), undoable=gone)
        return found

    def undo(self) -> None:
        """Restore the runs of the last deletion."""
        keys = [each.key for each in self._undoable]
        self.say("")
        self._undone([name for key in keys if (name := self._try(partial(self._runs.restore, key)))])

    def restore(self, key: str) -> None:
        """Restore a run deleted earlier."""
        name = self._try(lambda: self._runs.restore(key))
        if name:
            self.say(f"{name} is back")

    def _try(self, do: Callable[[], Any]) -> Any:
        """Return the result of a call; after an error show its message and return None."""
        try:
            return do()
        except (ValueError, OSError) as error:
            self.say(str(error), bad=True)
            return None


#: Formats of exported runs, and the suffixes of their files.
FORMATS: Final = {
    "Traces (.zarr.zip)": ".zarr.zip",
    "Epochs, or iterations (CSV)": "-epochs.csv",
    "Updates (CSV)": "-updates.csv",
    "Steps of trainings (CSV)": "-steps.csv",
    "Report (HTML)": ".html",
}
_GROUPS: Final = {"-epochs.csv": "epoch", "-updates.csv": "update", "-steps.csv": "step"}


class FileJob(Job):
    """Job that reads or writes files; the page calls `then` with its result when it is done."""

    def __init__(self, do: Callable[[], list[str]], then: Callable[[list[str]], None]) -> None:
        # its own queue, so that it does not wait for solves
        super().__init__(JobQueue(1))
        self._do, self._then = do, then
        self._result: list[str] = []

    def work(self) -> None:
        self._result = self._do()

    def deliver(self) -> None:
        """Call `then`, in the page's own thread, if the job is done."""
        if self.state == "done":
            self._then(self._result)


def write_file(runs: RunsFolder, names: Sequence[str], suffix: str, folder: Path) -> Path:
    """Write complete runs to a file in `folder`, without thinning long ones.

    Raises:
        ValueError: No run has the requested data.
    """
    if not names:
        raise ValueError("no run is chosen; tick some in the table")
    path = folder / f"{names[0] if len(names) == 1 else f'apviz-{len(names)}-runs'}{suffix}"
    if suffix == ".zarr.zip":
        with path.open("wb") as file:
            runs.export(names, file)
        return path
    traces = {name: runs.open(name) for name in names}
    if suffix == ".html":
        solves = [t for t in traces.values() if not isinstance(t, TrainingTrace) and "epoch" in t]
        if not solves:
            raise ValueError("a report shows solves, but all chosen runs are trainings; download their steps as CSV")
        return write_report(solves, path)
    group = _GROUPS[suffix]
    frames = [
        trace.to_dataframe(group).reset_index().assign(run=name) for name, trace in traces.items() if group in trace
    ]
    if not frames:
        raise ValueError(f"no chosen run has recorded a single {group}")
    without_formulas(pd.concat(frames, ignore_index=True)).set_index("run").to_csv(path)
    return path


class FileTransfer:
    """Export and import of runs as files, one at a time in a thread, because a large one takes seconds.

    Args:
        chosen: Function that returns the names of the runs to write.
        say: Called with a message on the result.
        taken_in: Called with the names of imported runs.
    """

    def __init__(
        self,
        shared: Shared,
        chosen: Callable[[], list[str]],
        say: Callable[..., None],
        taken_in: Callable[[list[str]], None],
    ) -> None:
        self._shared, self._chosen, self._say, self._taken_in = shared, chosen, say, taken_in
        self.job: FileJob | None = None
        self.format = pmui.Select(label="Download as", options=FORMATS, value=".zarr.zip", width=240, size="small")
        self.button = button("Download", "download", self.export)
        self.download = pmui.FileDownload(filename="apviz", visible=False, variant="text", size="small")
        self.drop = Dropper(
            shared.folder, shared.limits.max_upload_mb, self._arrived, lambda error: say(str(error), bad=True),
            multiple=True, height=90, sizing_mode="stretch_width",
        )  # fmt: skip
        #: Archives received while a file was being written or read.
        self._waiting: list[tuple[str, Path]] = []

    def tick(self) -> None:
        """Take the result of the job, if it is done."""
        job = self.job
        if job is None or job.is_active:
            return
        self.job = None
        job.deliver()
        if job.state == "failed":
            self._say(job.message, bad=True)
        self.button.loading = False
        if self._waiting and self.job is None:
            self._import_next()

    def export(self) -> None:
        """Write the requested file, and send it."""
        names, suffix, runs, folder = self._chosen(), self.format.value, self._shared.runs, self._shared.folder
        self._start(lambda: [str(write_file(runs, names, suffix, folder))], self._send)

    def _send(self, paths: list[str]) -> None:
        path = paths[0]
        name = path.rpartition("/")[2]
        self.download.param.update(file=path, filename=name, label=f"{name} again", visible=True)
        self.download.transfer(download=True)

    def _arrived(self, name: str, path: Path) -> None:
        if len(self._waiting) < MOST_AT_ONCE:
            self._waiting.append((name, path))
        else:
            discard(path)
            self._say(f"{name[:60]} was not imported: others are waiting for that; drop it again later", bad=True)
        if self.job is None:
            self._import_next()

    def _import_next(self) -> None:
        name, path = self._waiting.pop(0)
        runs, most = self._shared.runs, MAX_UNPACKING * self._shared.limits.max_upload_mb * 10**6

        def import_it() -> list[str]:
            try:
                with path.open("rb") as file:
                    return runs.import_zip(name, file, most_bytes=most)
            finally:
                discard(path)

        self._start(import_it, self._imported)

    def _imported(self, names: list[str]) -> None:
        self._say(f"Imported: {', '.join(names)}")
        self._taken_in(names)

    def _start(self, do: Callable[[], list[str]], then: Callable[[list[str]], None]) -> None:
        if self.job is not None:
            self._say("a file is being made or read; wait for it", bad=True)
            return
        self.job = FileJob(do, then)
        self.button.loading = True
        self._shared.start(self.job)
