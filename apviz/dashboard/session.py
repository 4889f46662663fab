"""One visitor: the pages, the address, and the clock that lets pages draw."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from panel.util import edit_readonly
from panel.viewable import Viewable

from apviz.dashboard import address, first_sight
from apviz.dashboard.components.browser import Browser
from apviz.dashboard.components.text import escape
from apviz.dashboard.jobs.elsewhere import Elsewhere
from apviz.dashboard.jobs.job import Job, JobQueue
from apviz.dashboard.jobs.live import duration
from apviz.dashboard.jobs.visitors import Visitors
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages import PAGES
from apviz.dashboard.pages.base import THEMES, Shared, View
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.store.own_data import OwnData
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.plots._style import FONT

#: milliseconds between two looks at what the jobs have done
TICK_MS = 120
#: pixels of type on a desk; and on a projector, where what is written in it becomes 1.4 times as large, as in charts
TYPE_PIXELS, LECTURE_TYPE_PIXELS = 14, 16.6
#: seconds in which nothing was to be done, after which part of a page is made that nobody has asked for yet
IDLE_SECONDS = 0.7
#: seconds for which a job that has ended is shown again when a page is loaded again
ENDED_SECONDS = 60.0
#: seconds before a connection was lost within which a run that went on was written
WRITTEN_SECONDS = 60.0
_HERE = Path(__file__).parent
#: Panel's page, with what it does by itself, and the script that the charts wait for; styles and scripts come after
#: what is seen first, for a browser shows nothing of what stands below them before it has read them
_HTML = f"""{{% extends "base.html" %}}
{{% block css_resources %}}{{% endblock %}}{{% block js_resources %}}{{% endblock %}}
{{% block postamble %}}{{% raw %}}<script>{(_HERE / "page.js").read_text("utf-8")}</script>
<style>{(_HERE / "page.css").read_text("utf-8")}{first_sight.STYLE}</style>
{{% endraw %}}{{{{ super() }}}}{{% endblock %}}
{{% block contents %}}{{{{ first_sight }}}}{{{{ super() }}}}{{{{ bokeh_css }}}}{{{{ bokeh_js }}}}
<script id="plotly-script" src="plotly/plotly.min.js" async></script>{{% endblock %}}
"""


class Session:
    """App of one visitor.

    Args:
        dataset: that the pages begin with; None for the default.
        lecture: larger type and lines, for a projector.
        visitors: of the server.
        first_runs: the job that fills a new folder; None where there was something.
    """

    def __init__(
        self,
        limits: Limits,
        queue: JobQueue,
        runs: RunsFolder,
        *,
        dataset: str | None,
        lecture: bool,
        visitors: Visitors | None = None,
        first_runs: Job | None = None,
    ) -> None:
        system = SystemChoice(limits, OwnData(runs.path / ".data"))
        if dataset is not None:
            system.dataset = dataset
        self.shared = Shared(limits, queue, runs, lecture, View(), system, first_runs=first_runs)
        self._visitors = visitors or Visitors(limits.job_seconds)
        self._awaits_first_runs = self.shared.awaits_first_runs
        self.shared.view.param.page.objects = list(PAGES)
        self.shared.go = self.go
        self._pages: dict[str, Any] = {}
        #: pages that have been shown, and of these the ones whose charts are still of the other theme
        self._opened, self._stale = set[str](), set[str]()
        self._is_loaded = False
        self._idle_since = math.inf
        self._clock: Any = None
        #: what the browser has said so far
        self._token, self._lost = "", dict[str, Any]()
        #: what is in the browser's address bar, by Panel, and what was written there
        self._location, self._address = pn.state.location, ""
        self.problems = self._read_address()
        view = self.shared.view
        # tabs of nothing: what they would show, they would make anew, here and in the browser, at every change
        self._tabs = pmui.Tabs(
            *((page.title, pn.Spacer()) for page in PAGES.values()), active=list(PAGES).index(view.page),
            sizing_mode="stretch_width",
        )  # fmt: skip
        self._bodies, self._sidebars = _Pile(PAGES), _Pile(PAGES)
        self._of_the_system = {name: pn.Column(sizing_mode="stretch_width") for name in ("data", "system")}
        self._tabs.param.watch(self._tab_changed, "active")
        self._browser = Browser(margin=0)
        self._browser.param.watch(lambda *events: self._listen(), ["pixels", "visitor", "lost"])
        self._elsewhere = Elsewhere({name: page.title for name, page in PAGES.items()}, self._show_job)
        self._was_lost = pmui.Alert(
            object="", severity="info", visible=False, closeable=True, title="Connected again",
            sizing_mode="stretch_width",
        )  # fmt: skip
        of_others = _that_follow_busy()
        self._template = pmui.Page(
            title="apviz", sidebar=[*self._of_the_system.values(), self._sidebars.view],
            main=[self._browser, self._problem_note(), self._was_lost, self._elsewhere.view, self._tabs,
                  self._bodies.view],
            sidebar_width=430 if lecture else 340, dark_theme=view.theme == "dark", theme_toggle=True, site_url="./",
            busy_indicator=None, theme_config=_theme(self.shared), template=_HTML,
        )  # fmt: skip
        # it would follow whether any session of this server is busy: every change costs a walk over the whole page, and
        # what follows it is never let go
        for watcher in _that_follow_busy():
            if watcher not in of_others:
                pn.state.param.unwatch(watcher)
        with edit_readonly(self._template):
            self._template.busy = False
        self._template.param.watch(self._theme_changed, "dark_theme")
        self._show_page()
        view.param.watch(lambda *events: self._write_address(), ["page", "theme"])
        system.param.watch(lambda *events: self._write_address(), address.settings(system))
        pn.state.onload(self._loaded)
        pn.state.on_session_destroyed(lambda context: self._end(context._document))

    def view(self) -> pmui.Page:
        """Page of HTML that the server sends."""
        if pn.state.curdoc is not None:
            pn.state.curdoc.template_variables["first_sight"] = self.first_sight()
        return self._template

    def first_sight(self) -> str:
        """HTML that is seen until the page is there."""
        titles = [page.title for page in PAGES.values()]
        sight = self.page.first_sight()
        return first_sight.page(sight, titles, self.page.title, self.shared.theme, lecture=self.shared.lecture)

    @property
    def page(self) -> Any:
        """Page that is shown; made when it is first shown."""
        return self._page(self.shared.view.page)

    def go(self, name: str, prepare: Callable[[Any], None]) -> None:
        """Shows a page, prepared for what it is wanted for."""
        prepare(self._page(name))
        self._tabs.active = list(PAGES).index(name)

    def _page(self, name: str) -> Any:
        if name not in self._pages:
            page = self._pages[name] = PAGES[name](self.shared)
            for model in page.models:
                model.param.watch(lambda *events: self._write_address(), address.settings(model))
            self._adopt_jobs(name)
        return self._pages[name]

    def _main(self, name: str) -> list[Viewable]:
        return [self._page(name).main()]

    def _settings(self, name: str) -> list[Viewable]:
        settings: list[Viewable] = self._page(name).sidebar()
        return settings

    def _show_page(self) -> None:
        page = self.page
        self._bodies.show(page.name, partial(self._main, page.name))
        if self._is_loaded:
            self._show_settings()
        page.open()
        self._opened.add(page.name)
        if page.name in self._stale:
            self._stale.remove(page.name)
            page.redraw()

    def _show_settings(self) -> None:
        """Shows the settings of the page; made once, for their widgets watch the models as long as these live."""
        for name, part in self._of_the_system.items():
            part.visible = name in self.page.asks
            if part.visible and not len(part):
                part.append(getattr(self.shared.system_panel, name))
        self._sidebars.show(self.page.name, partial(self._settings, self.page.name))

    def _loaded(self) -> None:
        """Shows the settings once the browser shows the page: they take it as long as everything before."""
        self._is_loaded, self._idle_since = True, time.monotonic()
        self._listen()
        self._show_settings()
        self._write_address()
        # not `state.add_periodic_callback`, which tells every page of the server at every tick that it is busy
        self._clock = pn.io.PeriodicCallback(callback=self._tick, period=TICK_MS, background=True)
        self._clock.start()

    def _end(self, document: Any) -> None:
        """Lets everything go; the clock of a page that is gone would hold it for good, and so would its messages."""
        if self._clock is not None:
            self._clock.stop()
        # Panel's area of messages is drawn twice, and forgets one of the two
        for key, (_, _, of, _) in list(pn.state._views.items()):
            if of is document:
                del pn.state._views[key]
        self.shared.end()

    def _listen(self) -> None:
        """Takes what the browser has said; before the page is loaded it would not hear the answer."""
        if not self._is_loaded:
            return
        if self._browser.is_phone:
            self._template.sidebar_open = False
        self._browser.is_heard = self.shared.has_browser = self._browser.pixels > 0
        if self._browser.visitor != self._token:
            self._token = self._browser.visitor
            self._recognise(self._token)
        if self._browser.lost != self._lost:
            self._lost = self._browser.lost
            self._say_what_went_on(self._lost)

    def _tab_changed(self, event: Any) -> None:
        self.shared.view.page = list(PAGES)[event.new]
        self._show_page()

    def _theme_changed(self, event: Any) -> None:
        self.shared.view.theme = THEMES[bool(event.new)]
        self._template.theme_config = _theme(self.shared)
        self._stale = self._opened - {self.page.name}
        self.page.redraw()

    def _tick(self) -> None:
        if self._awaits_first_runs and not self.shared.awaits_first_runs:
            self._awaits_first_runs = False
            self.page.open()
        self.page.tick()
        self._mend_address()
        self._show_elsewhere()
        self._browser.drawing = self.page.is_drawing
        self._make_ahead()

    def _make_ahead(self) -> None:
        """Makes a part of a page that was not shown yet, where there is nothing else to do: then it opens at once."""
        now, visitor = time.monotonic(), self.shared.visitor
        if self.page.is_drawing or self.shared.awaits_first_runs or any(job.is_active for job in visitor.jobs):
            self._idle_since = now
        if now - self._idle_since < IDLE_SECONDS:
            return
        self._idle_since = now
        for name in PAGES:
            if self._bodies.make(name, partial(self._main, name)) or self._sidebars.make(
                name, partial(self._settings, name)
            ):
                return
        self._idle_since = math.inf

    # --- jobs, in whatever tab they were started ------------------------------------------------------------------

    def _recognise(self, token: str) -> None:
        """Goes on as the visitor that the browser says it is."""
        known = self._visitors.find(token)
        if known is None:
            return
        known.take_over(self.shared.visitor)
        self.shared.visitor = known
        for name in self._pages:
            self._adopt_jobs(name)

    def _adopt_jobs(self, name: str) -> None:
        """Gives a page the job of the visitor that goes on there, or has ended unseen."""
        now = time.monotonic()
        for job in self.shared.visitor.jobs:
            if job.page == name and (job.is_active or not job.seen or now - job.ended < ENDED_SECONDS):
                self._pages[name].adopt(job)

    def _show_elsewhere(self) -> None:
        shared = self.shared
        own = [job for job in shared.visitor.jobs if (job.is_active or not job.seen) and not self.page.shows(job)]
        first = [shared.first_runs] if shared.first_runs is not None and shared.awaits_first_runs else []
        self._elsewhere.show([*first, *own])
        words = [f"{job.title} on page {PAGES[job.page].title}" for job in shared.visitor.jobs if job.is_active]
        if words != self._browser.jobs:
            self._browser.jobs = words

    def _show_job(self, job: Job) -> None:
        """Goes to the page of a job."""
        job.seen = job.seen or not job.is_active
        self.go(job.page, lambda page: page.adopt(job))

    def _say_what_went_on(self, lost: dict[str, Any]) -> None:
        """Says what happened while there was no connection."""
        if not lost:
            return
        words = f"There was no connection for {duration(float(lost['seconds']))}."
        if lost["server"] == self._browser.server:
            words += " The server went on meanwhile."
        else:
            words += " The server was started again meanwhile."
            since = float(lost["at"]) - WRITTEN_SECONDS
            cut = [each.name for each in self.shared.runs.entries() if not each.finished and each.changed > since]
            if lost["jobs"]:
                words += f" What ran was interrupted: {'; '.join(map(str, lost['jobs']))}."
            if cut:
                words += f" As far as it was recorded it is in the folder: {', '.join(cut)}."
        self._was_lost.param.update(object=escape(words), visible=True)

    def _models(self) -> list[param.Parameterized]:
        return [self.shared.view, self.shared.system, *self.page.models]

    def _read_address(self) -> list[str]:
        """Settings from the address; the page first, for it says which others there are."""
        query = "" if self._location is None else self._location.search
        if not query:
            return []
        view = self.shared.view
        problems = address.apply(address.only(query, address.settings(view)), [view])
        rest = address.only(query, [name for name in address.names(query) if name not in address.settings(view)])
        return problems + address.apply(rest, self._models())

    def _write_address(self) -> None:
        if self._location is not None:
            self._location.search = self._address = address.to_query(self._models())

    def _mend_address(self) -> None:
        """Writes it again where the page, as it begins to show, has put the one it was opened with in its place."""
        if self._location is not None and self._location.search != self._address:
            self._write_address()

    def _problem_note(self) -> Viewable:
        return pmui.Alert(
            object="  \n".join(self.problems), severity="warning", visible=bool(self.problems), closeable=True,
            title="Not everything in this address could be opened", sizing_mode="stretch_width",
        )  # fmt: skip


class _Pile:
    """Parts of a page, of which one is shown; the others stay in the browser, so that it costs nothing to come back."""

    def __init__(self, names: Iterable[str]) -> None:
        # all from the beginning: what comes into one is no change of the others
        self._parts = {name: pn.Column(sizing_mode="stretch_width", visible=False) for name in names}
        # the page scrolls; Bokeh and flex would squeeze all that is in it to the height of the window
        self.view = pn.Column(
            *self._parts.values(), sizing_mode="stretch_width", styles={"max-height": "none", "flex-shrink": "0"}
        )

    def show(self, name: str, make: Callable[[], list[Viewable]]) -> None:
        """Shows the part of that name; made when it is first shown."""
        for other, part in self._parts.items():
            part.visible = other == name
        self.make(name, make)

    def make(self, name: str, make: Callable[[], list[Viewable]]) -> bool:
        """Makes the part of that name, shown or not; returns whether it was not there yet."""
        if len(self._parts[name]):
            return False
        self._parts[name][:] = make()
        return True

    def shown(self) -> list[Viewable]:
        """What it shows."""
        return [each for part in self._parts.values() if part.visible for each in part]


def _that_follow_busy() -> list[Any]:
    """Watchers of whether any session of the server is busy."""
    return list(pn.state.param.watchers.get("busy", {}).get("value", []))


def _theme(shared: Shared) -> dict[str, Any]:
    # the type of the charts; Roboto, the default, would come in eleven files
    typography: dict[str, Any] = {"fontFamily": FONT, "fontSize": TYPE_PIXELS}
    if shared.lecture:
        # its headings do not grow with the rest
        typography |= {"fontSize": LECTURE_TYPE_PIXELS, "h6": {"fontSize": "1.35rem"}}
    blue = "#4A94E0" if shared.theme == "dark" else "#1F77D0"
    # one paragraph beside its icon, not below it, nor below a title that is not there
    empty = {"& .MuiAlertTitle-root:empty": {"display": "none"}}
    message = {"styleOverrides": {"message": {"& p": {"margin": 0}, **empty}}}
    return {
        "palette": {"primary": {"main": blue}}, "typography": typography, "components": {"MuiAlert": message},
    }  # fmt: skip
