"""One visitor: what the pages of a session leave behind."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from bokeh.document import Document
from panel.io.state import set_curdoc

from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages import PAGES
from apviz.dashboard.session import Session
from apviz.dashboard.store.runs_folder import RunsFolder


@pytest.fixture
def session(tmp_path):
    """A session whose page the browser shows, without the clock."""
    with set_curdoc(Document()):
        made = Session(Limits(), JobQueue(1), RunsFolder(tmp_path), dataset=None, lecture=False)
        made._is_loaded = True
        made._show_page()
        yield made
        made.shared.end()


def watchers(session) -> int:
    """Of all settings of a session."""
    models = [
        session.shared.view,
        session.shared.system,
        *(model for page in session._pages.values() for model in page.models),
    ]
    return sum(len(found) for model in models for of in model.param.watchers.values() for found in of.values())


def visit_all(session) -> None:
    for place in range(len(PAGES)):
        session._tabs.active = place


def test_going_from_page_to_page_leaves_nothing_behind_that_watches_the_settings(session):
    visit_all(session)
    before = watchers(session)
    for _ in range(2):
        visit_all(session)
    assert watchers(session) == before


def test_the_settings_are_those_of_the_page_and_as_they_were_left(session):
    shown = {}
    for _ in range(2):
        for place, name in enumerate(PAGES):
            session._tabs.active = place
            panels = list(session._template.sidebar[0])
            assert panels and shown.setdefault(name, panels) == panels
    first, *others = shown.values()
    assert all(panels != first for panels in others)
