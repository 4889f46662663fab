"""One visitor: the pages, the address, and the clock that lets pages draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from panel.custom import JSComponent
from panel.util import edit_readonly
from panel.viewable import Viewable

from apviz.dashboard import address
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages import PAGES
from apviz.dashboard.pages.base import THEMES, Shared, View
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.plots._style import FONT

#: milliseconds between two looks at what the jobs have done
TICK_MS = 120
#: pixels below which the settings would cover the page
PHONE_PIXELS = 600
#: pixels of type on a desk; and on a projector, where what is written in it becomes 1.4 times as large, as in charts
TYPE_PIXELS, LECTURE_TYPE_PIXELS = 14, 16.6
#: Panel's page, and the script that the charts wait for
_HTML = """{% extends "base.html" %}
{% block postamble %}<script id="plotly-script" src="plotly/plotly.min.js" async></script>{{ super() }}{% endblock %}
"""


class Session:
    """App of one visitor.

    Args:
        dataset: that the pages begin with; None for the default.
        lecture: larger type and lines, for a projector.
    """

    def __init__(
        self, limits: Limits, queue: JobQueue, runs: RunsFolder, *, dataset: str | None, lecture: bool
    ) -> None:
        system = SystemChoice(limits)
        if dataset is not None:
            system.dataset = dataset
        self.shared = Shared(limits, queue, runs, lecture, View(), system)
        self.shared.view.param.page.objects = list(PAGES)
        self.shared.go = self.go
        self._pages: dict[str, Any] = {}
        self._sidebars: dict[str, list[Viewable]] = {}
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
            sidebar_width=430 if lecture else 340, dark_theme=view.theme == "dark", theme_toggle=True, site_url="./",
            busy_indicator=None, theme_config=_theme(self.shared), template=_HTML,
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
        """Page of HTML that the server sends."""
        return self._template

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
        return self._pages[name]

    def _show_page(self) -> None:
        page = self.page
        column = self._tabs[list(PAGES).index(self.shared.view.page)]
        if not len(column):
            column.append(page.main())
        if self._is_loaded:
            self._show_settings()
        page.open()

    def _show_settings(self) -> None:
        """Shows the settings of the page; made once, for their widgets watch the models as long as these live."""
        name = self.shared.view.page
        if name not in self._sidebars:
            self._sidebars[name] = self.page.sidebar()
        self._template.sidebar[0][:] = self._sidebars[name]

    def _loaded(self) -> None:
        """Shows the settings once the browser shows the page: they take it as long as everything before."""
        self._is_loaded = True
        self._close_settings_on_phones()
        self._show_settings()
        self._write_address()
        # not `state.add_periodic_callback`, which tells every page of the server at every tick that it is busy
        pn.io.PeriodicCallback(callback=self._tick, period=TICK_MS, background=True).start()

    def _close_settings_on_phones(self) -> None:
        # before the page is loaded the browser would not hear of it
        if self._is_loaded and self._screen.is_phone:
            self._template.sidebar_open = False

    def _tab_changed(self, event: Any) -> None:
        self.shared.view.page = list(PAGES)[event.new]
        self._show_page()

    def _theme_changed(self, event: Any) -> None:
        self.shared.view.theme = THEMES[bool(event.new)]
        self._template.theme_config = _theme(self.shared)
        for page in self._pages.values():
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

    def _problem_note(self) -> Viewable:
        return pmui.Alert(
            object="  \n".join(self.problems), severity="warning", visible=bool(self.problems), closeable=True,
            title="Not everything in this address could be opened", sizing_mode="stretch_width",
        )  # fmt: skip


def _theme(shared: Shared) -> dict[str, Any]:
    # the type of the charts; Roboto, the default, would come in eleven files
    typography: dict[str, Any] = {"fontFamily": FONT, "fontSize": TYPE_PIXELS}
    if shared.lecture:
        # its headings do not grow with the rest
        typography |= {"fontSize": LECTURE_TYPE_PIXELS, "h6": {"fontSize": "1.35rem"}}
    blue = "#4A94E0" if shared.theme == "dark" else "#1F77D0"
    # one paragraph beside its icon, not below it
    message = {"styleOverrides": {"message": {"& p": {"margin": 0}}}}
    return {
        "palette": {"primary": {"main": blue}}, "typography": typography, "components": {"MuiAlert": message},
    }  # fmt: skip


class Screen(JSComponent):
    """Component without a view, that says how wide the visitor's screen is, which only the browser knows."""

    pixels = param.Integer(0, doc="of its width; 0 until the browser has said it")

    _esm = "export function render({ model }) { model.pixels = window.innerWidth; }"

    @property
    def is_phone(self) -> bool:
        """Whether the settings would cover the page."""
        return bool(0 < self.pixels < PHONE_PIXELS)
