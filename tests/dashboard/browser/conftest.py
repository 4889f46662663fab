"""Visitors of a dashboard in a real browser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import apviz
from apviz import comparison
from tests.dashboard.browser.server import PATIENCE, SHOWN, Server

pytest.importorskip("panel")
playwright = pytest.importorskip("playwright.sync_api")


@dataclass
class Visitor:
    """One tab of a browser that shares nothing with the others.

    Attributes:
        problems: errors of the page.
        elsewhere: addresses of other hosts that it asked for.
        server_may_go: the server is about to be killed, so that errors say nothing.
    """

    server: Server
    context: Any
    tab: Any
    problems: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    server_may_go: bool = False

    def listen(self) -> None:
        self.tab.set_default_timeout(1000 * PATIENCE)
        self.tab.on("pageerror", lambda error: self._complained(str(error)))
        self.tab.on("console", lambda line: self._complained(line.text) if line.type == "error" else None)
        self.tab.on("request", self._asked)

    def _complained(self, words: str) -> None:
        if not self.server_may_go:
            self.problems.append(words)

    def _asked(self, request: Any) -> None:
        if request.url.startswith("http") and not request.url.startswith(self.server.url):
            self.elsewhere.append(request.url)

    def go(self, **settings: Any) -> Visitor:
        """Open a view, and wait until its controls work."""
        self.tab.goto(self.server.address(settings))
        return self.look()

    def look(self) -> Visitor:
        """Wait until the page has replaced its static preview."""
        self.tab.wait_for_function("() => !document.getElementById('apviz-first')")
        return self

    def chart(self, heading: str) -> Any:
        """Return the drawn chart whose summary begins with a text."""
        found = self.tab.locator(f"[role=figure][aria-label^='{heading}'][data-drawn]")
        found.wait_for()
        return found

    def edit(self, chip: str) -> Visitor:
        """Open the editor of a chip, by the start of its text."""
        found = self.tab.get_by_role("toolbar", name="Settings").get_by_role("button").filter(has_text=chip).first
        if found.get_attribute("aria-expanded") != "true":
            found.click()
        self.tab.locator(".contextbar").get_by_role("button", name="Close settings").locator(SHOWN).wait_for()
        return self

    def field(self, label: str, *, exact: bool = True) -> Any:
        """Return the field with a label on the current page."""
        return self.tab.get_by_label(label, exact=exact).locator(SHOWN)

    def press(self, button: str) -> None:
        self.tab.get_by_role("button", name=button, exact=True).click()

    def says(self, words: str | re.Pattern[str]) -> None:
        """Wait until the page contains a text."""
        try:
            self.tab.get_by_text(words).locator(SHOWN).first.wait_for()
        except playwright.TimeoutError as error:
            notes = [note.inner_text() for note in self.tab.locator("[role=alert]").all()]
            raise AssertionError(f"it does not say {words!r}, but {notes}; at {self.tab.url}") from error

    def until(self, condition: str, chart: Any) -> None:
        """Wait for a JavaScript condition on a `chart`."""
        self.tab.wait_for_function(f"chart => {condition}", arg=chart.element_handle())


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Path:
    """Return a folder with a finished comparison, so that a server does not make first runs."""
    folder = tmp_path_factory.mktemp("dashboard")
    data = apviz.datasets.load("china", n=400)
    hyperparameters = comparison.choose_hyperparameters(data)
    system = comparison.build_system(data, hyperparameters, rhs=2)
    rules = ["gauss-southwell", "cyclic"]
    solvers = comparison.choose_solvers(["ap", "cg", "pcg"], rules=rules, block_sizes=[50], ranks=[40])
    list(comparison.compare(system, solvers, folder, comparison.Recording(data, hyperparameters.mean)))
    return folder


@pytest.fixture(scope="session")
def server(recorded):
    started = Server(recorded, "--max-upload", "1", "--max-n", "5000")
    yield started
    started.kill()


@pytest.fixture(scope="session")
def lecture(recorded):
    """Start a server in projector mode."""
    started = Server(recorded, "--lecture")
    yield started
    started.kill()


@pytest.fixture
def visit(browser, server):
    """Return a function that makes visitors; none may meet an error or request other hosts."""
    visitors = []

    def come(width: int = 1500, height: int = 1000, to: Server = server, **options: Any) -> Visitor:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        visitor = Visitor(to, context, context.new_page())
        visitor.listen()
        visitors.append(visitor)
        return visitor

    yield come
    for visitor in visitors:
        visitor.context.close()
    assert [problem for visitor in visitors for problem in visitor.problems] == []
    assert [url for visitor in visitors for url in visitor.elsewhere] == []
