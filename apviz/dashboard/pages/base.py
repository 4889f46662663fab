"""Base classes of pages: the state of one session, a page, and a page that solves."""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import param
from panel.viewable import Viewable

from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.jobs.comparison_job import ComparisonJob, rerun
from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.jobs.job_bar import JobBar
from apviz.dashboard.jobs.visitors import Visitor
from apviz.dashboard.limits import Limits
from apviz.dashboard.preview import Preview
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.shown import Notice, adopt, differences
from apviz.dashboard.settings.system_choice import SystemChoice, SystemPanel
from apviz.dashboard.settings.systems import SystemSpec
from apviz.dashboard.store.run_entry import is_solve
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.plots._style import ThemeName
from apviz.solvers import Solver
from apviz.tracing import Trace

THEMES = ("light", "dark")


class View(param.Parameterized):
    """Settings of the view: which page, in which theme."""

    page = param.Selector(default="compare", objects=["compare"])
    theme = param.Selector(default="light", objects=list(THEMES))


@dataclass
class Shared:
    """State that all pages of one session share.

    Attributes:
        folder: Folder of the visitor's uploaded files, removed with the session.
        system_panel: Widgets of the system, shared by several pages.
        visitor: Owner of the session, with the jobs of all their tabs.
        has_browser: Whether a browser shows the page and reports drawn charts.
        go: Function that shows another page, by its name, after calling the given function to prepare it.
    """

    limits: Limits
    queue: JobQueue
    runs: RunsFolder
    lecture: bool
    view: View
    system: SystemChoice
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="apviz-")))
    visitor: Visitor = field(default_factory=Visitor)
    has_browser: bool = False
    go: Callable[[str, Callable[[Any], None]], None] | None = None
    system_panel: SystemPanel = field(init=False)

    def __post_init__(self) -> None:
        self.system_panel = SystemPanel(self.system, self.folder)

    @property
    def theme(self) -> ThemeName:
        """Return the theme of the charts."""
        return "dark" if self.view.theme == "dark" else "light"

    def start(self, job: Job) -> None:
        """Start a job, which the current page will show."""
        job.page = self.view.page
        self.visitor.start(job)

    def end(self) -> None:
        """Close the tab of a visitor, and remove its files."""
        self.visitor.leave()
        shutil.rmtree(self.folder, ignore_errors=True)


#: Two charts side by side, of one height, if the window is wide enough.
HALF = {"flex": "1 1 560px", "min-width": "min(100%, 340px)", "align-self": "stretch", "height": "auto"}
#: While a page solves, drawing takes at most one part in this number of the server's time.
DRAWING_SHARE = 9


class Page(ABC):
    """Page of one session. Everything on it belongs to that session alone."""

    #: Name in the address.
    name: ClassVar[str]
    #: Title on the tab.
    title: ClassVar[str]
    #: Parts of the session's system that have chips above the page.
    asks: ClassVar[frozenset[Literal["data", "system"]]] = frozenset()
    #: Label of the chip that opens the page's own settings; empty if it has none.
    settings_title: ClassVar[str] = ""
    #: Whether the page has advanced settings.
    has_advanced: ClassVar[bool] = False

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        #: Settings that the address holds in addition to those of the session.
        self.models: Sequence[param.Parameterized] = ()
        self._to_draw: dict[int, Callable[[], None]] = {}
        self._next_drawing = 0.0
        #: The followed job, and how much of it has been read.
        self._followed: tuple[Job | None, int] = (None, 0)
        self._main: Viewable | None = None

    def settings(self) -> list[Viewable]:
        """Return the widgets of the page's own settings, for their editor."""
        return []

    def settings_words(self) -> str:
        """Return the value on the chip of the page's own settings."""
        return ""

    def advanced(self) -> list[Viewable]:
        """Return the widgets of the page's advanced settings, for their editor."""
        return []

    def main(self) -> Viewable:
        """Return the view of the page below the bar of chips, built on first use."""
        if self._main is None:
            self._main = self.make_main()
        return self._main

    @abstractmethod
    def make_main(self) -> Viewable:
        """Build the view of the page below the bar of chips."""

    @abstractmethod
    def redraw(self) -> None:
        """Draw all charts again after a change of theme."""

    def preview(self) -> Preview | None:
        """Return what is shown before the page's scripts have loaded; None if there is nothing to show."""
        return None

    def open(self) -> None:
        """Show the current state; called whenever the visitor opens this page."""

    def tick(self) -> None:
        """Show what is new; called several times a second while the page is shown."""
        self.draw_next()

    @property
    def is_drawing(self) -> bool:
        """Return whether a requested drawing is pending; drawings of growing runs do not count."""
        return bool(self._to_draw)

    @property
    def has_running(self) -> bool:
        """Return whether a job of this page is running."""
        return any(job.is_active and self.shows(job) for job in self.shared.visitor.jobs)

    def shows(self, job: Job) -> bool:
        """Return whether the page shows the state of a job."""
        return False

    def adopt(self, job: Job) -> None:
        """Show a job that was started in another tab, or before the page was reloaded."""

    def follow(self, job: Job | None, bar: JobBar, take: Callable[[Any], None]) -> None:
        """Show the state of a job, and take its new results."""
        if job is None:
            return
        bar.show(job)
        if (job, job.version) != self._followed:
            self._followed = (job, job.version)
            take(job)

    def draw_later(self, key: object, draw: Callable[[], None]) -> None:
        """Queue a drawing; it replaces a pending drawing with the same key."""
        self._to_draw[id(key)] = draw

    def draw_next(self) -> None:
        """Draw one item a tick, with pauses while the page's job runs, so that the solve keeps its processor."""
        if not self._to_draw or time.perf_counter() < self._next_drawing:
            return
        draw = self._to_draw.pop(next(iter(self._to_draw)))
        started = time.perf_counter()
        draw()
        now = time.perf_counter()
        pause = (DRAWING_SHARE - 1) * (now - started) if self.has_running else 0.0
        self._next_drawing = now + pause


class SolvingPage(Page):
    """Page with one job at a time, whose runs are saved in the folder.

    Args:
        label: Label of the button that runs it.
    """

    #: Name of a job of this page.
    solving: ClassVar[str]
    asks = frozenset({"data", "system"})
    has_advanced = True
    #: Whether the page solves for each of several seeds; other pages refuse several.
    takes_seeds: ClassVar[bool] = False

    def __init__(self, shared: Shared, label: str = "Run") -> None:
        super().__init__(shared)
        self.notice = Notice(self.use_shown, label)
        self._compared: object = None
        self.job: ComparisonJob | None = None
        self._taken = 0
        self._bar = JobBar(self.run, self.stop, label=label, is_running=lambda: self.has_running)
        self.fields = Fields(self._bar.show_problems, shared.system_panel.fields)

    @abstractmethod
    def run(self) -> None:
        """Solve with the current settings."""

    def stop(self) -> None:
        """Ask the running job to stop."""
        if self.job is not None:
            self.job.stop()

    def rerun(self, trace: Trace, diagnosis: Diagnosis) -> None:
        """Solve the system of a run again, with the change that its diagnosis proposes."""
        try:
            spec, solver = rerun(trace, diagnosis, self.shared.system.own.find)
        except ValueError as error:
            self._bar.refuse(str(error))
            return
        self.start(spec, [solver])

    def current(self, solvers: Callable[[SystemSpec], list[Solver]]) -> tuple[SystemSpec, list[Solver]] | None:
        """Return the chosen system and the solvers for it; None, with a message, if a setting is invalid."""
        if not self.fields.ready():
            return None
        try:
            spec = self.shared.system.spec(first_seed=self.takes_seeds)
            return spec, solvers(spec)
        except ValueError as error:
            self._bar.refuse(str(error))
            return None

    def start(
        self, spec: SystemSpec, solvers: Sequence[Solver], kind: type[ComparisonJob] = ComparisonJob, **options: Any
    ) -> bool:
        """Start a job, unless one is running; return whether it was started.

        Args:
            kind: Class of the job.
            options: Options of the job.
        """
        if self.job is not None and self.job.is_active:
            self._bar.refuse(f"{self.solving} is running; stop it first")
            return False
        shared = self.shared
        self.job = kind(shared.queue, shared.limits, shared.runs, spec, solvers, **options)
        self._taken = 0
        shared.start(self.job)
        return True

    def shown_runs(self) -> Sequence[Trace]:
        """Return the runs with which the settings are compared."""
        return []

    def use_shown(self) -> None:
        """Take over the settings of the first run shown."""
        if runs := self.shown_runs():
            adopt(self.shared.system, runs[0].attrs)

    @property
    def shows_examples_only(self) -> bool:
        """Return whether all runs shown are stored examples."""
        return False

    def own_differences(self) -> list[str]:
        """Return the settings of the page itself that differ from what is shown."""
        return []

    def show_differences(self) -> None:
        """Show which settings differ from what is shown; called repeatedly, and compares only after a change."""
        runs, system = self.shown_runs(), self.shared.system
        settings = [*system.param.values().values()], self.own_differences()
        compared = [id(trace) for trace in runs], settings, self.has_running, self.notice.run
        if compared == self._compared:
            return
        self._compared = compared
        if self.job is not None and not self.job.is_active and self.job.dataset != system.dataset:
            self._bar.withdraw()
        attrs = [] if self.has_running else [trace.attrs for trace in runs]
        found = [*differences(system, attrs), *self.own_differences()] if attrs else []
        shown = sorted({str(each["dataset"]) for each in attrs})
        self.notice.show(
            found, data="" if system.dataset in shown else ", ".join(shown), is_here=any(map(system.has, shown)),
            is_example=self.shows_examples_only,
        )  # fmt: skip

    @property
    def is_drawing(self) -> bool:
        return super().is_drawing and not self.has_running

    def shows(self, job: Job) -> bool:
        return job is self.job

    def adopt(self, job: Job) -> None:
        if isinstance(job, ComparisonJob) and (self.job is None or not self.job.is_active):
            self.job, self._taken = job, 0

    def opened(self, names: Sequence[str]) -> tuple[dict[str, Trace], list[str]]:
        """Open solves of the folder; return them by name, and why others do not open, in sentences."""
        found, problems = dict[str, Trace](), list[str]()
        for name in names:
            try:
                trace = self.shared.runs.open(name)
            except (ValueError, OSError) as error:
                problems.append(str(error))
                continue
            if is_solve(trace):
                found[name] = trace
        return found, problems

    @property
    def expects_runs(self) -> bool:
        """Return whether runs of the page's job are still to come or to be read."""
        return self.job is not None and (self.job.is_active or self._taken < len(self.job.done))

    def take_runs(self, job: ComparisonJob) -> list[str]:
        """Return the names of the runs that were recorded since the last call."""
        new = job.done[self._taken :]
        self._taken += len(new)
        return new
