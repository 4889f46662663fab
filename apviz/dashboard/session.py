"""One visitor: the pages, what they share, the address, and the clock that lets pages draw."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from panel.util import edit_readonly

from apviz.dashboard import address
from apviz.dashboard.jobs import Gate, Job
from apviz.dashboard.limits import Limits
from apviz.dashboard.runs_folder import RunsFolder
from apviz.dashboard.screen import Screen
from apviz.dashboard.systems import SystemChoice, Upload
from apviz.plots.parts.style import FONT, ThemeName

#: milliseconds between two looks at what the jobs have done
TICK = 120
THEMES = ("light", "dark")
#: Panel's page, and the script that the charts wait for
_HTML = """{% extends "base.html" %}
{% block postamble %}<script id="plotly-script" src="plotly/plotly.min.js" async></script>{{ super() }}{% endblock %}
"""


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
        """The file behind a data set's name: names in traces have no suffix."""
        uploads = self.system.uploads
        return next((up for key, up in uploads.items() if name in (key, key.split(".")[0])), None)

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


class Session:
    """The app of one visitor."""

    def __init__(self, limits: Limits, gate: Gate, runs: RunsFolder, *, dataset: str | None, lecture: bool) -> None:
        from apviz.dashboard.pages import PAGES

        system = SystemChoice(limits)
        if dataset is not None:
            system.dataset = dataset
        self.shared = Shared(limits, gate, runs, lecture, View(), system)
        self.shared.view.param.page.objects = list(PAGES)
        self.shared.go = self.go
        self._classes = PAGES
        self._made: dict[str, Any] = {}
        self._is_loaded = False
        self.problems = self._read_address()
        view = self.shared.view
        titles = [page.title for page in PAGES.values()]
        self._tabs = pmui.Tabs(
            *((title, pn.Column(sizing_mode="stretch_width")) for title in titles), active=list(PAGES).index(view.page),
            sizing_mode="stretch_width", dynamic=True,
        )  # fmt: skip
        self._tabs.param.watch(self._tab_changed, "active")
        self._screen = Screen(margin=0)
        self._screen.param.watch(lambda event: self._close_settings_on_phones(), "pixels")
        self._template = pmui.Page(
            title="apviz", main=[self._screen, self._problem_note(), self._tabs], sidebar=[pn.Column()],
            sidebar_width=340, dark_theme=view.theme == "dark", theme_toggle=True, site_url="./", busy_indicator=None,
            theme_config=_theme(self.shared), template=_HTML,
        )  # fmt: skip
        # it would follow whether any session of this server is busy, and every change costs a walk over the whole page
        with edit_readonly(self._template):
            self._template.busy = False
        self._template.param.watch(self._theme_changed, "dark_theme")
        self._show_page()
        view.param.watch(lambda *events: self._write_address(), ["page", "theme"])
        system.param.watch(lambda *events: self._write_address(), address.settings(system))
        pn.state.onload(self._loaded)
        pn.state.on_session_destroyed(lambda context: self.shared.end())

    def view(self) -> pmui.Page:
        """The page that the server sends."""
        return self._template

    @property
    def page(self) -> Any:
        """The page that is shown; made when it is first shown."""
        return self._page(self.shared.view.page)

    def go(self, name: str, prepare: Callable[[Any], None]) -> None:
        """Shows a page, prepared for what it is wanted for."""
        prepare(self._page(name))
        self._tabs.active = list(self._classes).index(name)

    def _page(self, name: str) -> Any:
        if name not in self._made:
            page = self._made[name] = self._classes[name](self.shared)
            for model in page.models:
                model.param.watch(lambda *events: self._write_address(), address.settings(model))
        return self._made[name]

    def _show_page(self) -> None:
        page = self.page
        column = self._tabs[list(self._classes).index(self.shared.view.page)]
        if not len(column):
            column.append(page.main())
        if self._is_loaded:
            self._template.sidebar[0][:] = page.sidebar()
        page.open()

    def _loaded(self) -> None:
        """The browser shows the page: the settings follow, which take it as long as everything before."""
        self._is_loaded = True
        self._close_settings_on_phones()
        self._template.sidebar[0][:] = self.page.sidebar()
        self._write_address()
        # not `state.add_periodic_callback`, which tells every page of the server at every tick that it is busy
        pn.io.PeriodicCallback(callback=self._tick, period=TICK, background=True).start()

    def _close_settings_on_phones(self) -> None:
        # before the page is loaded the browser would not hear of it
        if self._is_loaded and self._screen.is_phone:
            self._template.sidebar_open = False

    def _tab_changed(self, event: Any) -> None:
        self.shared.view.page = list(self._classes)[event.new]
        self._show_page()

    def _theme_changed(self, event: Any) -> None:
        self.shared.view.theme = THEMES[bool(event.new)]
        self._template.theme_config = _theme(self.shared)
        for page in self._made.values():
            page.redraw()

    def _tick(self) -> None:
        self.page.tick()

    def _models(self) -> list[param.Parameterized]:
        return [self.shared.view, self.shared.system, *self.page.models]

    def _read_address(self) -> list[str]:
        """Settings from the address; the page first, for it says which others there are."""
        location = pn.state.location
        query = "" if location is None else location.search
        if not query:
            return []
        view = self.shared.view
        problems = address.apply(address.only(query, address.settings(view)), [view])
        rest = address.only(query, [name for name in address.names(query) if name not in address.settings(view)])
        return problems + address.apply(rest, self._models())

    def _write_address(self) -> None:
        if pn.state.location is not None:
            pn.state.location.search = address.to_query(self._models())

    def _problem_note(self) -> pn.viewable.Viewable:
        return pmui.Alert(
            object="  \n".join(self.problems), severity="warning", visible=bool(self.problems), closeable=True,
            title="Not everything in this address could be opened", sizing_mode="stretch_width",
        )  # fmt: skip


def _theme(shared: Shared) -> dict[str, Any]:
    # the type of the charts; Roboto, the default, would come in eleven files
    typography = {"fontFamily": FONT, "fontSize": 19 if shared.lecture else 14}
    blue = "#4A94E0" if shared.theme == "dark" else "#1F77D0"
    return {"palette": {"primary": {"main": blue}}, "typography": typography}
