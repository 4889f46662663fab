"""Files out of runs, and runs out of files that are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.jobs.file_job import FORMATS, FileJob, write_file
from apviz.dashboard.pages.runs.button import button
from apviz.dashboard.pages.shared import Shared


class Files:
    """One file at a time, in a thread.

    Args:
        chosen: the names of the runs to write.
        say: says what came of it.
        taken_in: called with the names of runs that were imported.
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
        self.format = pmui.Select(label="As", options=FORMATS, value=".zarr.zip", width=240, size="small")
        self.button = button("Download", "download", self.export)
        self.download = pmui.FileDownload(filename="apviz", visible=False, variant="text", size="small")
        self.drop = pn.widgets.FileDropper(
            max_file_size=f"{shared.limits.max_upload_mb}MB", multiple=True, height=90, sizing_mode="stretch_width"
        )
        self.drop.param.watch(lambda event: self._dropped(event.new), "value")

    def tick(self) -> None:
        """Takes what the job has made, if it is done."""
        job = self.job
        if job is None or job.is_active:
            return
        self.job = None
        job.deliver()
        if job.state == "failed":
            self._say(job.message, bad=True)
        self.button.loading = False

    def export(self) -> None:
        """Makes the file that is asked for, and sends it."""
        names, suffix, runs, folder = self._chosen(), self.format.value, self._shared.runs, self._shared.folder
        self._start(lambda: [str(write_file(runs, names, suffix, folder))], self._send)

    def _send(self, paths: list[str]) -> None:
        path = paths[0]
        name = path.rpartition("/")[2]
        self.download.param.update(file=path, filename=name, label=f"{name} again", visible=True)
        self.download.transfer(download=True)

    def _dropped(self, files: dict[str, Any] | None) -> None:
        if not files:
            return
        runs, most = self._shared.runs, self._shared.limits.max_upload_mb

        def take_in() -> list[str]:
            found = []
            for name, content in files.items():
                data = content.encode() if isinstance(content, str) else content
                if len(data) > most * 1e6:
                    raise ValueError(f"{name} has {len(data) / 1e6:.0f} MB; up to {most} MB are accepted")
                found += runs.take_in(name, data)
            return found

        self._start(take_in, self._imported)
        self.drop.value = {}

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
