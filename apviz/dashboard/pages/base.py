"""What a page is, what the pages of one visitor have in common, and what those that solve do."""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import panel as pn
import param
from panel.viewable import Viewable

from apviz.analysis.diagnosis import Diagnosis
from apviz.dashboard.first_sight import FirstSight
from apviz.dashboard.jobs.comparison_job import ComparisonJob, rerun
from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.jobs.job_bar import JobBar
from apviz.dashboard.jobs.visitors import Visitor
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.system_choice import SystemChoice, SystemPanel
from apviz.dashboard.settings.systems import SystemSpec
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
    """State that the pages of one session have in common.

    Attributes:
        folder: where files that the visitor brought lie; removed with the session.
        system_panel: widgets of the system, which several pages show.
        visitor: whose session it is, with the jobs of all their tabs.
        first_runs: the job that fills a new folder; None where there was something.
        has_browser: whether a browser shows the page, and says what it has drawn.
        go: shows another page, by its name, after it was prepared by the function given.
    """

    limits: Limits
    queue: JobQueue
    runs: RunsFolder
    lecture: bool
    view: View
    system: SystemChoice
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="apviz-")))
    visitor: Visitor = field(default_factory=Visitor)
    first_runs: Job | None = None
    has_browser: bool = False
    go: Callable[[str, Callable[[Any], None]], None] | None = None
    system_panel: SystemPanel = field(init=False)

    def __post_init__(self) -> None:
        self.system_panel = SystemPanel(self.system, self.folder)

    @property
    def theme(self) -> ThemeName:
        """Theme of the charts."""
        return "dark" if self.view.theme == "dark" else "light"

    def start(self, job: Job) -> None:
        """Starts a job, which the page that is shown now will show."""
        job.page = self.view.page
        self.visitor.start(job)

    @property
    def awaits_first_runs(self) -> bool:
        """Whether a new folder is still being filled."""
        return self.first_runs is not None and self.first_runs.is_active

    def tell(self, message: str, *, bad: bool = False) -> None:
        """Shows a message to the visitor, which stays until it is closed if it is bad news."""
        if pn.state.notifications is None:
            return
        (pn.state.notifications.error if bad else pn.state.notifications.info)(message, duration=0 if bad else 4000)

    def end(self) -> None:
        """Closes the tab of a visitor, and removes its files."""
        self.visitor.leave()
        shutil.rmtree(self.folder, ignore_errors=True)


#: two charts side by side where there is room
HALF = {"flex": "1 1 560px", "min-width": "min(100%, 340px)"}
#: while its own solve runs, a page's drawing takes at most one part in so many of the server's time
DRAWING_SHARE = 9


class Page(ABC):
    """Page of one session; everything it shows belongs to that session alone."""

    #: in the address
    name: ClassVar[str]
    #: on the tab
    title: ClassVar[str]
    #: what of the session's system is above its own settings
    asks: ClassVar[frozenset[Literal["data", "system"]]] = frozenset()

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        #: settings that belong into the address, beside those of the session
        self.models: Sequence[param.Parameterized] = ()
        self._to_draw: dict[int, Callable[[], None]] = {}
        self._next_drawing = 0.0
        #: which job, and what of it has been taken
        self._followed: tuple[Job | None, int] = (None, 0)

    @abstractmethod
    def sidebar(self) -> list[Viewable]:
        """Widgets of its own settings, for the sidebar."""

    @abstractmethod
    def main(self) -> Viewable:
        """View of everything else."""

    @abstractmethod
    def redraw(self) -> None:
        """Draws all charts anew, for the theme has changed."""

    def first_sight(self) -> FirstSight | None:
        """What is seen of it as it is opened before any script has come; None where that would be nothing."""
        return None

    def open(self) -> None:
        """Shows what there is by now; called whenever the visitor comes to this page."""

    def tick(self) -> None:
        """Shows what is new; called some times a second, while the page is shown."""
        self.draw_next()

    @property
    def is_drawing(self) -> bool:
        """Whether something that was asked for is still to be drawn; what grows by itself is not."""
        return bool(self._to_draw)

    @property
    def has_running(self) -> bool:
        """Whether a job that it shows goes on."""
        return any(job.is_active and self.shows(job) for job in self.shared.visitor.jobs)

    def shows(self, job: Job) -> bool:
        """Whether it shows how a job stands."""
        return False

    def adopt(self, job: Job) -> None:
        """Shows a job that was started in another tab, or before the page was loaded again."""

    def follow(self, job: Job | None, bar: JobBar, take: Callable[[Any], None]) -> None:
        """Shows how a job stands, and takes what is new of it."""
        if job is None:
            return
        bar.show(job)
        if (job, job.version) != self._followed:
            self._followed = (job, job.version)
            take(job)

    def draw_later(self, key: object, draw: Callable[[], None]) -> None:
        """Draws when it is this drawing's turn; it replaces one that waits under the same key."""
        self._to_draw[id(key)] = draw

    def draw_next(self) -> None:
        """Draws one thing a tick, with pauses while its own job runs, so that the solve keeps its processor."""
        if not self._to_draw or time.perf_counter() < self._next_drawing:
            return
        draw = self._to_draw.pop(next(iter(self._to_draw)))
        started = time.perf_counter()
        draw()
        now = time.perf_counter()
        pause = (DRAWING_SHARE - 1) * (now - started) if self.has_running else 0.0
        self._next_drawing = now + pause


class SolvingPage(Page):
    """Page with one job at a time, whose runs go into the folder.

    Args:
        bar: words of its `JobBar`: `label` and `hint`.
    """

    #: what a job of it is called
    solving: ClassVar[str]
    asks = frozenset({"data", "system"})

    def __init__(self, shared: Shared, **bar: str) -> None:
        super().__init__(shared)
        self.job: ComparisonJob | None = None
        self._taken = 0
        self._bar = JobBar(self.run, self.stop, **bar)
        self.fields = Fields(self._bar.show_problems, shared.system_panel.fields)

    @abstractmethod
    def run(self) -> None:
        """Solves what the settings say."""

    def stop(self) -> None:
        """Asks what runs to stop."""
        if self.job is not None:
            self.job.stop()

    def rerun(self, trace: Trace, diagnosis: Diagnosis) -> None:
        """Solves again what a run solved, with the change that its diagnosis proposes."""
        try:
            spec, solver = rerun(trace, diagnosis, self.shared.system.own.find)
        except ValueError as error:
            self._bar.refuse(str(error))
            return
        self.start(spec, [solver])

    def start(
        self, spec: SystemSpec, solvers: Sequence[Solver], kind: type[ComparisonJob] = ComparisonJob, **options: Any
    ) -> bool:
        """Starts a job, unless one is running; returns whether it was started.

        Args:
            kind: of the job.
            options: of it.
        """
        if self.job is not None and self.job.is_active:
            self._bar.refuse(f"{self.solving} is running; stop it first")
            return False
        shared = self.shared
        self.job = kind(shared.queue, shared.limits, shared.runs, spec, solvers, **options)
        self._taken = 0
        shared.start(self.job)
        return True

    @property
    def is_drawing(self) -> bool:
        return super().is_drawing and not self.has_running

    def shows(self, job: Job) -> bool:
        return job is self.job

    def adopt(self, job: Job) -> None:
        if isinstance(job, ComparisonJob) and (self.job is None or not self.job.is_active):
            self.job, self._taken = job, 0

    @property
    def expects_runs(self) -> bool:
        """Whether runs of its job are to come, or are there and not taken yet."""
        return self.job is not None and (self.job.is_active or self._taken < len(self.job.done))

    def take_runs(self, job: ComparisonJob) -> list[str]:
        """Names of the runs that were recorded since the last call."""
        new = job.done[self._taken :]
        self._taken += len(new)
        return new
