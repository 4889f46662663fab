"""The session of one visitor: the pages, the address, and the timer on which pages draw."""

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
from panel.io.resources import LOCAL_DIST
from panel.util import edit_readonly
from panel.viewable import Viewable

from apviz.dashboard import address, preview
from apviz.dashboard.components.browser import Browser
from apviz.dashboard.components.text import escape
from apviz.dashboard.editors import Editors
from apviz.dashboard.first_page import SCRIPT
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
from apviz.dashboard.tokens import STYLE, material_theme

#: Milliseconds between two checks of the jobs' progress.
TICK_MS = 120
#: Idle seconds after which part of a page is built before the visitor opens it.
IDLE_SECONDS = 0.7
#: A run written within this many seconds before the connection was lost counts as running then.
WRITTEN_SECONDS = 60.0
_HERE = Path(__file__).parent
#: Panel's page with its own resources, and the script that the charts wait for. Styles and scripts follow the
#: preview, because a browser shows nothing below them before it has loaded them.
_HTML = f"""{{% extends "base.html" %}}
{{% set plot_script = plot_script | replace("<script>", '<script type="text/later">') %}}
{{% block inner_head %}}{SCRIPT}{{{{ super() }}}}{{% endblock %}}
{{% block css_resources %}}{{% endblock %}}{{% block js_resources %}}{{% endblock %}}
{{% block postamble %}}<script>document.documentElement.dataset.theme = "{{{{ apviz_theme }}}}";
document.documentElement.dataset.components = "{{{{ apviz_components }}}}";
{{% raw %}}{(_HERE / "page.js").read_text("utf-8")}</script>
<style>{STYLE}{(_HERE / "page.css").read_text("utf-8")}{preview.STYLE}</style>
{{% endraw %}}{{{{ super() }}}}{{% endblock %}}
{{% block contents %}}{{{{ apviz_preview }}}}
{{{{ super() }}}}{{{{ bokeh_css }}}}{{{{ bokeh_js | replace('type="text/javascript"', 'type="text/later"') }}}}
{{% endblock %}}
"""


class Session:
    """App of one visitor.

    Args:
        dataset: Initial data set of the pages; None for the default.
        lecture: Whether to use larger type and lines, for a projector.
        visitors: Visitors of the server.
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
    ) -> None:
        system = SystemChoice(limits, OwnData(runs.path / ".data"), lambda: queue.datasets)
        if dataset is not None:
            system.dataset = dataset
        self.shared = Shared(limits, queue, runs, lecture, View(), system)
        self._visitors = visitors or Visitors(limits.job_seconds)
        self.shared.view.param.page.objects = list(PAGES)
        self.shared.go = self.go
        self._pages: dict[str, Any] = {}
        #: Pages that have been shown, and those of them whose charts still have the other theme.
        self._opened, self._stale = set[str](), set[str]()
        self._is_loaded = False
        self._idle_since = math.inf
        self._clock: Any = None
        #: Values last received from the browser.
        self._token, self._lost = "", dict[str, Any]()
        #: Panel's view of the browser's address bar, and the query last written to it.
        self._location, self._address = pn.state.location, ""
        self._editors = Editors(self.shared, lambda: self.page, self._open_drawer)
        self.problems = self._read_address()
        view = self.shared.view
        # The tabs are empty, because they would rebuild their contents here and in the browser at every change.
        self._tabs = pmui.Tabs(
            *((page.title, pn.Spacer()) for page in PAGES.values()), active=list(PAGES).index(view.page),
            sizing_mode="stretch_width",
        )  # fmt: skip
        self._bodies = _Pile(PAGES)
        self._tabs.param.watch(self._tab_changed, "active")
        self._browser = Browser(self._open_page, margin=0, theme=self.shared.theme)
        self._browser.param.watch(lambda *events: self._listen(), ["pixels", "visitor", "lost"])
        self._elsewhere = Elsewhere({name: page.title for name, page in PAGES.items()}, self._show_job)
        #: Messages above the page.
        self._notes = pn.Column(*self._problem_notes(), sizing_mode="stretch_width", margin=0)
        self._template = self._make_template()
        self._template.param.watch(self._theme_changed, "dark_theme")
        self._template.param.watch(lambda event: None if event.new else self._editors.close(), "contextbar_open")
        self._show_page()
        view.param.watch(lambda *events: self._write_address(), ["page", "theme"])
        system.param.watch(lambda *events: self._write_address(), address.settings(system))
        if self._location is not None:
            self._location.param.watch(lambda event: _serve_at_root(), "pathname")
        pn.state.onload(self._loaded)
        pn.state.on_session_destroyed(lambda context: self._end(context._document))

    def _make_template(self) -> pmui.Page:
        lecture, of_others = self.shared.lecture, _that_follow_busy()
        template = pmui.Page(
            title="apviz", header=[self._tabs], contextbar=[self._editors.drawer], contextbar_variant="auto",
            main=[self._browser, self._editors.bar, self._notes, self._elsewhere.view, self._bodies.view],
            contextbar_width=480 if lecture else 380, contextbar_resizable=False,
            dark_theme=self.shared.theme == "dark", theme_toggle=True, site_url="./", busy_indicator=None,
            theme_config=self._material_theme(), template=_HTML,
            # the chips open the drawer; the other two are shown by nothing, and have no names
            sx={
                "& .header [aria-label$=contextbar], & .header .MuiLinearProgress-root, & .main .MuiToolbar-root h5": {
                    "display": "none"
                },
                "& .main": {"opacity": "var(--apviz-shown, 1)"},
            },
        )  # fmt: skip
        # The page would watch whether any session of this server is busy. Every change would cost a walk over the whole
        # page, and such watchers are never released.
        for watcher in _that_follow_busy():
            if watcher not in of_others:
                pn.state.param.unwatch(watcher)
        with edit_readonly(template):
            template.busy = False
        return template

    def view(self) -> pmui.Page:
        """Return the HTML page that the server sends."""
        if pn.state.curdoc is not None:
            variables = pn.state.curdoc.template_variables
            variables |= {"apviz_preview": self.preview(), "apviz_theme": self.shared.theme}
            variables["apviz_components"] = type(self._template)._render_esm(server=True)
            # Panel sets this with the HTML. A tab that connects after its session has ended gets another session
            # without HTML, and its styles would come from a CDN.
            variables.setdefault("dist_url", LOCAL_DIST)
        return self._template

    def preview(self) -> str:
        """Return the HTML of the preview, shown until the page has loaded."""
        self._editors.update()
        titles = [page.title for page in PAGES.values()]
        return preview.page(
            self.page.preview(), [chip[1:] for chip in self._editors.bar.chips], titles, self.page.title
        )

    def _material_theme(self) -> dict[str, Any]:
        return material_theme(self.shared.theme, lecture=self.shared.lecture)

    def open_editor(self, name: str) -> None:
        """Open the editor of a chip."""
        self._editors.open(name)

    def _open_drawer(self, is_open: bool) -> None:
        self._template.contextbar_open = is_open

    @property
    def page(self) -> Any:
        """Return the open page, built on first use."""
        return self._page(self.shared.view.page)

    def go(self, name: str, prepare: Callable[[Any], None]) -> None:
        """Call `prepare` on a page and show it."""
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

    def _show_page(self) -> None:
        page = self.page
        self._bodies.show(page.name, partial(self._main, page.name))
        self._browser.page = page.name
        self._editors.close()
        page.open()
        self._editors.update()
        self._opened.add(page.name)
        if page.name in self._stale:
            self._stale.remove(page.name)
            page.redraw()

    def _loaded(self) -> None:
        """Start the clock, once the browser shows the page."""
        self._is_loaded, self._idle_since = True, time.monotonic()
        self._browser.asked += 1
        self._listen()
        self._write_address()
        # Avoid `state.add_periodic_callback`: at every tick it marks every page of the server as busy.
        self._clock = pn.io.PeriodicCallback(callback=self._tick, period=TICK_MS, background=True)
        self._clock.start()

    def _end(self, document: Any) -> None:
        """Release everything; otherwise the timer and the notifications would keep a closed page alive forever."""
        if self._clock is not None:
            self._clock.stop()
        # Panel draws its notification area twice but releases only one of the two.
        for key, (_, _, of, _) in list(pn.state._views.items()):
            if of is document:
                del pn.state._views[key]
        self.shared.end()

    def _listen(self) -> None:
        """Read the values from the browser, after the page has loaded; before, an answer would not reach it."""
        if not self._is_loaded:
            return
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

    def _open_page(self, name: str) -> None:
        """Open the page to which the browser went back or forward."""
        if name in PAGES:
            self._tabs.active = list(PAGES).index(name)

    def _theme_changed(self, event: Any) -> None:
        self.shared.view.theme = THEMES[bool(event.new)]
        self._template.theme_config, self._browser.theme = self._material_theme(), self.shared.theme
        self._stale = self._opened - {self.page.name}
        self.page.redraw()

    def _tick(self) -> None:
        self.page.tick()
        self._mend_address()
        self._show_elsewhere()
        self._browser.drawing = self.page.is_drawing
        self._make_ahead()

    def _make_ahead(self) -> None:
        """Build a part of an unopened page while idle, so that the page later opens at once."""
        now, visitor = time.monotonic(), self.shared.visitor
        # a visitor with the editor of tables is about to drop a file
        if self.page.is_drawing or self._editors.bar.editor == "own" or any(job.is_active for job in visitor.jobs):
            self._idle_since = now
        # building and drawing such a part would hold up a page that is still loading, or a visitor's click
        is_busy = self._is_loaded and self._browser.idle < self._browser.asked
        if is_busy or now - self._idle_since < IDLE_SECONDS:
            return
        self._idle_since = now
        self._browser.asked += 1
        if self._editors.make_ahead():
            return
        for name in PAGES:
            if self._bodies.make(name, partial(self._main, name)):
                return
        self._idle_since = math.inf

    # --- jobs of the visitor, from all tabs -----------------------------------------------------------------------

    def _recognise(self, token: str) -> None:
        """Continue as the visitor whose token the browser sent."""
        known = self._visitors.find(token)
        if known is None:
            return
        known.take_over(self.shared.visitor)
        self.shared.visitor = known
        for name in self._pages:
            self._adopt_jobs(name)

    def _adopt_jobs(self, name: str) -> None:
        """Give a page the visitor's job that runs there, or whose end they have not seen."""
        for job in self.shared.visitor.jobs:
            if job.page == name and (job.is_active or not job.seen):
                self._pages[name].adopt(job)

    def _show_elsewhere(self) -> None:
        shared = self.shared
        own = [job for job in shared.visitor.jobs if (job.is_active or not job.seen) and not self.page.shows(job)]
        self._elsewhere.show(own)
        words = [f"{job.title} on page {PAGES[job.page].title}" for job in shared.visitor.jobs if job.is_active]
        if words != self._browser.jobs:
            self._browser.jobs = words

    def _show_job(self, job: Job) -> None:
        """Open the page of a job."""
        job.seen = job.seen or not job.is_active
        self.go(job.page, lambda page: page.adopt(job))

    def _say_what_went_on(self, lost: dict[str, Any]) -> None:
        """Report what happened while the connection was lost."""
        if not lost:
            return
        words = f"There was no connection for {duration(float(lost['seconds']))}."
        if lost["server"] == self._browser.server:
            words += " The server kept running."
        else:
            words += " The server was started again meanwhile."
            since = float(lost["at"]) - WRITTEN_SECONDS
            cut = [each.name for each in self.shared.runs.entries() if not each.finished and each.changed > since]
            if lost["jobs"]:
                words += f" What ran was interrupted: {'; '.join(map(str, lost['jobs']))}."
            if cut:
                words += f" As far as it was recorded it is in the folder: {', '.join(cut)}."
        self._notes.append(_note("Connected again", escape(words), "info"))

    def _models(self) -> list[param.Parameterized]:
        return [self.shared.view, self.shared.system, *self.page.models]

    def _read_address(self) -> list[str]:
        """Read the settings from the address, the page first because it determines the others; return the problems."""
        query = "" if self._location is None else self._location.search
        if not query:
            return []
        view = self.shared.view
        problems = address.apply(address.only(query, address.settings(view)), [view])
        rest = address.only(query, [name for name in address.names(query) if name not in address.settings(view)])
        return problems + address.apply(rest, self._models())

    def _write_address(self) -> None:
        self._editors.update()
        if self._location is not None:
            self._location.search = self._address = address.to_query(self._models())

    def _mend_address(self) -> None:
        """Rewrite the address if the loading page has restored the address it was opened with."""
        if self._location is not None and self._location.search != self._address:
            self._write_address()

    def _problem_notes(self) -> list[Viewable]:
        words = "  \n".join(map(escape, self.problems))
        return [_note("Not everything in this address could be opened", words, "warning")] if words else []


def _note(title: str, text: str, severity: str) -> pmui.Alert:
    return pmui.Alert(object=text, title=title, severity=severity, closeable=True, sizing_mode="stretch_width")


class _Pile:
    """Parts of a page, one of them shown. The others stay in the browser, so that showing them again costs nothing."""

    def __init__(self, names: Iterable[str]) -> None:
        # Create all columns at the start, so that filling one does not change the others.
        self._parts = {name: pn.Column(sizing_mode="stretch_width", visible=False) for name in names}
        # The page scrolls. By default, Bokeh and flex would squeeze its contents to the height of the window.
        self.view = pn.Column(
            *self._parts.values(), sizing_mode="stretch_width", styles={"max-height": "none", "flex-shrink": "0"}
        )

    def show(self, name: str, make: Callable[[], list[Viewable]]) -> None:
        """Show the part of that name, built on first use."""
        for other, part in self._parts.items():
            part.visible = other == name
        self.make(name, make)

    def make(self, name: str, make: Callable[[], list[Viewable]]) -> bool:
        """Build the part of that name, shown or not, and return whether it did not exist before."""
        if len(self._parts[name]):
            return False
        self._parts[name][:] = make()
        return True

    def shown(self) -> list[Viewable]:
        """Return the components of the visible part."""
        return [each for part in self._parts.values() if part.visible for each in part]


def _serve_at_root() -> None:
    """Undo what Panel concludes from the browser's path: below a proxy's prefix it would look for scripts elsewhere."""
    pn.state.rel_path = ""
    if pn.state.curdoc is not None:
        pn.state.curdoc.template_variables["dist_url"] = LOCAL_DIST


def _that_follow_busy() -> list[Any]:
    """Return the watchers of whether any session of the server is busy."""
    return list(pn.state.param.watchers.get("busy", {}).get("value", []))
