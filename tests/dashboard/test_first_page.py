"""The first page of a server: the practice before it, and its head, which is sent before the page is built."""

from __future__ import annotations

import http.client
import re
import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("panel")

import panel as pn
from bokeh.util.token import get_session_id
from tornado.ioloop import IOLoop

from apviz.dashboard import server
from apviz.dashboard.first_page import HEAD, SCRIPT, rehearse
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.limits import Limits
from apviz.dashboard.origins import Origins
from apviz.dashboard.session import Session
from apviz.dashboard.store.runs_folder import RunsFolder
from tests.ports import free_port


@pytest.fixture
def sessions(tmp_path):
    """Return the sessions that `session` makes, and `session`."""
    made, runs = [], RunsFolder(tmp_path / "runs")

    def session():
        made.append(Session(Limits(), JobQueue(1), runs, dataset=None, lecture=False))
        return made[-1]

    return made, session


def page_of(sessions):
    return lambda: sessions[1]().view()


def built_by_apviz(view, port):
    return server.build_server(view, port, "127.0.0.1", Origins("127.0.0.1"), Limits(), show=False)


def ready_for(contents):
    """Return how to build a server that has a session ready for its first visitor."""
    return lambda view, port: server.build_server(
        view, port, "127.0.0.1", Origins("127.0.0.1"), Limits(), show=False, contents=contents
    )


@contextmanager
def answering(view, build=built_by_apviz):
    """Run a server in a thread, and yield a function that requests a path of it."""
    ready, port, loops = threading.Event(), free_port(), []

    def serve() -> None:
        loops.append(IOLoop())
        built = build(view, port)
        built.start()
        loops[0].add_callback(ready.set)
        loops[0].start()
        built.stop()
        loops[0].close(all_fds=True)

    def request(path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path)
        return connection.getresponse()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(60)
        yield request
    finally:
        loops[0].add_callback(loops[0].stop)
        thread.join(60)


def test_the_head_of_a_page_is_sent_before_the_page_is_built(sessions):
    got_head, (_, make) = threading.Event(), sessions

    def view():
        assert got_head.wait(60)
        return make().view()

    with answering(view) as request:
        answer = request("/")
        assert answer.status == 200 and answer.read(len(HEAD)).decode() == HEAD
        got_head.set()
        rest = answer.read().decode()
    assert 'id="apviz-first"' in rest and rest.count("</html>") == 1
    # the page has a shorter replacement of the shims of modules
    assert not [part for part in ("<!DOCTYPE", "<html", SCRIPT, "es-module-shims") if part in rest]


def session_in(page):
    """Return the session that a page connects to."""
    (token,) = re.findall(r'"token":\s*"([^"]+)"', page)
    return get_session_id(token)


def test_the_first_visitor_gets_a_page_that_was_built_before_and_the_second_another(sessions):
    made, _ = sessions
    with answering(page_of(sessions), ready_for(lambda: "the same runs")) as request:
        request("/plotly/plotly.min.js").read()
        assert len(made) == 1
        first = request("/").read().decode()
        assert len(made) == 1
        second = request("/").read().decode()
        assert len(made) == 2
    assert session_in(first) != session_in(second)
    for page in (first, second):
        assert 'id="apviz-first"' in page and page.count(SCRIPT) == page.count("</html>") == 1
        assert "es-module-shims" not in page and "bokeh-gl" not in page


def test_an_address_with_settings_is_built_for_its_visitor(sessions):
    made, _ = sessions
    with answering(page_of(sessions), ready_for(lambda: "the same runs")) as request:
        assert "Rows</i> <b>300" in request("/?n=300").read().decode()
        assert len(made) == 2


def test_a_page_built_before_the_folder_changed_is_not_shown(sessions):
    made, _ = sessions
    looks = iter(["no run", "one run"])
    with answering(page_of(sessions), ready_for(lambda: next(looks))) as request:
        assert request("/").read()
        assert len(made) == 2


def test_a_page_without_the_script_follows_the_head_whole():
    with answering(lambda: pn.pane.Str("of another kind")) as request:
        page = request("/").read().decode()
    assert page.startswith(HEAD) and page.count("<body") == 1 and page.rstrip().endswith("</html>")


def test_another_server_of_the_process_keeps_its_own_pages(sessions):
    def built_by_panel(view, port):
        return pn.serve({"/": view}, port=port, address="127.0.0.1", start=False, show=False)

    view = page_of(sessions)
    with answering(view) as request:
        assert request("/").read().decode().startswith(HEAD)
    with answering(view, built_by_panel) as request:
        page = request("/").read().decode()
    assert not page.startswith(HEAD) and "es-module-shims" in page


@pytest.mark.parametrize("query", ["bokeh-session-id=made-up", "bokeh-token=made-up"])
def test_a_request_with_an_invalid_session_is_an_error_without_a_page(sessions, query):
    with answering(page_of(sessions)) as request:
        answer = request(f"/?{query}")
        assert answer.status >= 400 and SCRIPT not in answer.read().decode()


def test_a_rehearsal_builds_a_page_and_leaves_nothing_of_it(sessions):
    made, session = sessions
    before = set(pn.state._views)
    rehearse(session)
    (built,) = made
    assert built.page.preview() is None and not built._clock.running
    assert not built.shared.folder.exists() and set(pn.state._views) == before


def test_a_rehearsal_that_fails_does_not_stop_the_server_and_is_logged(caplog):
    def view():
        raise ValueError("no such page")

    with caplog.at_level("DEBUG", logger="apviz"):
        rehearse(view)
    assert "rehearsal of the first page failed" in caplog.text and "no such page" in caplog.text
