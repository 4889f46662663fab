"""What the pages of one visitor have in common."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import panel as pn
import param

from apviz.dashboard.jobs.job import Gate, Job
from apviz.dashboard.limits import Limits
from apviz.dashboard.runs.runs_folder import RunsFolder
from apviz.dashboard.settings.systems import SystemChoice, Upload
from apviz.plots.parts.style import ThemeName

THEMES = ("light", "dark")


class View(param.Parameterized):
    """Which page, in which theme."""

    page = param.Selector(default="compare", objects=["compare"])
    theme = param.Selector(default="light", objects=list(THEMES))


@dataclass
class Shared:
    """What the pages of one session have in common.

    Attributes:
        folder: files that the visitor brought; gone with the session.
        jobs: everything that this session has started; it ends with it.
        go: shows another page, by its name, after it was prepared by the function given.
    """

    limits: Limits
    gate: Gate
    runs: RunsFolder
    lecture: bool
    view: View
    system: SystemChoice
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="apviz-")))
    jobs: list[Job] = field(default_factory=list)
    go: Callable[[str, Callable[[Any], None]], None] | None = None

    @property
    def theme(self) -> ThemeName:
        return "dark" if self.view.theme == "dark" else "light"

    def start(self, job: Job) -> None:
        """Starts a job of this session."""
        self.jobs = [each for each in self.jobs if each.is_active]
        self.jobs.append(job)
        job.start()

    def find_upload(self, name: str) -> Upload | None:
        """The file of this session behind the name of a data set, which traces have too."""
        return self.system.uploads.get(name)

    def tell(self, message: str, *, bad: bool = False) -> None:
        """A message to the visitor, which stays until it is closed if it is bad news."""
        if pn.state.notifications is None:
            return
        (pn.state.notifications.error if bad else pn.state.notifications.info)(message, duration=0 if bad else 4000)

    def end(self) -> None:
        """The visitor has gone: so do the jobs and the files."""
        for job in self.jobs:
            job.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
