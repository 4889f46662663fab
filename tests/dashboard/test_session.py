"""The session of one visitor: its pages, settings and jobs."""

from __future__ import annotations

import json
import shutil
import time

import pytest

pytest.importorskip("panel")

from bokeh.document import Document
from bokeh.models import ImportedStyleSheet
from panel.io.state import set_curdoc
from panel.models.esm import DataEvent

from apviz.dashboard import session as session_module
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.jobs.visitors import Visitors
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages import PAGES
from apviz.dashboard.session import Session
from apviz.dashboard.settings.systems import BY_HAND, SystemSpec
from apviz.dashboard.store.runs_folder import RunsFolder


@pytest.fixture
def session(tmp_path):
    """Return a session shown in a browser, without its clock."""
    with set_curdoc(Document()):
        made = loaded(tmp_path)
        yield made
        made.shared.end()


def loaded(folder, **others):
    """Return a session with its own document, as loaded in the browser."""
    made = Session(Limits(), JobQueue(1), RunsFolder(folder), dataset=None, lecture=False, **others)
    made._is_loaded = True
    made._show_page()
    return made


def watchers(session) -> int:
    """Count the watchers of all settings of a session."""
    models = [
        session.shared.view,
        session.shared.system,
        *(model for page in session._pages.values() for model in page.models),
    ]
    return sum(len(found) for model in models for of in model.param.watchers.values() for found in of.values())


def visit_all(session) -> None:
    for place in range(len(PAGES)):
        session._tabs.active = place


def test_changing_pages_leaves_no_watchers_of_settings(session):
    visit_all(session)
    before = watchers(session)
    for _ in range(2):
        visit_all(session)
    assert watchers(session) == before


@pytest.mark.slow
def test_a_page_shown_again_is_not_sent_again(session):
    document = Document()
    document.add_root(session.view().get_root(document))
    for _ in range(2):
        visit_all(session)
        while session.page.is_drawing:
            session.page.tick()
    session._tabs.active = 0
    while session.page.is_drawing:
        session.page.tick()
    had = {model.id for model in document.models}
    for place in range(len(PAGES)):
        session._tabs.active = place
        new = {model.id for model in document.models} - had
        assert len(new) < len(had) / 100, "only what a page says is new, and none of its widgets"


def test_back_in_the_browser_opens_the_page_of_the_address(session):
    session._tabs.active = list(PAGES).index("replay")
    for told in ("1 compare", "2 no such page"):
        session._browser._process_event(DataEvent(None, told))
        assert session.page.name == "compare" and session._tabs.active == list(PAGES).index("compare")
        assert session._browser.answered == told


def shown(session):
    """Return the open parts of the drawer, by name."""
    return {name: part for name, part in session._editors._parts.items() if part.visible}


def test_a_chip_opens_the_editor_of_its_setting_and_each_widget_exists_once(session):
    made = {}
    for _ in range(2):
        for place in range(len(PAGES)):
            session._tabs.active = place
            assert not session._template.contextbar_open, "another page has other settings"
            for editor in dict.fromkeys(chip[0] for chip in session._editors.bar.chips):
                session._editors.open(editor)
                assert session._template.contextbar_open and session._editors.bar.editor == editor
                for name, part in shown(session).items():
                    assert len(part) and made.setdefault(name, list(part)) == list(part)
    assert {"data", "own", "kernel", "advanced", "compare settings", "runs settings"} <= set(made)
    assert "runs advanced" not in made and "training advanced" in made
    session._template.contextbar_open = False
    assert session._editors.bar.editor == ""


def test_chips_show_the_values_of_the_settings(session):
    chips = {label: value for _, label, value in session._editors.bar.chips}
    assert chips["Data set"] == "china" and chips["Rows"] == "1,712" and chips["Inputs"] == "2"
    session.shared.system.param.update(n=500, source=BY_HAND, kernel="rbf", noise=0.25)
    chips = {label: value for _, label, value in session._editors.bar.chips}
    assert (chips["Rows"], chips["Kernel"], chips["Noise σ²"]) == ("500", "RBF", "0.25")
    session._tabs.active = list(PAGES).index("runs")
    assert [label for _, label, _ in session._editors.bar.chips] == ["Table settings"]


def test_a_bad_value_blocks_every_page_with_its_field(session):
    for place in range(len(PAGES)):
        session._tabs.active = place
        for editor in dict.fromkeys(chip[0] for chip in session._editors.bar.chips):
            session._editors.open(editor)
    fields = {field.widget.label: field.widget for field in session.shared.system_panel.fields._all()}
    ready = {name: page.fields.ready for name, page in session._pages.items() if name != "runs"}
    fields["Seeds, such as 0, 1, 2"].value_input = "-1"
    assert {name for name in ready if ready[name]()} == {"training", "predict"}
    fields["Training rows"].value_input = "many"
    assert not ready["training"]() and not ready["predict"]()


class Waits(ComparisonJob):
    """A comparison that does nothing until it is stopped."""

    def __init__(self, shared):
        super().__init__(shared.queue, shared.limits, shared.runs, SystemSpec("china", 100), [])

    def work(self) -> None:
        while not self.stopping:
            time.sleep(0.005)


@pytest.mark.slow
def test_pages_are_prepared_while_the_server_is_idle(session, monkeypatch):
    monkeypatch.setattr(session_module, "IDLE_SECONDS", 1e-9)
    session._idle_since = 0.0
    while session.page.is_drawing:
        session._make_ahead()
        assert list(session._pages) == [session.page.name]
        session.page.tick()
    job = Waits(session.shared)
    session.shared.start(job)
    session._make_ahead()
    assert list(session._pages) == [session.page.name]
    job.stop()
    job.join(30)
    session._browser.idle = session._browser.asked
    for _ in range(2):
        time.sleep(1e-6)
        session._make_ahead()
    assert len(session._editors._parts) == 1, "the browser still draws the part that it has just received"
    session._browser.idle, session._editors.bar.editor = session._browser.asked, "own"
    session._make_ahead()
    assert len(session._editors._parts) == 1, "the visitor is about to choose a file"
    session._editors.close()
    for _ in range(3 * len(PAGES)):
        time.sleep(1e-6)
        session._browser.idle = session._browser.asked
        session._make_ahead()
    assert set(session._pages) == set(PAGES) and session._editors._parts and not shown(session)
    made = {name: list(session._bodies._parts[name]) for name in PAGES}
    visit_all(session)
    assert all(body and body == list(session._bodies._parts[name]) for name, body in made.items())


def test_the_data_of_a_job_are_in_use_until_it_ends(session):
    job = Waits(session.shared)
    session.shared.start(job)
    while job.state == "queued":
        time.sleep(0.001)
    assert session.shared.system.in_use() == {"china"}
    job.stop()
    job.join(30)
    assert session.shared.system.in_use() == set()


def test_a_job_is_shown_on_its_page_and_above_the_others(session):
    job = Waits(session.shared)
    session.page.job = job
    session.shared.start(job)
    session._tick()
    assert session._elsewhere.jobs == []
    for place in range(1, len(PAGES)):
        session._tabs.active = place
        session._tick()
        assert session._elsewhere.jobs == [job]
    job.stop()
    job.join(30)
    session._tick()
    assert session._elsewhere.jobs == [job], "nobody has seen its end"
    session._tabs.active = 0
    session._tick()
    session._tabs.active = 1
    session._tick()
    assert session._elsewhere.jobs == []


def test_an_identified_tab_continues_with_the_job_of_the_previous_one(tmp_path):
    visitors = Visitors(keep_seconds=60)
    with set_curdoc(Document()):
        first = loaded(tmp_path, visitors=visitors)
        first._browser.visitor = "a" * 32
        job = Waits(first.shared)
        first.page.job = job
        first.shared.start(job)
    with set_curdoc(Document()):
        other, again = loaded(tmp_path, visitors=visitors), loaded(tmp_path, visitors=visitors)
        other._browser.visitor, again._browser.visitor = "b" * 32, "a" * 32
        first.shared.end()
        for each in (other, again):
            each._tick()
        assert again.page.job is job and job.is_active
        assert other.page.job is None and not other._elsewhere.jobs
        assert again._browser.jobs == ["A comparison on page Compare"] and not other._browser.jobs
        job.stop()
        again.shared.end()
        other.shared.end()


@pytest.mark.parametrize("is_same", [True, False])
def test_after_a_lost_connection_the_page_says_what_continued(tmp_path, recorded_runs, is_same):
    for name in ("cg", "cut"):
        shutil.copytree(recorded_runs / f"{name}.zarr", tmp_path / f"{name}.zarr")
    # as after a kill
    root = json.loads((tmp_path / "cut.zarr" / "zarr.json").read_text())
    root["attributes"] |= {"status": "interrupted"}
    del root["attributes"]["stop_reason"]
    (tmp_path / "cut.zarr" / "zarr.json").write_text(json.dumps(root))
    with set_curdoc(Document()):
        session = loaded(tmp_path)
        server = session._browser.server if is_same else "another"
        session._browser.lost = {"at": time.time(), "seconds": 7.2, "server": server, "jobs": ["A comparison"]}
        (note,) = session._notes
        said = note.object
        session.shared.end()
    assert note.visible and said.startswith("There was no connection for 7 s.")
    assert ("The server kept running." in said) == is_same
    assert said.endswith("interrupted: A comparison. As far as it was recorded it is in the folder: cut.") != is_same


def test_a_document_made_again_without_a_page_takes_its_styles_from_the_server(tmp_path, recorded_runs):
    """A slow tab connects after its session has ended; the server then makes another without writing any HTML."""
    shutil.copytree(recorded_runs / "cg.zarr", tmp_path / "cg.zarr")
    document = Document()
    with set_curdoc(document):
        session = loaded(tmp_path)
        session.view().server_doc(document)
        session.shared.end()
    sheets = [sheet.url for root in document.roots for sheet in root.select({"type": ImportedStyleSheet})]
    assert sheets and not [url for url in sheets if url.startswith("http")]
